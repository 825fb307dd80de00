/* Replaces the cuda device in builds without CUDA. */
#include "device/cuda/cuda.h"

#include "base/status.h"

md_status md_dev_cuda_open(md_dev **out, const md_dev_options *options, int32_t index)
{
    (void)out;
    (void)options;
    (void)index;
    return md_fail(MD_UNSUPPORTED, "this build has no CUDA");
}
