/* What the two files of family gemm_lib share: whether the stage suits a library, and the call. */
#ifndef MD_FAMILY_HOST_PRODUCT_GEMM_LIB_H
#define MD_FAMILY_HOST_PRODUCT_GEMM_LIB_H

#include "codegen/product/product.h"
#include "kernel/kernel.h"

/** True if the stage stores the sums as they are: no epilogue, the accumulators' type, a plain matrix. */
bool md_fa_lib_is_direct(const md_cg_product *product);
/** The tensors whose last axis must have stride 1, and those that must be contiguous, for CBLAS to take them. False if
 * no strides would do. */
bool md_fa_lib_needs(uint32_t *unit, uint32_t *contiguous, const md_cg_product *product);
/** The launch: computes all products of all batches, into the output or the workspace. */
md_status md_fa_lib_run(const md_kn_call *call);

#endif
