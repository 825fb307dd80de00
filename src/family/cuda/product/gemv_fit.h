/* Constants of the cost model of gemv.
 * `tools/fit gemv` judges them by recorded times, and fits them.
 *
 * Families: gemv
 * Runs: data/boards/recorded/linear_f32.jsonl
 * Fit: 28 November 2026, H200: 18.1% root mean square of log(model / recorded), picks lose 6.6%, 424 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMV_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMV_FIT_H

#include "family/fit.h"

/* Fitted on an H200: us, or parts of a rate. */
MD_FIT(START, 9.63e-05)
MD_FIT(BATCH, 0.156)
MD_FIT(SHARES, 1.4e-05)
MD_FIT(MANY_VECTORS, 0.191)
MD_FIT(LONE_RATE, 3.28)
MD_FIT(RATE, 6.34)
MD_FIT(WIDEN, 3.26)
MD_FIT(WIDEN_ONE, 8.93)
MD_FIT(WIDEN_F32, 2.36)
MD_FIT(RESULT_OPS, 4320)
MD_FIT(OPS_RATE, 0.39)
MD_FIT(FUNCTION, 0.199)
MD_FIT(LONE_F32, 1.2)
MD_FIT(PAIR_F32, 1.08)
MD_FIT(ROW_F32, 1.48e-05)
MD_FIT(SHARE_F32, 0.00329)

/* us of f32 (16-bit rows convert meanwhile): a first batch of loads, and how long each further one is under way,
 * whatever else runs; more for each vector. From 12 kernels of few blocks and long rows. */
MD_FIT(FIRST_BATCH, 0.4)
MD_FIT(NEXT_BATCH, 0.29)
MD_FIT(NEXT_VECTOR, 0.175)

#endif
