/* Sorts the rows of a grouped product by their groups, in one pass that counts, and cuts them into units: what a
 * product needs to know stays on the device. One block. The order of rows inside a group is any: no result depends
 * on it. md_config.h: as grouped.h. md_expr.h: md_points_rows, md_points_groups (p),
 *   md_group_of(p, row)   the group of a row; -1: it has none */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "grouped.h"

enum { THREADS = 1024, WARPS = THREADS / 32, NEAR = 4096 }; /* counts of so many groups are kept in shared memory */

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

MD_INLINE void md_cut_units(md_unit *unit, int group, int row, int end)
{
    for (int i = 0; row < end; i++, row += MD_UNIT_ROWS) {
        unit[i].group = group;
        unit[i].row = row;
        unit[i].row_end = min(row + MD_UNIT_ROWS, end);
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
    for (int row = threadIdx.x; row < rows; row += THREADS) {
        const int64_t found = md_group_of(&p, row);
        const int g = found < 0 ? groups : (int)found;
        work[at.group_of + row] = g;
        work[at.place + row] = atomicAdd(&count[g], 1);
    }
    __syncthreads();
    uint64_t begun = 0;
    for (int first = 0; first <= groups; first += THREADS) {
        const int g = first + threadIdx.x, n = g <= groups ? count[g] : 0;
        uint64_t all;
        const uint64_t units = (n + MD_UNIT_ROWS - 1) / MD_UNIT_ROWS,
                       before = begun + md_sums_before((uint64_t)n << 32 | units, &all, of_warp);
        begun += all;
        const int row = (int)(before >> 32);
        if (g <= groups) {
            work[at.first + g] = row;
            md_cut_units((md_unit *)(work + at.unit) + (uint32_t)before, g, row, row + n);
        }
    }
    if (threadIdx.x == 0)
        work[at.n_units] = (int)(uint32_t)begun;
    __syncthreads();
    for (int row = threadIdx.x; row < rows; row += THREADS)
        work[at.order + work[at.first + work[at.group_of + row]] + work[at.place + row]] = row;
}
