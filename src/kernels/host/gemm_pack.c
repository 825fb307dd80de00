/* Packs operand B of a product once, for gemm.c with MD_PACKED_ONCE: strip after strip, each of the whole K, zeros
 * beyond the last column. A block of the launch is a strip.
 *
 * md_config.h, md_expr.h: as region.h */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "mac.h"
#include "transpose.h"
#include "lanes.h"
#include "tile.h"
#include "source.h"
#include "pack.h"

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t columns = md_points_columns(p), depth = md_points_depth(p);
    (void)scratch;
    for (int64_t i = first; i < last; i++)
        md_pack_b(p, (md_acc *)p->packed + i * MD_PITCH * depth, 0, i * MD_STRIP, md_least((i + 1) * MD_STRIP, columns),
                  0, depth);
}
