/* Rounding errors of a stage's sums. */
#ifndef MD_FAMILY_ADDITIONS_H
#define MD_FAMILY_ADDITIONS_H

#include "family/family.h"

/** The most additions that a term of the stage's sums goes through in any family of the device, at these sizes (by dim
 * id): multidispatch(3), "Accuracy". 0: the stage adds nothing up. */
double md_fa_additions(const md_fa_target *target, const int64_t *size);
/** What weights, and the terms of their sum, may be off by in parts of them: a chain rounds them relative to a maximum
 * so far, and before they are divided. 0: they are not rounded, or the stage is no chain. */
double md_fa_moved_rounding(const md_fa_target *target);
/** What a right result may be off by, in parts of the larger of 1 and its magnitude: the store, functions whose
 * operands cancel, and so many additions. 0 for integers. */
double md_fa_allowed_error(md_dtype dtype, double additions);

#endif
