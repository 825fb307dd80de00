/* The ops of a context. Equal ops are one, which shares its kernels, choices, plans and statistics. Thread-safe. */
#ifndef MD_DISPATCH_REGISTRY_H
#define MD_DISPATCH_REGISTRY_H

#include "dispatch/op.h"

/** Writes op->identity: formula, dtypes, sizes, bounds, space, policy, pins, name. Every new option must enter it. */
md_status md_ds_identify(md_ds_op *op, md_bounds bounds, const char *pin);
/** Finds the equal op of the runtime, waits until it is made, and adds an owner. NULL: `op` is new and joins the
 * runtime's ops; the caller builds it and calls md_ds_share_done. */
md_ds_op *md_ds_share(md_ds_op *op);
/** Wakes the threads that wait for a new op. An op that has failed leaves the runtime. */
void md_ds_share_done(md_ds_op *op, bool is_good);
/** Adds an owner to an op that is made. */
void md_ds_enter(md_ds_op *op);
/** Removes an owner. True for the last one: the op has left the runtime, and the caller frees it. */
bool md_ds_leave(md_ds_op *op);
/** A hook for a child after fork: drops the ops that other threads of the parent were making, since no thread finishes
 * them. `runtime` is a md_ds_runtime. */
void md_ds_forget_unmade(void *runtime);

#endif
