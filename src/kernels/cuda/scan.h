/* Scans of a tile: MD_ITEMS vectors a lane, MD_GROUP lanes. A warp has 32 * MD_ITEMS consecutive vectors; its lanes
 * take them alternately, so that loads and stores are whole lines and no value moves through shared memory: lanes scan
 * their vectors by shuffles. Vectors are numbered in the order of the scan: backwards with MD_REVERSE. The first one
 * begins at a store's 16-byte boundary, so it and the last may be partly outside the row. f32 sums and products are
 * carried in f64 from vector to vector; inside the vectors of a warp they are trees of f32. */
#ifndef MD_CUDA_SCAN_H
#define MD_CUDA_SCAN_H

#include "mark.h"

#define MD_LANES_W (MD_GROUP < 32 ? MD_GROUP : 32)
#define MD_WARPS (MD_GROUP / MD_LANES_W)
#ifndef MD_ROUNDS
#define MD_ROUNDS 1 /* how many times a lane has MD_ITEMS vectors of a tile */
#endif
#define MD_TILE_VECTORS (MD_GROUP * MD_ITEMS * MD_ROUNDS)

/* Tiles that are enough for any row of n elements, wherever it begins. */
MD_INLINE int64_t md_tiles(int64_t n)
{
    const int64_t vectors = (n + 2 * (MD_VL - 1)) / MD_VL;
    return n > 0 ? (vectors + MD_TILE_VECTORS - 1) / MD_TILE_VECTORS : 0;
}

/* The places of vectors in a row. */
struct md_track {
    int64_t n, vectors, off; /* elements; vectors; elements of the first (leftmost) vector that precede the row */
};

MD_INLINE md_track md_track_of(int64_t n, int64_t lead)
{
    const int64_t off = (MD_VL - lead) & (MD_VL - 1);
    return md_track{n, (n + off + MD_VL - 1) / MD_VL, off};
}

/* First element of vector q. */
MD_INLINE int64_t md_first_of(const md_track &t, int64_t q)
{
    return (MD_REVERSE ? t.vectors - 1 - q : q) * MD_VL - t.off;
}

/* Shuffles of values of any type. */
template <class T> MD_INLINE T md_up(T v, int by) { return __shfl_up_sync(0xffffffffu, v, by, MD_LANES_W); }
template <class T> MD_INLINE T md_from(T v, int lane) { return __shfl_sync(0xffffffffu, v, lane, MD_LANES_W); }
MD_INLINE int64_t md_up(int64_t v, int by)
{
    return (int64_t)__shfl_up_sync(0xffffffffu, (long long)v, by, MD_LANES_W);
}
MD_INLINE int64_t md_from(int64_t v, int lane)
{
    return (int64_t)__shfl_sync(0xffffffffu, (long long)v, lane, MD_LANES_W);
}

#if MD_RECURRENCE
template <class T> MD_INLINE md_step<T> md_up(const md_step<T> &v, int by)
{
    return md_step<T>(md_up(v.a, by), md_up(v.b, by));
}
template <class T> MD_INLINE md_step<T> md_from(const md_step<T> &v, int lane)
{
    return md_step<T>(md_from(v.a, lane), md_from(v.b, lane));
}
#endif

/* ---- A tile */
struct md_tile {
    MD_VALUE v[MD_ITEMS];
    MD_ONE before[MD_ITEMS]; /* total of the warp's lanes before this one, in each of its vectors */
    MD_TOTAL base[MD_ITEMS]; /* total of the warp's vectors before it */
};

/* The part of the vector that is in the row; other elements become the identity. */
MD_INLINE MD_VALUE md_body_part(MD_X_DECL const md_params *p, const md_track &t, int64_t x)
{
    const md_span n = md_clip(x, t.n);
    MD_VALUE v = MD_SPLAT(MD_IDENTITY);
    if (n.hi > n.lo) {
        const MD_VALUE body = md_body(MD_X p, x, n);
        MD_FOR (k, MD_VL)
            if (md_has(n, k))
                MD_SET(v, k, MD_GET(body, k));
    }
    return v;
}

/* True if 32 * MD_ITEMS vectors from q on are all inside the row. */
MD_INLINE bool md_is_whole(const md_track &t, int64_t q)
{
    const int64_t a = md_first_of(t, q), b = md_first_of(t, q + MD_LANES_W * MD_ITEMS - 1);
    return (MD_REVERSE ? b : a) >= 0 && (MD_REVERSE ? a : b) + MD_VL <= t.n;
}

