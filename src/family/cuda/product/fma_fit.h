/* Constants of the cost model of products by fma.
 * `tools/fit fma` judges them by recorded times, and fits them.
 *
 * Families: gemm_simt gemm_fma
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz data/boards/recorded/linear_bf16.jsonl
 *   data/boards/recorded/linear_f32.jsonl
 * Fit: 28 November 2026, H100 and H200: 18.6% root mean square of log(model / recorded), picks lose 1.2%, 946 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_FMA_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_FMA_FIT_H

#include "family/fit.h"

/* CLOCK: cycles a us. START, SUM_RUNS: us of a launch, of adding parts of tiles. GBPS: writing and reading parts. PART:
 * us of adding one part to its tile, which one block does part after part. */
MD_FIT(CLOCK, 2163)
MD_FIT(NORM, 1.36)
MD_FIT(START, 2.32)
MD_FIT(SUM_RUNS, 1.52)
MD_FIT(GBPS, 2893)
MD_FIT(PART, 0.214)

/* Adding up slices: us for each, and GB/s of writing and reading them in a workspace that no cache holds. From 120
 * kernels timed as calls; in a graph of calls, which share a workspace, it is 0.7 us and half of the traffic less. */
MD_FIT(SUM_SLICE, 0.06)
MD_FIT(SUM_GBPS, 1600)

/* us in which an SM stores an element of a tile: other blocks work on meanwhile if tiles are small, so that a thread
 * has few sums. From 67 kernels; without it products of few steps and many results took up to 2.2 times as long. */
MD_FIT(STORE, 1.1e-4)
MD_FIT(STORE_LARGE, 2e-4)

#endif
