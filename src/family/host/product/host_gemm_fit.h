/* Constants of the cost model of packed products on a CPU.
 * `tools/fit host_gemm --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gemm
 * Source: fitted on a Xeon with two threads; no runs are kept */
#ifndef MD_FAMILY_HOST_PRODUCT_HOST_GEMM_FIT_H
#define MD_FAMILY_HOST_PRODUCT_HOST_GEMM_FIT_H

#include "family/fit.h"

/* Cycles of packing: an element by itself; a vector that is transposed in registers; one that is copied; how many times
 * more with accumulators of 64 bits. */
MD_FIT(PACK_ELEMENT, 4)
MD_FIT(PACK_TRANSPOSED, 8)
MD_FIT(PACK_COPIED, 4)
MD_FIT(PACK_WIDE, 3)

/* The part of the L1 that a strip of B may take so that panels of A stay there, and of the peak that is reached if it
 * does, and if not. */
MD_FIT(L1_PART, 0.7)
MD_FIT(NEAR_RATE, 0.95)
MD_FIT(FAR_RATE, 0.92)

/* Cycles of a tile beside its steps, of a vector of the result beside its epilogue, of waking threads. */
MD_FIT(TILE_CYCLES, 45)
MD_FIT(RESULT_CYCLES, 8)
MD_FIT(WAKE_CYCLES, 3000)

#endif
