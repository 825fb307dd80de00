/* Few rows of a grouped product, sorted by every block for itself in shared memory: a launch that sorts them takes as
 * long as reading a matrix or two. All blocks find the same order and the same units. Behind grouped.h. md_config.h:
 * MD_SORTS_HERE (most rows). md_expr.h: as group_rows.cu. */
#ifndef MD_CUDA_GROUP_HERE_H
#define MD_CUDA_GROUP_HERE_H

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

/* Returns the number of units. Called by all threads of the block. */
MD_INLINE int md_sort_here(const md_params &p)
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

#endif
