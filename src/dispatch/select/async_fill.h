/* Filling the pools of ops that are made asynchronously: creation chooses variants for the first hint only, and a
 * background thread for the others. Until then shapes are served by the ready variants. Thread-safe. */
#ifndef MD_DISPATCH_SELECT_ASYNC_FILL_H
#define MD_DISPATCH_SELECT_ASYNC_FILL_H

#include "dispatch/op.h"

/** Queues a job that calls fill(op), clears op->is_filling, and calls filled(op). OUT_OF_MEMORY: nothing is queued. */
md_status md_ds_async_fill_start(md_ds_op *op, void (*fill)(md_ds_op *op), void (*filled)(md_ds_op *op));
/** Waits until the pools are filled, or fills them on this thread if no job has begun to. */
void md_ds_async_fill_wait(md_ds_op *op);
/** For the end of the op: waits for a job that has begun, and cancels one that has not. */
void md_ds_async_fill_finish(md_ds_op *op);

/** In a child after fork, where no thread runs the job: fills the pools on this thread. */
static inline void md_ds_async_fill_inherit(md_ds_op *op)
{
    if (atomic_load_explicit(&op->is_orphan, memory_order_relaxed))
        md_ds_async_fill_wait(op);
}

#endif
