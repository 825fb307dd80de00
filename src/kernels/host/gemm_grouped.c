/* Grouped products: rows of one group are multiplied by the group's own matrix B. group_rows.c has sorted rows by group
 * and cut them into units before. Each block of the launch computes some columns of one unit: dot products where the
 * unit has few rows (few_rows.h), else a packed product (region.h). Blocks beyond the last unit have nothing to do.
 *
 * md_config.h: as region.h and few_rows.h, and
 *   MD_BLOCK    most rows of a unit
 *   MD_FEW      most rows of a unit without packing; 0: always packed
 * md_expr.h: as region.h, with groups as batches, and as group_rows.c */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "mac.h"
#include "transpose.h"
#include "lanes.h"
#include "grouped.h"
#include "tile.h"
#include "source.h"
#include "pack.h"
#include "split.h"
#include "region.h"
#if MD_FEW > 0
#include "few_rows.h"
#endif

typedef struct md_columns {
    int64_t from, to;
} md_columns;

/* Rows of no group: their sums have no terms. */
static void md_finish_empty(const md_params *p, const md_unit *u, md_columns c)
{
    const md_out none[2 * MD_VL] = {0};
    for (int64_t row = u->row; row < u->row_end; row++)
        for (int64_t column = c.from, n; column < c.to; column += n) {
            n = md_least(md_least(MD_VL, c.to - column), md_epilogue_room(p, column));
            md_epilogue(p, 0, md_row_of(p, row), column, none, none, (int)n);
        }
}

#if MD_FEW > 0
static void md_unit_few(const md_params *p, const md_unit *u, md_columns c, void *scratch)
{
    const int64_t depth = md_points_depth(p);
    const int is_once = u->row_end - u->row <= MD_MAX_ROWS;
    md_run r = md_run_make(depth, scratch);
    r.batch = u->group;
    for (r.column = c.from; r.column < c.to; r.column += MD_COLUMNS) {
        r.columns = md_least(MD_COLUMNS, c.to - r.column);
        for (r.row = u->row; r.row < u->row_end; r.row += MD_MAX_ROWS) { /* the columns stay in the private cache */
            r.rows = (int)md_least(MD_MAX_ROWS, u->row_end - r.row);
            md_run_columns(p, &r, depth, is_once && depth <= MD_CHUNK && r.column > c.from);
        }
    }
}
#endif

static void md_unit_packed(const md_params *p, const md_unit *u, md_columns c, void *scratch)
{
    md_region g = {.batch = u->group,
                   .row = u->row,
                   .row_end = u->row_end,
                   .column = c.from,
                   .column_end = c.to,
                   .depth = md_points_depth(p),
                   .b = scratch};
    g.at = md_scratch_of(md_region_tiling, (md_split){1, 1}, u->row_end - u->row, c.to - c.from, g.depth);
    g.a = g.b + g.at.a;
    g.c = g.b + g.at.c;
    md_region_run(p, &g);
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t groups = md_points_groups(p), n = md_points_columns(p);
    const md_grouping at = md_grouping_of(md_points_rows(p), groups, MD_BLOCK);
    const int64_t *work = p->work0, regions = p->blocks / at.most_units;
    const md_unit *unit = (const md_unit *)(work + at.unit);
    for (int64_t i = first; i < last && i / regions < work[at.n_units]; i++) {
        const md_unit *u = &unit[i / regions];
        const md_columns c = {md_split_at(n, MD_STRIP, regions, i % regions),
                              md_split_at(n, MD_STRIP, regions, i % regions + 1)};
        if (c.from >= c.to)
            continue;
        if (u->group == groups)
            md_finish_empty(p, u, c);
#if MD_FEW > 0
        else if (u->row_end - u->row <= MD_FEW)
            md_unit_few(p, u, c, scratch);
#endif
        else
            md_unit_packed(p, u, c, scratch);
    }
}
