/* What products on ordinary units cost on a GPU. */
#ifndef MD_FAMILY_CUDA_PRODUCT_FMA_COST_H
#define MD_FAMILY_CUDA_PRODUCT_FMA_COST_H

#include "family/product.h"

typedef struct md_fa_cuda_fma {
    int32_t rows, columns; /* of a tile, of each product */
    int32_t threads, sums; /* of a block; of a thread, of each product */
    int32_t at_once; /* blocks that an SM has */
    int32_t split, depth; /* slices of K; steps of a tile */
    int64_t runs; /* blocks of which each has as many steps as any other; 0: not so cut */
    double issued; /* cycles of an SM's quarter for each fma of a warp: 1 if nothing else were issued */
    double alone; /* cycles that a block waits in each step, while others may go on */
} md_fa_cuda_fma;

enum { MD_FA_CUDA_RUN_UNIT = 16 }; /* steps of K that runs are cut into */

/** Microseconds. */
double md_fa_cuda_fma_us(const md_fa_target *target, const md_fa_product *work, const md_fa_cuda_fma *config);

#endif
