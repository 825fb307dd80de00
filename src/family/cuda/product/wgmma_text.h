/* The text of Hopper's matrix instruction. */
#ifndef MD_FAMILY_CUDA_PRODUCT_WGMMA_TEXT_H
#define MD_FAMILY_CUDA_PRODUCT_WGMMA_TEXT_H

#include "codegen/product/product.h"

/** The function md_wgmma(d, a, b): a step of a product of 64 rows by `columns`, whose sums are columns / 2 registers of
 * each thread of a warpgroup; a and b describe tiles in shared memory. */
void md_fa_wgmma_print_instruction(md_strbuf *out, const md_cg_product *product, int32_t columns);

#endif
