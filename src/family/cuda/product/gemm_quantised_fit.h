/* Constants of the cost model of gemm_quantised.
 *
 * Families: gemm_quantised
 * Source: assumed, not fitted; no runs are kept */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_QUANTISED_FIT_H

#include "family/fit.h"

/* The parts of the tensor cores' rate that tiles of 128, 64, 32 and 16 rows reach. */
MD_FIT_LIST(RATE, 0.42, 0.34, 0.25, 0.14)

/* us of a step of 64 of K, of the start, and in which a warp widens 1,024 elements; the part of the rate that is left
 * where runs have scales. */
MD_FIT(STEP, 0.3)
MD_FIT(START, 0.4)
MD_FIT(WIDEN, 0.03)
MD_FIT(MARKED, 0.6)

#endif
