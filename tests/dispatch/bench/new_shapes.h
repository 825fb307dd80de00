/* Ops of an assumed GPU for programs that are no tests: kernels are neither compiled nor launched. */
#ifndef MD_TESTS_DISPATCH_NEW_SHAPES_H
#define MD_TESTS_DISPATCH_NEW_SHAPES_H

#include "base/task/pool.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/call/call.h"
#include "dispatch/create.h"
#include "dispatch/open.h"
#include "dispatch/support/bind.h"
#include "support/devices/fake_device.h"
#include "support/or_exit.h"

typedef struct new_shapes {
    md_pool *pool;
    md_log log;
    md_bd *builder;
    md_ds_runtime runtime;
    fake_device device;
    md_dev_ops ops; /* the device's, and a workspace: calls leave upgrades to the background, as those of GPUs do */
} new_shapes;

/* An op to choose for. */
typedef struct new_shapes_case {
    const char *name, *formula;
    md_dtype dtype;
    const char *sizes; /* static ones; NULL: none */
} new_shapes_case;

static const new_shapes_case new_shapes_cases[] = {
    {"linear bf16", "Y[b,n] = sum[k](X[b,k] * W[n,k])", MD_BF16, NULL},
    {"linear f32", "Y[b,n] = sum[k](X[b,k] * W[n,k])", MD_F32, NULL},
    {"linear gelu bf16", "Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]) + B[n])", MD_BF16, NULL},
    {"swiglu bf16", "Y[b,n] = silu(sum[k](X[b,k] * W[n,k])) * sum[k](X[b,k] * V[n,k])", MD_BF16, NULL},
    {"matmul bf16", "Y[m,n] = sum[k](X[m,k] * W[k,n])", MD_BF16, NULL},
    {"gelu bf16", "Y[i,j] = gelu(X[i,j])", MD_BF16, NULL},
    {"axpb f32", "Y[i,j] = X[i,j] * 2 + 1", MD_F32, NULL},
    {"transpose f32", "Y[i,j] = X[j,i]", MD_F32, NULL},
    {"rms_norm bf16", "Y[i,j] = X[i,j] * rsqrt(mean[k](X[i,k] * X[i,k]) + 1e-6) * G[j]", MD_BF16, NULL},
    {"layer_norm bf16", "Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5) * G[j] + B[j]", MD_BF16,
     NULL},
    {"softmax f32", "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", MD_F32, NULL},
    {"softmax bf16", "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", MD_BF16, NULL},
    {"row sum f32", "Y[i] = sum[k](X[i,k])", MD_F32, NULL},
    {"column sum f32", "Y[j] = sum[i](X[i,j])", MD_F32, NULL},
    {"argmax f32", "Y[i] = argmax[k](X[i,k])", MD_F32, NULL},
    {"cumsum f32", "Y[i,j] = cumsum[j](X[i,j])", MD_F32, NULL},
    {"rope bf16",
     "Y[t,h,d] = X[t,h,d] * C[t,d] + where(d < size(d) // 2, -X[t,h,d + size(d) // 2], "
     "X[t,h,d - size(d) // 2]) * S[t,d]",
     MD_BF16, NULL},
    {"gather f32", "Y[i,j] = X[I:i64[i],j]", MD_F32, NULL},
    {"attention bf16",
     "let S[h,i,j] = where(j <= i + size(j) - size(i), sum[d](Q[h,i,d] * K[h//4,j,d]) * 0.0884, -inf); "
     "let P:bf16[h,i,j] = exp(S[h,i,j] - max[k](S[h,i,k])); "
     "Y[h,i,e] = sum[j](P[h,i,j] * V[h//4,j,e]) / sum[j](P[h,i,j])",
     MD_BF16, "h=32, d=128, e=128, K.0=8, V.0=8"},
};

static inline md_status new_shapes_workspace(void **out, md_dev *dev, md_stream stream, size_t n_bytes)
{
    (void)dev, (void)stream, (void)n_bytes;
    *out = NULL;
    return MD_OK;
}

static inline void new_shapes_open(new_shapes *shapes, int32_t capability)
{
    CHECK(md_pool_create(&shapes->pool, 2));
    fake_device_init(&shapes->device, shapes->pool, &shapes->log);
    CHECK(md_dev_cuda_assume(&shapes->device.base.facts, capability));
    shapes->ops = *shapes->device.base.ops;
    shapes->ops.workspace = new_shapes_workspace;
    shapes->device.base.ops = &shapes->ops;
    shapes->device.base.facts.can_compile = true;
    CHECK(md_bd_create(&shapes->builder, &shapes->device.base));
    md_ds_runtime_init(&shapes->runtime);
    shapes->runtime.dev = &shapes->device.base;
    shapes->runtime.builder = shapes->builder;
    shapes->runtime.log = &shapes->log;
}

static inline void new_shapes_close(new_shapes *shapes)
{
    md_ds_runtime_finish(&shapes->runtime);
    md_bd_destroy(&shapes->builder);
    md_pool_destroy(&shapes->pool);
}

/* sizes: static dims; NULL: none. */
static inline md_ds_op *new_shapes_op(new_shapes *shapes, const char *name, const char *formula, md_dtype dtype,
                                      const char *sizes, md_select select)
{
    md_ds_op *op = NULL;
    const md_ds_op_options o = {
        .name = name,
        .max_shapes = 16384,
        .compile.dtype = dtype,
        .compile.sizes = sizes,
        .compile.hints = "1,16,64,256,1024,4096",
        .compile.hints_source = "default hints",
        .compile.policy = {.select = select, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO}};
    CHECK(md_ds_op_create(&op, &shapes->runtime, formula, &o));
    md_ds_op_wait(op);
    return op;
}

#endif
