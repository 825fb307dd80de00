/* A runtime on a simulated device, with a memory of what was tuned. */
#ifndef MD_TESTS_DISPATCH_SIM_WORLD_H
#define MD_TESTS_DISPATCH_SIM_WORLD_H

#include "support/check.h"

#include "support/devices/sim_device.h"
#include "dispatch/op.h"
#include "dispatch/open.h"
#include "tune/tune.h"
#include "device/open.h"

#include <string.h>

typedef struct sim_world {
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_tn_wisdom *wisdom;
    md_ds_runtime runtime;
    md_log log;
} sim_world;

/** `device`: without pool and log, which are the world's. */
static inline void sim_world_open(sim_world *w, sim_device_options device)
{
    memset(w, 0, sizeof *w);
    assert_ok(md_pool_create(&w->pool, 2));
    device.pool = w->pool;
    device.log = &w->log;
    assert_ok(sim_device_open(&w->dev, &device));
    assert_ok(md_bd_create(&w->builder, w->dev));
    assert_ok(md_tn_wisdom_create(&w->wisdom));
    md_ds_runtime_init(&w->runtime);
    w->runtime.dev = w->dev;
    w->runtime.builder = w->builder;
    w->runtime.log = &w->log;
}

static inline void sim_world_close(sim_world *w)
{
    md_ds_runtime_finish(&w->runtime);
    md_bd_destroy(&w->builder);
    md_tn_wisdom_destroy(&w->wisdom);
    md_dev_close(&w->dev);
    md_pool_destroy(&w->pool);
}

#endif
