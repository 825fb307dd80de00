/* Constants of the cost model of gemm_simt.
 * `tools/fit gemm_simt` judges them by recorded times, and fits them.
 *
 * Families: gemm_simt
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz data/boards/recorded/linear_bf16.jsonl
 *   data/boards/recorded/linear_f32.jsonl
 * Fit: 28 November 2026, H100 and H200: 16.1% root mean square of log(model / recorded), picks lose 0.9%, 719 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_SIMT_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_SIMT_FIT_H

#include "family/fit.h"

/* Fitted on an H200: parts of the peak, us. */
MD_FIT(RATE_F32, 0.759)
MD_FIT(RATE_F64, 0.35)
MD_FIT(RATE_INTEGER, 0.05)
MD_FIT(REUSE_3, 0.852)
MD_FIT(REUSE_2, 0.903)
MD_FIT(STEP, 2)
MD_FIT(START, 0.0272)
MD_FIT(SLICE, 0.00137)
MD_FIT(SINGLE_STEP, 3.04)
MD_FIT(SINGLE_RATE, 0.861)

#endif
