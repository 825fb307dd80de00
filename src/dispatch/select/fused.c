/* Chooses between stages and their parts: chains, and products whose operands may get another order of axes. */
#include "dispatch/select/select.h"

#include "tune/tune.h"

static bool is_missing(uint64_t missing, int32_t stage)
{
    return missing >> stage & 1;
}

/* Microseconds of a stage's pick: as it was chosen, else by the model. What is kept takes none. */
static double time_of(const md_ds_plan *plan, const md_ds_op *op, int32_t stage, const int64_t *sizes)
{
    if (md_ds_is_kept_stage(op, stage))
        return 0.0;
    const md_ds_pick *pick = &plan->stage[stage].pick;
    const md_bd_variant *v = op->stage[stage].variant[pick->variant];
    const md_fa_target target = md_bd_variant_target(v, &op->stage[stage].target);
    return pick->us > 0.0 ? pick->us : md_tn_predict_us(&target, v->family, &v->config, sizes);
}

static bool is_pinned(const md_ds_op *op, int32_t stage)
{
    return op->stage[stage].pinned >= 0;
}

static bool is_part_pinned(const md_ds_op *op, const md_st_stage *whole)
{
    for (int32_t i = 0; i < whole->n_parts; i++)
        if (is_pinned(op, whole->part[i]))
            return true;
    return false;
}

/* Under a numeric policy the choice must not follow the shape: the stage serves wherever it can. So does what is
 * pinned. */
static bool runs_whole(const md_ds_plan *plan, const md_ds_op *op, int32_t stage, const md_ds_query *query,
                       uint64_t missing)
{
    const md_st_stage *whole = &op->program->stage[stage];
    bool lacks_part = false;
    for (int32_t i = 0; i < whole->n_parts; i++)
        lacks_part |= is_missing(missing, whole->part[i]);
    if (is_missing(missing, stage))
        return false;
    if (lacks_part || is_pinned(op, stage))
        return true;
    if (is_part_pinned(op, whole))
        return false;
    return op->policy.numeric >= MD_NUMERIC_DETERMINISTIC ||
           time_of(plan, op, stage, query->select_sizes) <= md_ds_time_of_parts(plan, op, stage, query->select_sizes);
}

/* An idle stage keeps a pick that may be named, and loads no library. It waits for a better one where that may make it
 * serve. */
static void set_idle(md_ds_plan *plan, int32_t stage, bool may_serve, uint64_t *missing)
{
    md_ds_stage_choice *s = &plan->stage[stage];
    s->is_idle = true;
    if (is_missing(*missing, stage))
        s->pick = md_ds_empty_pick(MD_DS_DEFAULT);
    s->wished = may_serve ? s->wished : -1;
    s->unloaded = -1;
    s->saved_us = 0.0;
    *missing &= ~(UINT64_C(1) << stage);
}

void md_ds_choose_chains(md_ds_plan *plan, md_ds_op *op, const md_ds_query *query, uint64_t *missing)
{
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_st_stage *whole = &op->program->stage[s];
        if (whole->n_parts == 0)
            continue;
        const bool is_chain = whole->kind == MD_ST_CHAIN;
        if (!runs_whole(plan, op, s, query, *missing)) {
            set_idle(plan, s, is_chain, missing);
            continue;
        }
        const bool is_settled = is_chain || is_pinned(op, s) || op->policy.numeric >= MD_NUMERIC_DETERMINISTIC;
        for (int32_t i = 0; i < whole->n_parts; i++)
            set_idle(plan, whole->part[i], !is_settled, missing);
    }
    bool waits = false, loads = false;
    for (int32_t s = 0; s < op->n_stages; s++) {
        waits |= plan->stage[s].wished != -1;
        loads |= plan->stage[s].saved_us > 0.0;
    }
    plan->may_load &= loads;
    if (plan->is_stand_in && !plan->is_early && !waits && !query->call && op->policy.select != MD_SELECT_MEASURE)
        plan->is_stand_in = false;
}

double md_ds_time_of_parts(const md_ds_plan *plan, const md_ds_op *op, int32_t stage, const int64_t *sizes)
{
    const md_st_stage *whole = &op->program->stage[stage];
    double us = 0.0;
    for (int32_t i = 0; i < whole->n_parts; i++) {
        if (plan->stage[whole->part[i]].pick.variant < 0)
            return 0.0;
        us += time_of(plan, op, whole->part[i], sizes);
    }
    return us;
}

void md_ds_set_way(md_ds_plan *plan, const md_ds_op *op, int32_t stage, bool by_parts)
{
    const md_st_stage *whole = &op->program->stage[stage];
    plan->stage[stage].is_idle = by_parts;
    for (int32_t i = 0; i < whole->n_parts; i++)
        plan->stage[whole->part[i]].is_idle = !by_parts;
}

