/* From bound arguments to the shape of a call and its key. */
#ifndef MD_DISPATCH_BIND_SHAPE_H
#define MD_DISPATCH_BIND_SHAPE_H

#include "dispatch/op.h"

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
bool md_ds_shape_of_key(md_kn_shape *out, md_ds_as *as, const md_ds_op *op, const md_ds_key *key);

#endif
