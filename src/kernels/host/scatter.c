/* Scatters that accumulate: every block visits all points in order. With MD_OWNED, block b writes only its part of the
 * target's axis, so that no two blocks write the same element and each element adds up in the order of the points.
 * Without it there is one block. md_expr.h: md_params, md_points(p), md_lanes(p), with MD_OWNED md_own(p), and
 * md_sweep(p, point, end, lane, lane_end[, own, n_own]). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    (void)scratch;
#ifdef MD_OWNED
    const int64_t all = md_own(p);
    const int64_t own = md_share(all, first, p->blocks), end = md_share(all, last, p->blocks);
    md_sweep(p, 0, md_points(p), 0, md_lanes(p), own, end - own);
#else
    if (first < last)
        md_sweep(p, 0, md_points(p), 0, md_lanes(p));
#endif
}
