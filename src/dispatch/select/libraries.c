/* What a choice asks of libraries: which has not answered for a shape, and which would be faster if its kernel were
 * loaded. */
#include "dispatch/select/select.h"

#include "tune/tune.h"

#include <math.h>

int32_t md_ds_unasked_library(const md_ds_op *op, int32_t stage, const md_ds_query *query, const md_ds_pick *pick)
{
    static const double MAY_ERR = 1.4;
    const md_ds_pool *pool = &op->stage[stage];
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    if (atomic_load_explicit(&pool->n_libraries, memory_order_relaxed) == 0)
        return -1;
    for (int32_t i = 0; i < n && (query->without_unasked || pick->source == MD_DS_MODEL); i++) {
        const md_bd_variant *v = pool->variant[i];
        if (!v->family->library_answer || atomic_load_explicit(&v->state, memory_order_acquire) != MD_BD_READY ||
            md_kn_envelope_miss(&v->envelope, query->shape) ||
            md_bd_variant_load(v, query->shape, MD_BD_LOAD_LOOK) != MD_BD_NOT_LOADED)
            continue;
        if (query->without_unasked)
            return i;
        const md_fa_target target = md_bd_variant_target(v, &pool->target);
        if (md_tn_predict_us(&target, v->family, &v->config, query->select_sizes) < MAY_ERR * pick->us)
            return i;
    }
    return -1;
}

void md_ds_note_unloaded(md_ds_plan *plan, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    static const double LEAST_GAIN = 0.03, LEAST_GAIN_US = 0.5, STORED_GAIN = 0.1;
    md_ds_stage_choice *stage_plan = &plan->stage[stage];
    const double us = stage_plan->pick.us;
    md_ds_query with_load = *query;
    md_ds_pick best;
    if (atomic_load_explicit(&op->stage[stage].n_libraries, memory_order_relaxed) == 0)
        return;
    /* these alone are compared: the pick is the best of all others */
    with_load.may_load = with_load.only_deferred = true;
    if (query->may_load || op->policy.select == MD_SELECT_HYBRID || !(us > 0.0) ||
        stage_plan->pick.source != MD_DS_MODEL || md_ds_select(&best, op, stage, &with_load) != MD_OK ||
        !(best.us > 0.0) ||
        md_bd_variant_load(op->stage[stage].variant[best.variant], query->shape, MD_BD_LOAD_LOOK) != MD_BD_DEFERRED)
        return;
    /* A measured time is a fact, so the variant is the best whatever the model says. */
    const bool is_stored = best.source == MD_DS_STORED || best.source == MD_DS_MEASURED;
    const double saved_us = is_stored ? fmax(us - best.us, STORED_GAIN * best.us) : us - best.us;
    if (!is_stored && saved_us < fmax(LEAST_GAIN * us, LEAST_GAIN_US))
        return;
    stage_plan->unloaded = best.variant;
    stage_plan->saved_us = saved_us;
    plan->may_load = true;
}
