/* Constants of the cost model of gemm_grouped.
 * `tools/fit gemm_grouped` judges them by recorded times, and fits them. Of tiles of 64 rows, and of 32 columns, there
 * are no times: they stand between their neighbours.
 *
 * Families: gemm_grouped
 * Runs: data/results/2026-11-29-h200-products.tar.xz
 * Fit: 29 November 2026, H200: seed 1, 357267 steps: 46.7% root mean square of log(model / recorded), picks lose
 *   6.3%, 265 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_GROUPED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_GROUPED_FIT_H

#include "family/fit.h"

/* Parts of the tensor cores' rate that tiles of 128, 64, 32 and 16 rows reach with 128 columns, and what is left of
 * them with 128, 64 and 32 columns. */
MD_FIT_LIST(RATE, 0.1185, 0.059, 0.02958, 0.01479)
MD_FIT_LIST(NARROW, 0.4685, 0.3546, 0.27)

/* Without tensor cores: the part of the rate of f32. */
MD_FIT(SIMT_RATE, 0.3)

/* us: of sorting, of each row in it by a thread, and of a group. */
MD_FIT(SORT, 0.001107)
MD_FIT(SORT_ROW, 0.001529)
MD_FIT(SORT_GROUP, 0.02)

#endif
