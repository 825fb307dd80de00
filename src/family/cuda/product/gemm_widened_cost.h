/* A config of gemm_widened, and what it costs. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_COST_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_WIDENED_COST_H

#include "codegen/product/product.h"
#include "family/family.h"
#include "family/product.h"

enum { MD_FA_WIDENED_DEPTH = 64 }; /* K of a chunk of packed weights */

typedef struct md_fa_widened {
    md_cg_product p;
    uint32_t packs;
    md_dtype type, weights; /* in which is multiplied; of the weights */
    int32_t run, chunks; /* MD_RUN, MD_CHUNKS */
    int32_t width, groups, depths, rows, split, stages, blocks, threads; /* width, rows: of the result, in a tile */
    int32_t tiles, ahead; /* MD_TILES of a direct one; 0: it is none. MD_AHEAD */
    int64_t shared_bytes;
    int32_t most_depth;
    bool has_scale, has_zero;
    md_dtype scale, zero; /* of those that may be found by the first one's address; F64: others */
} md_fa_widened;

/** Chunks of the packed weights along K: whole units. */
int64_t md_fa_widened_chunks(const md_fa_widened *s, int64_t depth);
/** Blocks of all tiles and slices. */
double md_fa_widened_blocks(const md_fa_widened *s, const md_fa_product *sized);
/** Blocks that run at once. */
int64_t md_fa_widened_at_once(const md_fa_widened *s, const md_dev_facts *facts);
/** The time without the epilogue. */
double md_fa_widened_us(const md_fa_widened *s, const md_dev_facts *facts, const md_fa_product *sized);

#endif
