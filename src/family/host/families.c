/* The families of the host device, in order of preference among equals; the one that takes everything is last. */
#include "family/host/host.h"

static const md_fa_family *const host[] = {
    &md_fa_host_pointwise,  &md_fa_host_gather,   &md_fa_host_scatter, &md_fa_host_row_persistent,
    &md_fa_host_row_looped, &md_fa_host_column,   &md_fa_host_scan,    &md_fa_host_gemv,
    &md_fa_host_gemm,       &md_fa_host_gemm_lib, &md_fa_host_nest,    NULL,
};

const md_fa_family *const *md_fa_host_families(void)
{
    return host;
}
