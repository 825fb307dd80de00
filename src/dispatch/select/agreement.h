/* Checks the variants of a stage against each other: a variant whose results differ from most others' is not used any
 * more. */
#ifndef MD_DISPATCH_SELECT_AGREEMENT_H
#define MD_DISPATCH_SELECT_AGREEMENT_H

#include "dispatch/op.h"
#include "tune/verify/agree.h"

/** Checks n variants, which are ready and fit the shape, on a smaller shape of the same kind (at most 128 kB). Variants
 * that were checked before only serve as witnesses. Sets the pool's `agreement`, and warns of wrong variants in the
 * log. Takes milliseconds; calls of other threads go on. */
void md_ds_agree(md_ds_op *op, int32_t stage, const int32_t *variant, int32_t n, const md_kn_shape *shape);
/** Records what was found of a variant; one that differs or fails is not used any more. */
void md_ds_quarantine(md_ds_op *op, int32_t stage, int32_t variant, md_tn_agreement found);

#endif
