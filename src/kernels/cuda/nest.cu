/* Any stage, one value at a time: each thread is a point of the outer loop. MD_IN_ORDER: one thread computes all, in
 * order. A block of one thread has no work (src/device/cuda/load.c), here and in all other templates. md_expr.h:
 * md_params, md_points(p), md_nest(p, point, end). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

MD_EXPORT void __launch_bounds__(128) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const int64_t points = md_points(&p);
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, step = (int64_t)gridDim.x * blockDim.x;
#ifdef MD_IN_ORDER
    if (i > 0)
        return;
    step = 1;
#endif
    MD_ROLLED for (; i < points; i += step) md_nest(&p, i, i + 1);
}
