/* Constants of the cost model of gemm_quantised.
 *
 * Families: gemm_quantised
 * Source: counted in its text; then fitted to times of random lengths and of tools/judge_quantised.py, the constants
 *   kept near what they had been (a third of the shapes held out: 28 instead of 37%)
 * Runs: data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0246.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int8_0246.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0322.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int8_0322.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0351.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int8_0351.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int4_0503.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_int8_0503.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_f8_0246.jsonl
 *   data/results/2026-11-29-h200-products.tar.xz:regret_f8.jsonl
 *   data/results/2026-11-29-h200-products.tar.xz:regret_int8.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/quantised_2911.jsonl
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_narrow_0557.jsonl
 * Fit: 30 November 2026, H200: 20.1% root mean square of log(model / recorded), picks lose 3.3%, 1620 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H

#include "family/fit.h"

/* Instructions of a warp: to widen eight elements of 4 bits, of 8 bits to bf16, and to f16; to multiply 16 x 8 sums by
 * 16 of K (as many issues as it takes); to add such sums of a run, and to find the qparams of eight lines; to copy a
 * piece of each thread, and an element of one whose line begins anywhere (of fewer than 8 bits, of 8, of more), and a
 * qparam of such a line. */
MD_FIT(WIDEN_HALVES, 14.33)
MD_FIT(WIDEN_BYTES, 17.16)
MD_FIT(WIDEN_TO_F16, 8)
MD_FIT(MULTIPLY, 3.082)
MD_FIT(QPARAM_SUMS, 2)
MD_FIT(QPARAM_LINE, 16.64)
MD_FIT(PIECE, 24.47)
MD_FIT(ODD_PART, 27.5)
MD_FIT(ODD_ELEMENT, 29.58)
MD_FIT(ODD_HALF, 52.09)
MD_FIT(ODD_QPARAM, 52.35)

/* Instructions that an SM issues in a clock if it holds so many warps, and how they become fewer with fewer warps;
 * operations of f32 that it does; the part of the memory rate; us of a stage that waits for the one before, of one
 * with such lines, what such qparams add, of the start, and of the launch that adds up slices; results a us that it
 * adds. */
MD_FIT(ISSUED, 2.348)
MD_FIT(ENOUGH_WARPS, 16)
MD_FIT(FEWER_WARPS, 0.7765)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 0.9384)
MD_FIT(LATENCY, 0.3169)
MD_FIT(ODD_LATENCY, 1.02)
MD_FIT(ODD_QPARAM_LATENCY, 2.95)
MD_FIT(START, 3.015)
MD_FIT(SUM, 2.245)
MD_FIT(SUM_RATE, 4.659e5)

#endif
