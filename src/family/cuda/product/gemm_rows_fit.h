/* Constants of the cost model of gemm_rows, beside those of gemm_wgmma.
 *
 * Families: gemm_rows
 * Source: by hand, from 90 times of a Hopper GPU, 29 November 2026 (data/results/grouped.md, convolution.md) */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_ROWS_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_ROWS_FIT_H

#include "family/fit.h"

/* What comes on top of the time of gemm_wgmma, less that of memory, as threads copy rows: of windows, and of others. */
MD_FIT(MORE_OF_WINDOW, 0.2355)
MD_FIT(MORE_OF_ROWS, 0.45)

/* The factor where one warpgroup makes 256 columns, and nothing runs while it waits (30 November 2026: 9 times). */
MD_FIT(ALONE, 1.06)

/* us: of sorting, and of each row in it by a thread. */
MD_FIT(SORT, 3)
MD_FIT(SORT_ROW, 0.12)
/* The same where every block sorts the rows. */
MD_FIT(SORT_HERE, 0.5)
MD_FIT(SORT_HERE_ROW, 0.05)

/* us that the pick of a tile takes behind a launch that sorts, and where every block does (30 November 2026: medians of
 * 16 and 10 times on an H200), and the part of calls whose rows are taken to be skewed. */
MD_FIT(PICK_SORTED, 0.8)
MD_FIT(PICK_HERE, 0.2)
MD_FIT(SKEWED, 0.25)

#endif
