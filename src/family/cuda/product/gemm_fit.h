/* Constants of the cost model that products on tensor cores, grouped ones and those of other types share.
 * `tools/fit gemm --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gemm_mma gemm_grouped gemm_simt
 * Source: an H200, November 2026 (data/results/products.md) */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_FIT_H

#include "family/fit.h"

/* SMs read tiles from L2 at 64 bytes a clock each, which takes this part of the time that the model assumes. */
MD_FIT(L2_SHARE, 0.3)

/* Launches of THROTTLED_US us and longer lose this part of the clock to the limit of power, shorter ones less. */
MD_FIT(THROTTLED, 0.2)
MD_FIT(THROTTLED_US, 150)

/* us: a launch, and the part of an SM's share of the memory rate that no block takes. */
MD_FIT(SERIAL_US, 0.1)
MD_FIT(IDLE_RATE, 0.05)

/* What a call of a product may overlap with: operations and bytes a us; limits on the us of both, [arithmetic, memory]
 * each. Measured: [1000,768,3072] of 7.3 and 3.1 us took 9.7 us instead of 10.6; [128,4096,4096] of 6.6 and 8.9 us took
 * 13.9 us instead of 13.4. */
MD_FIT(FLOPS_A_US, 6.5e8)
MD_FIT(BYTES_A_US, 4e6)
MD_FIT_LIST(MOST_ARITHMETIC_US, 5, 8)
MD_FIT_LIST(MOST_MEMORY_US, 10, 4)

/* Products that wait for memory gain at any size: arithmetic takes at most this part of memory's time.
 * ([28,4096,11008] took 25.4 us instead of 27.2.) */
MD_FIT(MEMORY_BOUND, 0.7)

#endif
