/* Constants of the cost model of pairs_wgmma: rates from three shapes on an H200 (data/results/attention.md), the
 * others estimates.
 * `tools/fit pairs_wgmma --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: pairs_wgmma
 * Source: tools/judge_backward.py, 29 November 2026 */
#ifndef MD_FAMILY_CUDA_CHAIN_PAIRS_WGMMA_FIT_H
#define MD_FAMILY_CUDA_CHAIN_PAIRS_WGMMA_FIT_H

#include "family/fit.h"

/* The tensor cores' rate, as a multiple of the peak of f32; the part of it that long tiles reach; what two stages leave
 * of it; lines that a step takes the time of besides. */
MD_FIT(TENSOR, 16)
MD_FIT(RATE, 0.48)
MD_FIT(TWO_STAGES, 0.86)
MD_FIT(STEP_LINES, 14)

/* us: of a launch, of a tile; the part of the longest tile's time for which some SMs have no work at the end. */
MD_FIT(START_US, 3)
MD_FIT(TILE_US, 3)
MD_FIT(LAST_PART, 0.74)

/* us of an operation, and of an exponential, of each pair, on one SM, beside the products. */
MD_FIT(OP_US, 2e-7)
MD_FIT(EXP_US, 1e-6)

#endif