MD_INLINE void md_tile_load(MD_X_DECL const md_params *p, md_tile &tile, const md_track &t, int64_t q, int lane)
{
    if (md_is_whole(t, q)) {
        MD_FOR (i, MD_ITEMS)
            tile.v[i] = md_body(MD_X p, md_first_of(t, q + i * MD_LANES_W + lane), md_full{});
    } else {
        MD_FOR (i, MD_ITEMS)
            tile.v[i] = md_body_part(MD_X p, t, md_first_of(t, q + i * MD_LANES_W + lane));
    }
}

MD_INLINE MD_ONE md_vector_total(const MD_VALUE &v)
{
    MD_ONE all = (MD_ONE)MD_GET(v, MD_REVERSE ? MD_VL - 1 : 0);
    MD_UNROLL
    for (int k = 1; k < MD_VL; k++)
        all = MD_OP(all, MD_GET(v, MD_REVERSE ? MD_VL - 1 - k : k));
    return all;
}

/* Scans the vectors over the lanes; returns the total of all. */
MD_INLINE MD_TOTAL md_tile_scan(md_tile &tile, int lane)
{
    MD_ONE run[MD_ITEMS];
    MD_FOR (i, MD_ITEMS)
        run[i] = md_vector_total(tile.v[i]);
    MD_UNROLL
    for (int by = 1; by < MD_LANES_W; by *= 2) {
        MD_FOR (i, MD_ITEMS) {
            const MD_ONE left = md_up(run[i], by);
            run[i] = lane >= by ? MD_OP(left, run[i]) : run[i];
        }
    }
    MD_TOTAL all = MD_TOTAL_IDENTITY;
    MD_FOR (i, MD_ITEMS) {
        const MD_ONE left = md_up(run[i], 1);
        tile.before[i] = lane > 0 ? left : (MD_ONE)MD_IDENTITY;
        tile.base[i] = all;
        all = MD_OP_TOTAL(all, (MD_TOTAL)md_from(run[i], MD_LANES_W - 1));
    }
    return all;
}

/* Total of the group's warps; *before: of the warps before this one. `shared` has MD_WARPS places that are not in use.
 * One barrier. */
MD_INLINE MD_TOTAL md_group_scan(MD_TOTAL all, MD_TOTAL *shared, int warp, int lane, MD_TOTAL *before)
{
    *before = MD_TOTAL_IDENTITY;
    if (MD_WARPS == 1)
        return all;
    if (lane == 0)
        shared[warp] = all;
    __syncthreads();
    MD_TOTAL sum = MD_TOTAL_IDENTITY;
    MD_FOR (w, MD_WARPS) {
        if (w == warp)
            *before = sum;
        sum = MD_OP_TOTAL(sum, shared[w]);
    }
    return sum;
}

/* The scan of one of the lane's vectors, in place. */
MD_INLINE void md_run(md_tile &tile, int i, MD_TOTAL prefix)
{
    const md_mark mark = md_mark_of(MD_OP_TOTAL(prefix, tile.base[i]));
    MD_ONE run = tile.before[i];
    MD_FOR (j, MD_VL) {
        const int k = MD_REVERSE ? MD_VL - 1 - j : j;
        const MD_ONE then = MD_OP(run, MD_GET(tile.v[i], k));
        MD_SET(tile.v[i], k, md_after(mark, MD_EXCLUSIVE ? run : then));
        run = then;
    }
}

/* Stores the tile's scan after `prefix`, the total of all elements before the warp. */
MD_INLINE void md_tile_store(MD_X_DECL const md_params *p, md_tile &tile, const md_track &t, int64_t q, int lane,
                             MD_TOTAL prefix)
{
    MD_FOR (i, MD_ITEMS)
        md_run(tile, i, prefix);
    if (md_is_whole(t, q)) {
        MD_FOR (i, MD_ITEMS)
            md_out(MD_X p, md_first_of(t, q + i * MD_LANES_W + lane), md_full{}, MD_RESULT_OF(tile.v[i]));
        return;
    }
    MD_FOR (i, MD_ITEMS) {
        const int64_t x = md_first_of(t, q + i * MD_LANES_W + lane);
        const md_span n = md_clip(x, t.n);
        if (n.hi > n.lo)
            md_out(MD_X p, x, n, MD_RESULT_OF(tile.v[i]));
    }
}

#endif
