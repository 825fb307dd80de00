/* One call: bind, look up, run. */
#ifndef MD_DISPATCH_CALL_SLOW_CALL_H
#define MD_DISPATCH_CALL_SLOW_CALL_H

#include "dispatch/cache/shape_entry.h"
#include "dispatch/bind/shape.h"

/** Everything between the caller's arguments and the launches; large, lives on the stack. */
typedef struct md_ds_bound {
    md_fx_binding binding;
    md_kn_shape shape;
    md_ds_as as; /* sizes to choose by */
    const md_ds_plan *plan; /* serves instead of the record's; NULL */
    md_ds_copies copies; /* inputs that an output overwrites */
    bool is_empty; /* every output is empty: nothing to do */
    bool is_sample; /* the one of many calls that is timed */
    bool is_patient; /* a shape that is new waits for the best variant */
    bool is_timed; /* somebody else takes the time: no samples */
} md_ds_bound;

/** Checks and binds; nothing is allocated or copied. */
md_status md_ds_bind(md_ds_bound *out, const md_ds_op *op, const md_arg *args, int32_t n_args);
/** Asks the device whether its kernels can use every tensor's memory; INVALID_ARGUMENT names the argument. Slow. */
md_status md_ds_check_pointers(const md_ds_op *op, const md_ds_bound *bound);

/** The record of a bound call, held. A shape that was not met before is chosen for; while the stream is captured,
 * among what is ready. */
md_status md_ds_find(md_ds_shape_entry **out, md_ds_op *op, md_stream stream, const md_ds_bound *bound);
/** Runs all stages; *us, if not NULL, is the time from the first launch to the end of the last (an asynchronous
 * device is waited for then). Index faults of synchronous devices are INVALID_ARGUMENT. */
md_status md_ds_run(double *us, md_ds_op *op, md_ds_shape_entry *entry, md_stream stream, md_ds_bound *bound);
/** The error for an index that a kernel of a synchronous device reported; extent: of the axis. */
md_status md_ds_fault(const md_ds_op *op, const md_kn_report *report, int64_t extent);
/** What kernels of an asynchronous device reported since the last check, as far as it has arrived. */
md_status md_ds_check(md_ds_op *op);

/** The data of a bound call for kernels: no stage, no memory of temporaries yet. */
void md_ds_fill_call(md_kn_call *call, const md_ds_op *op, const md_ds_bound *bound);

/** Puts a plan for a resolved call where the next ones find it. */
void md_ds_add_launch_plan(md_ds_op *op, const md_ds_call_args *call, md_ds_shape_entry *entry,
                           const md_ds_bound *bound);
/** Serves a call by its plan; false where that cannot be, and nothing was done. */
bool md_ds_call_launch_plan(md_status *status, md_ds_op *op, const md_ds_call_args *call, md_stream stream);

/** The long way: everything is checked, and what is wrong named. `warm`: NULL, or the call for which a plan is wanted
 * if the shape is known. */
md_status md_ds_slow_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args,
                          const md_ds_call_args *layout, bool is_sample);
md_status md_ds_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args);
/** The reference on the caller's thread, as if outputs lay apart from everything else. Memory that the CPU cannot
 * read is copied to and fro. */
md_status md_ds_reference(md_ds_op *op, const md_arg *args, int32_t n_args);
md_status md_ds_evaluate(md_ds_op *op, md_ds_bound *bound);

#endif
