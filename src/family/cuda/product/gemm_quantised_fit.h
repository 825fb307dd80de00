/* Constants of the cost model of gemm_quantised.
 *
 * Families: gemm_quantised
 * Source: counted in its text, and fitted to 107 times of tools/judge_quantised.py (data/results/quantised.md), 29
 * November 2026, H200: 9.5% root mean square of log(model / time), picks lose 4%; no runs are kept. ODD_ELEMENT: 30
 * November 2026, 113 times of the boards of linear_int8 and linear_f8 (narrow-1) */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H

#include "family/fit.h"

/* Instructions of a warp: to widen eight elements of 4 bits, of 8 bits to bf16, and to f16; to multiply 16 x 8 sums by
 * 16 of K (as many issues as it takes); to add such sums of a run, and to find the qparams of eight lines; to copy a
 * piece of each thread, and an element of one whose line begins anywhere. */
MD_FIT(WIDEN_HALVES, 14)
MD_FIT(WIDEN_BYTES, 20)
MD_FIT(WIDEN_TO_F16, 8)
MD_FIT(MULTIPLY, 3.25)
MD_FIT(QPARAM_SUMS, 2)
MD_FIT(QPARAM_LINE, 25)
MD_FIT(PIECE, 19.3)
MD_FIT(ODD_ELEMENT, 34)

/* Instructions that an SM issues in a clock if it holds so many warps, and how they become fewer with fewer warps;
 * operations of f32 that it does; the part of the memory rate; us of a stage that waits for the one before, of one
 * with such lines, of the start, and of the launch that adds up slices; results a us that it adds. */
MD_FIT(ISSUED, 2.37)
MD_FIT(ENOUGH_WARPS, 16)
MD_FIT(FEWER_WARPS, 0.33)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 0.85)
MD_FIT(LATENCY, 0.62)
MD_FIT(ODD_LATENCY, 0.62)
MD_FIT(START, 2.5)
MD_FIT(SUM, 1.3)
MD_FIT(SUM_RATE, 3.6e5)

#endif
