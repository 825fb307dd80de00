#include "dispatch/select/plan.h"

#include "base/dtype.h"
#include "base/status.h"
#include "dispatch/pool/fallback.h"
#include "dispatch/pool/points.h"
#include "dispatch/select/select.h"
#include "dispatch/select/async_fill.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* ---- Which variants */

static int32_t state_of(const md_bd_variant *v)
{
    return atomic_load_explicit(&v->state, memory_order_acquire);
}

/* The best of what is ready, first of those that give the bits that the wished one will give. */
static bool stand_in(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query, int32_t wished)
{
    md_ds_query ready = *query;
    ready.with_unbuilt = false;
    ready.call = NULL;
    ready.numeric_class = op->stage[stage].variant[wished]->numeric_class;
    if (md_ds_select(out, op, stage, &ready) == MD_OK)
        return true;
    ready.numeric_class = 0;
    return md_ds_select(out, op, stage, &ready) == MD_OK;
}

/* Somebody else may have had the same wish: the pool is asked again under its lock. */
static md_status adopt(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    md_ds_pool *c = &op->stage[stage];
    pthread_mutex_lock(&c->lock_of_variants);
    md_status s = md_ds_select(out, op, stage, query);
    if (s == MD_NOT_FOUND) {
        *out = (md_ds_pick){.variant = -1, .source = MD_DS_DEFAULT, .hint = -1, .runner_up = -1, .distance = -1.0};
        s = md_ds_pool_add_fallback(&out->variant, c, query->shape);
        if (s == MD_OK)
            atomic_fetch_add_explicit(&op->count.adopted, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&c->lock_of_variants);
    return s;
}

/* The pick is ready when it is returned. Each turn of the loop that does not return ends with a variant that failed. */
static md_status choose_stage(md_ds_plan *w, md_ds_op *op, int32_t stage, md_ds_query query, md_ds_effort effort)
{
    md_ds_pool *c = &op->stage[stage];
    md_ds_stage_plan *stage_plan = &w->stage[stage];
    stage_plan->wished = -1;
    query.with_unbuilt = true;
    for (;;) {
        md_status s = md_ds_select(&stage_plan->pick, op, stage, &query);
        if (s == MD_NOT_FOUND && effort != MD_DS_ONLY_READY && md_ds_is_filling(op)) {
            md_ds_async_fill_wait(op);
            continue;
        }
        if (s == MD_NOT_FOUND && effort != MD_DS_ONLY_READY)
            s = adopt(&stage_plan->pick, op, stage, &query);
        MD_TRY(s);
        int32_t wished = stage_plan->pick.variant;
        if (state_of(c->variant[wished]) == MD_BD_READY)
            return MD_OK;
        if (effort != MD_DS_BEST && stand_in(&stage_plan->pick, op, stage, &query, wished)) {
            stage_plan->wished = wished;
            w->is_makeshift = true;
            return MD_OK;
        }
        if (effort == MD_DS_ONLY_READY)
            return MD_NOT_FOUND;
        atomic_fetch_add_explicit(&op->count.waits, 1, memory_order_relaxed);
        (void)md_bd_variant_wait(c->variant[wished]);
    }
}

/* What is measured should be all there is. Until it is there, the model picks, and nothing is remembered. */
static bool may_measure(md_ds_plan *w, md_ds_op *op, md_ds_effort effort)
{
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_ds_pool *c = &op->stage[s];
        int32_t n = atomic_load_explicit(&c->n_variants, memory_order_acquire);
        if (effort == MD_DS_BEST)
            md_ds_pool_wait(c);
        for (int32_t i = 0; i < n; i++)
            if (state_of(c->variant[i]) == MD_BD_QUEUED)
                w->is_makeshift = true;
    }
    return !w->is_makeshift;
}

static md_status choose_stages(md_ds_plan *w, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as,
                               const md_kn_call *call, md_ds_effort effort)
{
    int64_t by[MD_FX_MAX_DIMS] = {0};
    md_ds_query query = {.shape = shape, .by = by};
    md_ds_as_sizes(by, &op->space, shape->size, as);
    if (effort == MD_DS_BEST)
        md_ds_async_fill_wait(op);
    else if (effort == MD_DS_SOON)
        md_ds_async_fill_inherit(op);
    w->is_early = w->is_makeshift = md_ds_is_filling(op);
    if (op->policy.select == MD_SELECT_MEASURE && effort == MD_DS_ONLY_READY)
        w->is_makeshift = true;
    else if (call && may_measure(w, op, effort))
        query.call = call;
    w->by_reference = effort == MD_DS_REFERENCE_ONLY;
    for (int32_t s = 0; s < op->n_stages && !w->by_reference; s++) {
        md_ds_stage_plan *stage_plan = &w->stage[s];
        if (!(md_ds_work(&op->stage[s].target, shape->size) <= MD_DS_MOST_WORK))
            return md_fail(MD_INVALID_ARGUMENT, "op %s: more than 10^18 operations and bytes at these sizes", op->name);
        md_status status = choose_stage(w, op, s, query, effort);
        if (status == MD_NOT_FOUND) {
            w->by_reference = true; /* ends the loop */
            continue;
        }
        MD_TRY(status);
        const md_bd_variant *v = op->stage[s].variant[stage_plan->pick.variant];
        v->family->geometry(&stage_plan->geometry, &op->stage[s].target, &v->config, shape);
        w->model_us += md_tn_predict_us(&op->stage[s].target, v->family, &v->config, shape->size);
    }
    for (int32_t s = 0; w->by_reference && s < op->n_stages; s++)
        w->stage[s] = (md_ds_stage_plan){
            .wished = -1,
            .pick = {.variant = -1, .source = MD_DS_REFERENCE, .hint = -1, .runner_up = -1, .distance = -1.0}};
    return MD_OK;
}

