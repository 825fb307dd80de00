/* Constants of the cost model of gemm_widened.
 *
 * Families: gemm_widened
 * Source: fitted to 254 times of pinned tiles on an H200, 29 November 2026 (data/results/packed.md): 22% root mean
 * square of log(model / time), picks among the tiles timed lose 5% on average, 39% at most; no runs are kept */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H

#include "family/fit.h"

/* Instructions of a warp for 16 of K: to widen weights of 4 bits, of 8 bits to bf16 and to f16; beside that. For eight
 * rows of a run: to add the sums; for a run: to find its scales, and to wait. */
MD_FIT(WIDEN_HALVES, 11)
MD_FIT(WIDEN_BYTES, 14)
MD_FIT(WIDEN_TO_F16, 10)
MD_FIT(STEP, 17.3)
MD_FIT(RUN_SUMS, 30)
MD_FIT(RUN, 99)

/* Instructions that a scheduler issues in a clock if it has so many warps, and how they become fewer with fewer;
 * clocks of the tensor cores for 64 x 8 sums by 16 of K; operations of f32 that an SM does in a clock; the part of the
 * memory rate, and bytes of rows a us; us of the start, of a cluster that meets, and of a row's sums. */
MD_FIT(ISSUED, 0.86)
MD_FIT(ENOUGH_WARPS, 4)
MD_FIT(FEWER_WARPS, 0.15)
MD_FIT(MULTIPLY, 6.6)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 1.1)
MD_FIT(L2_RATE, 4.8e6)
MD_FIT(START, 1)
MD_FIT(MEET, 4.2)
MD_FIT(SUMS, 0.002)

/* Few rows by warps. Instructions beside the widening: of 16 columns for 16 of K, of eight rows for that, of eight rows
 * of a run of 16 columns, of a unit; how many a scheduler issues in a clock if it has so many warps, and how they become
 * fewer with fewer; the part of the memory rate; us of a wait for a unit, and for one that was asked for; of the end of
 * a tile, of each of the sums of a result there, of a cluster that meets; of the start. */
MD_FIT(FEW_STEP, 7.6)
MD_FIT(FEW_PAIR, 1.15)
MD_FIT(FEW_RUN, 4.64)
MD_FIT(FEW_UNIT, 20)
MD_FIT(FEW_ISSUED, 0.762)
MD_FIT(FEW_ENOUGH, 3)
MD_FIT(FEW_FEWER, 0.676)
MD_FIT(FEW_MEMORY, 1.1)
MD_FIT(FEW_WAIT, 1.15)
MD_FIT(FEW_WAIT_AHEAD, 0.247)
MD_FIT(FEW_END, 0.939)
MD_FIT(FEW_SUM, 0.0665)
MD_FIT(FEW_MEET, 0.629)
MD_FIT(FEW_START, 1.8)

#endif
