/* Packed products. Each block of the launch computes a region of rows x columns of one batch (region.h). Regions share
 * nothing, so they run in any order.
 *
 * md_config.h: as region.h, and
 *   MD_BLOCK           most rows of a region
 *   MD_WIDTH           most columns of a region
 * md_expr.h: as region.h */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "mac.h"
#include "transpose.h"
#include "lanes.h"
#include "tile.h"
#include "source.h"
#include "pack.h"
#include "split.h"
#include "region.h"

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    int64_t m = md_points_rows(p), n = md_points_columns(p), regions = p->blocks / md_points_batch(p);
    md_split split = md_split_of(regions, m, n, MD_BLOCK, MD_WIDTH);
    md_region g = {.depth = md_points_depth(p), .b = scratch};
    g.at = md_scratch_of(md_region_tiling, split, m, n, g.depth);
    g.a = g.b + g.at.a;
    g.c = g.b + g.at.c;
    for (int64_t i = first; i < last; i++) {
        int64_t row = i % regions / split.columns, column = i % regions % split.columns;
        g.batch = i / regions;
#ifdef MD_SPANS
        int64_t to;
        md_span_of(p, g.batch, &g.from, &to);
        g.depth = to - g.from;
#endif
        g.row = md_split_at(m, MD_ROWS, split.rows, row);
        g.row_end = md_split_at(m, MD_ROWS, split.rows, row + 1);
        g.column = md_split_at(n, MD_STRIP, split.columns, column);
        g.column_end = md_split_at(n, MD_STRIP, split.columns, column + 1);
        if (g.row < g.row_end && g.column < g.column_end)
            md_region_run(p, &g);
    }
}
