/* Runs a bound call. */
#ifndef MD_DISPATCH_RUN_EXECUTE_H
#define MD_DISPATCH_RUN_EXECUTE_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"

/** Runs all stages by `plan`, which is of the entry's shape; NULL: the entry's plan. Counts the call at the entry,
 * which the caller holds. *us, if not NULL, is the time from the first launch to the end of the last; an
 * asynchronous device is then waited for. An index fault on a synchronous device is INVALID_ARGUMENT. Copies of
 * inputs are entered in `bound`. Thread-safe. */
md_status md_ds_run(double *us, md_ds_op *op, md_ds_shape_entry *entry, const md_ds_plan *plan, md_stream stream,
                    md_ds_bound *bound);

/** Enqueues all stages by a plan that copies no inputs. `memory`: for its workspace_bytes, in the order of the stream.
 * Counts, checks and measures nothing. */
md_status md_ds_run_in(md_ds_op *op, const md_ds_plan *plan, md_stream stream, md_ds_bound *bound, char *memory);

#endif
