/* Pools of a GPU's ops, without a GPU: kernels are texts that are not compiled. */
#ifndef MD_TESTS_DISPATCH_GPU_WORLD_H
#define MD_TESTS_DISPATCH_GPU_WORLD_H

#include "base/status.h"
#include "base/task/pool.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/slow_call.h"
#include "dispatch/create.h"
#include "dispatch/open.h"
#include "support/check.h"
#include "support/devices/fake_device.h"

#include <string.h>

typedef struct world {
    md_pool *pool;
    fake_device device;
    md_bd *builder;
    md_ds_runtime runtime;
    md_log log;
} world;

static world w;

static inline int set_up(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    assert_ok(md_pool_create(&w.pool, 2));
    fake_device_init(&w.device, w.pool, &w.log);
    assert_ok(md_dev_cuda_assume(&w.device.base.facts, 90));
    w.device.base.facts.can_compile = true;
    assert_ok(md_bd_create(&w.builder, &w.device.base));
    md_ds_runtime_init(&w.runtime);
    w.runtime.dev = &w.device.base;
    w.runtime.builder = w.builder;
    w.runtime.log = &w.log;
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    md_ds_runtime_finish(&w.runtime);
    md_bd_destroy(&w.builder);
    md_pool_destroy(&w.pool);
    return 0;
}

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
