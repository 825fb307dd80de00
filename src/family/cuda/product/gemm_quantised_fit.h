/* Constants of the cost model of gemm_quantised.
 *
 * Families: gemm_quantised
 * Source: counted in its text, and fitted by hand to times of tools/judge_quantised.py (data/results/quantised.md), 29
 * November 2026, H200; no runs are kept */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H

#include "family/fit.h"

/* Instructions of a warp: to widen eight elements of 4 bits, of 8 bits to bf16, and to f16; to multiply 16 x 8 sums by
 * 16 of K (as many issues as it takes); of a step beside those; to add such sums of a run, and to find its qparams. */
MD_FIT(WIDEN_HALVES, 14)
MD_FIT(WIDEN_BYTES, 20)
MD_FIT(WIDEN_TO_F16, 8)
MD_FIT(MULTIPLY, 3.25)
MD_FIT(WARP_STEP, 20)
MD_FIT(QPARAM_SUMS, 12)
MD_FIT(QPARAM_LINE, 10)

/* Instructions of a warp to copy a piece of each thread, and of a stage beside those. */
MD_FIT(PIECE, 12)
MD_FIT(WARP_STAGE, 40)

/* Instructions that an SM issues in a clock; operations of f32 that it does; the part of the memory rate; us of a stage
 * that waits for the one before, of the start, and of the launch that adds up slices; results a us that it adds. */
MD_FIT(ISSUED, 2.16)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 0.85)
MD_FIT(LATENCY, 0.42)
MD_FIT(START, 4.5)
MD_FIT(SUM, 0.3)
MD_FIT(SUM_RATE, 5.5e5)

#endif
