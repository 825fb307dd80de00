/* The families of GPUs, in order of preference among equals; the one that takes everything is last. */
#include "family/cuda/cuda.h"

static const md_fa_family *const cuda[] = {
    &md_fa_cuda_pointwise,
    &md_fa_cuda_row_persistent,
    &md_fa_cuda_row_looped,
    &md_fa_cuda_row_split,
    &md_fa_cuda_column,
    &md_fa_cuda_gather,
    &md_fa_cuda_scatter,
    &md_fa_cuda_scan_persistent,
    &md_fa_cuda_scan_split,
    &md_fa_cuda_gemv,
    &md_fa_cuda_gemm_wgmma,
    &md_fa_cuda_gemm_mma,
    &md_fa_cuda_gemm_fma,
    &md_fa_cuda_gemm_simt,
    &md_fa_cuda_gemm_lib,
    &md_fa_cuda_nest,
    NULL,
};

const md_fa_family *const *md_fa_cuda_families(void)
{
    return cuda;
}
