/* Errors for indices that kernels found outside their axis. */
#ifndef MD_DISPATCH_BIND_FAULT_H
#define MD_DISPATCH_BIND_FAULT_H

#include "dispatch/op.h"

/* An index, and the axis that it is outside of. */
typedef struct md_ds_fault {
    int32_t tensor, axis;
    int64_t value, extent; /* extent: elements of the axis */
} md_ds_fault;

/** INVALID_ARGUMENT with a message that names the tensor. */
md_status md_ds_fail_fault(const md_ds_op *op, const md_ds_fault *fault);
/** Fails if kernels of an asynchronous device reported a fault since the last check, as far as reports have arrived;
 * clears the report. Thread-safe; not while a stream is captured. */
md_status md_ds_check(md_ds_op *op);

#endif
