/* Constants of the cost model of the rings of scan_split.
 * `tools/fit scan_split --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: scan_split
 * Source: scans on an H200, November 2026 (data/results/scans.md) */
#ifndef MD_FAMILY_CUDA_ROW_SCAN_SPLIT_FIT_H
#define MD_FAMILY_CUDA_ROW_SCAN_SPLIT_FIT_H

#include "family/fit.h"

/* Memory rate against copies, and the bytes of a ring that keep memory busy. */
MD_FIT(RING_RATE, 0.951)
MD_FIT(RING_BYTES, 134e3)

/* us: the first and last tiles; a round with 512 threads, and with as many more threads; 4096 elements of the tile.
 * */
MD_FIT(RING_US, 7.25)
MD_FIT(ROUND_US, 1.9)
MD_FIT(MORE_THREADS_US, 0.9)
MD_FIT(QUARTER_US, 0.5)

#endif
