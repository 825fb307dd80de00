/* Elementwise stages that read a tensor whose contiguous axis is not that of the lanes. A block is a tile of MD_TILE
 * lanes by MD_TILE positions of that tensor's last index. Its vectors are read along that index, put into shared
 * memory, and taken out along the lanes. Rows of a tile are an odd number of words apart. MD_UNALIGNED: tensors need
 * not be aligned. Then each row of the output begins up to MD_VL - 1 lanes before the tile, at a boundary of 16 bytes,
 * so that stores stay whole; the tile has MD_VL more rows for that. With MD_VL 1 every tensor is aligned.
 *
 * md_config.h: MD_VL, MD_THREADS, MD_TILE, MD_UNALIGNED. md_expr.h: md_params, md_lanes(p), md_transposed_size(p),
 * md_points(p), md_has_vectors(p), md_at and md_find(p, point); md_lead(p, at, line): lanes from the beginning of the
 * output's row to its next boundary (MD_UNALIGNED); md_transposed: a vector of each transposed load;
 * MD_EACH_TRANSPOSED(F): F(number, dtype) for each; md_fetch_transposed(p, at, lane, line, transposed, n); md_elem,
 * md_fetch(p, at, lane, line, elem, n): what is read along the lanes; md_out(p, at, lane, line, elem, transposed, n).
 */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

#define MD_ROW_VECTORS (MD_TILE / MD_VL)
#define MD_EACH_THREAD (MD_TILE * MD_ROW_VECTORS / MD_THREADS)
#define MD_EACH_ROWS (MD_THREADS / MD_ROW_VECTORS)
#ifndef MD_UNALIGNED
#define MD_UNALIGNED 0
#endif
#define MD_TILE_ROWS (MD_TILE + (MD_UNALIGNED ? MD_VL : 0))

/* Words from one row of a tile to the next, and of a tile. */
template <class S> MD_INLINE constexpr int md_pitch() { return MD_TILE * (int)sizeof(typename S::E) / 4 + 1; }
template <class S> MD_INLINE constexpr int md_tile_words() { return MD_TILE_ROWS * md_pitch<S>(); }

template <class S> MD_INLINE void md_tile_put(uint32_t *tile, int row, int column, const md_raw<S> &r)
{
    MD_FOR (i, md_raw<S>::N)
        tile[row * md_pitch<S>() + column * (int)sizeof(typename S::E) / 4 + i] = r.w[i];
}
template <class S> MD_INLINE md_raw<S> md_tile_get(const uint32_t *tile, int row, int column)
{
    typedef typename S::E E;
    md_raw<S> r = md_zero_raw<S>();
    MD_FOR (l, MD_VL) {
        const uint32_t *at = tile + (row + l) * md_pitch<S>();
        if constexpr (sizeof(E) == 8)
            md_put(r, l, (E)((uint64_t)at[2 * column + 1] << 32 | at[2 * column]));
        else
            md_put(r, l, ((const E *)at)[column]);
    }
    return r;
}

/* The vector at x of `count` elements, or nothing. */
MD_INLINE md_whole md_limit(md_whole n, int64_t, int64_t, bool) { return n; }
MD_INLINE md_span md_limit(md_span, int64_t x, int64_t count, bool is_there)
{
    return md_clip<int64_t>(x, is_there ? count : 0);
}
MD_INLINE constexpr bool md_has_some(md_whole) { return true; }
MD_INLINE bool md_has_some(md_span n) { return n.hi > n.lo; }

template <class K>
MD_INLINE void md_do_tile(const md_params *p, const md_at &at, int64_t lane, int64_t line, int64_t lanes, int64_t lines,
                          K kind)
{
    uint32_t *const shared = (uint32_t *)md_shared;
    md_transposed transposed[MD_EACH_THREAD];
    md_elem elem[MD_EACH_THREAD];
    MD_FOR (i, MD_EACH_THREAD) {
        const int v = (int)threadIdx.x + i * MD_THREADS, row = v / MD_ROW_VECTORS, column = v % MD_ROW_VECTORS * MD_VL;
        const auto n = md_limit(kind, line + column, lines, lane + row < lanes);
        if (md_has_some(n))
            md_fetch_transposed(p, at, lane + row, line + column, &transposed[i], n);
    }
    MD_FOR (i, MD_EACH_THREAD) {
        const int v = (int)threadIdx.x + i * MD_THREADS, row = v / MD_ROW_VECTORS, column = v % MD_ROW_VECTORS * MD_VL;
        const auto n = md_limit(kind, lane + column, lanes, line + row < lines);
        if (md_has_some(n))
            md_fetch(p, at, lane + column, line + row, &elem[i], n);
    }
    MD_FOR (i, MD_EACH_THREAD) {
        const int v = (int)threadIdx.x + i * MD_THREADS, row = v / MD_ROW_VECTORS, column = v % MD_ROW_VECTORS * MD_VL;
        uint32_t *tile = shared;
#define MD_PUT(k, T) md_tile_put<md_t_##T>(tile, row, column, transposed[i].l##k), tile += md_tile_words<md_t_##T>();
        MD_EACH_TRANSPOSED(MD_PUT)
    }
    __syncthreads();
    MD_FOR (i, MD_EACH_THREAD) {
        const int v = (int)threadIdx.x + i * MD_THREADS, row = v / MD_ROW_VECTORS, column = v % MD_ROW_VECTORS * MD_VL;
        const auto n = md_limit(kind, lane + column, lanes, line + row < lines);
        const uint32_t *tile = shared;
        md_transposed back;
#define MD_GET(k, T) back.l##k = md_tile_get<md_t_##T>(tile, column, row), tile += md_tile_words<md_t_##T>();
        MD_EACH_TRANSPOSED(MD_GET)
        if (md_has_some(n))
            md_out(p, at, lane + column, line + row, &elem[i], &back, n);
    }
}

