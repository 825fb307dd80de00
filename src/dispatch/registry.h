/* Ops of one context that are the same share everything: kernels, choices, plans, statistics. */
#ifndef MD_DISPATCH_REGISTRY_H
#define MD_DISPATCH_REGISTRY_H

#include "dispatch/types.h"

/** Writes op->identity: formula, dtypes, sizes, space, policy, pins, name. Whatever options are added must enter it. */
md_status md_ds_identify(md_ds_op *op, const md_ds_op_options *options);
/** Joins the runtime's ops. Where the same op is there already, it gets one more owner and is returned when it is
 * made; NULL: `op` is new, and the caller builds it. */
md_ds_op *md_ds_join(md_ds_op *op);
/** Tells those that wait for a new op; one that has failed leaves the runtime. */
void md_ds_made(md_ds_op *op, bool is_good);
/** One owner more, of an op that is made. */
void md_ds_enter(md_ds_op *op);
/** One owner goes. True for the last one: the op has left the runtime, and is the caller's to free. */
bool md_ds_leave(md_ds_op *op);
/** A child's hook: what another thread of the parent was making is never finished, and nobody waits for it. */
void md_ds_forget_unmade(void *runtime);

#endif
