/* From bound arguments to the shape of the call and its key. */
#ifndef MD_DISPATCH_BIND_SHAPE_H
#define MD_DISPATCH_BIND_SHAPE_H

#include "dispatch/types.h"

enum { MD_DS_KEY_WORDS = MD_FX_MAX_DIMS + 2 + 2 * MD_FX_MAX_TENSORS * MD_MAX_RANK + MD_DS_MAX_DYNAMIC };

/** Strides, extents and classes of all arguments and stored temps (contiguous, aligned). */
void md_ds_shape_of(md_kn_shape *out, const md_ds_op *op, const md_fx_binding *binding);
/* Plain words: dynamic sizes, classes, extents of axes that need only be long enough, strides of tensors that are
 * not contiguous, sizes to choose by where there are some. Pointers and scalars are not in it. */
typedef struct md_ds_key {
    int32_t n;
    int64_t word[MD_DS_KEY_WORDS];
} md_ds_key;
void md_ds_key_of(md_ds_key *out, const md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as);

/* Inputs that an output overwrites: copied before the launches, in the order of the stream. */
enum { MD_DS_MAX_COPIES = 8 };
typedef struct md_ds_copies {
    int32_t n;
    int32_t tensor[MD_DS_MAX_COPIES];
    md_tensor from[MD_DS_MAX_COPIES]; /* what the caller gave */
    size_t n_bytes; /* of all copies, each rounded up to MD_DS_ALIGNMENT */
} md_ds_copies;

/** Checks outputs against themselves and all other arguments. An input that is exactly the output and may not be
 * reused is listed in *copies, and the binding has a contiguous tensor without memory for it. Any other overlap is
 * INVALID_ARGUMENT. */
md_status md_ds_find_aliases(md_ds_copies *copies, const md_ds_op *op, md_fx_binding *binding);

/** By the CPU, to a contiguous tensor. */
void md_ds_copy_elements(const md_tensor *to, const md_tensor *from);
/** Bytes from the first element to the end of the last; 0 where it is empty. */
size_t md_ds_span(const md_tensor *t);
/** Whether both are the same elements in the same order. */
bool md_ds_same_layout(const md_tensor *a, const md_tensor *b);

#endif
