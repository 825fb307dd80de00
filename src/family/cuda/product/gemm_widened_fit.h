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
MD_FIT(STEP, 10)
MD_FIT(RUN_SUMS, 4)
MD_FIT(RUN, 60)

/* Instructions that an SM issues in a clock; clocks of the tensor cores for 64 x 8 sums by 16 of K; operations of f32
 * that an SM does in a clock; the part of the memory rate; us of the start, and of a cluster that meets. */
MD_FIT(ISSUED, 2)
MD_FIT(MULTIPLY, 5)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 0.85)
MD_FIT(START, 3)
MD_FIT(MEET, 0.7)

#endif
