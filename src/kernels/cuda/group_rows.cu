/* Sorts the rows of a grouped product by their groups, in one pass that counts, and cuts them into units: what a
 * product needs to know stays on the device. One block. The order of rows inside a group is any: no result depends
 * on it. md_config.h: as grouped.h; MD_PICKS: units are for one of two
 * tiles (pick_tile.h). md_expr.h: md_points_rows, md_points_groups (p),
 *   md_look_up(p, row)      what the row looks up
 *   md_group_at(p, value)   the group that this is; -1: none */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "grouped.h"
#ifdef MD_PICKS
#include "pick_tile.h"
#endif

enum {
    THREADS = 1024,
    WARPS = THREADS / 32,
    NEAR = 4096, /* counts of so many groups are kept in shared memory */
    AT_ONCE = 8 /* rows of a thread, whose loads are under way together */
};

/* Rows and units in front of this thread's group, and of all threads: two sums of 32 bits in a word. */
MD_INLINE uint64_t md_sums_before(uint64_t mine, uint64_t *all, uint64_t *of_warp)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t sum = mine;
    for (int d = 1; d < 32; d *= 2) {
        const uint64_t other = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? other : 0;
    }
    if (lane == 31)
        of_warp[warp] = sum;
    __syncthreads();
    uint64_t before = 0, total = 0;
    for (int w = 0; w < WARPS; w++) {
        before += w < warp ? of_warp[w] : 0;
        total += of_warp[w];
    }
    __syncthreads();
    *all = total;
    return before + sum - mine;
}

MD_INLINE void md_put_unit(md_unit *to, int group, int row, int end, int unit_rows)
{
    const md_unit unit = {group, row, min(row + unit_rows, end)};
    *to = unit;
}

/* Each thread of a warp has a group, whose first unit is number `first`. All cut those of several units together. */
MD_INLINE void md_cut_units(md_unit *unit, int group, int first, int row, int end, int unit_rows)
{
    if (row < end)
        md_put_unit(unit + first, group, row, end, unit_rows);
    for (unsigned several = __ballot_sync(~0u, end - row > unit_rows); several; several &= several - 1) {
        const int lane = __ffs(several) - 1, g = __shfl_sync(~0u, group, lane), f = __shfl_sync(~0u, first, lane),
                  from = __shfl_sync(~0u, row, lane), to = __shfl_sync(~0u, end, lane);
        for (int i = 1 + threadIdx.x % 32; from + i * unit_rows < to; i += 32)
            md_put_unit(unit + f + i, g, from + i * unit_rows, to, unit_rows);
    }
}

/* Rows of a unit, and which tile it is for. Called by all threads. */
#ifdef MD_PICKS
MD_INLINE uint64_t md_sum_of_warp(uint64_t v)
{
    MD_FOR (i, 5)
        v += __shfl_xor_sync(~0u, v, 1 << i);
    return v;
}

MD_INLINE int md_pick_rows(const md_params &p, int *picked, const int *count, int groups)
{
    __shared__ uint64_t of_warp[WARPS];
    uint64_t mine = 0;
    for (int g = threadIdx.x; g <= groups; g += THREADS)
        mine += (uint64_t)((count[g] + MD_SECOND_BM - 1) / MD_SECOND_BM) << 32 |
                (unsigned)((count[g] + MD_UNIT_ROWS - 1) / MD_UNIT_ROWS);
    mine = md_sum_of_warp(mine);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    const uint64_t all = md_sum_of_warp(of_warp[threadIdx.x % 32]);
    const int is_second = md_pick_tile(p, (unsigned)all, (unsigned)(all >> 32));
    if (threadIdx.x == 0)
        *picked = is_second;
    return is_second ? MD_SECOND_BM : MD_UNIT_ROWS;
}
#else
MD_INLINE int md_pick_rows(const md_params &, int *, const int *, int) { return MD_UNIT_ROWS; }
#endif

/* Counts rows by group, and keeps the group of each and its place there. */
MD_INLINE void md_count_rows(const md_params &p, int *work, const md_grouping &at, int *count, int rows, int groups)
{
    MD_ROLLED for (int first = threadIdx.x; first < rows; first += THREADS * AT_ONCE)
    {
        int64_t value[AT_ONCE];
        MD_FOR (i, AT_ONCE)
            value[i] = md_look_up(&p, min(first + i * THREADS, rows - 1));
        MD_FOR (i, AT_ONCE) {
            const int row = first + i * THREADS;
            if (row < rows) {
                const int64_t found = md_group_at(&p, value[i]);
                const int g = found < 0 ? groups : (int)found;
                work[at.group_of + row] = g;
                work[at.place + row] = atomicAdd(&count[g], 1);
            }
        }
    }
}

/* Puts each row where its group begins (`begin`), and its place behind. */
MD_INLINE void md_order_rows(int *work, const md_grouping &at, const int *begin, int rows)
{
    MD_ROLLED for (int first = threadIdx.x; first < rows; first += THREADS * AT_ONCE)
    {
        int group[AT_ONCE], place[AT_ONCE];
        MD_FOR (i, AT_ONCE) {
            const int row = min(first + i * THREADS, rows - 1);
            group[i] = work[at.group_of + row];
            place[i] = work[at.place + row];
        }
        MD_FOR (i, AT_ONCE)
            if (first + i * THREADS < rows)
                work[at.order + begin[group[i]] + place[i]] = first + i * THREADS;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    __shared__ int near_count[NEAR + 1];
    __shared__ uint64_t of_warp[WARPS];
    const int rows = (int)md_points_rows(&p), groups = (int)md_points_groups(&p);
    const md_grouping at = md_grouping_of(rows, groups, MD_UNIT_ROWS);
    int *work = (int *)p.work0, *count = groups <= NEAR ? near_count : work + at.count;
    for (int g = threadIdx.x; g <= groups; g += THREADS)
        count[g] = 0;
    __syncthreads();
    md_count_rows(p, work, at, count, rows, groups);
    __syncthreads();
    const int unit_rows = md_pick_rows(p, work + at.picked, count, groups);
    uint64_t begun = 0;
    for (int first = 0; first <= groups; first += THREADS) {
        const int g = first + threadIdx.x, n = g <= groups ? count[g] : 0;
        uint64_t all;
        const uint64_t units = (n + unit_rows - 1) / unit_rows,
                       before = begun + md_sums_before((uint64_t)n << 32 | units, &all, of_warp);
        begun += all;
        const int row = (int)(before >> 32);
        if (g <= groups)
            count[g] = row;
        md_cut_units((md_unit *)(work + at.unit), g, (int)(uint32_t)before, row, row + n, unit_rows);
    }
    if (threadIdx.x == 0)
        work[at.n_units] = (int)(uint32_t)begun;
    __syncthreads();
    md_order_rows(work, at, count, rows);
}
