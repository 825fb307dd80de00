/* Constants of the cost model of chain_wgmma.
 * `tools/fit chain_wgmma --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_wgmma
 * Source: an H200, November 2026 (data/results/attention.md)
 * Runs: data/results/2026-11-29-h200.tar.xz
 * Fit: 29 November 2026, H200: seed 1, 87164 steps: 16.5% root mean square of log(model / recorded), picks lose
 *   0.7%, 183 times. Since powers are rounded in pairs RATE_64_THREE and TILE_3_US are by hand, by 40 times of prefill
 *   (attention.md): three warpgroups are the better at 8,192 keys, and two at fewer. */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_WGMMA_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_WGMMA_FIT_H

#include "family/fit.h"

/* The tensor cores' rate, as a multiple of the peak of f32; the part of it that tiles reach whose depth and width are
 * 192 on average, 96, 64, 64 by three warpgroups, or less; keys that a block's start takes the time of; and what is
 * left with one slot. */
MD_FIT(TENSOR, 21.17)
MD_FIT(RATE_192, 0.9098)
MD_FIT(RATE_96, 0.705)
MD_FIT(RATE_64, 0.584)
MD_FIT(RATE_64_THREE, 0.74)
MD_FIT(RATE_LEAST, 0.4)
MD_FIT(START_KEYS, 48.68)
MD_FIT(ONE_SLOT, 0.94)

/* us: of a launch, of a tile by two warpgroups and by three, of combining the parts of a split, and of each part. */
MD_FIT(START_US, 2.959)
MD_FIT(TILE_US, 5.148)
MD_FIT(TILE_3_US, 8)
MD_FIT(MEET_US, 0.009121)
MD_FIT(PART_US, 3.118)

/* us of an operation of each score, beside the products. */
MD_FIT(SCORE_OP_US, 2.284e-06)

#endif
