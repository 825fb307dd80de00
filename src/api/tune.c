/* md_tune_formula: tunes a formula without making an op. */
#include "api/context.h"
#include "api/operation.h"
#include "base/status.h"
#include "dispatch/pool/tune_formula.h"

static md_status check_tune(const md_tune_options *t)
{
    if (t->rigor != MD_TUNE_DEFAULT && t->rigor != MD_TUNE_MEASURE && t->rigor != MD_TUNE_EXHAUSTIVE)
        return md_fail(MD_INVALID_ARGUMENT,
                       "option rigor: %d; tuning measures (MD_TUNE_MEASURE) or measures all (MD_TUNE_EXHAUSTIVE)",
                       (int)t->rigor);
    if (!(t->budget_ms >= 0.0) || t->max_builds < 0 || t->n_indices < 0 || (t->n_indices > 0 && !t->indices))
        return md_fail(MD_INVALID_ARGUMENT, "option budget_ms, max_builds or indices: less than nothing");
    return MD_OK;
}

md_status md_tune_formula(md_context *context, const char *formula, const md_op_options *options,
                          const md_tune_options *tune)
{
    static const md_op_options no_options = {0};
    static const md_tune_options no_tune = {0};
    const md_op_options *o = options ? options : &no_options;
    const md_tune_options *t = tune ? tune : &no_tune;
    const char *text, *name;
    if (!context || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "formula" : "context");
    MD_TRY(md_api_check_options(o));
    MD_TRY(check_tune(t));
    MD_TRY(md_api_find_formula(&text, &name, formula));
    md_ds_tune_request request = {
        .compile = md_api_compile_options(context, o),
        .builder = context->builder,
        .log = &context->log,
        .off_hints = t->off_hints != 0,
        .job = {.rigor = t->rigor ? t->rigor : MD_TUNE_MEASURE,
                .budget_ms = t->budget_ms,
                .max_builds = t->max_builds,
                .all_directions = t->all_directions != 0,
                .indices = {t->n_indices, t->indices},
                .exclude = t->exclude,
                .seed = t->seed,
                .write = t->write,
                .user = t->user},
    };
    return md_ds_tune_formula(&request, text);
}
