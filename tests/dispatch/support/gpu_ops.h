/* Ops of a GPU that is not there, and what they pick. */
#ifndef MD_TESTS_DISPATCH_GPU_OPS_H
#define MD_TESTS_DISPATCH_GPU_OPS_H

#include "dispatch/support/gpu_world.h"

static inline md_ds_op *op_by(md_select select, const char *formula, md_dtype dtype, const char *hints,
                              const char *source)
{
    md_ds_op *op = NULL;
    md_ds_op_options o = {
        .compile.dtype = dtype,
        .compile.hints = hints,
        .compile.hints_source = source,
        .max_shapes = 1000,
        .compile.policy = {.select = select, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO}};
    assert_ok(md_ds_op_create(&op, &w.runtime, formula, &o));
    return op;
}

static inline md_ds_op *op_of(const char *formula, md_dtype dtype, const char *hints, const char *source)
{
    return op_by(MD_SELECT_MODEL, formula, dtype, hints, source);
}

/* Sizes by dim in turn; contiguous tensors whose data lies `offset` bytes behind a boundary. */
static inline void bind(md_ds_bound *out, const md_ds_op *op, const int64_t *size, uintptr_t offset)
{
    const md_fx_formula *f = op->formula;
    memset(out, 0, sizeof *out);
    for (int32_t d = 0; d < f->n_dims; d++)
        out->binding.size[d] = f->dim[d].size >= 0 ? f->dim[d].size : size[d % 2];
    for (int32_t t = 0; t < f->n_tensors; t++) {
        int64_t extent[MD_MAX_RANK];
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            extent[a] = out->binding.size[f->tensor[t].dim[a]];
        out->binding.tensor[t] = md_tensor_make((void *)(0x10000 * (uintptr_t)(t + 1) + offset), f->tensor[t].dtype,
                                                f->tensor[t].rank, extent);
    }
    md_ds_shape_of(&out->shape, op, &out->binding);
}

/* The variant that the op picks at these sizes, without building one. */
static inline int32_t picked_at(md_ds_op *op, const int64_t *size)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    bind(&bound, op, size, 0);
    const md_ds_request request = {.shape = &bound.shape, .as = &bound.as, .effort = MD_DS_ONLY_READY};
    assert_ok(md_ds_shape_entry_make(&entry, op, &request));
    const int32_t pick = md_ds_plan_of(entry)->stage[0].pick.variant;
    md_ds_shape_entry_free(entry);
    return pick;
}

/* Variants of a family. */
static inline int32_t count_of(const md_ds_op *op, const char *family)
{
    int32_t n = 0;
    for (int32_t i = 0; i < op->stage[0].n_variants; i++)
        n += !strcmp(op->stage[0].variant[i]->family->name, family);
    return n;
}

#endif
