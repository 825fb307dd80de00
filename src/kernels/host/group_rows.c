/* Sorts the rows of a grouped product by their groups, in one pass that counts, and cuts them into units. One block.
 * md_config.h: MD_BLOCK (most rows of a unit), MD_GROUPED. md_expr.h: md_points_rows, md_points_groups (p),
 *   md_group_of(p, row)   the group of a row; -1: it has none */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "grouped.h"

/* Units of a group have equal lengths, up to one row. */
static int64_t md_cut_units(md_unit *unit, int64_t n, int64_t group, int64_t row, int64_t end)
{
    const int64_t rows = end - row, parts = (rows + MD_BLOCK - 1) / MD_BLOCK;
    for (int64_t i = 0; i < parts; i++)
        unit[n++] = (md_unit){group, row + rows * i / parts, row + rows * (i + 1) / parts};
    return n;
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t rows = md_points_rows(p), groups = md_points_groups(p);
    const md_grouping at = md_grouping_of(rows, groups, MD_BLOCK);
    int64_t *work = p->work0, *order = work + at.order, *group_of = work + at.group_of, *start = work + at.first, n = 0;
    (void)first, (void)last, (void)scratch;
    for (int64_t g = 0; g < groups + 2; g++)
        start[g] = 0;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t g = md_group_of(p, row);
        group_of[row] = g < 0 ? groups : g;
        start[group_of[row] + 1]++;
    }
    for (int64_t g = 0; g <= groups; g++)
        start[g + 1] += start[g];
    for (int64_t row = rows - 1; row >= 0; row--)
        order[--start[group_of[row] + 1]] = row;
    /* now start[g + 1] is the first row of group g */
    for (int64_t g = 0; g <= groups; g++)
        n = md_cut_units((md_unit *)(work + at.unit), n, g, start[g + 1], g < groups ? start[g + 2] : rows);
    work[at.n_units] = n;
}
