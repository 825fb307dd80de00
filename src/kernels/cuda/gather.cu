/* Gathers and scatters of rows: index tensors say where each row is. A group of MD_GROUP lanes has MD_FLIGHT items at a
 * time, each a row or a piece of a long one. It reads all their indices, then all their values, and stores last, so
 * that many loads are in flight. */
#include "md_config.h"
#include "prelude.h"

/* A vector as it was loaded. */
template <class S, class N> MD_INLINE void md_store_raw(void *t, int64_t o, const md_raw<S> &r, N n, bool promised)
{
    typename S::E *p = (typename S::E *)t + o;
    if (md_has_all(n) && md_is_aligned<S>(p, n, promised))
        md_put_whole<S>(p, r, false);
    else
        md_put_each<S>(p, 1, r, n);
}

#include "md_expr.h"

#define MD_PIECE (MD_GROUP * MD_ITEMS * MD_VL) /* elements of an item */

struct md_item {
    md_outer outer;
    md_index index;
    int64_t at; /* of this thread's first vector along the lanes' axis; beyond the end if there is no work */
};

MD_INLINE void md_item_read(const md_params *p, md_item &item, int64_t number, int64_t items, int64_t pieces, int lane)
{
    const int64_t row = pieces == 1 ? number : number / pieces;
    item.at = number < items ? (number - row * pieces) * MD_PIECE + lane * MD_VL : MD_LANE_COUNT(p);
    if (number < items) {
        item.outer = md_outer_at(p, row);
        md_read(p, item.outer, item.index);
    }
}

/* Items one after the other: of ragged rows, and the last ones. */
MD_INLINE void md_move_parts(const md_params *p, int64_t first, int64_t items, int64_t pieces, int64_t lanes, int lane)
{
    MD_ROLLED
    for (int64_t number = first; number < first + MD_FLIGHT && number < items; number++) {
        md_item item;
        md_item_read(p, item, number, items, pieces, lane);
        MD_ROLLED
        for (int i = 0; i < MD_ITEMS; i++) {
            const int64_t x = item.at + i * MD_GROUP * MD_VL;
            const md_span n = md_clip(x, lanes);
            md_values v;
            if (n.hi > n.lo) {
                md_row_get(p, item.outer, item.index, x, n, v);
                md_row_put(p, item.outer, item.index, x, n, v);
            }
        }
    }
}

/* All items at once: their vectors are whole. */
MD_INLINE void md_move_whole(const md_params *p, int64_t first, int64_t items, int64_t pieces, int64_t lanes, int lane)
{
    md_item item[MD_FLIGHT];
    md_values v[MD_FLIGHT][MD_ITEMS];
    MD_FOR (f, MD_FLIGHT)
        md_item_read(p, item[f], first + f, items, pieces, lane);
    MD_FOR (f, MD_FLIGHT)
        MD_FOR (i, MD_ITEMS)
            if (item[f].at + i * MD_GROUP * MD_VL < lanes)
                md_row_get(p, item[f].outer, item[f].index, item[f].at + i * MD_GROUP * MD_VL, md_full{}, v[f][i]);
    MD_FOR (f, MD_FLIGHT)
        MD_FOR (i, MD_ITEMS)
            if (item[f].at + i * MD_GROUP * MD_VL < lanes)
                md_row_put(p, item[f].outer, item[f].index, item[f].at + i * MD_GROUP * MD_VL, md_full{}, v[f][i]);
}

extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int lane = (int)threadIdx.x % MD_GROUP;
    const int64_t lanes = MD_LANE_COUNT(p), pieces = (lanes + MD_PIECE - 1) / MD_PIECE, items = MD_ROWS(p) * pieces;
    const int64_t first = ((int64_t)blockIdx.x * (MD_THREADS / MD_GROUP) + threadIdx.x / MD_GROUP) * MD_FLIGHT;
    if (first >= items)
        return;
    if (MD_HAS_LANES && lanes % MD_VL == 0)
        md_move_whole(p, first, items, pieces, lanes, lane);
    else
        md_move_parts(p, first, items, pieces, lanes, lane);
}
