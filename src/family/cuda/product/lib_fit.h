/* Constants of the cost model of cuBLASLt.
 * `tools/fit lib` judges them by recorded times, and fits them.
 *
 * Families: gemm_lib
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 * Fit: 28 November 2026, H100 and H200: 27.3% root mean square of log(model / recorded), picks lose 6.3%, 2713
 *   times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_LIB_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_LIB_FIT_H

#include "family/fit.h"

/* Kernels of f32 and f64 on CUDA cores: us of a launch and of 64 steps of K, flops of an SM in a us, part of the memory
 * rate, us of adding slices, the factor on few rows. */
MD_FIT(START, 3.14)
MD_FIT(STEP, 0.0486)
MD_FIT(RATE, 0.381e6)
MD_FIT(MEMORY, 0.479)
MD_FIT(SUM, 5.4)
MD_FIT(SUM_GBPS, 54400)
MD_FIT(F64_RATE, 0.5)
MD_FIT(PLAIN_ROWS, 0.885)
MD_FIT(RESULTS_GBPS, 1700)

/* One row, one column and a few rows without tiles (algorithms 13 and 11): us of a launch, part of the memory rate (one
 * row: by the bytes of an element, 2 or 4), us of 1000 steps of K. Blocks of few rows go through all of K, wave after
 * wave: up to 2 rows, 10, and more. FEW_START: in calls (17 kernels on an H100; 2.75 in graphs). */
MD_FIT(ROW_START, 3.7)
MD_FIT_LIST(ROW_MEMORY, 0.495, 0.8)
MD_FIT(ROW_STEP, 0.43)

/* a launch of its own: from 5 products with bias and gelu */
MD_FIT(FEW_EPILOGUE, 1.3)
MD_FIT(FEW_START, 3.4)
MD_FIT_LIST(FEW_STEP, 6.1, 8.5, 22)
MD_FIT(OUTER_START, 2.45)
MD_FIT(OUTER_RESULTS, 7.7e5)
MD_FIT(OUTER_MEMORY, 0.92)

/* Answers come in the order in which the library expects them to be fast, and that order knows what this model does
 * not: a later one is taken only if it is modelled to take less than 1 / LATER of the first (data/results/model.md). */
MD_FIT(LATER, 1.2)

/* The modelled time of the library's own kernels over the measured one, as `scale` of a kernel_kind is. */
MD_FIT(SCALE, 1.05)

/* The library's epilogue (aligned rows only): us, and results in a us. */
MD_FIT(LIBRARY_EPILOGUE, 0.303)
MD_FIT(LIBRARY_RESULTS, 2350000)

#endif
