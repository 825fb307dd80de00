/* Scatters that add up in the order of the formula. A block owns a part of the target's axis, looks at all rows in
 * order and writes those of its part. The same thread always writes the same element, so no operation is atomic and the
 * bits are always the same. Scatters in any order use cuda/gather.cu. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

#define MD_LOOK 4 /* rows that a thread looks at in one step */

/* The rows of first .. first + MD_THREADS * MD_LOOK - 1 that are the block's own, in order; returns their number. Two
 * barriers. */
MD_INLINE int md_choose(const md_params *p, int64_t first, int64_t rows, int64_t own, int64_t n_own, int *chosen)
{
    __shared__ int totals[MD_THREADS / 32];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    md_outer outer[MD_LOOK];
    md_index index[MD_LOOK];
    int mine = 0, n[MD_LOOK], before = 0, all = 0;
    MD_FOR (k, MD_LOOK) {
        const int64_t row = first + threadIdx.x * MD_LOOK + k;
        if (row < rows) {
            outer[k] = md_outer_at(p, row);
            md_read(p, outer[k], index[k]);
        }
    }
    MD_FOR (k, MD_LOOK) {
        n[k] = first + threadIdx.x * MD_LOOK + k < rows && md_owned(p, outer[k], index[k], own, n_own);
        mine += n[k];
    }
    int sum = mine;
    MD_UNROLL
    for (int by = 1; by < 32; by *= 2) {
        const int left = __shfl_up_sync(0xffffffffu, sum, by);
        sum += lane >= by ? left : 0;
    }
    if (lane == 31)
        totals[warp] = sum;
    __syncthreads();
    MD_FOR (w, MD_THREADS / 32) {
        before += w < warp ? totals[w] : 0;
        all += totals[w];
    }
    before += sum - mine;
    MD_FOR (k, MD_LOOK) {
        if (n[k])
            chosen[before] = (int)threadIdx.x * MD_LOOK + k;
        before += n[k];
    }
    __syncthreads();
    return all;
}

extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ int chosen[MD_THREADS * MD_LOOK];
    const md_params *p = &params;
    const int64_t rows = MD_ROWS(p), lanes = MD_LANE_COUNT(p), extent = MD_OWN(p);
    const int64_t own = md_share(extent, blockIdx.x, gridDim.x),
                  n_own = md_share(extent, blockIdx.x + 1, gridDim.x) - own;
    if (n_own == 0 && blockIdx.x > 0)
        return;
    for (int64_t first = 0; first < rows; first += MD_THREADS * MD_LOOK) {
        const int n = md_choose(p, first, rows, own, n_own, chosen);
        for (int i = 0; i < n; i++) {
            const md_outer outer = md_outer_at(p, first + chosen[i]);
            md_index index;
            md_read(p, outer, index);
            for (int64_t x = (int64_t)threadIdx.x * MD_VL; x < lanes; x += MD_THREADS * MD_VL) {
                md_values v;
                if (x + MD_VL <= lanes) {
                    md_row_get(p, outer, index, x, md_full{}, v);
                    md_row_put(p, outer, index, x, md_full{}, v, own, n_own);
                } else {
                    md_row_get(p, outer, index, x, md_clip(x, lanes), v);
                    md_row_put(p, outer, index, x, md_clip(x, lanes), v, own, n_own);
                }
            }
        }
        __syncthreads();
    }
}
