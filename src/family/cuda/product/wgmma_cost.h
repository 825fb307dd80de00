/* What products on Hopper's tensor cores take: gemm_wgmma, and by it what a good library takes. */
#ifndef MD_FAMILY_CUDA_PRODUCT_WGMMA_COST_H
#define MD_FAMILY_CUDA_PRODUCT_WGMMA_COST_H

#include "family/product.h"

/* A configuration as its cost sees it. */
typedef struct md_fa_wgmma {
    int32_t rows, columns; /* of a tile, of each product */
    int32_t split; /* slices of K */
    int32_t cluster; /* blocks that share an operand */
    int32_t stages; /* of the ring; 0: enough */
    bool is_pingpong; /* two groups take turns with whole tiles */
    bool is_cluster_reduced; /* the slices are a cluster */
    bool has_result; /* in registers; then by the copy engine */
    bool by_words; /* or by words */
    bool has_copies; /* of both operands, made before */
    bool is_library; /* copies whole tiles where there are few rows, too */
} md_fa_wgmma;

/** Microseconds of one launch sequence on an otherwise idle device, memory cold. */
double md_fa_wgmma_us(const md_dev_facts *facts, const md_fa_product *work, const md_fa_wgmma *variant);
/** The same of the best of many tiles, as a library that has them all picks it. */
double md_fa_wgmma_best_us(const md_dev_facts *facts, const md_fa_product *work);
/** What an element of a thread takes in the epilogue beyond being stored, us. */
double md_fa_cuda_product_heavy_us(const md_fa_product *work);
/** As features: all in serial_us. */
void md_fa_wgmma_features(md_fa_features *out, double us, int32_t launches);

#endif
