/* Constants of the cost model of row_shared.
 * `tools/fit row_shared` judges them by recorded times, and fits them.
 *
 * Families: row_shared
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 *   data/boards/recorded/layer_norm_bf16.jsonl data/boards/recorded/softmax_f32.jsonl
 *   data/boards/recorded/sum_f32.jsonl data/results/2026-11-29-h200-choices.tar.xz
 *   data/results/2026-11-29-h200.tar.xz:2026-11-29-h200/regret_default_0139.jsonl
 * Fit: 29 November 2026, H100 and H200: 14.9% root mean square of log(model / recorded), picks lose 1.1%, 365 times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SHARED_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SHARED_FIT_H

#include "family/fit.h"

/* The time of memory against that of a copy of as many bytes, the bytes that the threads of an SM move in a us, and
 * the exponent of the p-norm of both. */
MD_FIT(MEMORY_PART, 0.2125)
MD_FIT(THREAD_BYTES_PER_US, 3.757e+04)
MD_FIT(NORM, 11.62)

/* What each 16-byte piece of weights but the first adds to the threads' time for each vector: weights come from the
 * L2 for each row, and are shifted. */
MD_FIT(MORE_WEIGHTS, 0.3778)

/* Vectors that the threads of an SM work on at once, for 4-byte elements, and what each doubling or halving costs.
 * */
MD_FIT(BEST_VECTORS, 1014)
MD_FIT(DOUBLING_PART, 0.6956)

/* Latency of a row, us: its first bytes, each exchange, and bytes that an SM copies in a us. A block takes TURN_US
 * more for each further row ([21977,541] took 181 us on an H100). */
MD_FIT(LOAD_US, 0.6035)
MD_FIT(EXCHANGE_US, 0.5072)
MD_FIT(SM_BYTES_PER_US, 3.871e+04)
MD_FIT(TURN_US, 2.567)

#endif
