/* What the two halves of family gemm_lib share: whether the stage suits a library, and the call itself. */
#ifndef MD_FAMILY_HOST_PRODUCT_GEMM_LIB_H
#define MD_FAMILY_HOST_PRODUCT_GEMM_LIB_H

#include "codegen/product/product.h"
#include "kernel/kernel.h"

/** Whether the sums themselves are what the stage stores: no epilogue, the accumulators' type, a plain matrix. */
bool md_fa_lib_is_direct(const md_cg_product *product);
/** Tensors whose last axis must have stride 1, and those that must be contiguous, for CBLAS to take them. False where
 * no strides would do. */
bool md_fa_lib_needs(uint32_t *unit, uint32_t *contiguous, const md_cg_product *product);
/** The launch: all products of all batches, into the output or the workspace. */
md_status md_fa_lib_run(const md_kn_call *call);

#endif
