/* Scans of few long rows in one pass. All blocks run at the same time, one an SM; block b has tiles b, b + blocks, and
 * so on. Bulk copies (sm_90) bring tiles into a ring of MD_RING stages, so memory stays busy while blocks wait for
 * totals. A tile's total is published one turn before the tile is stored; the total before a tile is the sum of the
 * other blocks' totals since this block's last tile, always added in the same order. Partial tiles (at the end of a
 * row) are loaded directly from memory, twice.
 *   MD_STAGE_BYTES   of a stage: enough for all that the scan's operand loads of a tile */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "recur.h"
#include "md_expr.h"

#define MD_GROUP MD_THREADS
#include "scan.h"
#include "lookback.h"

/* Types passed as the number of elements: loads of a tile's operand are counted, started, or found in their stage, one
 * after the other. */
struct md_counted {
    unsigned *bytes;
};
struct md_sent {
    unsigned *to, bar;
};
struct md_found {
    unsigned *from;
    int at; /* element of the tile */
};
template <class S> struct md_tile_of {
    enum { BYTES = MD_TILE_VECTORS * MD_VL * (int)sizeof(typename S::E) };
};
template <class S> MD_INLINE md_raw<S> md_fetch_unit(const void *, int64_t, md_counted n, bool)
{
    *n.bytes += md_tile_of<S>::BYTES;
    return md_zero_raw<S>();
}
template <class S> MD_INLINE md_raw<S> md_fetch_unit(const void *t, int64_t o, md_sent n, bool)
{
    md_bulk_load(*n.to, (const typename S::E *)t + o, md_tile_of<S>::BYTES, n.bar);
    *n.to += md_tile_of<S>::BYTES;
    return md_zero_raw<S>();
}
template <class S> MD_INLINE md_raw<S> md_fetch_unit(const void *, int64_t, md_found n, bool)
{
    const md_raw<S> r = md_get_whole<S>(md_shared + *n.from + n.at * (int)sizeof(typename S::E));
    *n.from += md_tile_of<S>::BYTES;
    return r;
}

/* A tile among those of all rows, and the next one of the same block. */
struct md_walk {
    int64_t number, row, i; /* i: number in the row */
};
MD_INLINE void md_step(md_walk &w, int64_t tiles, int64_t by)
{
    w.number += by;
    w.i += by;
    while (w.i >= tiles) {
        w.i -= tiles;
        w.row++;
    }
}

struct md_ring {
    int64_t tiles, all, blocks; /* tiles of a row; of all rows; that run side by side */
    unsigned full; /* shared memory address of the stages' barriers */
};
MD_INLINE int md_next_stage(int stage) { return stage + 1 == MD_RING ? 0 : stage + 1; }
MD_INLINE unsigned md_bar_of(const md_ring &r, int stage) { return r.full + stage * 8; }

/* The tile's first element; whether all of it is in the row. */
MD_INLINE int64_t md_least_of(const md_track &t, int64_t i)
{
    return md_first_of(t, MD_REVERSE ? (i + 1) * MD_TILE_VECTORS - 1 : i * MD_TILE_VECTORS);
}
MD_INLINE bool md_is_whole_tile(const md_track &t, int64_t i)
{
    const int64_t least = md_least_of(t, i);
    return least >= 0 && least + MD_TILE_VECTORS * MD_VL <= t.n;
}

/* Called by one thread. */
MD_INLINE void md_send(const md_params *p, const md_ring &r, const md_walk &w, int stage)
{
    const md_track track = md_track_of(MD_COUNT(p), 0);
    if (w.number >= r.all || !md_is_whole_tile(track, w.i))
        return;
    MD_ROW_AT(p, w.row);
    const int64_t least = md_least_of(track, w.i);
    unsigned bytes = 0, to = md_shared_address(md_shared) + stage * MD_STAGE_BYTES;
    md_body(MD_X p, least, md_counted{&bytes});
    md_bar_expect(md_bar_of(r, stage), bytes);
    md_body(MD_X p, least, md_sent{&to, md_bar_of(r, stage)});
}

