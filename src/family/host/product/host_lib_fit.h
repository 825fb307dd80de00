/* Constants of the cost model of products by CBLAS.
 * `tools/fit host_lib --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gemm_lib
 * Source: OpenBLAS 0.3.21 on two cores with AVX-512; no runs are kept. What another machine's library does
 *   differently is measured there */
#ifndef MD_FAMILY_HOST_PRODUCT_HOST_LIB_FIT_H
#define MD_FAMILY_HOST_PRODUCT_HOST_LIB_FIT_H

#include "family/fit.h"

/* The part of the peak that it multiplies at; cycles of packing an element of an operand; us of a call. */
MD_FIT(RATE, 0.92)
MD_FIT(PACK_CYCLES, 1.1)
MD_FIT(CALL_US, 2)

/* The logarithm of measured over modelled time of a library product: the part of it that is taken for an error of the
 * library alone, since the model errs on our own products of few rows, too; the most of it. */
MD_FIT(OWN_PART, 0.5)
MD_FIT(MOST_LOG, 1.5)

/* Products of at most so many multiply-adds are multiplied without packing where rows are the fewest: OpenBLAS' limit
 * for small matrices. */
MD_FIT(MOST_UNPACKED, 1e6)

#endif
