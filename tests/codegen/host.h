/* The host device for a test program, with a pool of two threads. */
#ifndef MD_TESTS_CODEGEN_HOST_H
#define MD_TESTS_CODEGEN_HOST_H

#include "support/check.h"

#include "device/open.h"

typedef struct fixture {
    md_pool *pool;
    md_dev *dev;
    uint64_t seed;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || md_pool_create(&f->pool, 2) != MD_OK)
        return -1;
    if (md_dev_open(&f->dev, &(md_dev_options){.device = "host", .cc = getenv("MD_CC"), .pool = f->pool}) != MD_OK)
        return -1;
    f->seed = check_seed();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    md_dev_close(&f->dev);
    md_pool_destroy(&f->pool);
    free(f);
    return 0;
}

#endif
