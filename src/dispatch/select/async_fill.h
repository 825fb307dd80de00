/* Pools of ops that are made asynchronously: creation picks configs for the first hint only, background threads for
 * all others. Until that is done, shapes are served by what there is, and chosen for anew afterwards. Thread-safe. */
#ifndef MD_DISPATCH_SELECT_ASYNC_FILL_H
#define MD_DISPATCH_SELECT_ASYNC_FILL_H

#include "dispatch/types.h"

/** Queues what is left to do of all stages. Where memory is short it is done at once. */
md_status md_ds_async_fill_start(md_ds_op *op);
/** Waits until it is done, or does it. */
void md_ds_async_fill_wait(md_ds_op *op);
/** Nothing of the op is touched afterwards; what was not begun is left. */
void md_ds_async_fill_finish(md_ds_op *op);

/** Does it where nobody else will, in a child after fork. */
static inline void md_ds_async_fill_inherit(md_ds_op *op)
{
    if (atomic_load_explicit(&op->is_orphan, memory_order_relaxed))
        md_ds_async_fill_wait(op);
}

static inline bool md_ds_is_filling(const md_ds_op *op)
{
    return atomic_load_explicit(&op->is_filling, memory_order_acquire);
}

#endif
