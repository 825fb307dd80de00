/* How cuBLASLt is called for a stage: its operands, and which epilogue of the library computes the results. */
#ifndef MD_FAMILY_CUDA_PRODUCT_LIB_LAYOUT_H
#define MD_FAMILY_CUDA_PRODUCT_LIB_LAYOUT_H

#include "family/cuda/product/gemm.h"

typedef struct md_fa_cuda_lib_layout {
    bool takes; /* the library takes the stage */
    md_cg_product p;
    md_kn_map map[4]; /* A, B, the second B; the result */
    bool is_direct; /* the library stores the results */
    int32_t epilogue; /* if is_direct: the library's epilogue (MD_DEV_CUDA_GEMM_BIAS and so on) */
    int32_t bias; /* id of the tensor */
} md_fa_cuda_lib_layout;

/** The layout of a stage, as the program keeps it, else in `room`. NULL if the library does not take the stage. */
const md_fa_cuda_lib_layout *md_fa_cuda_lib_layout_of(md_fa_cuda_lib_layout *room, const md_st_program *program,
                                                      int32_t stage);

#endif
