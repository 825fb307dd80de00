/* The families of every device. In a file of its own, so that tests can bring their own. */
#include "family/cuda/cuda.h"
#include "family/host/host.h"

const md_fa_family *const *md_fa_families(md_dev_kind device)
{
    static const md_fa_family *const none[] = {NULL};
    return device == MD_DEV_HOST ? md_fa_host_families() : device == MD_DEV_CUDA ? md_fa_cuda_families() : none;
}
