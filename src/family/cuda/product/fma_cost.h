/* The cost of matrix products on the CUDA cores (without tensor cores). */
#ifndef MD_FAMILY_CUDA_PRODUCT_FMA_COST_H
#define MD_FAMILY_CUDA_PRODUCT_FMA_COST_H

#include "family/product.h"

typedef struct md_fa_cuda_fma {
    int32_t rows, columns; /* of a tile, for each product */
    int32_t threads, sums; /* threads of a block; sums of a thread for each product */
    int32_t at_once; /* blocks on an SM */
    int32_t split, depth; /* slices of K; steps of K that a tile takes at a time */
    double sum; /* us of the launch that adds up slices */
    int64_t runs; /* stream-K: blocks with equal numbers of steps; 0: not stream-K */
    double issued; /* cycles of a quarter of an SM for each fma of a warp; 1 if nothing else were issued */
    double alone; /* cycles that a block waits in each step, while others may run */
    double least_steps; /* a slice lasts at least as long as so many steps */
} md_fa_cuda_fma;

enum { MD_FA_CUDA_RUN_UNIT = 16 }; /* stream-K: steps of K in a unit */

/** Microseconds. */
double md_fa_cuda_fma_us(const md_fa_target *target, const md_fa_product *work, const md_fa_cuda_fma *config);

#endif
