/* The time of products on Hopper's tensor cores: of gemm_wgmma, and of a good library. */
#ifndef MD_FAMILY_CUDA_PRODUCT_WGMMA_COST_H
#define MD_FAMILY_CUDA_PRODUCT_WGMMA_COST_H

#include "family/product.h"

/* A config of gemm_wgmma as its cost sees it. */
typedef struct md_fa_wgmma {
    int32_t rows, columns; /* of a tile, for each product */
    int32_t split; /* slices of K */
    int32_t cluster; /* blocks that share an operand */
    int32_t stages; /* stages of the ring; 0: enough */
    bool is_pingpong; /* two warpgroups work on different tiles: one multiplies while the other stores */
    bool is_cluster_reduced; /* the blocks of a cluster add up their slices */
    bool has_result; /* the epilogue works in registers and stores by the copy engine */
    bool by_words; /* or stores single words */
    bool has_copies; /* padded copies of both operands are made first */
    bool is_swapped; /* a tile of the transposed product */
    bool is_library; /* a library kernel: it copies whole tiles even if there are few rows */
} md_fa_wgmma;

/** Microseconds of all launches on an otherwise idle device with a cold cache. If it is surely above `enough_us`, some
 * time between that and its own. */
double md_fa_wgmma_us(const md_dev_facts *facts, const md_fa_product *work, const md_fa_wgmma *variant,
                      double enough_us);
/** Microseconds of a tile where all SMs make such tiles: of 128 bytes of K, and of its end. `work`: its sizes do not
 * count. */
void md_fa_wgmma_tile_us(double *step, double *end, const md_dev_facts *facts, const md_fa_product *work,
                         const md_fa_wgmma *variant);
/** The least time over many tiles: what a library takes that has them all. */
double md_fa_wgmma_best_us(const md_dev_facts *facts, const md_fa_product *work);
/** Microseconds that the operations of the epilogue take for each element of a thread, besides storing it. */
double md_fa_cuda_product_epilogue_us(const md_fa_product *work);
/** Features of a variant whose time is known: everything is in serial_us. */
void md_fa_cuda_product_time_features(md_fa_features *out, double us, int32_t launches);

#endif
