/* The table of families. Tests that bring their own families define md_fa_families themselves; then this file is not
 * linked. */
#include "family/family.h"

extern const md_fa_family md_fa_host_pointwise, md_fa_host_gather, md_fa_host_scatter, md_fa_host_row_persistent,
    md_fa_host_row_looped, md_fa_host_column, md_fa_host_scan, md_fa_host_gemv, md_fa_host_gemm, md_fa_host_gemm_lib,
    md_fa_host_nest;

extern const md_fa_family md_fa_cuda_pointwise, md_fa_cuda_row_persistent, md_fa_cuda_row_looped, md_fa_cuda_row_split,
    md_fa_cuda_row_shared, md_fa_cuda_row_cluster, md_fa_cuda_row_thread, md_fa_cuda_column, md_fa_cuda_gather,
    md_fa_cuda_scatter, md_fa_cuda_scan_persistent, md_fa_cuda_scan_split, md_fa_cuda_gemv, md_fa_cuda_gemm_wgmma,
    md_fa_cuda_gemm_swapped, md_fa_cuda_gemm_mma, md_fa_cuda_gemm_fma, md_fa_cuda_gemm_dot, md_fa_cuda_gemm_simt,
    md_fa_cuda_gemm_lib, md_fa_cuda_nest;

/* In order of preference among equal predictions. The family that takes everything is last. */
static const md_fa_family *const host[] = {
    &md_fa_host_pointwise,  &md_fa_host_gather,   &md_fa_host_scatter, &md_fa_host_row_persistent,
    &md_fa_host_row_looped, &md_fa_host_column,   &md_fa_host_scan,    &md_fa_host_gemv,
    &md_fa_host_gemm,       &md_fa_host_gemm_lib, &md_fa_host_nest,    NULL,
};

static const md_fa_family *const cuda[] = {
    &md_fa_cuda_pointwise,
    &md_fa_cuda_row_persistent,
    &md_fa_cuda_row_looped,
    &md_fa_cuda_row_split,
    &md_fa_cuda_row_shared,
    &md_fa_cuda_row_cluster,
    &md_fa_cuda_row_thread,
    &md_fa_cuda_column,
    &md_fa_cuda_gather,
    &md_fa_cuda_scatter,
    &md_fa_cuda_scan_persistent,
    &md_fa_cuda_scan_split,
    &md_fa_cuda_gemv,
    &md_fa_cuda_gemm_wgmma,
    &md_fa_cuda_gemm_swapped,
    &md_fa_cuda_gemm_mma,
    &md_fa_cuda_gemm_fma,
    &md_fa_cuda_gemm_dot,
    &md_fa_cuda_gemm_simt,
    &md_fa_cuda_gemm_lib,
    &md_fa_cuda_nest,
    NULL,
};

const md_fa_family *const *md_fa_families(md_dev_kind device)
{
    static const md_fa_family *const none[] = {NULL};
    return device == MD_DEV_HOST ? host : device == MD_DEV_CUDA ? cuda : none;
}
