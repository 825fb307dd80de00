/* Constants of the cost model of gemm_dot.
 * `tools/fit gemm_dot` judges them by recorded times, and fits them.
 *
 * Families: gemm_dot
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 * Fit: 28 November 2026, H100 and H200: 8.1% root mean square of log(model / recorded), picks lose 2.6%, 2115 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_DOT_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_DOT_FIT_H

#include "family/fit.h"

/* Fitted to 929 kernels near the best in graphs and 1,387 in calls, at random shapes on an H100 and an H200: 8% root
 * mean square. us: of a launch (1.07 to 1.24 in calls, 0.3 less in graphs), of a batch of loads, of a further wave of
 * blocks, of functions, of adding up a result between two lanes. Cycles of an SM: of a load of 2 or 4 bytes, of a
 * sector beyond those of neighbouring elements, of a step of K for a result, of adding up a result between two lanes
 * and between warps, of a warp. */
MD_FIT(START, 1.15)
MD_FIT(ROUND, 0.5)
MD_FIT(WAVE, 0.01)
MD_FIT(FUNCTION, 0.261)
MD_FIT(ADD, 0.0022)
MD_FIT_LIST(LOAD, 1.97, 1.36)
MD_FIT(SECTOR, 0.143)
MD_FIT(STEP, 0.79)
MD_FIT(ADD_LANES, 0.549)
MD_FIT(ADD_WARPS, 1.14)
MD_FIT(WARP, 72.6)
MD_FIT(CLOCK, 1755)
MD_FIT(MEMORY, 0.585)

#endif
