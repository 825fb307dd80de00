/* Which tensors of a call overlap in memory, and the copies that an overlap needs. */
#ifndef MD_DISPATCH_BIND_ALIAS_H
#define MD_DISPATCH_BIND_ALIAS_H

#include "dispatch/op.h"

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

#endif
