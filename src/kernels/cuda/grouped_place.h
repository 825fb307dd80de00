/* Which tile of a grouped product a block makes: MD_BM rows of one unit, MD_BN columns. Behind grouped.h and
 * gemm_epilogue.h. */
#ifndef MD_CUDA_GROUPED_PLACE_H
#define MD_CUDA_GROUPED_PLACE_H

/* False for a block beyond the last unit. `depth`: no terms without a group. */
MD_INLINE bool md_grouped_place(const md_params *p, md_place *at, int64_t *depth)
{
    const int64_t groups = md_points_groups(p);
    const md_grouping w = md_grouping_of(md_points_rows(p), groups, MD_BM);
    const int *work = (const int *)p->work0;
    const int64_t i = blockIdx.x % w.most_units;
    if (i >= work[w.n_units])
        return false;
    const md_unit unit = ((const md_unit *)(work + w.unit))[i];
    at->slice = 0;
    at->batch = unit.group;
    at->row = unit.row;
    at->row_end = unit.row_end;
    at->column = blockIdx.x / w.most_units * MD_BN;
    *depth = unit.group < groups ? md_points_depth(p) : 0;
    return true;
}

#endif
