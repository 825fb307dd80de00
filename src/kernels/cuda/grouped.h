/* Where grouped products keep which rows belong to which group, in their workspace of 32-bit words. Shared by the
 * kernels and the family that counts their blocks (src/family/cuda/product/gemm_grouped.c). Plain C without a
 * prelude.
 *
 * A unit is up to `block` rows of one group. Rows of no group are the group behind the last. */
#ifndef MD_CUDA_GROUPED_H
#define MD_CUDA_GROUPED_H

/* Rows of a unit: of a tile, or of the tiles of a cluster. */
#ifdef MD_CLUSTER
#define MD_UNIT_ROWS (MD_BM * MD_CLUSTER)
#else
#define MD_UNIT_ROWS MD_BM
#endif

typedef struct md_unit {
    int group, row, row_end; /* places in the order of rows */
} md_unit;

typedef struct md_grouping {
    int64_t most_units;
    /* of the workspace: rows by group (first: md_row_of), the group of each row and its place there, counts of
     * groups and later their first rows, the number of units, which of two tiles they are for, units */
    int64_t order, group_of, place, count, n_units, picked, unit, all;
} md_grouping;

#ifdef __CUDACC_RTC__
MD_INLINE
#else
static inline
#endif
md_grouping md_grouping_of(int64_t rows, int64_t groups, int64_t block)
{
    md_grouping g;
    g.most_units = (rows + block - 1) / block + (groups + 1 < rows ? groups + 1 : rows);
    g.order = 0;
    g.group_of = g.order + rows;
    g.place = g.group_of + rows;
    g.count = g.place + rows;
    g.n_units = g.count + groups + 1;
    g.picked = g.n_units + 1;
    g.unit = g.picked + 1;
    g.all = g.unit + 3 * g.most_units;
    return g;
}

#endif
