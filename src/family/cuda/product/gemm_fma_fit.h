/* Constants of the cost model of gemm_fma alone; fma_fit.h has those it shares with gemm_simt.
 * `tools/fit gemm_fma --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gemm_fma
 * Source: 20 shapes on an H200, November 2026 (data/results/products.md) */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_FMA_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_FMA_FIT_H

#include "family/fit.h"

/* Instructions issued to those of fma: square tiles, tall ones, threads of 8 rows, those in tiles of few rows, threads
 * of 4 rows; and if elements are copied one by one. Tiles of few rows need more from shared memory than it delivers. */
MD_FIT(SQUARE, 1.1)
MD_FIT(TALL, 1.315)
MD_FIT(SHORT, 1.187)
MD_FIT(FEW_ROWS, 1.38)
MD_FIT(SHORTEST, 2.275)
MD_FIT(SINGLE, 1.164)

/* Cycles of a step that has an SM to itself, and more for each sum of a thread. */
MD_FIT(ALONE, 125)
MD_FIT(ALONE_SUM, 0.71)

/* A tile takes the time of so many steps at least. */
MD_FIT(LEAST_STEPS, 34.9)

/* us of the launch that adds up slices. */
MD_FIT(SUM_US, 0.4)

/* For what the model of time does not cover: part of the peak; us of a step. */
MD_FIT(RATE, 0.8)
MD_FIT(STEP_US, 0.5)

#endif
