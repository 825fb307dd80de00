/* Constants of the cost model of grouped products on a CPU.
 * `tools/fit host_grouped --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gemm_grouped
 * Source: fitted on a Xeon with two threads; no runs are kept */
#ifndef MD_FAMILY_HOST_PRODUCT_HOST_GROUPED_FIT_H
#define MD_FAMILY_HOST_PRODUCT_HOST_GROUPED_FIT_H

#include "family/fit.h"

/* Cycles of few rows without packing: of a vector of B for a row, beside its load; of a result. */
MD_FIT(ROW_CYCLES, 0.75)
MD_FIT(SUM_CYCLES, 6)

/* us of sorting a row. */
MD_FIT(SORT_US, 0.005)

#endif
