/* Constants of the cost model of column: sums down columns by blocks of threads.
 * `tools/fit column` judges them by recorded times, and fits them.
 *
 * Families: column
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 * Fit: 28 November 2026, H100 and H200: 24.3% root mean square of log(model / recorded), picks lose 3.5%, 239 times. */
#ifndef MD_FAMILY_CUDA_ROW_COLUMN_FIT_H
#define MD_FAMILY_CUDA_ROW_COLUMN_FIT_H

#include "family/fit.h"

/* Issue slots: of an element, of each line of memory that a warp touches if elements are loaded one by one, and of
 * an exponential. */
MD_FIT(ELEMENT_SLOTS, 24)
MD_FIT(LINE_SLOTS, 1.1)
MD_FIT(EXP_SLOTS, 16.3)

/* us in which a thread issues a slot when nothing holds it up; and where it looks for each row whether it is
 * aligned, and waits (0.5 to 1.3 us a row: 7 kernels). */
MD_FIT(OWN, 0.0009)
MD_FIT(OWN_CHECKED, 0.003)

/* The part of the memory rate that is reached, and how many times its share an SM can take. */
MD_FIT(MEMORY, 0.67)
MD_FIT(BURST, 2.3)

/* us: of a block, of each of its warps and of each level; of a split: its counters, and a round of reading parts. */
MD_FIT(START, 1)
MD_FIT(WARP, 0.13)
MD_FIT(LEVEL, 0.3)
MD_FIT(SPLIT_US, 2)
MD_FIT(ROUND, 0.3)

/* us of a further wave of blocks, however few rows they have (21 us at [1,226769], where 3.4 are possible). */
MD_FIT(WAVE, 2.8)

/* The part of its time that data takes which is read again, from the L2. */
MD_FIT(CACHED, 0.4)

#endif