/* ---- In words */

/* Why no kernel of the stage serves. */
static const char *unfit_of(const md_ds_op *op, int32_t stage, const md_kn_shape *shape)
{
    const md_ds_pool *pool = &op->stage[stage];
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    const char *miss = n == 0 ? "no family takes it" : NULL;
    /* from the last to the first: variants that were made for a shape come last */
    for (int32_t i = n - 1; i >= 0 && !miss; i--)
        miss = md_ds_reject_reason(pool, i, shape);
    return miss ? miss : "none fits";
}

/* What a stage and its parts are called. */
typedef struct wording {
    const char *whole, *parts;
} wording;

static wording wording_of(const md_st_stage *whole)
{
    static const wording chain = {"the chain", "its parts"},
                         product = {"the product as its operands lie", "a product with axes moved"};
    return whole->kind == MD_ST_CHAIN ? chain : product;
}

/* Microseconds of the parts that only move axes. */
static double time_of_moves(const md_ds_plan *plan, const md_ds_op *op, int32_t stage, const int64_t *sizes)
{
    const md_st_stage *whole = &op->program->stage[stage];
    double us = 0.0;
    for (int32_t i = 0; i < whole->n_parts; i++)
        if (op->program->stage[whole->part[i]].kind == MD_ST_POINTWISE)
            us += time_of(plan, op, whole->part[i], sizes);
    return us;
}

static void print_times(md_strbuf *out, const md_ds_op *op, const md_ds_plan *plan, int32_t stage, const int64_t *sizes)
{
    const md_ds_stage_choice *s = &plan->stage[stage];
    const md_st_stage *whole = &op->program->stage[stage];
    const wording words = wording_of(whole);
    const char *by = md_ds_source_name((s->is_idle ? &plan->stage[whole->part[0]] : s)->pick.source);
    const double us = time_of(plan, op, stage, sizes), parts = md_ds_time_of_parts(plan, op, stage, sizes);
    md_strbuf_printf(out, " (%s): %.2f us, %s %.2f", by, s->is_idle ? parts : us,
                     s->is_idle ? words.whole : words.parts, s->is_idle ? us : parts);
    if (whole->kind != MD_ST_CHAIN)
        md_strbuf_printf(out, "; moving axes takes %.2f", time_of_moves(plan, op, stage, sizes));
}

void md_ds_print_fused(md_strbuf *out, const md_ds_op *op, const md_ds_plan *plan, int32_t stage,
                       const md_kn_shape *shape, const int64_t *sizes)
{
    const md_ds_stage_choice *s = &plan->stage[stage];
    const md_st_stage *whole = &op->program->stage[stage];
    const wording words = wording_of(whole);
    const bool fits = s->pick.variant >= 0;
    md_strbuf_add(out, s->is_idle ? words.parts : words.whole);
    if (plan->by_reference)
        md_strbuf_add(out, ", by the reference evaluator");
    else if (is_pinned(op, stage) || is_part_pinned(op, whole))
        md_strbuf_add(out, ", which a pin says");
    else if (s->is_idle && s->wished == MD_DS_SOUGHT)
        md_strbuf_printf(out, ", while kernels of %s are chosen for these sizes", words.whole);
    else if (s->is_idle && !fits && s->wished >= 0)
        md_strbuf_printf(out, ", while %s is built", op->stage[stage].variant[s->wished]->name);
    else if (!fits)
        md_strbuf_printf(out, ", since no kernel of %s fits: %s", words.whole, unfit_of(op, stage, shape));
    else if (op->policy.numeric >= MD_NUMERIC_DETERMINISTIC)
        md_strbuf_add(out, ", which serves wherever it fits under a numeric policy");
    else if (md_ds_time_of_parts(plan, op, stage, sizes) <= 0.0)
        md_strbuf_printf(out, ", since %s no kernel that is ready",
                         whole->kind == MD_ST_CHAIN ? "its parts have" : "one with axes moved has");
    else
        print_times(out, op, plan, stage, sizes);
}

bool md_ds_runs_all_once(const md_ds_plan *plan, const md_ds_op *op)
{
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_st_stage *whole = &op->program->stage[s];
        for (int32_t i = 0; i < whole->n_parts; i++)
            if (plan->stage[whole->part[i]].is_idle == plan->stage[s].is_idle)
                return false;
    }
    return true;
}

const char *md_ds_pick_name(const md_ds_op *op, const md_ds_plan *plan, int32_t stage)
{
    return plan->stage[stage].is_idle ? "idle" : md_ds_variant_name(op, stage, plan->stage[stage].pick.variant);
}
