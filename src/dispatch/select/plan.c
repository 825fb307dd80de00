/* Computes what follows from the picks of a plan: geometry, memory, modelled time. */
#include "dispatch/select/plan.h"

#include "base/dtype.h"
#include "base/status.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

static size_t bytes_of_plan(const md_ds_op *op)
{
    return sizeof(md_ds_plan) + (size_t)op->n_stages * sizeof(md_ds_stage_plan);
}

md_ds_plan *md_ds_plan_create(const md_ds_op *op)
{
    return calloc(1, bytes_of_plan(op));
}

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

/* Temporaries first, then one workspace that the stages use in turn. */
static md_status lay_out(md_ds_plan *plan, const md_ds_op *op, const int64_t *size)
{
    size_t at = 0, most = 0;
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        if (!op->program->is_temp_stored[t])
            continue;
        size_t n = 0;
        MD_TRY(temp_bytes(&n, op, t, size));
        plan->temp_offset[t] = at;
        if (__builtin_add_overflow(at, n, &at))
            return too_large(op);
    }
    for (int32_t s = 0; s < op->n_stages; s++) {
        plan->stage[s].workspace_offset = at;
        if (plan->stage[s].geometry.workspace_bytes < 0)
            return too_large(op);
        most = MD_MAX(most, md_ds_align((size_t)plan->stage[s].geometry.workspace_bytes));
    }
    return __builtin_add_overflow(at, most, &plan->workspace_bytes) ? too_large(op) : MD_OK;
}

md_status md_ds_plan_finish(md_ds_plan *plan, const md_ds_op *op, const md_kn_shape *shape)
{
    plan->model_us = 0.0;
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_bd_variant *v = op->stage[s].variant[plan->stage[s].pick.variant];
        v->family->geometry(&plan->stage[s].geometry, &op->stage[s].target, &v->config, shape);
        plan->model_us += md_tn_predict_us(&op->stage[s].target, v->family, &v->config, shape->size);
    }
    return lay_out(plan, op, shape->size);
}

md_status md_ds_plan_with(md_ds_plan **out, const md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape,
                          int32_t stage, const md_ds_pick *pick)
{
    md_ds_plan *copy = md_ds_plan_create(op);
    if (!copy)
        return md_fail_memory();
    memcpy(copy, plan, bytes_of_plan(op));
    copy->older = NULL;
    atomic_init(&copy->has_no_launch_plan, false);
    atomic_init(&copy->has_begun_load, false);
    copy->stage[stage] = (md_ds_stage_plan){.pick = *pick, .wished = -1};
    copy->is_makeshift = copy->is_early;
    copy->may_load = false;
    for (int32_t s = 0; s < op->n_stages; s++) {
        copy->is_makeshift |= copy->stage[s].wished >= 0;
        copy->may_load |= copy->stage[s].saved_us > 0.0;
    }
    md_status s = md_ds_plan_finish(copy, op, shape);
    if (s != MD_OK) {
        free(copy);
        return s;
    }
    *out = copy;
    return MD_OK;
}
