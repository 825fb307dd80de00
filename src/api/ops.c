/* Visits the ops of a context, and checks them for reported errors. */
#include "api/context.h"
#include "base/status.h"
#include "dispatch/bind/fault.h"

/* An op that some thread is still making stands in the list, so that equal ones wait for it; it is nobody's yet. */
void md_api_each_op(md_context *context, void (*fn)(void *user, md_ds_op *op), void *user)
{
    pthread_mutex_lock(&context->runtime.lock_of_ops);
    for (md_ds_op *op = context->runtime.ops; op; op = op->next)
        if (op->is_made)
            fn(user, op);
    pthread_mutex_unlock(&context->runtime.lock_of_ops);
}

/* Keeps the first error that any op reports. */
static void check_op(void *user, md_ds_op *op)
{
    md_status *s = user;
    if (*s == MD_OK)
        *s = md_ds_check(op);
}

md_status md_check(md_context *context)
{
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    md_status s = MD_OK;
    md_api_each_op(context, check_op, &s);
    return s;
}
