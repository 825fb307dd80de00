/* Tunes every stage of a formula, compiled as op creation does: ops find the results by the same keys. */
#include "dispatch/pool/tune_formula.h"

#include "base/status.h"
#include "dispatch/pool/tune.h"

md_status md_ds_tune_formula(const md_ds_tune_request *request, const char *formula)
{
    const md_dev_facts *facts = &md_bd_device(request->builder)->facts;
    md_ds_compiled *c = NULL;
    md_status s = MD_OK;
    if (!facts->can_compile)
        return md_fail(MD_UNSUPPORTED, "nothing can be tuned: kernels cannot be compiled here");
    MD_TRY(md_ds_compile(&c, facts, formula, &request->compile));
    md_ds_warn(request->log, c);
    md_tn_job job = request->job;
    job.builder = request->builder;
    for (int32_t i = 0; s == MD_OK && i < c->program->n_stages; i++) {
        const md_fa_target target = md_ds_target_of(c, i);
        s = md_ds_tune_stage(&job, &target, &c->policy, &c->space, request->off_hints);
    }
    md_ds_compiled_destroy(&c);
    return s;
}
