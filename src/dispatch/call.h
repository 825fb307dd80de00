/* One call: bind, look up, run. */
#ifndef MD_DISPATCH_CALL_H
#define MD_DISPATCH_CALL_H

#include "dispatch/record.h"
#include "dispatch/shape.h"

/** Everything between the caller's arguments and the launches; large, lives on the stack. */
typedef struct md_ds_bound {
    md_fx_binding binding;
    md_kn_shape shape;
    md_ds_block *copies; /* of inputs that an output overwrites */
    bool is_empty; /* every output is empty: nothing to do */
} md_ds_bound;

/** Checks and binds; give it back even after a failure. */
md_status md_ds_bind(md_ds_bound *out, md_ds_op *op, const md_arg *args, int32_t n_args);
void md_ds_unbind(md_ds_bound *bound, md_ds_op *op);

/** The record of a bound call, held. */
md_status md_ds_find(md_ds_record **out, md_ds_op *op, const md_ds_bound *bound);
/** Runs all stages; *ns, if not NULL, is the time from the first launch to the end of the last. Index faults are INVALID_ARGUMENT. */
md_status md_ds_run(uint64_t *ns, md_ds_op *op, md_ds_record *record, md_stream stream, md_ds_bound *bound);

md_status md_ds_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args);
/** The reference on the caller's thread. */
md_status md_ds_reference(md_ds_op *op, const md_arg *args, int32_t n_args);

#endif
