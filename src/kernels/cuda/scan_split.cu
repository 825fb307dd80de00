/* Scans of few long rows, cut into tiles of a block each. MD_PHASE:
 *   1, 2, 3   three launches: totals of tiles; the total before each tile; the tiles again. The bits depend on nothing
 *             but the length
 *   4, 5      one pass: a block publishes its tile's total, looks back over the totals before it until it meets one
 *             that includes all earlier tiles (Merrill and Garland, 2016), and stores. How far it looks depends on
 *             timing, so float sums may differ in the last bits from call to call. Launch 4 clears states in the
 *             workspace.
 * The workspace has an MD_TOTAL for each tile (three launches), or a head of 16 bytes and 16 bytes for each tile
 * (look-back over more than MD_COUNTED tiles). */
#include "md_config.h"
#include "prelude.h"
#include "recur.h"
#include "md_expr.h"

#define MD_GROUP MD_THREADS
#ifndef MD_DELAY
#define MD_DELAY 20 /* nanoseconds between two looks */
#endif
#include "scan.h"

#if MD_PHASE == 5

#include "lookback.h"

#define MD_WINDOWS 4 /* of 32 tiles, which a look-back reads at once */

/* Called by a whole warp: the total before tile `i` of the row whose first state is at `states`. */
MD_INLINE MD_TOTAL md_look_back(const char *states, uint64_t base, int64_t i, int lane)
{
    MD_TOTAL before = MD_TOTAL_IDENTITY;
    for (int64_t at = i - 1 - lane;; at -= 32 * MD_WINDOWS) {
        md_tile_state n[MD_WINDOWS];
        MD_FOR (w, MD_WINDOWS) {
            n[w] = md_tile_state{MD_TOTAL_IDENTITY, base + MD_COMPLETE};
            if (at - w * 32 >= 0)
                n[w] = md_tile_state_load(states + (at - w * 32) * 16);
        }
        MD_FOR (w, MD_WINDOWS) {
            unsigned complete, wanted;
            for (;;) {
                complete = __ballot_sync(0xffffffffu, n[w].state == base + MD_COMPLETE);
                wanted =
                    complete ? complete ^ (complete - 1) : 0xffffffffu; /* up to the nearest state that is complete */
                if (!(__ballot_sync(0xffffffffu, n[w].state <= base) & wanted))
                    break;
                if (MD_DELAY)
                    __nanosleep(MD_DELAY);
                if (at - w * 32 >= 0)
                    n[w] = md_tile_state_load(states + (at - w * 32) * 16);
            }
            MD_TOTAL v = wanted >> lane & 1 ? n[w].total : (MD_TOTAL)MD_TOTAL_IDENTITY;
            MD_UNROLL
            for (int by = 16; by > 0; by /= 2) {
                const MD_TOTAL further = md_from(v, (lane + by) & 31);
                v = lane + by < 32 ? MD_OP_TOTAL(further, v) : v;
            }
            before = MD_OP_TOTAL(md_from(v, 0), before);
            if (complete)
                return before;
        }
    }
}

#endif

#if MD_PHASE == 4

extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t i = (int64_t)blockIdx.x * MD_THREADS + threadIdx.x;
    if (i <= MD_ROWS(p) * md_tiles(MD_COUNT(p)))
        ((ulonglong2 *)p->work0)[i] = ulonglong2{0, 0};
}

#elif MD_PHASE == 2

/* One block a row; each thread has a run of tiles. */
extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL shared[MD_WARPS];
    const md_params *p = &params;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t tiles = md_tiles(MD_COUNT(p)), run = (tiles + MD_THREADS - 1) / MD_THREADS, from = threadIdx.x * run;
    const int64_t to = from + run < tiles ? from + run : tiles;
    if (blockIdx.x >= MD_ROWS(p))
        return;
    MD_TOTAL *total = (MD_TOTAL *)p->work0 + (int64_t)blockIdx.x * tiles, all = MD_TOTAL_IDENTITY, before;
    for (int64_t i = from; i < to; i++)
        all = MD_OP_TOTAL(all, total[i]);
    MD_TOTAL sum = all;
    MD_UNROLL
    for (int by = 1; by < 32; by *= 2) {
        const MD_TOTAL left = md_up(sum, by);
        sum = lane >= by ? MD_OP_TOTAL(left, sum) : sum;
    }
    MD_TOTAL left = md_up(sum, 1);
    left = lane > 0 ? left : (MD_TOTAL)MD_TOTAL_IDENTITY;
    md_group_scan(md_from(sum, 31), shared, warp, lane, &before);
    before = MD_OP_TOTAL(before, left);
    for (int64_t i = from; i < to; i++) {
        const MD_TOTAL own = total[i];
        total[i] = before;
        before = MD_OP_TOTAL(before, own);
    }
}

#else

#if MD_PHASE == 5
/* Blocks take numbers in the order in which they start, so that a block waits only for blocks that run. */
MD_INLINE int64_t md_take(md_head *head)
{
#ifdef MD_TRUST
    return blockIdx.x;
#endif
    __shared__ unsigned number;
    if (threadIdx.x == 0)
        number = atomicAdd(&head->started, 1u);
    __syncthreads();
    return number;
}

