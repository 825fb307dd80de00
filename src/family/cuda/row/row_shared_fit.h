/* Constants of the cost model of row_shared.
 * `tools/fit row_shared` judges them by recorded times, and fits them.
 *
 * Families: row_shared
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 * Fit: 28 November 2026, H100 and H200: 16.2% root mean square of log(model / recorded), picks lose 0.5%, 107 times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SHARED_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SHARED_FIT_H

#include "family/fit.h"

/* The time of memory against that of a copy of as many bytes, the bytes that the threads of an SM move in a us, and
 * the exponent of the p-norm of both. */
MD_FIT(MEMORY_PART, 0.8)
MD_FIT(THREAD_BYTES_PER_US, 36e3)
MD_FIT(NORM, 2.8)

/* What each 16-byte piece of weights but the first adds to the threads' time for each vector: weights come from the
 * L2 for each row, and are shifted. */
MD_FIT(MORE_WEIGHTS, 0.42)

/* Vectors that the threads of an SM work on at once, for 4-byte elements, and what each doubling or halving costs.
 * */
MD_FIT(BEST_VECTORS, 940)
MD_FIT(DOUBLING_PART, 0.33)

/* Latency of a row, us: its first bytes, each exchange, and bytes that an SM copies in a us. A block takes TURN_US
 * more for each further row ([21977,541] took 181 us on an H100). */
MD_FIT(LOAD_US, 0.77)
MD_FIT(EXCHANGE_US, 0.5)
MD_FIT(SM_BYTES_PER_US, 60e3)
MD_FIT(TURN_US, 1.92)

#endif