/* Of a vector of a whole tile. */
MD_INLINE MD_VALUE md_operand(const md_params *p, const md_walk &w, const md_track &t, int stage, int64_t q)
{
    MD_ROW_AT(p, w.row);
    const int64_t x = md_first_of(t, q);
    unsigned from = stage * MD_STAGE_BYTES;
    return md_body(MD_X p, x, md_found{&from, (int)(x - md_least_of(t, w.i))});
}

MD_INLINE int64_t md_vector_of(const md_walk &w, int warp, int lane)
{
    return w.i * MD_TILE_VECTORS + warp * (32 * MD_ITEMS) + lane;
}

MD_INLINE MD_TOTAL md_over_warp(MD_TOTAL v)
{
    MD_UNROLL
    for (int by = 16; by > 0; by /= 2) {
        const MD_TOTAL other = md_from(v, (md_lane_id() ^ by));
        v = MD_OP_TOTAL(v, other);
    }
    return v;
}

/* A warp's part of a tile that has arrived. */
MD_INLINE MD_TOTAL md_warp_total(const md_params *p, const md_walk &w, bool is_whole, int stage, int warp, int lane)
{
    const md_track track = md_track_of(MD_COUNT(p), 0);
    MD_TOTAL all = MD_TOTAL_IDENTITY;
    if (is_whole) {
        MD_FOR (i, MD_ITEMS)
            all = MD_OP_TOTAL(
                all, (MD_TOTAL)md_vector_total(md_operand(p, w, track, stage, md_vector_of(w, warp, lane) + i * 32)));
    } else {
        MD_ROW_AT(p, w.row);
        MD_ROLLED for (int i = 0; i < MD_ITEMS; i++) all =
            MD_OP_TOTAL(all, (MD_TOTAL)md_vector_total(md_body_part(
                                 MD_X p, track, md_first_of(track, md_vector_of(w, warp, lane) + i * 32))));
    }
    return md_over_warp(all);
}

/* Waits for the totals of tiles from .. to - 1 and adds them. Called by a warp. */
MD_INLINE MD_TOTAL md_collect_notes(const md_board &board, int64_t from, int64_t to, int lane)
{
    enum { AT_ONCE = 5 }; /* states of a lane: of 160 blocks without a second round */
    const uint64_t known = board.base + MD_COMPLETE;
    MD_TOTAL all = MD_TOTAL_IDENTITY;
    for (int64_t k = from + lane; k < to; k += 32 * AT_ONCE) {
        md_tile_state n[AT_ONCE];
        MD_FOR (u, AT_ONCE) {
            n[u] = md_tile_state{MD_TOTAL_IDENTITY, known};
            if (k + 32 * u < to)
                n[u] = md_tile_state_load(board.states + (k + 32 * u) * 16);
        }
        MD_FOR (u, AT_ONCE) {
            while (n[u].state != known)
                n[u] = md_tile_state_load(board.states + (k + 32 * u) * 16);
            all = MD_OP_TOTAL(all, n[u].total);
        }
    }
    return md_over_warp(all);
}

/* What the first warp tells the others of a tile: the total before it, and before each warp's part of it. */
struct md_fronts {
    MD_TOTAL tile, warp[2][MD_WARPS]; /* warp: two buffers, for alternate tiles */
};

/* Publishes the total of the next tile, made of the warps' totals in `shared`. One barrier. */
MD_INLINE void md_tell_total(const md_params *p, const md_ring &r, const md_board &board, const md_walk &w, int stage,
                             unsigned &parity, MD_TOTAL *shared, MD_TOTAL *warp_fronts, int warp, int lane)
{
    if (w.number < r.all) {
        const bool is_whole = md_is_whole_tile(md_track_of(MD_COUNT(p), 0), w.i);
        if (is_whole) {
            md_bar_wait(md_bar_of(r, stage), parity >> stage & 1);
            parity ^= 1u << stage;
        }
        const MD_TOTAL own = md_warp_total(p, w, is_whole, stage, warp, lane);
        if (lane == 0)
            shared[warp] = own;
    }
    __syncthreads();
    if (w.number < r.all && warp == 0) {
        MD_TOTAL all = lane < MD_WARPS ? shared[lane] : (MD_TOTAL)MD_TOTAL_IDENTITY;
        MD_UNROLL
        for (int by = 1; by < 32; by *= 2) {
            const MD_TOTAL left = md_up(all, by);
            all = lane >= by ? MD_OP_TOTAL(left, all) : all;
        }
        if (lane == 31)
            md_tile_state_store(board.states + w.number * 16, all, board.base + MD_COMPLETE);
        const MD_TOTAL before = md_up(all, 1);
        if (lane < MD_WARPS)
            warp_fronts[lane] = lane > 0 ? before : (MD_TOTAL)MD_TOTAL_IDENTITY;
    }
}

