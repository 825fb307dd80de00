/* The time of a product in cuBLASLt. */
#ifndef MD_FAMILY_CUDA_PRODUCT_LIB_COST_H
#define MD_FAMILY_CUDA_PRODUCT_LIB_COST_H

#include "device/blas/blas.h"
#include "family/product.h"

/* How a product is asked for. */
typedef struct md_fa_cuda_library {
    bool is_plain; /* CUDA cores, for operands of more than 16 bits that are not rounded to tf32 */
    bool is_direct; /* the library stores the results, not sums of f32 or f64 in a workspace */
    bool has_epilogue; /* its own, which kernels for few rows do in another launch */
    int32_t rank; /* which of the library's answers is meant */
    int32_t item; /* bytes of a result */
} md_fa_cuda_library;

/** Microseconds without the epilogue, assuming that the library has the best tile for every shape. */
double md_fa_cuda_library_us(const md_fa_target *target, const md_fa_product *work, const md_fa_cuda_library *how);
/** Microseconds of its own epilogue. */
double md_fa_cuda_library_epilogue_us(const md_fa_product *work);
/** Microseconds of a product by the kernel that the library answered with, on the scale of our own products' model.
 * 0 if kernels of this kind are not modelled. */
double md_fa_cuda_answer_us(const md_dev_facts *facts, const md_dev_cuda_gemm *what,
                            const md_dev_cuda_gemm_answer *answer);

#endif
