/* Constants of the cost model of gemm_mma.
 * `tools/fit gemm_mma` judges them by recorded times, and fits them.
 *
 * Families: gemm_mma
 * Runs: data/results/2026-11-27-h200.tar.xz data/boards/recorded/linear_bf16.jsonl
 * Fit: 28 November 2026, H200: 17.6% root mean square of log(model / recorded), picks lose 2.7%, 202 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_MMA_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_MMA_FIT_H

#include "family/fit.h"

/* Parts of the tensor cores' rate with large, medium and small tiles; us of a step and of the start; the part of the
 * memory rate if rows are unaligned; the weight of functions in the epilogue. */
MD_FIT(LARGE, 0.4104)
MD_FIT(MIDDLING, 0.3347)
MD_FIT(SMALL, 0.399)
MD_FIT(STEP, 0.4787)
MD_FIT(START, 0.3425)
MD_FIT(RAGGED_MEMORY, 0.5)
MD_FIT(EPILOGUE, 0.9517)

/* us in which a thread reads eight elements of an unaligned row one after the other, of odd and of even rows; fitted to
 * kernels of a test of few steps (test_few_steps), as is the last of STORE. The runs have few odd sizes. */
MD_FIT(PIECE_ODD, 0.8)
MD_FIT(PIECE_EVEN, 0.3)
/* The same of elements that lie apart, as planes of 1 x 1 filters did: 257 us of 64, 256, 56 at batch 32 (30 November
 * 2026). */
MD_FIT(PIECE_APART, 5.0)

/* us in which an SM stores an element of a tile: where columns are a multiple of 4, of 2, odd. */
MD_FIT_LIST(STORE, 9.671e-5, 2.047e-4, 3.5e-4)

#endif
