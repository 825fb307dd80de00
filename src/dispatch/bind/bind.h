/* From the arguments of a call to a bound call: checked, with its shape and the copies that it needs. */
#ifndef MD_DISPATCH_BIND_BIND_H
#define MD_DISPATCH_BIND_BIND_H

#include "dispatch/bind/alias.h"
#include "dispatch/bind/shape.h"

/* Everything between the caller's arguments and the launches. Some kilobytes, on the stack of the call. */
typedef struct md_ds_bound {
    md_fx_binding binding;
    md_kn_shape shape;
    md_ds_as as; /* sizes to choose by */
    md_ds_copies copies; /* inputs that an output overwrites */
    bool is_empty; /* every output is empty: there is nothing to do */
    bool is_sample; /* the call is one that shall be timed */
    bool is_patient; /* a new shape waits for the best variant */
    bool is_timed; /* the caller takes the time: no samples */
} md_ds_bound;

/** Checks and binds. Allocates and copies nothing. INVALID_ARGUMENT names the argument that is wrong. */
md_status md_ds_bind(md_ds_bound *out, const md_ds_op *op, const md_arg *args, int32_t n_args);
/** Asks the device whether its kernels can use every tensor's memory; INVALID_ARGUMENT names the argument. Slow. */
md_status md_ds_check_pointers(const md_ds_op *op, const md_ds_bound *bound);
/** INVALID_ARGUMENT if the stream is not the device's, where the device can tell. */
md_status md_ds_check_stream(const md_ds_op *op, md_stream stream);
/** Data and scalars for kernels. Stage, stream, workspace and the memory of temporaries are not set. */
void md_ds_fill_call(md_kn_call *call, const md_ds_op *op, const md_ds_bound *bound);

#endif
