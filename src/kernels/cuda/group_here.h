/* The units of a grouped product, as its blocks find them: in the workspace, where group_rows.cu left them, or, of few
 * rows, sorted by every block for itself in shared memory: a launch that sorts them takes as long as reading a matrix
 * or two. All blocks find the same order and the same units. Behind grouped.h. md_config.h: MD_SORTS_HERE (most rows).
 * md_expr.h: as group_rows.cu. */
#ifndef MD_CUDA_GROUP_HERE_H
#define MD_CUDA_GROUP_HERE_H

#ifdef MD_SORTS_HERE
__shared__ int md_order_here[MD_SORTS_HERE], md_group_here[MD_SORTS_HERE], md_begins_here[MD_SORTS_HERE];
__shared__ md_unit md_unit_here[MD_SORTS_HERE];

/* Puts a row behind those of groups before its own, and those of its own that come before it. A unit begins with every
 * MD_UNIT_ROWS-th row of a group: its end is kept at its first place. */
MD_INLINE void md_place_row(int row, int rows)
{
    const int mine = md_group_here[row];
    int before = 0, same = 0, all = 0;
    for (int i = 0; i < rows; i++) {
        const int other = md_group_here[i];
        before += other < mine;
        all += other == mine;
        same += other == mine && i < row;
    }
    const int at = before + same;
    md_order_here[at] = row;
    md_begins_here[at] = same % MD_UNIT_ROWS == 0 ? before + min(same + MD_UNIT_ROWS, all) : 0;
}

/* The number of units. Called by all threads of the block. */
MD_INLINE int md_units_of(const md_params &p)
{
    const int rows = (int)md_points_rows(&p), groups = (int)md_points_groups(&p);
    for (int row = threadIdx.x; row < rows; row += blockDim.x) {
        const int64_t group = md_group_of(&p, row);
        md_group_here[row] = group < 0 ? groups : (int)group;
    }
    __syncthreads();
    for (int row = threadIdx.x; row < rows; row += blockDim.x)
        md_place_row(row, rows);
    __syncthreads();
    int units = 0;
    for (int at = 0; at < rows; at++) {
        const int end = md_begins_here[at];
        if (end && at % (int)blockDim.x == (int)threadIdx.x) {
            const md_unit unit = {md_group_here[md_order_here[at]], at, end};
            md_unit_here[units] = unit;
        }
        units += end > 0;
    }
    __syncthreads();
    return units;
}

MD_INLINE const md_unit *md_first_unit(const md_params &) { return md_unit_here; }

#ifdef MD_PICKS
/* Both tiles have room for all rows of a group. */
MD_INLINE int md_picked(const md_params &p, int units) { return md_pick_tile(p, units, units); }
#endif
#else
MD_INLINE int md_word_of_work(const md_params &p, int64_t md_grouping::*at)
{
    const md_grouping g = md_grouping_of(md_points_rows(&p), md_points_groups(&p), MD_UNIT_ROWS);
    return ((const int *)p.work0)[g.*at];
}

MD_INLINE int md_units_of(const md_params &p) { return md_word_of_work(p, &md_grouping::n_units); }

MD_INLINE const md_unit *md_first_unit(const md_params &p)
{
    const md_grouping at = md_grouping_of(md_points_rows(&p), md_points_groups(&p), MD_UNIT_ROWS);
    return (const md_unit *)((const int *)p.work0 + at.unit);
}

#ifdef MD_PICKS
/* 1: rows are cut into units of the second tile. */
MD_INLINE int md_picked(const md_params &p, int) { return md_word_of_work(p, &md_grouping::picked); }
#endif
#endif

#endif