/* ---- Where their memory lies */

static md_status temp_bytes(size_t *out, const md_ds_op *op, int32_t t, const int64_t *size)
{
    const md_fx_tensor *x = &op->formula->tensor[t];
    int64_t n = (int64_t)md_dtype_size(x->dtype);
    bool is_empty = false, overflows = false;
    for (int32_t a = 0; a < x->rank; a++) {
        is_empty |= size[x->dim[a]] == 0;
        overflows |= __builtin_mul_overflow(n, size[x->dim[a]], &n);
    }
    if (overflows && !is_empty)
        return md_fail(MD_INVALID_ARGUMENT, "temporary '%s' would exceed 2^63 bytes", x->name);
    *out = is_empty ? 0 : md_ds_align((size_t)n);
    return MD_OK;
}

static md_status too_large(const md_ds_op *op)
{
    return md_fail(MD_INVALID_ARGUMENT, "op %s: its temporaries and workspace would exceed 2^63 bytes at these sizes",
                   op->name);
}

/* Temps first, then the workspace that the stages use one after the other. */
static md_status lay_out(md_ds_plan *w, const md_ds_op *op, const int64_t *size)
{
    size_t at = 0, most = 0;
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        if (!op->program->is_temp_stored[t])
            continue;
        size_t n = 0;
        MD_TRY(temp_bytes(&n, op, t, size));
        w->temp_offset[t] = at;
        if (__builtin_add_overflow(at, n, &at))
            return too_large(op);
    }
    for (int32_t s = 0; s < op->n_stages; s++) {
        w->stage[s].workspace_offset = at;
        if (w->stage[s].geometry.workspace_bytes < 0)
            return too_large(op);
        most = MD_MAX(most, md_ds_align((size_t)w->stage[s].geometry.workspace_bytes));
    }
    return __builtin_add_overflow(at, most, &w->workspace_bytes) ? too_large(op) : MD_OK;
}

md_status md_ds_plan_make(md_ds_plan **out, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as,
                          const md_kn_call *call, md_ds_effort effort)
{
    md_ds_plan *w = calloc(1, sizeof *w + (size_t)op->n_stages * sizeof *w->stage);
    if (!w)
        return md_fail_memory();
    md_status s = choose_stages(w, op, shape, as, call, effort);
    if (s == MD_OK && w->by_reference && effort == MD_DS_ONLY_READY)
        s = MD_NOT_FOUND;
    if (s == MD_OK && !w->by_reference)
        s = lay_out(w, op, shape->size);
    if (s != MD_OK) {
        free(w);
        return s;
    }
    *out = w;
    return MD_OK;
}

md_status md_ds_plan_with(md_ds_plan **out, md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape,
                          int32_t stage, const md_ds_pick *pick)
{
    const md_bd_variant *v = op->stage[stage].variant[pick->variant];
    size_t n_bytes = sizeof *plan + (size_t)op->n_stages * sizeof *plan->stage;
    md_ds_plan *w = malloc(n_bytes);
    if (!w)
        return md_fail_memory();
    memcpy(w, plan, n_bytes);
    w->older = NULL;
    atomic_init(&w->has_no_launch_plan, false);
    w->stage[stage] = (md_ds_stage_plan){.pick = *pick, .wished = -1};
    v->family->geometry(&w->stage[stage].geometry, &op->stage[stage].target, &v->config, shape);
    w->is_makeshift = w->is_early;
    w->model_us = 0.0;
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_bd_variant *x = op->stage[s].variant[w->stage[s].pick.variant];
        w->is_makeshift |= w->stage[s].wished >= 0;
        w->model_us += md_tn_predict_us(&op->stage[s].target, x->family, &x->config, shape->size);
    }
    md_status s = lay_out(w, op, shape->size);
    if (s != MD_OK) {
        free(w);
        return s;
    }
    *out = w;
    return MD_OK;
}
