/* Scans of many rows: each belongs to MD_GROUP lanes, which take it tile by tile and carry the total.
 * MD_COLUMN: lanes run over the last outer index. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

#if MD_COLUMN

/* A block takes MD_ACROSS vectors of columns, and of the axis MD_DOWN runs of MD_ITEMS elements at a time: each thread a run of one vector of
 * columns. Totals of runs meet in shared memory, where one thread a column adds them up. */
#define MD_ACROSS 8
#define MD_DOWN (MD_THREADS / MD_ACROSS)
#define MD_WIDTH (MD_ACROSS * MD_VL)

/* What is in front of each run of the tile, in place of its total; carries the total of all tiles. */
MD_INLINE void md_runs(MD_TOTAL (&total)[MD_DOWN][MD_WIDTH + 1], MD_TOTAL &carry)
{
    __syncthreads();
    if (threadIdx.x < MD_WIDTH) {
        MD_UNROLL
        for (int r = 0; r < MD_DOWN; r++) {
            const MD_TOTAL own = total[r][threadIdx.x];
            total[r][threadIdx.x] = carry;
            carry = MD_OP_TOTAL(carry, own);
        }
    }
    __syncthreads();
}

MD_N_DECL MD_INLINE void md_columns(MD_OUTER_DECL const md_params *p, int64_t at, md_n_t n, bool is_inside, MD_TOTAL (&shared)[MD_DOWN][MD_WIDTH + 1])
{
    const int64_t count = MD_COUNT(p);
    const int x = (int)threadIdx.x % MD_ACROSS * MD_VL, y = (int)threadIdx.x / MD_ACROSS;
    MD_TOTAL carry = MD_TOTAL_IDENTITY;
    for (int64_t j = 0; j < count; j += MD_DOWN * MD_ITEMS) {
        const int64_t first = j + y * MD_ITEMS;
        MD_VALUE v[MD_ITEMS];
        MD_TOTAL total[MD_VL];
        MD_FOR (s, MD_ITEMS) {
            v[s] = MD_SPLAT(MD_IDENTITY);
            if (is_inside && first + s < count)
                v[s] = md_body(MD_X_AT(at, n) p, MD_REVERSE ? count - 1 - first - s : first + s);
        }
        MD_FOR (k, MD_VL) {
            total[k] = (MD_TOTAL)MD_GET(v[0], k);
            MD_UNROLL
            for (int s = 1; s < MD_ITEMS; s++)
                total[k] = MD_OP_TOTAL(total[k], (MD_TOTAL)MD_GET(v[s], k));
            shared[y][x + k] = total[k];
        }
        md_runs(shared, carry);
        MD_FOR (k, MD_VL)
            total[k] = shared[y][x + k];
        MD_FOR (s, MD_ITEMS) {
            MD_FOR (k, MD_VL) {
                const MD_TOTAL before = total[k];
                total[k] = MD_OP_TOTAL(before, (MD_TOTAL)MD_GET(v[s], k));
                MD_SET(v[s], k, (MD_ONE)(MD_EXCLUSIVE ? before : total[k]));
            }
            if (is_inside && first + s < count)
                md_out(MD_X_AT(at, n) p, MD_REVERSE ? count - 1 - first - s : first + s, v[s]);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(MD_THREADS, 2) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL shared[MD_DOWN][MD_WIDTH + 1];
    const md_params *p = &params;
    const int64_t lanes = MD_COLUMNS(p), pieces = (lanes + MD_WIDTH - 1) / MD_WIDTH;
    if (blockIdx.x >= pieces * MD_ROWS(p))
        return;
    const int64_t row = blockIdx.x / pieces, first = blockIdx.x % pieces * MD_WIDTH, at = first + threadIdx.x % MD_ACROSS * MD_VL;
    MD_ROW_AT(p, row);
    if (first + MD_WIDTH <= lanes)
        md_columns(MD_OUTER p, at, md_full{}, true, shared);
    else
        md_columns(MD_OUTER p, at, md_clip(at, lanes), at < lanes, shared);
}

#else

#include "scan.h"

extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL shared[2][MD_THREADS / MD_GROUP][MD_WARPS];
    const md_params *p = &params;
    const int lane = (int)threadIdx.x % MD_LANES_W, warp = (int)threadIdx.x % MD_GROUP / MD_LANES_W;
    const int64_t number = (int64_t)blockIdx.x * (MD_THREADS / MD_GROUP) + threadIdx.x / MD_GROUP;
    const int64_t rows = MD_ROWS(p), row = number < rows ? number : 0, tiles = md_tiles(MD_COUNT(p));
    if ((int64_t)blockIdx.x * (MD_THREADS / MD_GROUP) >= rows)
        return;
    /* Lanes beyond the last row go along with one of no elements: shuffles are for whole warps. */
    MD_ROW_AT(p, row);
    const md_track track = md_track_of(number < rows ? MD_COUNT(p) : 0, MD_ALIGNED ? 0 : md_lead(MD_X p, 0));
    MD_TOTAL carry = MD_TOTAL_IDENTITY;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t q = i * MD_TILE_VECTORS + warp * (MD_LANES_W * MD_ITEMS);
        md_tile tile;
        MD_TOTAL before;
        md_tile_load(MD_X p, tile, track, q, lane);
        const MD_TOTAL all = md_group_scan(md_tile_scan(tile, lane), shared[i & 1][threadIdx.x / MD_GROUP], warp, lane, &before);
        md_tile_store(MD_X p, tile, track, q, lane, MD_OP_TOTAL(carry, before));
        carry = MD_OP_TOTAL(carry, all);
    }
}

#endif
