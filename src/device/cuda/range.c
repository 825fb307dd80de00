/* Names for profilers. NVTX is a header: nothing is linked, and a call costs a branch where no profiler runs. */
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
