/* Variants of a stage checked against each other: those whose results differ from most others' are never used again. */
#ifndef MD_DISPATCH_SELECT_AGREEMENT_H
#define MD_DISPATCH_SELECT_AGREEMENT_H

#include "dispatch/types.h"
#include "tune/verify/agree.h"

/** Checks those of n variants, which are ready and fit the shape, that were not checked before, against each other
 * and against some that were found right, at a shape of that kind of at most 128 kB; what is found stands in the
 * candidates' `agreement`, and a warning in the log. Takes milliseconds; no call of a user waits for the device
 * meanwhile. */
void md_ds_agree(md_ds_op *op, int32_t stage, const int32_t *variant, int32_t n, const md_kn_shape *shape);
/** The same for all that are ready, at the hints. */
void md_ds_agree_at_hints(md_ds_op *op, int32_t stage);
/** Notes what was found of a variant; one that differs or fails is not used any more. */
void md_ds_quarantine(md_ds_op *op, int32_t stage, int32_t variant, md_tn_agreement found);

#endif
