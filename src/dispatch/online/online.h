/* MD_SELECT_HYBRID: the model picks at once; then some real calls of a shape are served by other variants and timed, in
 * turns with the one that serves, and the faster one stays. No call waits: times are asked for at later calls, and
 * background threads prepare trials. Nothing is tried while a stream is captured or the op is frozen. Thread-safe. */
#ifndef MD_DISPATCH_ONLINE_ONLINE_H
#define MD_DISPATCH_ONLINE_ONLINE_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"

md_status md_ds_hybrid_create(struct md_ds_hybrid **out, md_ds_op *op);
/** Waits for background jobs, and releases the shape entries that timed calls hold. NULL in *hybrid is allowed. */
void md_ds_hybrid_destroy(struct md_ds_hybrid **hybrid);

/** Runs a slow call as md_ds_run does; a challenger may serve it, and it may be timed. */
md_status md_ds_hybrid_run(md_ds_op *op, md_ds_shape_entry *entry, md_stream stream, md_ds_bound *bound);

#endif
