/* Which sums of scatters have bins of their own (scatter_bins.c), and where scatter leaves them to those. */
#ifndef MD_FAMILY_HOST_POINT_BINS_H
#define MD_FAMILY_HOST_POINT_BINS_H

#include "family/family.h"

/** True for a stage of one sum that does not read what it adds to. */
bool md_fa_bins_apply(const md_fa_target *target);
/** True if an update rounds more than an addition in the bins does: reals of at most 32 bits. */
bool md_fa_bins_round_less(const md_fa_target *target);
/** True at shapes where such a sum has bins: more than 4,096 updates, at least four for each element of the target,
 * which is contiguous and has at most 2^22 elements. */
bool md_fa_bins_wanted(const md_st_program *program, int32_t stage, const md_kn_shape *shape);

#endif