#if MD_UNALIGNED
/* The same for unaligned tensors: a thread has one vector at a time, since many threads hide the latency. */
MD_INLINE void md_do_unaligned(const md_params *p, const md_at &at, int64_t lane, int64_t line, int64_t lanes,
                               int64_t lines)
{
    const int first = (int)threadIdx.x / MD_ROW_VECTORS, column = (int)threadIdx.x % MD_ROW_VECTORS * MD_VL;
    MD_ROLLED for (int row = first; row < MD_TILE_ROWS; row += MD_EACH_ROWS)
    {
        md_transposed transposed;
        uint32_t *tile = (uint32_t *)md_shared;
        const int64_t x = lane - MD_VL + row;
        const md_span n = md_clip<int64_t>(line + column, x >= 0 && x < lanes ? lines : 0);
        if (n.hi > n.lo) {
            md_fetch_transposed(p, at, x, line + column, &transposed, n);
#define MD_PUT_ONE(k, T) md_tile_put<md_t_##T>(tile, row, column, transposed.l##k), tile += md_tile_words<md_t_##T>();
            MD_EACH_TRANSPOSED(MD_PUT_ONE)
        }
    }
    __syncthreads();
    MD_ROLLED for (int row = first; row < MD_TILE && line + row < lines; row += MD_EACH_ROWS)
    {
        const int place = column - (int)((MD_VL - md_lead(p, at, line + row)) % MD_VL);
        const md_span n = md_clip<int64_t>(lane + place, lanes);
        if (n.hi > n.lo) {
            const uint32_t *tile = (const uint32_t *)md_shared;
            md_elem elem;
            md_transposed back;
            md_fetch(p, at, lane + place, line + row, &elem, n);
#define MD_GET_ONE(k, T) back.l##k = md_tile_get<md_t_##T>(tile, place + MD_VL, row), tile += md_tile_words<md_t_##T>();
            MD_EACH_TRANSPOSED(MD_GET_ONE)
            md_out(p, at, lane + place, line + row, &elem, &back, n);
        }
    }
    __syncthreads();
}
#endif

MD_EXPORT void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const int64_t lanes = md_lanes(&p), lines = md_transposed_size(&p);
    const uint32_t across = (uint32_t)((lanes + MD_TILE - 1) / MD_TILE),
                   down = (uint32_t)((lines + MD_TILE - 1) / MD_TILE);
    uint32_t x = blockIdx.x, y = blockIdx.y, z = blockIdx.z;
    if (gridDim.y == 1 && gridDim.z == 1) { /* more tiles than a grid can have along y or z */
        y = x / across, x -= y * across;
        z = y / down, y -= z * down;
    }
    const int64_t lane = (int64_t)x * MD_TILE, line = (int64_t)y * MD_TILE;
    const md_at at = md_find(&p, z);
#if MD_UNALIGNED
    if (!md_has_vectors(&p)) { /* the block of a row's last tile also has what is after it */
        MD_ROLLED for (int64_t from = lane; from < lanes + MD_VL - 1 && (from == lane || x + 1 == across);
                       from += MD_TILE) md_do_unaligned(&p, at, from, line, lanes, lines);
        return;
    }
#endif
    if (lane + MD_TILE <= lanes && line + MD_TILE <= lines && (MD_VL == 1 || md_has_vectors(&p)))
        md_do_tile(&p, at, lane, line, lanes, lines, md_whole());
    else
        md_do_tile(&p, at, lane, line, lanes, lines, md_span());
}
