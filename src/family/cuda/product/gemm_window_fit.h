/* Constants of the cost model of gemm_window, beside those of gemm_mma.
 *
 * `tools/fit gemm_window` judges them by recorded times, and fits them.
 *
 * Families: gemm_window
 * Runs: data/results/2026-11-29-h200-products.tar.xz
 * Fit: 29 November 2026, H200: seed 1, 182464 steps: 77.4% root mean square of log(model / recorded), picks lose
 *   5.0%, 91 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_WINDOW_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_WINDOW_FIT_H

#include "family/fit.h"

/* us in which a thread finds eight elements of a step of K: along K copied asynchronously, or one by one, and along the
 * rows; the part of gemm_mma's rate that is left. */
MD_FIT(PIECE_COPIED, 0.182)
MD_FIT(PIECE_SINGLE, 0.4)
MD_FIT(PIECE_GATHERED, 0.1)
MD_FIT(PART_OF_RATE, 0.08981)

#endif
