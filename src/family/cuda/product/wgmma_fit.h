/* Constants of the cost model of products on Hopper's tensor cores.
 * `tools/fit wgmma` judges them by recorded times, and fits them.
 *
 * Families: gemm_wgmma gemm_swapped
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz data/boards/recorded/linear_bf16.jsonl
 *   data/results/2026-11-29-h200.tar.xz
 * Fit: 29 November 2026, H100 and H200: seed 1, 27483 steps: 9.1% root mean square of log(model / recorded), picks
 *   lose 1.8%, 5927 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_WGMMA_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_WGMMA_FIT_H

#include "family/fit.h"

/* Fitted on an H200 and an H100: us, or factors on the device's facts. EPILOGUE_* is the epilogue, CLUSTER_BLOCK the
 * reduction in a cluster, REDUCED_WAVE a further wave of tiles that are. */
MD_FIT(START, 2.89)
MD_FIT(MATH, 1.793)
MD_FIT(SHARED, 1.062)
MD_FIT(FILL, 0.1014)
MD_FIT(STEP, 0.0389)
MD_FIT(MEMORY, 1.064)
MD_FIT(NORM, 2.665)
MD_FIT(EPILOGUE, 0.6233)
MD_FIT(EPILOGUE_ELEMENT, 0.001625)
MD_FIT(EPILOGUE_SHARED, 26.86)
MD_FIT(EPILOGUE_WORDS, 21.9)
MD_FIT(EPILOGUE_CLUSTER, 29.1)
MD_FIT(EPILOGUE_PANEL, 0.0929)
MD_FIT(CLUSTER, 0.431)
MD_FIT(CLUSTER_BLOCK, 0.2057)
MD_FIT(SUM, 0.4248)
MD_FIT(SUM_SLICE, 0.01282)
MD_FIT(SUM_GBPS, 2014)
MD_FIT(COPIES, 2.969)
MD_FIT(COPIES_GBPS, 1733)
MD_FIT(THROTTLED, 0.08599)
MD_FIT(THROTTLED_US, 160.6)
MD_FIT(OVERLAP, 1.041)
MD_FIT(REDUCED_WAVE, 1.55)

/* Bytes in flight that keep memory busy. */
MD_FIT(IN_FLIGHT, 9.396e+05)

/* An operation and a function of the epilogue, in units of EPILOGUE_ELEMENT. */
MD_FIT(MATH_OPERATION, 2.929)
MD_FIT(MATH_FUNCTION, 16.1)

/* The clock under load, as a part of the clock for which the peak is given. */
MD_FIT(CLOCK, 0.989)

/* SUM of a library. */
MD_FIT(LIBRARY_SUM, 1.15)

/* With many rows and columns, a library's first tile takes this much less for a step of K, us. Later tiles take as long
 * as ours, whose copies run during the epilogue of the tile before. */
MD_FIT(LIBRARY_STEP, 0.00168)

/* By how much copies slow down if all SMs copy. */
MD_FIT(BUSY, 7.576)

/* The factor on copies if rows are only aligned to 16, 32 or 64 bytes instead of 128. */
MD_FIT(PITCH_16, 1.975)
MD_FIT(PITCH_32, 2.518)
MD_FIT(PITCH_64, 1.892)

/* The cost of a copy that the blocks of a cluster share, for each of them: between its share (0) and the whole copy
 * (1). Tiles of 64 rows lose, because blocks wait for each other. */
MD_FIT(SHARED_COPY, 0.9686)
MD_FIT(SHARED_COPY_64, 0.8048)

/* How much slower unaligned rows of results are stored, relative to the factor on copies. */
MD_FIT(STORE_PITCH, 0.05081)

/* The factor on storing by words, for columns that are a multiple of 1, 2, 4 and 8: from 158 times of unaligned
 * products. Each fit to three quarters of the shapes found it. */
MD_FIT_LIST(WORDS_OF, 1.5, 1.33, 1.2, 1)

/* A copy that reaches beyond the last row takes longer by BEYOND_ROWS; one that reaches beyond the end of K costs
 * BEYOND_K more copies. */
MD_FIT(BEYOND_ROWS, 0.4202)
MD_FIT(BEYOND_K, 1.699)

/* Panels of 56 columns cross 128-byte lines: us for each panel of a warpgroup. */
MD_FIT(ODD_PANEL, 0.5724)

/* Factors on the waves of two products, and of swapped tiles: from 1,814 times of two products of 28 to 777 rows. */
MD_FIT(PAIR, 0.85)
MD_FIT(SWAPPED, 1.125)

/* The factor on transposed copies whose columns are no multiple of 64: they begin inside lines, too. */
MD_FIT(PART_PANEL, 1.56)

/* cuBLASLt's time over that of the best tiles, by classes of rows. */
MD_FIT_LIST(LIBRARY, 1.01, 0.97, 0.924, 0.943, 0.945)

/* Where the best is sought, times that are surely longer need not be exact; more than rounding. */
MD_FIT(MARGIN, 1 + 1e-9)

#endif
