/* Constants of the cost model of chain_wgmma.
 * `tools/fit chain_wgmma --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_wgmma
 * Source: an H200, November 2026 (data/results/attention.md)
 * Runs: data/results/2026-11-29-h200-attention.tar.xz:2026-11-29-h200-attention/prefill.jsonl
 *   data/results/2026-11-29-h200-attention.tar.xz:2026-11-29-h200-attention/regret.jsonl
 * Fit: by hand, by the times since powers are rounded in pairs. Older ones are of slower kernels. */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_WGMMA_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_WGMMA_FIT_H

#include "family/fit.h"

/* The tensor cores' rate, as a multiple of the peak of f32; the part of it that tiles reach whose depth and width are
 * 192 on average, 96, 64, 64 by three warpgroups, or less; keys that a block's start takes the time of; and what is
 * left with one slot. */
MD_FIT(TENSOR, 21)
MD_FIT(RATE_192, 1)
MD_FIT(RATE_96, 0.9)
MD_FIT(RATE_64, 0.7)
MD_FIT(RATE_64_THREE, 0.9)
MD_FIT(RATE_LEAST, 0.4)
MD_FIT(START_KEYS, 48.68)
MD_FIT(ONE_SLOT, 0.94)

/* The part of the memory rate that a tile on each SM reaches, and that all of them reach at most. */
MD_FIT(FLIGHT, 1.5)
MD_FIT(MEMORY_RATE, 0.72)

/* us: of a launch, of a tile by two warpgroups and by three, of combining the parts of a split, and of each part. */
MD_FIT(START_US, 1.2)
MD_FIT(TILE_US, 3)
MD_FIT(TILE_3_US, 3.4)
MD_FIT(MEET_US, 0.009121)
MD_FIT(PART_US, 3.118)

/* us of an operation of each score, beside the products. */
MD_FIT(SCORE_OP_US, 2.284e-06)

#endif
