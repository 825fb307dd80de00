/* Whatever no other family takes: each thread is a point of the outer loop, one value at a time.
 * md_expr.h: md_params, md_points(p), md_nest(p, point, end). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

MD_EXPORT void __launch_bounds__(128) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const int64_t points = md_points(&p), step = (int64_t)gridDim.x * blockDim.x;
    MD_ROLLED for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < points; i += step)
        md_nest(&p, i, i + 1);
}
