/* Where grouped products keep which rows belong to which group, in their workspace of 64-bit words. Shared by the
 * kernels and the family that counts their blocks (src/family/host/product/gemm_grouped.c). Plain C without a prelude.
 *
 * A unit is some rows of one group that are multiplied together. Rows of no group are the group behind the last. */
#ifndef MD_HOST_GROUPED_H
#define MD_HOST_GROUPED_H

#include <stdint.h>

typedef struct md_unit {
    int64_t group, row, row_end; /* places in the order of rows */
} md_unit;

typedef struct md_grouping {
    int64_t most_units;
    /* of the workspace: rows by group, the group of each row, the first row of each group, the number of units,
     * units */
    int64_t order, group_of, first, n_units, unit, all;
} md_grouping;

/* `block`: most rows of a unit. */
static inline md_grouping md_grouping_of(int64_t rows, int64_t groups, int64_t block)
{
    md_grouping g = {.most_units = (rows + block - 1) / block + (groups + 1 < rows ? groups + 1 : rows)};
    g.order = 0;
    g.group_of = g.order + rows;
    g.first = g.group_of + rows;
    g.n_units = g.first + groups + 2;
    g.unit = g.n_units + 1;
    g.all = g.unit + 3 * g.most_units;
    return g;
}

#ifdef MD_GROUPED
/* The stage's row at a place in the order of groups. */
static inline int64_t md_row_of(const md_params *p, int64_t place) { return ((const int64_t *)p->work0)[place]; }
#endif

#endif
