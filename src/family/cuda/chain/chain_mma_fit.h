/* Constants of the cost model of chain_mma: estimates from those of gemm_mma.
 * `tools/fit chain_mma --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_mma
 * Source: no runs; gemm_mma_fit.h has those of the products */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_MMA_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_MMA_FIT_H

#include "family/fit.h"

/* The tensor cores' rate, as a multiple of the peak of f32; the part of it that long tiles reach, what is left with one
 * tile of rows a warp, and keys that a block's start takes the time of. */
MD_FIT(TENSOR, 16)
MD_FIT(RATE, 0.3)
MD_FIT(ONE_ROW_TILE, 0.8)
MD_FIT(START_KEYS, 16)

/* us: of a launch, of a tile, of combining the parts of a split, and of each part. */
MD_FIT(START_US, 3)
MD_FIT(TILE_US, 4)
MD_FIT(MEET_US, 4)
MD_FIT(PART_US, 2)

/* us of an operation of each score, beside the products. */
MD_FIT(SCORE_OP_US, 2e-6)

#endif
