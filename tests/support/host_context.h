/* A context of the host for each test of a program, and ops of it. */
#ifndef MD_TESTS_SUPPORT_HOST_CONTEXT_H
#define MD_TESTS_SUPPORT_HOST_CONTEXT_H

#include "support/check.h"

static md_context *context;

static int set_up(void **state)
{
    (void)state;
    return md_context_create(&context, &(md_context_options){.device = "host", .threads = 2, .hints = "16,256"}) !=
           MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static md_op *make(const char *formula)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula, NULL));
    return op;
}

#endif
