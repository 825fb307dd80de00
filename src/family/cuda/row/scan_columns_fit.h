/* Constants of the cost model of scans of few long columns in one pass.
 * `tools/fit scan_columns --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: scan_split
 * Source: scans of columns on an H200, November 2026 (data/results/scans.md) */
#ifndef MD_FAMILY_CUDA_ROW_SCAN_COLUMNS_FIT_H
#define MD_FAMILY_CUDA_ROW_SCAN_COLUMNS_FIT_H

#include "family/fit.h"

/* The part of the memory rate that copies reach, and the time of a scan over theirs. */
MD_FIT(COPY_PART, 0.85)
MD_FIT(MORE, 1.04)

/* us of the first and last tiles; of a tile besides, where blocks are small and many, else, and where one is alone.
 * */
MD_FIT(START_US, 3.0)
MD_FIT_LIST(TILE_US, 1.7, 2.6, 4.2)

/* us of a group of tiles, and of a group if its chain is all that there is. */
MD_FIT(GROUP_US, 0.5)
MD_FIT(HOP_US, 1.5)

/* What an SM can draw, in shares of the memory rate. */
MD_FIT(SM_BURST, 3.0)

#endif