/* The total before the block's tile; called by all threads. */
MD_INLINE MD_TOTAL md_front_of(const md_board &board, int64_t number, int64_t i, MD_TOTAL all, int warp, int lane)
{
    __shared__ MD_TOTAL front;
    if (warp == 0) {
        if (lane == 0)
            md_tile_state_store(board.states + number * 16, all, board.base + (i == 0 ? MD_COMPLETE : MD_PARTIAL));
        const MD_TOTAL before = md_look_back(board.states + (number - i) * 16, board.base, i, lane);
        if (lane == 0) {
            if (i > 0)
                md_tile_state_store(board.states + number * 16, MD_OP_TOTAL(before, all), board.base + MD_COMPLETE);
            front = before;
        }
    }
    __syncthreads();
    return front;
}
#endif

/* A tile that stays in registers between its total and its store, or (MD_ROUNDS > 1) in shared memory: the more input
 * is on chip, the longer blocks may look back without leaving memory idle. */
#if MD_ROUNDS > 1
struct alignas(16) md_slot {
    MD_VALUE v;
};
extern __shared__ md_slot md_slots[];

MD_INLINE md_slot *md_slots_of(int warp, int round, int lane)
{
    return md_slots + (warp * MD_ROUNDS + round) * (32 * MD_ITEMS) + lane;
}

MD_INLINE MD_TOTAL md_tile_keep(MD_X_DECL const md_params *p, const md_track &t, int64_t q, int warp, int lane)
{
    MD_TOTAL all = MD_TOTAL_IDENTITY;
    MD_ROLLED
    for (int round = 0; round < MD_ROUNDS; round++) {
        md_tile tile;
        md_tile_load(MD_X p, tile, t, q + round * (32 * MD_ITEMS), lane);
        MD_FOR (i, MD_ITEMS) {
            md_slots_of(warp, round, lane)[i * 32].v = tile.v[i];
            all = MD_OP_TOTAL(all, (MD_TOTAL)md_vector_total(tile.v[i]));
        }
    }
    MD_UNROLL
    for (int by = 16; by > 0; by /= 2) {
        const MD_TOTAL further = md_from(all, (lane + by) & 31);
        all = lane + by < 32 ? MD_OP_TOTAL(all, further) : all;
    }
    return md_from(all, 0);
}

MD_INLINE void md_tile_finish(MD_X_DECL const md_params *p, const md_track &t, int64_t q, int warp, int lane,
                              MD_TOTAL prefix)
{
    MD_ROLLED
    for (int round = 0; round < MD_ROUNDS; round++) {
        md_tile tile;
        MD_FOR (i, MD_ITEMS)
            tile.v[i] = md_slots_of(warp, round, lane)[i * 32].v;
        const MD_TOTAL all = md_tile_scan(tile, lane);
        md_tile_store(MD_X p, tile, t, q + round * (32 * MD_ITEMS), lane, prefix);
        prefix = MD_OP_TOTAL(prefix, all);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL shared[MD_WARPS];
    const md_params *p = &params;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t tiles = md_tiles(MD_COUNT(p)), all_tiles = MD_ROWS(p) * tiles;
    if (blockIdx.x >= all_tiles)
        return;
#if MD_PHASE == 5
    const md_board board = md_board_of(p, all_tiles);
    const int64_t number = md_take(board.head);
#else
    /* The last pass begins with the tiles that were read last: some are still in L2. */
    const int64_t number = MD_PHASE == 3 ? all_tiles - 1 - blockIdx.x : blockIdx.x;
#endif
    const int64_t row = number / tiles, i = number % tiles;
    MD_ROW_AT(p, row);
    const md_track track = md_track_of(MD_COUNT(p), MD_ALIGNED ? 0 : md_lead(MD_X p, 0));
    const int64_t q = i * MD_TILE_VECTORS + warp * (32 * MD_ITEMS * MD_ROUNDS);
    MD_TOTAL before;
#if MD_ROUNDS > 1
    const MD_TOTAL all = md_group_scan(md_tile_keep(MD_X p, track, q, warp, lane), shared, warp, lane, &before);
    md_tile_finish(MD_X p, track, q, warp, lane, MD_OP_TOTAL(md_front_of(board, number, i, all, warp, lane), before));
    md_leave(board.head, all_tiles);
#else
    md_tile tile;
    md_tile_load(MD_X p, tile, track, q, lane);
    const MD_TOTAL all = md_group_scan(md_tile_scan(tile, lane), shared, warp, lane, &before);
#if MD_PHASE == 1
    if (threadIdx.x == 0)
        ((MD_TOTAL *)p->work0)[number] = all;
#elif MD_PHASE == 3
    md_tile_store(MD_X p, tile, track, q, lane, MD_OP_TOTAL(((MD_TOTAL *)p->work0)[number], before));
#else
    md_tile_store(MD_X p, tile, track, q, lane, MD_OP_TOTAL(md_front_of(board, number, i, all, warp, lane), before));
    md_leave(board.head, all_tiles);
#endif
#endif
}

#endif
