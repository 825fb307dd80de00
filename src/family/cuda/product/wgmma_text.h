/* Prints the wgmma instruction of Hopper. */
#ifndef MD_FAMILY_CUDA_PRODUCT_WGMMA_TEXT_H
#define MD_FAMILY_CUDA_PRODUCT_WGMMA_TEXT_H

#include "codegen/product/product.h"

/** Prints the function md_wgmma(d, a, b): one step of a product of 64 rows by `columns` columns. Each thread of a
 * warpgroup holds columns / 2 sums in registers; a and b describe tiles in shared memory. */
void md_fa_wgmma_print_instruction(md_strbuf *out, const md_cg_product *product, int32_t columns);

#endif
