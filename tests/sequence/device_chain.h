/* A device whose work is done later, an op on it, and a sequence of four calls. */
#ifndef MD_TESTS_SEQUENCE_DEVICE_CHAIN_H
#define MD_TESTS_SEQUENCE_DEVICE_CHAIN_H

#include "support/check.h"

#include "device/open.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/create.h"
#include "dispatch/open.h"
#include "sequence/shape.h"
#include "support/devices/async_device.h"

static md_log no_log;
static md_pool *pool;
static md_dev *host;
static async_device device;
static md_bd *builder;
static md_ds_runtime runtime;
static md_ds_op *op;

enum { MOST = 4000 };

static const md_ds_op_options op_options = {
    .compile.hints = "64,4096",
    .compile.hints_source = "test",
    .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO},
    .max_shapes = 1000,
};

static inline int set_up(void **state)
{
    (void)state;
    assert_ok(md_pool_create(&pool, 1));
    assert_ok(md_dev_open(&host, &(md_dev_options){.device = "host", .pool = pool, .log = &no_log}));
    assert_true(async_device_init(&device, host));
    assert_ok(md_bd_create(&builder, &device.base));
    md_ds_runtime_init(&runtime);
    runtime.dev = &device.base;
    runtime.builder = builder;
    runtime.log = &no_log;
    md_bd_listen(builder, md_ds_upgrade_all, &runtime);
    assert_ok(md_ds_op_create(&op, &runtime, "Y[i] = 2 * X[i] + 1", &op_options));
    md_ds_op_wait(op);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    assert_ok(device.base.ops->sync(&device.base, NULL));
    md_ds_op_destroy(&op);
    md_bd_listen(builder, NULL, NULL);
    md_ds_runtime_finish(&runtime);
    md_bd_destroy(&builder);
    assert_int_equal(device.n_violations, 0);
    device.base.ops->destroy(&device.base);
    md_pool_destroy(&pool);
    return 0;
}

static inline float *device_memory(void)
{
    void *p = NULL;
    assert_ok(device.base.ops->alloc(&p, &device.base, MOST * sizeof(float)));
    return p;
}

static inline void put(float *p, int seed)
{
    float value[MOST];
    for (int i = 0; i < MOST; i++)
        value[i] = (float)(i + seed);
    assert_ok(device.base.ops->copy(&device.base, p, value, sizeof value));
}

/* y = x by four steps of 2 x + 1 is 16 x + 15. The device is waited for. */
static inline void expect(const float *y, int64_t n, int seed)
{
    float value[MOST];
    assert_ok(device.base.ops->copy(&device.base, value, y, sizeof value));
    for (int i = 0; i < n; i++)
        assert_true(value[i] == 16 * (float)(i + seed) + 15);
}

static inline md_sq *chain(const md_sequence_options *options)
{
    md_sq *sq = NULL;
    int32_t id[5];
    assert_ok(md_sq_create(&sq, &runtime, options));
    assert_ok(md_sq_add_dim(NULL, sq, "n", 0, MOST));
    static const md_sequence_role role[] = {MD_SEQUENCE_INPUT, 0, 0, 0, MD_SEQUENCE_OUTPUT};
    for (int i = 0; i < 5; i++)
        assert_ok(md_sq_add_tensor(&id[i], sq, &(md_sequence_tensor){.role = role[i], .size = "n"}));
    for (int i = 0; i < 4; i++)
        assert_ok(md_sq_add_call(sq, op, (md_sequence_arg[]){{.id = id[i + 1]}, {.id = id[i]}}, 2));
    assert_ok(md_sq_finish(sq));
    return sq;
}

static inline md_stream stream_at(int i)
{
    return (md_stream)(uintptr_t)(i * 16);
}

static inline void run(md_sq *sq, int stream, int64_t n, const float *x, const float *y)
{
    assert_ok(md_sq_run(sq, stream_at(stream), &n, (void *const[]){(void *)(uintptr_t)x, (void *)(uintptr_t)y}));
}

static inline md_sequence_counters counters(md_sq *sq)
{
    md_sequence_counters c;
    md_sq_count(&c, sq);
    return c;
}

#endif
