/* Tiles of products of 16-bit operands by mma.sync (kernels/cuda/mma_tile.h), and tiles without tensor cores
 * (kernels/cuda/simt_tile.h): what plain and grouped products share. */
#ifndef MD_FAMILY_CUDA_PRODUCT_MMA_TILE_H
#define MD_FAMILY_CUDA_PRODUCT_MMA_TILE_H

#include "family/cuda/product/gemm.h"

typedef struct md_fa_cuda_mma_fields {
    int32_t rows, columns, stages, split, warp_columns;
} md_fa_cuda_mma_fields;

typedef struct md_fa_cuda_mma_tile {
    int32_t rows, columns, warps_rows, warps_columns, threads, stages, split; /* columns are those of each product */
    int64_t shared;
} md_fa_cuda_mma_tile;

/** The type of all operands, BF16 or F16; F32: they have no such type, or the sums are not f32. */
md_dtype md_fa_cuda_mma_type(const md_cg_product *product);
md_fa_cuda_mma_tile md_fa_cuda_mma_tile_of(const md_cg_product *product, const md_fa_cuda_mma_fields *fields);
md_fa_cuda_tiles md_fa_cuda_mma_tiles(const md_fa_target *target, const md_fa_cuda_mma_tile *tile);
bool md_fa_cuda_mma_is_legal(const md_fa_target *target, const md_cg_product *product, const md_fa_cuda_mma_tile *tile);
/** Prints what kernels/cuda/mma_tile.h asks for. */
void md_fa_cuda_mma_print(md_strbuf *out, const md_cg_product *product, const md_fa_cuda_mma_tile *tile);

/** Prints MD_DIRECT_<o>: operands of the type in which they are multiplied are copied four elements at a time. */
void md_fa_cuda_simt_print_direct(md_strbuf *out, const md_cg_product *product);

#endif
