/* Any stage, one value at a time. Each block takes an equal part of the outer points.
 * md_expr.h: md_params, md_points(p), md_nest(p, point, end). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t points = md_points(p);
    (void)scratch;
    md_nest(p, md_share(points, first, p->blocks), md_share(points, last, p->blocks));
}
