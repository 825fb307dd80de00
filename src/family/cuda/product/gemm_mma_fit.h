/* Constants of the cost model of gemm_mma.
 * `tools/fit gemm_mma` judges them by recorded times, and fits them.
 *
 * Families: gemm_mma
 * Runs: data/results/2026-11-27-h200.tar.xz data/boards/recorded/linear_bf16.jsonl */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_MMA_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_MMA_FIT_H

#include "family/fit.h"

/* Fitted on an H200: parts of the tensor cores' rate with large, medium and small tiles; us; the part of the memory
 * rate if rows are unaligned. */
MD_FIT(LARGE, 0.103)
MD_FIT(MIDDLING, 0.124)
MD_FIT(SMALL, 0.0739)
MD_FIT(STEP, 0.142)
MD_FIT(START, 0.95)
MD_FIT(RAGGED_MEMORY, 0.25)
MD_FIT(EPILOGUE, 0.931)

/* us in which a thread reads eight elements of an unaligned row one after the other, of odd and of even rows. */
MD_FIT(PIECE_ODD, 0.7)
MD_FIT(PIECE_EVEN, 0.3)

/* us in which an SM stores an element of a tile: where columns are a multiple of 4, of 2, odd. */
MD_FIT_LIST(STORE, 3e-5, 4e-5, 3.5e-4)

#endif
