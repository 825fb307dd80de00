/* Constants of the cost model of pairs_joint: rates from three shapes on an H200 (data/results/attention.md), the
 * others estimates.
 * `tools/fit pairs_joint --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: pairs_joint
 * Source: tools/judge_backward.py, 29 November 2026 */
#ifndef MD_FAMILY_CUDA_CHAIN_PAIRS_JOINT_FIT_H
#define MD_FAMILY_CUDA_CHAIN_PAIRS_JOINT_FIT_H

#include "family/fit.h"

/* The tensor cores' rate, as a multiple of the peak of f32; the part of it that long tiles reach. */
MD_FIT(TENSOR, 16)
MD_FIT(RATE, 0.6)

/* us of a step at least where tiles add in order: it takes that long to hand a block of rows on. */
MD_FIT(ORDER_US, 2.7)

/* us: of the launches, of a tile, of a float that is cleared, added to and read again; the part of the longest tile's
 * time for which some SMs have no work at the end. */
MD_FIT(START_US, 6)
MD_FIT(TILE_US, 6)
MD_FIT(FLOAT_US, 2.5e-6)
MD_FIT(LAST_PART, 0.1)

/* us of an operation, and of an exponential, of each pair, on one SM, beside the products. */
MD_FIT(OP_US, 0)
MD_FIT(EXP_US, 1e-7)

#endif
