/* Scans of many rows. MD_GROUP lanes take a row tile by tile and carry the total. MD_COLUMN: lanes run over the last
 * outer index. With few columns, gridDim.y blocks share the axis in two launches (MD_PHASE): 1: totals of the parts; 3:
 * the scans of the parts. The workspace has an MD_TOTAL for each part and column. */
#include "md_config.h"
#include "prelude.h"
#include "recur.h"
#include "md_expr.h"

#if MD_COLUMN

/* A block takes MD_ACROSS vectors of columns and MD_DOWN runs of MD_ITEMS elements of the axis at a time: each thread
 * has a run of one vector of columns. Totals of runs are in shared memory, where one thread a column adds them up. */
#define MD_ACROSS 8
#define MD_DOWN (MD_THREADS / MD_ACROSS)
#define MD_WIDTH (MD_ACROSS * MD_VL)

/* Replaces the total of each run of the tile by the total before it; carries the total of all tiles. */
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

/* Elements from .. count-1 of the axis; `carry`, of thread i < MD_WIDTH, is the total of column i: before, and
 * after. */
MD_N_DECL MD_INLINE void md_columns(MD_OUTER_DECL const md_params *p, int64_t at, md_n_t n, bool is_inside,
                                    MD_TOTAL (&shared)[MD_DOWN][MD_WIDTH + 1], MD_TOTAL &carry, int64_t from,
                                    int64_t count)
{
    const int64_t last = MD_COUNT(p) - 1;
    const int x = (int)threadIdx.x % MD_ACROSS * MD_VL, y = (int)threadIdx.x / MD_ACROSS;
    for (int64_t j = from; j < count; j += MD_DOWN * MD_ITEMS) {
        const int64_t first = j + y * MD_ITEMS;
        MD_VALUE v[MD_ITEMS];
        MD_TOTAL total[MD_VL];
        MD_FOR (s, MD_ITEMS) {
            v[s] = MD_SPLAT(MD_IDENTITY);
            if (is_inside && first + s < count)
                v[s] = md_body(MD_X_AT(at, n) p, MD_REVERSE ? last - first - s : first + s);
        }
        MD_FOR (k, MD_VL) {
            total[k] = (MD_TOTAL)MD_GET(v[0], k);
            MD_UNROLL
            for (int s = 1; s < MD_ITEMS; s++)
                total[k] = MD_OP_TOTAL(total[k], (MD_TOTAL)MD_GET(v[s], k));
            shared[y][x + k] = total[k];
        }
        md_runs(shared, carry);
        if (MD_PHASE == 1) /* so the next tile's totals need not wait for readers */
            continue;
        MD_FOR (k, MD_VL)
            total[k] = shared[y][x + k];
        MD_FOR (s, MD_ITEMS) {
            MD_FOR (k, MD_VL) {
                const MD_TOTAL before = total[k];
                total[k] = MD_OP_TOTAL(before, (MD_TOTAL)MD_GET(v[s], k));
                MD_SET(v[s], k, (MD_ONE)(MD_EXCLUSIVE ? before : total[k]));
            }
            if (is_inside && first + s < count)
                md_out(MD_X_AT(at, n) p, MD_REVERSE ? last - first - s : first + s, MD_RESULT_OF(v[s]));
        }
        __syncthreads();
    }
}

/* The total before part `part` of a column: totals of parts are `stride` apart. */
MD_INLINE MD_TOTAL md_parts_before(const MD_TOTAL *total, int64_t part, int64_t stride)
{
    MD_TOTAL all = MD_TOTAL_IDENTITY;
    MD_ROLLED for (int64_t k = 0; k < part; k += 8)
    {
        MD_TOTAL t[8];
        MD_FOR (u, 8)
            t[u] = k + u < part ? total[(k + u) * stride] : (MD_TOTAL)MD_TOTAL_IDENTITY;
        MD_FOR (u, 8)
            all = MD_OP_TOTAL(all, t[u]);
    }
    return all;
}

extern "C" __global__ void __launch_bounds__(MD_THREADS, 2) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL shared[MD_DOWN][MD_WIDTH + 1];
    const md_params *p = &params;
    const int64_t lanes = MD_COLUMNS(p), pieces = (lanes + MD_WIDTH - 1) / MD_WIDTH;
    if (blockIdx.x >= pieces * MD_ROWS(p))
        return;
    const int64_t row = blockIdx.x / pieces, first = blockIdx.x % pieces * MD_WIDTH,
                  at = first + threadIdx.x % MD_ACROSS * MD_VL;
    int64_t from = 0, to = MD_COUNT(p);
    MD_TOTAL carry = MD_TOTAL_IDENTITY;
#if MD_PHASE
    /* Whole tiles for each part; the last parts may have none. */
    const int64_t part =
        ((to + MD_DOWN * MD_ITEMS - 1) / (MD_DOWN * MD_ITEMS) + gridDim.y - 1) / gridDim.y * (MD_DOWN * MD_ITEMS);
    MD_TOTAL *const total = (MD_TOTAL *)p->work0 + row * lanes + first + threadIdx.x; /* of the column, in part 0 */
    const bool has_column = threadIdx.x < MD_WIDTH && first + threadIdx.x < lanes;
    from = blockIdx.y * part;
    to = from + part < to ? from + part : to;
    if (MD_PHASE == 3 && has_column)
        carry = md_parts_before(total, blockIdx.y, MD_ROWS(p) * lanes);
#endif
    MD_ROW_AT(p, row);
    if (first + MD_WIDTH <= lanes)
        md_columns(MD_OUTER p, at, md_full{}, true, shared, carry, from, to);
    else
        md_columns(MD_OUTER p, at, md_clip(at, lanes), at < lanes, shared, carry, from, to);
#if MD_PHASE == 1
    if (has_column)
        total[blockIdx.y * MD_ROWS(p) * lanes] = carry;
#endif
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
    /* Lanes beyond the last row take part with a row of no elements: shuffles are for whole warps. */
    MD_ROW_AT(p, row);
    const md_track track = md_track_of(number < rows ? MD_COUNT(p) : 0, MD_ALIGNED ? 0 : md_lead(MD_X p, 0));
    MD_TOTAL carry = MD_TOTAL_IDENTITY;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t q = i * MD_TILE_VECTORS + warp * (MD_LANES_W * MD_ITEMS);
        md_tile tile;
        MD_TOTAL before;
        md_tile_load(MD_X p, tile, track, q, lane);
        const MD_TOTAL all =
            md_group_scan(md_tile_scan(tile, lane), shared[i & 1][threadIdx.x / MD_GROUP], warp, lane, &before);
        md_tile_store(MD_X p, tile, track, q, lane, MD_OP_TOTAL(carry, before));
        carry = MD_OP_TOTAL(carry, all);
    }
}

#endif
