/* Ops of a GPU that is not there, and what they pick. */
#ifndef MD_TESTS_DISPATCH_GPU_OPS_H
#define MD_TESTS_DISPATCH_GPU_OPS_H

#include "dispatch/support/bind.h"
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
