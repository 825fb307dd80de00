/* From bound arguments to the shape of the call and its key. */
#ifndef MD_DISPATCH_SHAPE_H
#define MD_DISPATCH_SHAPE_H

#include "dispatch/op.h"

enum { MD_DS_KEY_WORDS = MD_FX_MAX_DIMS + 2 + 2 * MD_FX_MAX_TENSORS * MD_MAX_RANK };

/** Strides, extents and classes of all arguments and stored temps (contiguous, aligned). */
void md_ds_shape_of(md_kn_shape *out, const md_ds_op *op, const md_fx_binding *binding);
/** The key: dynamic sizes, classes, extents of axes that need only be long enough, strides of tensors that are not contiguous.
 * Plain words; pointers and scalars are not in it. Returns the number of words. */
int32_t md_ds_key(int64_t key[MD_DS_KEY_WORDS], const md_ds_op *op, const md_kn_shape *shape);

/** Checks outputs against themselves and all other arguments. An input that is exactly the output and may not be reused is copied to
 * memory borrowed from the runtime (*copies, a chain through next; give each back), and the binding points there. Any other
 * overlap is INVALID_ARGUMENT. */
md_status md_ds_overlaps(md_ds_block **copies, md_ds_op *op, md_fx_binding *binding);

#endif
