/* Runs a bound call: by the plan of its shape, or by the reference evaluator. */
#ifndef MD_DISPATCH_RUN_RUN_H
#define MD_DISPATCH_RUN_RUN_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/op.h"

/* ---- reference.c */

/* A whole call by the reference evaluator. */

/** Binds, checks and evaluates on the caller's thread, as if no output shared memory with an input. Waits for the
 * device. Thread-safe. */
md_status md_ds_reference(md_ds_op *op, const md_arg *args, int32_t n_args);

/* ---- evaluate.c */

/* The reference evaluator on bound arguments. */

/** Evaluates the formula on the caller's thread. `copies` names inputs that share memory with an output: they are read
 * as the caller gave them. The device has to be idle. Data pointers in `binding` may be changed. */
md_status md_ds_evaluate(const md_ds_op *op, md_fx_binding *binding, const md_ds_copies *copies,
                         const md_kn_shape *shape);

/* ---- execute.c */

/* Runs a bound call. */

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
