/* The host device with two threads, opened for a group of tests. */
#ifndef MD_TESTS_FAMILY_HOST_DEVICE_H
#define MD_TESTS_FAMILY_HOST_DEVICE_H

#include "base/task/pool.h"
#include "device/open.h"
#include "support/check.h"

#include <stdlib.h>

static md_dev *dev;
static md_pool *pool;

static inline int open_device(void **state)
{
    (void)state;
    assert_ok(md_pool_create(&pool, 2));
    assert_ok(md_dev_open(&dev, &(md_dev_options){.device = "host", .cc = getenv("MD_CC"), .pool = pool}));
    return 0;
}

static inline int close_device(void **state)
{
    (void)state;
    md_dev_close(&dev);
    md_pool_destroy(&pool);
    return 0;
}

#endif
