/* Names ranges for profilers by NVTX, which is header-only: without a profiler a call costs a branch. */
#include "device/cuda/internal.h"

#if MD_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>

void md_dev_cuda_range_push(md_dev *dev, const char *name)
{
    (void)dev;
    (void)nvtxRangePushA(name);
}

void md_dev_cuda_range_pop(md_dev *dev)
{
    (void)dev;
    (void)nvtxRangePop();
}
#endif
