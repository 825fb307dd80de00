/* Constants of the cost model of gemm_widened.
 *
 * Families: gemm_widened
 * Source: fitted to 126 times of pinned tiles on an H200, 30 November 2026 (data/results/packed.md): 15 and 8.5% root
 * mean square of log(model / time), picks among the tiles timed lose 0.1 and 1.2% on average, 8% at most */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H

#include "family/fit.h"

/* Instructions of a warp for 16 of K: to widen weights of 4 bits, of 8 bits to bf16 and to f16; beside that. For eight
 * rows of a run: to add the sums; for a run: to find its scales, and to wait. */
MD_FIT(WIDEN_HALVES, 11)
MD_FIT(WIDEN_BYTES, 14)
MD_FIT(WIDEN_TO_F16, 10)
MD_FIT(STEP, 19.9)
MD_FIT(RUN_SUMS, 18.5)
MD_FIT(RUN, 108)

/* Instructions that a scheduler issues in a clock if it has so many warps, and how they become fewer with fewer;
 * clocks of the tensor cores for 64 x 8 sums by 16 of K; operations of f32 that an SM does in a clock; the part of the
 * memory rate, and bytes of rows a us; us of the start, of a cluster that meets, and of a further round of blocks. */
MD_FIT(ISSUED, 1)
MD_FIT(ENOUGH_WARPS, 4)
MD_FIT(FEWER_WARPS, 0.163)
MD_FIT(MULTIPLY, 4.85)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 1.1)
MD_FIT(L2_RATE, 4.8e6)
MD_FIT(START, 1.09)
MD_FIT(MEET, 1.64)
MD_FIT(ROUND, 0.48)

/* Few rows by warps. Instructions beside the widening: of 16 columns for 16 of K, of eight rows for that, of eight rows
 * of a run of 16 columns, of a unit; how many a scheduler issues in a clock if it has so many warps, and how they
 * become fewer with fewer; the part of the memory rate; us of a wait for a unit; lines a clock; us of each of the sums
 * of a result, of a cluster that meets, of the start. */
MD_FIT(FEW_STEP, 2.6)
MD_FIT(FEW_PAIR, 2.24)
MD_FIT(FEW_RUN, 12.2)
MD_FIT(FEW_UNIT, 27.5)
MD_FIT(FEW_ISSUED, 0.689)
MD_FIT(FEW_ENOUGH, 3.29)
MD_FIT(FEW_FEWER, 0.8)
MD_FIT(FEW_MEMORY, 1.1)
MD_FIT(FEW_WAIT, 0.85)
MD_FIT(FEW_LINES, 0.81)
MD_FIT(FEW_SUM, 0.0198)
MD_FIT(FEW_MEET, 0.386)
MD_FIT(FEW_START, 2.57)

#endif
