/* Constants of the cost model of gemm_widened.
 *
 * Families: gemm_widened
 * Source: counted in its text; not fitted yet */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H

#include "family/fit.h"

/* Instructions of a warp for 16 of K: to widen weights of 4 bits, of 8 bits to bf16 and to f16; beside that. For eight
 * rows of a run: to add the sums; for a run: to find its scales, and to wait. */
MD_FIT(WIDEN_HALVES, 11)
MD_FIT(WIDEN_BYTES, 22)
MD_FIT(WIDEN_TO_F16, 10)
MD_FIT(STEP, 8)
MD_FIT(RUN_SUMS, 4)
MD_FIT(RUN, 40)

/* Instructions that a scheduler issues in a clock if it has so many warps, and how they become fewer with fewer;
 * clocks of the tensor cores for 64 x 8 sums by 16 of K; operations of f32 that an SM does in a clock; the part of the
 * memory rate, and bytes of rows a us; us of the start, of a cluster that meets, and of a row's sums. */
MD_FIT(ISSUED, 0.7)
MD_FIT(ENOUGH_WARPS, 4)
MD_FIT(FEWER_WARPS, 0.5)
MD_FIT(MULTIPLY, 6)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 0.85)
MD_FIT(L2_RATE, 12e6)
MD_FIT(START, 4)
MD_FIT(MEET, 0.5)
MD_FIT(SUMS, 0.01)

#endif
