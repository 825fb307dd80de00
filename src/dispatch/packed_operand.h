/* Packed operands: constant operands of an op (option `constant`) in the layout that a kernel wants, or with their axes
 * moved, by a stage of its own (kept_stages). Each is made by
 * the first call that needs it, read by the later ones, and freed with the op. Variants whose packing kernel is one
 * share what it made. */
#ifndef MD_DISPATCH_PACKED_OPERAND_H
#define MD_DISPATCH_PACKED_OPERAND_H

#include "dispatch/op.h"

/* How some tensors are packed: the kernel that does it, and their sizes and strides. Lives as long as the op. */
typedef struct md_ds_packing md_ds_packing;

md_status md_ds_packed_create(struct md_ds_packed_operands **out);
void md_ds_packed_destroy(struct md_ds_packed_operands **packed, md_ds_runtime *runtime); /* NULL allowed */

/** Sets the op's kept_stages and kept_tensors. */
void md_ds_find_kept(md_ds_op *op);
/** How a stage's variant packs at a shape, or moves axes: found, or added. NULL if memory is short. Thread-safe. */
const md_ds_packing *md_ds_packing_of(md_ds_op *op, int32_t stage, const md_bd_variant *variant,
                                      const md_kn_shape *shape);
/** The packed operands of a call: made before, and not changed since; else NULL. `data`: addresses by the tensor's
 * number among the arguments. No lock, no allocation. */
void *md_ds_packed_find(const md_ds_op *op, const md_ds_packing *packing, const uint64_t *data);
/** The same; makes them if they are not there, and waits for it. NULL in *out: the stream is captured, or memory is
 * short. `call` is ready but for its workspace. Errors are those of the launch. */
md_status md_ds_packed_get(void **out, md_ds_op *op, int32_t stage, const md_ds_stage_choice *choice, md_stream stream,
                           const md_kn_call *call);
/** Says that the memory of input tensors changed, or was freed: what was packed from `data` (NULL: from any) is made
 * anew by the next call that needs it. `tensors`: bits. Thread-safe. */
void md_ds_packed_change(md_ds_op *op, uint32_t tensors, const void *data);

#endif
