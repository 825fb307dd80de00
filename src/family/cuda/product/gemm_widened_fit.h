/* Constants of the cost model of gemm_widened.
 *
 * Families: gemm_widened
 * Source: fitted to 67 and 234 times of pinned tiles on an H200, 30 November 2026 (data/results/packed.md): 12 and 11%
 * root mean square of log(model / time), picks among the tiles timed lose 0.1 and 1.4% on average, 7% at most */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_FIT_H

#include "family/fit.h"

/* Instructions of a warp for 16 of K: to widen weights of 4 bits, of 8 bits to bf16 and to f16; beside that. For eight
 * rows of a run: to add the sums; for a run: to find its scales, and to wait. */
MD_FIT(WIDEN_HALVES, 11)
MD_FIT(WIDEN_BYTES, 14)
MD_FIT(WIDEN_TO_F16, 10)
MD_FIT(STEP, 14.1)
MD_FIT(RUN_SUMS, 13.2)
MD_FIT(RUN, 89.1)

/* Instructions that a scheduler issues in a clock if it has so many warps, and how they become fewer with fewer;
 * clocks of the tensor cores for 64 x 8 sums by 16 of K; operations of f32 that an SM does in a clock; the part of the
 * memory rate, and bytes of rows a us; us of the start, of each further block of a cluster that meets, of a further
 * round of blocks, and of a row's sums. */
MD_FIT(ISSUED, 1)
MD_FIT(ENOUGH_WARPS, 4)
MD_FIT(FEWER_WARPS, 0.176)
MD_FIT(MULTIPLY, 4.46)
MD_FIT(FLOPS_A_CLOCK, 256)
MD_FIT(MEMORY, 0.987)
MD_FIT(L2_RATE, 14.7e6)
MD_FIT(START, 3.17)
MD_FIT(MEET, 0.797)
MD_FIT(ROUND, 1.12)
MD_FIT(SUMS, 0.00184)

/* Few rows by warps. Instructions beside the widening: of 16 columns for 16 of K, of eight rows for that, of eight rows
 * of a run of 16 columns, of a unit that registers hold, and of one that comes by way of shared memory; how many a
 * scheduler issues in a clock if it has so many warps, and how they become fewer with fewer; the part of the memory
 * rate; us of a wait for a unit of both kinds; lines a clock; us of each of the sums of a result, of each further block
 * of a cluster that meets, of the start with both kinds, and where no unit is asked for ahead. */
MD_FIT(FEW_STEP, 5.7)
MD_FIT(FEW_PAIR, 4.7)
MD_FIT(FEW_RUN, 15)
MD_FIT(FEW_UNIT, 39.7)
MD_FIT(FEW_UNIT_COPIED, 184)
MD_FIT(FEW_ISSUED, 0.95)
MD_FIT(FEW_ENOUGH, 2.49)
MD_FIT(FEW_FEWER, 0.518)
MD_FIT(FEW_MEMORY, 1.01)
MD_FIT(FEW_WAIT, 1.01)
MD_FIT(FEW_WAIT_COPIED, 0.551)
MD_FIT(FEW_LINES, 0.807)
MD_FIT(FEW_SUM, 0.029)
MD_FIT(FEW_MEET, 0.734)
MD_FIT(FEW_START, 1.86)
MD_FIT(FEW_START_COPIED, 2.15)
MD_FIT(FEW_UNASKED, 0.2)

#endif
