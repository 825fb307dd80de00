/* Constants of the cost model of products by CBLAS.
 * `tools/fit host_lib --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gemm_lib
 * Source: OpenBLAS 0.3.21 on two cores with AVX-512; products of one thread: 98 times on a Xeon and an EPYC, 29 and 30
 *   November 2026; no runs are kept. What another machine's library does differently is measured there */
#ifndef MD_FAMILY_HOST_PRODUCT_HOST_LIB_FIT_H
#define MD_FAMILY_HOST_PRODUCT_HOST_LIB_FIT_H

#include "family/fit.h"

/* The part of the peak that it multiplies at; cycles of packing an element of an operand; us of a call. */
MD_FIT(RATE, 0.92)
MD_FIT(PACK_CYCLES, 1.1)
MD_FIT(CALL_US, 2)

/* Products of at most so many multiply-adds are one thread's: the part of its peak, and that of kernels for small
 * matrices; cycles of packing an element, and of a result; us of a call; what few rows take of what they would by a
 * product that no cache of the first level holds. */
MD_FIT(MOST_ALONE, 262144)
MD_FIT(ALONE_RATE, 0.5)
MD_FIT(SMALL_RATE, 0.2)
MD_FIT(ALONE_PACK_CYCLES, 0.45)
MD_FIT(ALONE_RESULT_CYCLES, 0.12)
MD_FIT(ALONE_US, 0.15)
MD_FIT(ALONE_CACHED, 0.55)

/* The logarithm of measured over modelled time of a library product: the part of it that is taken for an error of the
 * library alone, since the model errs on our own products of few rows, too; the most of it. */
MD_FIT(OWN_PART, 0.5)
MD_FIT(MOST_LOG, 1.5)

/* Products of at most so many multiply-adds are multiplied without packing where rows are the fewest: OpenBLAS' limit
 * for small matrices. */
MD_FIT(MOST_UNPACKED, 1e6)

#endif
