/* Constants of the cost model of chain_wgmma.
 * `tools/fit chain_wgmma --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_wgmma
 * Source: an H200, November 2026 (data/results/attention.md) */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_WGMMA_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_WGMMA_FIT_H

#include "family/fit.h"

/* The tensor cores' rate, as a multiple of the peak of f32; the part of it that tiles reach whose depth and width are
 * 192 on average, 96, 64, 64 by three warpgroups, or less; keys that a block's start takes the time of; and what is
 * left with one slot. */
MD_FIT(TENSOR, 16)
MD_FIT(RATE_192, 0.86)
MD_FIT(RATE_96, 0.79)
MD_FIT(RATE_64, 0.53)
MD_FIT(RATE_64_THREE, 0.71)
MD_FIT(RATE_LEAST, 0.4)
MD_FIT(START_KEYS, 24)
MD_FIT(ONE_SLOT, 0.94)

/* us: of a launch, of a tile by two warpgroups and by three, of combining the parts of a split, and of each part. */
MD_FIT(START_US, 2)
MD_FIT(TILE_US, 2.2)
MD_FIT(TILE_3_US, 9)
MD_FIT(MEET_US, 3)
MD_FIT(PART_US, 1.5)

/* us of an operation of each score, beside the products. */
MD_FIT(SCORE_OP_US, 2e-6)

#endif
