/* Pools of a GPU's ops, without a GPU: kernels are texts that are not compiled. */
#ifndef MD_TESTS_DISPATCH_GPU_WORLD_H
#define MD_TESTS_DISPATCH_GPU_WORLD_H

#include "base/status.h"
#include "base/task/pool.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/call.h"
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

#endif
