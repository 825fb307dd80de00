/* Constants of the cost model of gemm_simt.
 * `tools/fit gemm_simt` judges them by recorded times, and fits them.
 *
 * Families: gemm_simt
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz data/boards/recorded/linear_bf16.jsonl
 *   data/boards/recorded/linear_f32.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0246.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0322.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0351.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0503.jsonl
 * Fit: 30 November 2026, H100 and H200: 14.6% root mean square of log(model / recorded), picks lose 1.3%, 1171
 *   times. */
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

/* f32. Instructions issued to those of fma, by sums of a thread: 64, 32, fewer; cycles that a step waits at least. */
MD_FIT(MANY_SUMS_ISSUED, 1.3)
MD_FIT(SOME_SUMS_ISSUED, 1.94)
MD_FIT(FEW_SUMS_ISSUED, 2.33)
MD_FIT(WAIT, 62)

/* f32: factors on issuing and waiting if elements are copied one by one: of 32 bits, of 16 or fewer. */
MD_FIT_LIST(SINGLE_ISSUED, 1.45, 0.97)
MD_FIT_LIST(SINGLE_WAIT, 1.27, 1.11)

/* f32: the same where an operand is a window of a tensor, each element of which is found and guarded. */
MD_FIT(WINDOW_ISSUED, 3.4)
MD_FIT(WINDOW_WAIT, 3.4)

/* f32: the same where an operand is found from several tensors, such as weights of 4 bits with scales: over the lines
 * of the tile that share an element of it. */
MD_FIT(COMPUTED_ISSUED, 42)
MD_FIT(COMPUTED_WAIT, 56)

/* f32, us: of the launch that adds up slices, and of functions in it; of a further block of few sums on an SM, and of a
 * further wave of them. */
MD_FIT(SUM_US, 1.35)
MD_FIT(SUM_FUNCTION_US, 0.38)
MD_FIT(BLOCK_US, 0.08)
MD_FIT(WAVE_US, 0.5)

/* f32: times of the epilogue that show: of an SM's first small tile, of a further one, of a large one. */
MD_FIT(FIRST_TILE, 1.75)
MD_FIT(FURTHER_TILE, 0.25)
MD_FIT(LARGE_TILE, 1.45)

#endif
