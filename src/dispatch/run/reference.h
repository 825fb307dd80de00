/* A whole call by the reference evaluator. */
#ifndef MD_DISPATCH_RUN_REFERENCE_H
#define MD_DISPATCH_RUN_REFERENCE_H

#include "dispatch/op.h"

/** Binds, checks and evaluates on the caller's thread, as if no output shared memory with an input. Waits for the
 * device. Thread-safe. */
md_status md_ds_reference(md_ds_op *op, const md_arg *args, int32_t n_args);

#endif
