/* Constants of the cost model of products with few rows on a CPU.
 * `tools/fit host_gemv --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gemv
 * Source: fitted on a Xeon with two threads; no runs are kept */
#ifndef MD_FAMILY_HOST_PRODUCT_HOST_GEMV_FIT_H
#define MD_FAMILY_HOST_PRODUCT_HOST_GEMV_FIT_H

#include "family/fit.h"

/* Cycles of a vector of B for each row, beside its load: of dot products, of sums of columns. */
MD_FIT(DOT_CYCLES, 0.75)
MD_FIT(COLUMN_CYCLES, 0.85)

/* Cycles: of adding up the lanes of a dot product; of columns that are no whole vector, in each step of K; of a run of
 * columns; of a vector of results beside its epilogue. */
MD_FIT(SUM_CYCLES, 6)
MD_FIT(COLUMN_TAIL_CYCLES, 8)
MD_FIT(RUN_CYCLES, 200)
MD_FIT(RESULT_CYCLES, 8)

/* Bytes. The prefetcher starts again for each run of a row of B: so many are lost, over those of the run and a line. */
MD_FIT(RESTART_BYTES, 128)
MD_FIT(LINE_BYTES, 64)

#endif