/* Scans and stores a tile that has arrived, and starts loading the one that replaces it. One barrier. */
MD_INLINE void md_finish_tile(const md_params *p, const md_walk &w, int stage, const MD_TOTAL *front,
                              const MD_TOTAL *warp_front, int warp, int lane, const md_ring &r, const md_walk &next)
{
    const md_track track = md_track_of(MD_COUNT(p), 0);
    md_tile tile;
    MD_ROW_AT(p, w.row);
    if (md_is_whole_tile(track, w.i)) {
        MD_FOR (i, MD_ITEMS)
            tile.v[i] = md_operand(p, w, track, stage, md_vector_of(w, warp, lane) + i * 32);
    } else {
        MD_FOR (i, MD_ITEMS)
            tile.v[i] = md_body_part(MD_X p, track, md_first_of(track, md_vector_of(w, warp, lane) + i * 32));
    }
    md_tile_scan(tile, lane);
    __syncthreads();
    if (threadIdx.x == 0)
        md_send(p, r, next, stage);
    md_tile_store(MD_X p, tile, track, md_vector_of(w, warp, 0), lane, MD_OP_TOTAL(*front, *warp_front));
}

MD_EXPORT void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL shared[MD_WARPS];
    __shared__ md_fronts fronts;
    __shared__ uint64_t full[MD_RING];
    const md_params *p = &params;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    /* rows begin at boundaries */
    const int64_t tiles = (MD_COUNT(p) + MD_TILE_VECTORS * MD_VL - 1) / (MD_TILE_VECTORS * MD_VL);
    const md_ring ring = {tiles, MD_ROWS(p) * tiles, gridDim.x, md_shared_address(full)};
    if (blockIdx.x >= ring.all)
        return;
    const md_board board = md_board_of(p, ring.all);
    md_walk at = {0, 0, 0}, ahead, sent;
    md_step(at, tiles, blockIdx.x);
    ahead = sent = at;
    if (threadIdx.x == 0) {
        MD_FOR (k, MD_RING)
            md_bar_init(md_bar_of(ring, k), 1);
        md_bar_init_fence();
    }
    MD_FOR (k, MD_RING) {
        if (threadIdx.x == 0)
            md_send(p, ring, sent, k);
        md_step(sent, tiles, ring.blocks);
    }
    __syncthreads();
    MD_TOTAL carry = MD_TOTAL_IDENTITY; /* the total before `at` in its row; in the first warp */
    unsigned parity = 0;
    int stage = 0, stage_ahead = 0, turn = 0;
    md_tell_total(p, ring, board, ahead, 0, parity, shared, fronts.warp[0], warp, lane);
    __syncthreads();
    MD_ROLLED while (at.number < ring.all)
    {
        md_step(ahead, tiles, ring.blocks);
        stage_ahead = md_next_stage(stage_ahead);
        md_tell_total(p, ring, board, ahead, stage_ahead, parity, shared, fronts.warp[turn ^ 1], warp, lane);
        if (warp == 0) {
            const bool is_new_row = at.i < ring.blocks;
            const MD_TOTAL more =
                md_collect_notes(board, at.number - (is_new_row ? at.i : ring.blocks), at.number, lane);
            carry = is_new_row ? more : MD_OP_TOTAL(carry, more);
            if (lane == 0)
                fronts.tile = carry;
        }
        md_finish_tile(p, at, stage, &fronts.tile, &fronts.warp[turn][warp], warp, lane, ring, sent);
        md_step(at, tiles, ring.blocks);
        md_step(sent, tiles, ring.blocks);
        stage = md_next_stage(stage);
        turn ^= 1;
    }
    md_leave(board.head, ring.blocks);
}
