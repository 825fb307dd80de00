/* From arguments to a bound call: the key of its shape, overlaps, pointer checks, and index faults. */
#ifndef MD_DISPATCH_BIND_BIND_H
#define MD_DISPATCH_BIND_BIND_H

#include "dispatch/op.h"

/* ---- shape.c */

/* From bound arguments to the shape of a call and its key. */

enum { MD_DS_KEY_WORDS = MD_FX_MAX_DIMS + 2 + 2 * MD_FX_MAX_TENSORS * MD_MAX_RANK + MD_DS_MAX_DYNAMIC };

/* What shape entries are found by. In order: dynamic sizes; classes (contiguous, unit stride, aligned); extents of
 * axes that may be longer than their dim; strides of tensors that are not contiguous; sizes to choose by, if given.
 * Pointers and scalars are not in it. */
typedef struct md_ds_key {
    int32_t n;
    int64_t word[MD_DS_KEY_WORDS];
} md_ds_key;

/** Strides, extents and classes of all arguments and stored temporaries. */
void md_ds_shape_of(md_kn_shape *out, const md_ds_op *op, const md_fx_binding *binding);
void md_ds_key_of(md_ds_key *out, const md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as);
/** The inverse: the shape and the sizes to choose by that a key stands for. Any words may be given: false if they are
 * no key of the op. */
bool md_ds_shape_of_key(md_kn_shape *out, md_ds_as *as, const md_ds_op *op, const int64_t *word, int32_t n);

/* ---- alias.c */

/* Which tensors of a call overlap in memory, and the copies that an overlap needs. */

/* Inputs that an output overwrites: copied before the launches, in the order of the stream. */
enum { MD_DS_MAX_COPIES = 8 };
typedef struct md_ds_copies {
    int32_t n;
    int32_t tensor[MD_DS_MAX_COPIES];
    md_tensor from[MD_DS_MAX_COPIES]; /* the caller's tensors */
    size_t n_bytes; /* of all copies, each rounded up to MD_DS_ALIGNMENT */
} md_ds_copies;

/** Checks every output against itself and all other arguments. An input that is exactly the output and may not share
 * its memory is listed in *copies; the binding then has a contiguous tensor without memory for it. Any other overlap
 * is INVALID_ARGUMENT. */
md_status md_ds_find_aliases(md_ds_copies *copies, const md_ds_op *op, md_fx_binding *binding);

/** True if two tensors may share memory; false for views that interleave, as halves of a matrix's columns. */
bool md_ds_may_overlap(const md_tensor *a, const md_tensor *b);
/** Copies elements to a contiguous tensor. Both lie in memory that the CPU can read. */
void md_ds_copy_elements(const md_tensor *to, const md_tensor *from);
/** Bytes from the first element to the end of the last; 0 if the tensor is empty. */
size_t md_ds_span(const md_tensor *t);
/** True if both have the same elements in the same order, for equal data pointers. */
bool md_ds_same_layout(const md_tensor *a, const md_tensor *b);

/* ---- bind.c */

/* From the arguments of a call to a bound call: checked, with its shape and the copies that it needs. */

/* Everything between the caller's arguments and the launches. Some kilobytes, on the stack of the call. */
typedef struct md_ds_bound {
    md_fx_binding binding;
    md_kn_shape shape;
    md_ds_as as; /* sizes to choose by */
    md_ds_copies copies; /* inputs that an output overwrites */
    bool is_empty; /* every output is empty: there is nothing to do */
    bool is_sample; /* the call is to be timed */
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

/* ---- fault.c */

/* Errors for indices that kernels found outside their axis. */

/* An index, and the axis that it is outside of; or a length above the size of a dim (axis: md_fx_length_axis). */
typedef struct md_ds_fault {
    int32_t tensor, axis;
    int64_t value, extent; /* extent: elements of the axis; -1: not known */
} md_ds_fault;

/** A report as a fault at a shape. */
md_ds_fault md_ds_fault_at(const md_kn_shape *shape, int32_t tensor, int32_t axis, int64_t value);

/** INVALID_ARGUMENT with a message that names the tensor. */
md_status md_ds_fail_fault(const md_ds_op *op, const md_ds_fault *fault);
/** Fails if kernels of an asynchronous device reported a fault since the last check, as far as reports have arrived;
 * clears the report. Thread-safe; not while a stream is captured. */
md_status md_ds_check(md_ds_op *op);

#endif
