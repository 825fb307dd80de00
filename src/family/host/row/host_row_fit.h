/* Constants of the cost model of rows on a CPU.
 * `tools/fit host_row --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: row_looped row_persistent column
 * Source: softmax, layer_norm and logsumexp with rows of 64 .. 262144 elements, a Xeon with two threads, November
 *   2025 (data/results/host.md) */
#ifndef MD_FAMILY_HOST_ROW_HOST_ROW_FIT_H
#define MD_FAMILY_HOST_ROW_HOST_ROW_FIT_H

#include "family/fit.h"

/* Parts of the time of the caches and of memory that do not overlap with arithmetic: reading a row again from the
 * L2, and how much more if it is prefetched; memory while later levels compute; stores, of rows and of columns. */
MD_FIT(UNHIDDEN_CACHE, 2.0)
MD_FIT(UNHIDDEN_FETCH, 1.5)
MD_FIT(UNHIDDEN_MEMORY, 0.8)
MD_FIT(UNHIDDEN_STORES, 0.3)
MD_FIT(UNHIDDEN_COLUMN_STORES, 1.0)

/* The part of the L2 that a row may take so that later passes find it there; the part of the time of memory that a
 * row of one level leaves it idle. */
MD_FIT(L2_PART, 0.7)
MD_FIT(IDLE_PART, 0.3)

/* Cycles of a row: reducing lanes and starting the loop; its tail with vectors of 64 bytes, and each access of it
 * with shorter ones; merging a chunk for each reduction. */
MD_FIT(ROW_CYCLES, 12)
MD_FIT(TAIL_CYCLES, 5)
MD_FIT(TAIL_ACCESS_CYCLES, 14)
MD_FIT(MERGE_CYCLES, 60)

#endif
