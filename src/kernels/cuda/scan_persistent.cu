/* Scans of many rows: each belongs to MD_GROUP lanes, which take it tile by tile and carry the total.
 * MD_COLUMN: lanes run over the last outer index; each thread takes a vector of columns down the axis, MD_ITEMS elements at a time. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

#if MD_COLUMN

/* One element in every lane after all in that lane's total. */
MD_INLINE MD_VALUE md_step(const MD_VALUE &v, MD_TOTAL (&total)[MD_VL])
{
    MD_VALUE r;
    MD_FOR (k, MD_VL) {
        const MD_TOTAL before = total[k];
        total[k] = MD_OP_TOTAL(before, (MD_TOTAL)MD_GET(v, k));
        MD_SET(r, k, (MD_ONE)(MD_EXCLUSIVE ? before : total[k]));
    }
    return r;
}

MD_N_DECL MD_INLINE void md_columns(MD_OUTER_DECL const md_params *p, int64_t at, md_n_t n)
{
    const int64_t count = MD_COUNT(p);
    MD_TOTAL total[MD_VL];
    MD_FOR (k, MD_VL)
        total[k] = MD_TOTAL_IDENTITY;
    int64_t j = 0;
    for (; j + MD_ITEMS <= count; j += MD_ITEMS) {
        MD_VALUE v[MD_ITEMS];
        MD_FOR (s, MD_ITEMS)
            v[s] = md_body(MD_X_AT(at, n) p, MD_REVERSE ? count - 1 - j - s : j + s);
        MD_FOR (s, MD_ITEMS)
            md_out(MD_X_AT(at, n) p, MD_REVERSE ? count - 1 - j - s : j + s, md_step(v[s], total));
    }
    for (; j < count; j++) {
        const int64_t k = MD_REVERSE ? count - 1 - j : j;
        md_out(MD_X_AT(at, n) p, k, md_step(md_body(MD_X_AT(at, n) p, k), total));
    }
}

extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t pieces = (MD_COLUMNS(p) + MD_VL - 1) / MD_VL, piece = (int64_t)blockIdx.x * MD_THREADS + threadIdx.x;
    if (piece >= pieces * MD_ROWS(p))
        return;
    const int64_t row = piece / pieces, at = piece % pieces * MD_VL;
    MD_ROW_AT(p, row);
    if (at + MD_VL <= MD_COLUMNS(p))
        md_columns(MD_OUTER p, at, md_full{});
    else
        md_columns(MD_OUTER p, at, md_clip(at, MD_COLUMNS(p)));
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
