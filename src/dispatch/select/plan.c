/* Computes what follows from the picks of a plan: geometry, memory, modelled time. */
#include "dispatch/select/plan.h"
#include "dispatch/select/select.h"

#include "base/status.h"
#include "tune/tune.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_of_plan(const md_ds_op *op)
{
    return sizeof(md_ds_plan) + (size_t)op->n_stages * sizeof(md_ds_stage_choice);
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

/* The stages that touch a temporary, from the first to the last, as the life of its piece. */
static void find_life(md_ds_piece *piece, const md_ds_plan *plan, const md_ds_op *op, int32_t t)
{
    piece->first = op->n_stages;
    piece->last = -1;
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_st_stage *stage = &op->program->stage[s];
        for (int32_t i = 0; i < stage->n_tensors && !plan->stage[s].is_idle; i++)
            if (stage->tensor[i] == t) {
                piece->first = MD_MIN(piece->first, s);
                piece->last = s;
            }
    }
}

/* The pieces: one of each stored temporary, then the workspace of each stage. *sum: bytes without sharing. */
static md_status list_pieces(md_ds_piece *piece, int32_t *n_temps, size_t *sum, const md_ds_plan *plan,
                             const md_ds_op *op, const int64_t *size)
{
    size_t most = 0;
    *n_temps = 0;
    *sum = 0;
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        if (!op->program->is_temp_stored[t])
            continue;
        md_ds_piece *p = &piece[(*n_temps)++];
        *p = (md_ds_piece){0};
        MD_TRY(temp_bytes(&p->n_bytes, op, t, size));
        find_life(p, plan, op, t);
        if (p->last < 0) /* it lives on chip, inside a chain */
            *p = (md_ds_piece){0};
        if (__builtin_add_overflow(*sum, p->n_bytes, sum))
            return too_large(op);
    }
    for (int32_t s = 0; s < op->n_stages; s++) {
        const int64_t packed_bytes = plan->stage[s].geometry.packed_bytes,
                      n_bytes = plan->stage[s].geometry.workspace_bytes - packed_bytes;
        if (n_bytes < 0 || packed_bytes < 0)
            return too_large(op);
        piece[*n_temps + s] = (md_ds_piece){s, s, md_ds_align((size_t)n_bytes), 0};
        most = MD_MAX(most, piece[*n_temps + s].n_bytes);
    }
    return __builtin_add_overflow(*sum, most, sum) ? too_large(op) : MD_OK;
}

/* Places temporaries and workspaces. Those that no stage needs together share memory: stages run in order, and one that
 * begins before its predecessor has ended waits for it before it touches memory. */
static md_status lay_out(md_ds_plan *plan, const md_ds_op *op, const int64_t *size)
{
    md_ds_piece piece[MD_FX_MAX_TENSORS + MD_ST_MAX_STAGES];
    int32_t n_temps = 0, at = 0;
    MD_TRY(list_pieces(piece, &n_temps, &plan->unshared_bytes, plan, op, size));
    plan->workspace_bytes = plan->unshared_bytes;
    if (n_temps > 0)
        MD_TRY(md_ds_place_pieces(&plan->workspace_bytes, piece, 0, n_temps + op->n_stages));
    if (plan->workspace_bytes > INT64_MAX)
        return too_large(op);
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->program->is_temp_stored[t])
            plan->temp_offset[t] = piece[at++].offset;
    for (int32_t s = 0; s < op->n_stages; s++)
        plan->stage[s].workspace_offset = piece[n_temps + s].offset;
    return MD_OK;
}

md_status md_ds_plan_finish(md_ds_plan *plan, const md_ds_op *op, const md_kn_shape *shape)
{
    plan->model_us = 0.0;
    plan->packed_bytes = 0;
    plan->n_packing = 0;
    for (int32_t s = 0; s < op->n_stages; s++) {
        if (plan->stage[s].is_idle) {
            plan->stage[s].geometry = (md_kn_geometries){0};
            continue;
        }
        const md_bd_variant *v = op->stage[s].variant[plan->stage[s].pick.variant];
        md_fa_memo memo;
        md_fa_target target = md_bd_variant_target(v, &op->stage[s].target);
        md_fa_memo_begin(&memo);
        target.memo = &memo;
        plan->model_us +=
            md_ds_is_kept_stage(op, s) ? 0.0 : md_tn_predict_us(&target, v->family, &v->config, shape->size);
        md_fa_geometry_of(&plan->stage[s].geometry, v->family, &target, &v->config, shape);
        plan->n_packing += plan->stage[s].geometry.packed_bytes > 0 || md_ds_is_kept_stage(op, s);
        plan->packed_bytes = MD_MAX(plan->packed_bytes, (size_t)MD_MAX(plan->stage[s].geometry.packed_bytes, 0));
    }
    return lay_out(plan, op, shape->size);
}

/* A variant of a stage serves instead of the stage's parts, or the other way round. */
static void set_way(md_ds_plan *plan, const md_ds_op *op, int32_t stage, const md_ds_pick *pick)
{
    const md_st_stage *whole = &op->program->stage[stage];
    const bool by_parts = pick->variant == MD_DS_BY_PARTS;
    md_ds_set_way(plan, op, stage, by_parts);
    plan->stage[stage].wished = -1;
    for (int32_t i = 0; i < whole->n_parts && by_parts; i++)
        plan->stage[whole->part[i]].pick.source = pick->source;
}

/* Calls set the marks meanwhile; those of the copy, which is zeroed, are not set. */
static void copy_all_but_marks(md_ds_plan *copy, const md_ds_plan *plan, const md_ds_op *op)
{
    const size_t marks = offsetof(md_ds_plan, has_begun_load), end = offsetof(md_ds_plan, model_us);
    memcpy(copy, plan, marks);
    memcpy((char *)copy + end, (const char *)plan + end, bytes_of_plan(op) - end);
}

md_status md_ds_plan_with(md_ds_plan **out, const md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape,
                          int32_t stage, const md_ds_pick *pick)
{
    md_ds_plan *copy = md_ds_plan_create(op);
    if (!copy)
        return md_fail_memory();
    copy_all_but_marks(copy, plan, op);
    copy->older = NULL;
    atomic_init(&copy->use, md_ds_plan_is_unused(plan) ? MD_DS_UNUSED : MD_DS_SERVES);
    if (pick->variant != MD_DS_BY_PARTS)
        copy->stage[stage] = (md_ds_stage_choice){.pick = *pick, .wished = -1};
    if (op->program->stage[stage].n_parts > 0)
        set_way(copy, op, stage, pick);
    copy->is_stand_in = copy->is_early;
    copy->may_load = false;
    for (int32_t s = 0; s < op->n_stages; s++) {
        copy->is_stand_in |= copy->stage[s].wished != -1;
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
