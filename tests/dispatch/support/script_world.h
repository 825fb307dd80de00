/* A scripted world for each test of a program. */
#ifndef MD_TESTS_DISPATCH_SUPPORT_SCRIPT_WORLD_H
#define MD_TESTS_DISPATCH_SUPPORT_SCRIPT_WORLD_H

#include "dispatch/support/script.h"

static script_world world;

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

#endif
