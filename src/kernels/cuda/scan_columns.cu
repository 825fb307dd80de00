/* Scans of few long columns in one pass, cut into tiles of a block each. A block publishes its tile's totals, of each
 * column; the first tile of a group of MD_GROUP_TILES then publishes the totals before the group: those before the last
 * group and the last group's tiles, in this order; every tile adds the tiles of its group before it. So all is added in
 * one order, whatever the timing. The workspace has an MD_TOTAL a column for each tile, then for each group; before
 * them, for more than MD_COUNTED tiles, states, which launch 4 clears. */
#include "md_config.h"
#include "prelude.h"
#include "recur.h"
#include "md_expr.h"
#include "lookback.h"

#define MD_ACROSS 8
#define MD_DOWN (MD_THREADS / MD_ACROSS)
#define MD_WIDTH (MD_ACROSS * MD_VL)
#define MD_TILE_LENGTH (MD_DOWN * MD_ITEMS)
#define MD_GROUP_TILES 16
#define MD_SLOTS (MD_THREADS / MD_WIDTH)
#if MD_CARRY == 3 /* runs of a thread in f32, all else in f64 */
#define MD_RUN MD_ONE
#else
#define MD_RUN MD_TOTAL
#endif

/* A tile: number among all; of which chain of tiles (a row's piece of MD_WIDTH columns); number in the chain. Chains go
 * side by side. */
struct md_column_tile {
    int64_t number, chain, i, chains;
};

MD_INLINE int64_t md_pieces(const md_params *p) { return (MD_COLUMNS(p) + MD_WIDTH - 1) / MD_WIDTH; }
MD_INLINE int64_t md_all_tiles(const md_params *p)
{
    return md_pieces(p) * MD_ROWS(p) * ((MD_COUNT(p) + MD_TILE_LENGTH - 1) / MD_TILE_LENGTH);
}

#if MD_PHASE == 4

extern "C" __global__ void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t i = (int64_t)blockIdx.x * MD_THREADS + threadIdx.x;
    if (i <= md_all_tiles(p))
        ((ulonglong2 *)p->work0)[i] = ulonglong2{0, 0};
}

#else

MD_INLINE double md_word_up(double v, int by) { return __shfl_up_sync(0xffffffffu, v, by); }
MD_INLINE float md_word_up(float v, int by) { return __shfl_up_sync(0xffffffffu, v, by); }
MD_INLINE int md_word_up(int v, int by) { return __shfl_up_sync(0xffffffffu, v, by); }
MD_INLINE int64_t md_word_up(int64_t v, int by) { return (int64_t)__shfl_up_sync(0xffffffffu, (long long)v, by); }
#if MD_RECURRENCE
template <class T> MD_INLINE md_step<T> md_word_up(const md_step<T> &v, int by)
{
    return md_step<T>(md_word_up(v.a, by), md_word_up(v.b, by));
}
#endif

/* What another block wrote: not from this SM's cache. */
MD_INLINE MD_TOTAL md_total_load(const MD_TOTAL *at)
{
    MD_TOTAL total;
    MD_FOR (k, (int)(sizeof(MD_TOTAL) / 4))
        ((unsigned *)&total)[k] = __ldcg((const unsigned *)at + k);
    return total;
}

MD_INLINE void md_publish(const md_board &board, int64_t number, uint64_t state)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(board.states + number * 16 + 8), "l"(board.base + state)
                 : "memory");
}

/* Waits until a tile has published at least this state. */
MD_INLINE void md_await(const md_board &board, int64_t number, uint64_t state)
{
    for (;;) {
        uint64_t now;
        asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
                     : "=l"(now)
                     : "l"(board.states + number * 16 + 8)
                     : "memory");
        if (now >= board.base + state)
            return;
        __nanosleep(20);
    }
}

/* Scans the runs of each column: the total of a run becomes that of the tile's runs before it. Stores the tile's
 * totals. */
MD_INLINE void md_scan_runs(MD_TOTAL (&runs)[MD_DOWN][MD_WIDTH + 1], MD_TOTAL *total)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    MD_FOR (c, MD_WIDTH / (MD_THREADS / 32)) {
        const int column = warp * (MD_WIDTH / (MD_THREADS / 32)) + c;
        MD_TOTAL all = runs[lane][column];
        MD_UNROLL
        for (int by = 1; by < 32; by *= 2) {
            const MD_TOTAL left = md_word_up(all, by);
            all = lane >= by ? MD_OP_TOTAL(left, all) : all;
        }
        const MD_TOTAL before = md_word_up(all, 1);
        runs[lane][column] = lane > 0 ? before : (MD_TOTAL)MD_TOTAL_IDENTITY;
        if (lane == 31)
            total[column] = all;
    }
}

/* front[c]: the totals before tile `first`; then those of n <= MD_GROUP_TILES tiles from there on too. */
MD_INLINE void md_add_tiles(MD_TOTAL (&slot)[MD_SLOTS][MD_WIDTH], MD_TOTAL *front, const MD_TOTAL *totals, int n,
                            int64_t chains)
{
    const int column = (int)threadIdx.x % MD_WIDTH, s = (int)threadIdx.x / MD_WIDTH;
    enum { EACH = MD_GROUP_TILES / MD_SLOTS };
    MD_TOTAL t[EACH], all = MD_TOTAL_IDENTITY;
    MD_FOR (k, EACH) {
        t[k] = MD_TOTAL_IDENTITY;
        if (s * EACH + k < n)
            t[k] = md_total_load(totals + (s * EACH + k) * chains * MD_WIDTH + column);
    }
    MD_FOR (k, EACH)
        all = MD_OP_TOTAL(all, t[k]);
    slot[s][column] = all;
    __syncthreads();
    if (threadIdx.x < MD_WIDTH) {
        MD_TOTAL sum = front[threadIdx.x];
        MD_FOR (k, MD_SLOTS)
            sum = MD_OP_TOTAL(sum, slot[k][threadIdx.x]);
        front[threadIdx.x] = sum;
    }
    __syncthreads();
}

/* The totals before the tile, in front[c]. */
MD_INLINE void md_front(MD_TOTAL (&slot)[MD_SLOTS][MD_WIDTH], MD_TOTAL *front, const md_board &board,
                        const md_column_tile &tile, const MD_TOTAL *totals, MD_TOTAL *groups)
{
    const int64_t group = tile.i / MD_GROUP_TILES, first = group * MD_GROUP_TILES;
    const bool leads = tile.i == first;
    /* the leader adds the whole group before to what was before that; others what is before them in their group */
    const int64_t from = leads ? first - MD_GROUP_TILES : first;
    const int n = (int)(tile.i - from), lane = (int)threadIdx.x;
    if (tile.i == 0) {
        if (lane < MD_WIDTH)
            front[lane] = groups[tile.chain * MD_WIDTH + lane] = MD_TOTAL_IDENTITY;
        __syncthreads();
    } else {
        if (lane < n)
            md_await(board, (from + lane) * tile.chains + tile.chain, lane == 0 ? MD_COMPLETE : MD_PARTIAL);
        __syncthreads();
        if (lane < MD_WIDTH)
            front[lane] =
                md_total_load(groups + ((from / MD_GROUP_TILES) * tile.chains + tile.chain) * MD_WIDTH + lane);
        md_add_tiles(slot, front, totals + (from * tile.chains + tile.chain) * MD_WIDTH, n, tile.chains);
        if (leads && lane < MD_WIDTH)
            groups[(group * tile.chains + tile.chain) * MD_WIDTH + lane] = front[lane];
    }
    if (leads) {
        __syncthreads();
        if (lane == 0)
            md_publish(board, tile.number, MD_COMPLETE);
    }
}

MD_N_DECL MD_INLINE void md_load_tile(MD_OUTER_DECL const md_params *p, MD_VALUE (&v)[MD_ITEMS], int64_t at, md_n_t n,
                                      bool is_inside, int64_t first)
{
    const int64_t count = MD_COUNT(p);
    MD_FOR (s, MD_ITEMS) {
        v[s] = MD_SPLAT(MD_IDENTITY);
        if (is_inside && first + s < count)
            v[s] = md_body(MD_X_AT(at, n) p, MD_REVERSE ? count - 1 - first - s : first + s);
    }
}

MD_N_DECL MD_INLINE void md_store_tile(MD_OUTER_DECL const md_params *p, const MD_VALUE (&v)[MD_ITEMS], int64_t at,
                                       md_n_t n, bool is_inside, int64_t first)
{
    const int64_t count = MD_COUNT(p);
    MD_FOR (s, MD_ITEMS)
        if (is_inside && first + s < count)
            md_out(MD_X_AT(at, n) p, MD_REVERSE ? count - 1 - first - s : first + s, MD_RESULT_OF(v[s]));
}

/* Tiles take numbers in the order in which blocks start, so that a block waits only for blocks that run. */
MD_INLINE md_column_tile md_take_tile(const md_params *p, md_head *head)
{
    __shared__ unsigned taken;
    if (threadIdx.x == 0)
        taken = atomicAdd(&head->started, 1u);
    __syncthreads();
    const int64_t chains = md_pieces(p) * MD_ROWS(p), number = taken;
    return md_column_tile{number, number % chains, number / chains, chains};
}

extern "C" __global__ void __launch_bounds__(MD_THREADS, 2) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL runs[MD_DOWN][MD_WIDTH + 1], slot[MD_SLOTS][MD_WIDTH], front[MD_WIDTH];
    const md_params *p = &params;
    const int64_t tiles = md_all_tiles(p);
    if (blockIdx.x >= tiles)
        return;
    const md_board board = md_board_of(p, tiles);
    const md_column_tile tile = md_take_tile(p, board.head);
    MD_TOTAL *const totals = (MD_TOTAL *)((char *)p->work0 + (tiles > MD_COUNTED ? (tiles + 1) * 16 : 0));
    const int x = (int)threadIdx.x % MD_ACROSS * MD_VL, y = (int)threadIdx.x / MD_ACROSS;
    const int64_t lanes = MD_COLUMNS(p), pieces = md_pieces(p), row = tile.chain / pieces;
    const int64_t left = tile.chain % pieces * MD_WIDTH, at = left + x, first = tile.i * MD_TILE_LENGTH + y * MD_ITEMS;
    const bool is_full = left + MD_WIDTH <= lanes;
    MD_VALUE v[MD_ITEMS];
    MD_ROW_AT(p, row);
    if (is_full)
        md_load_tile(MD_OUTER p, v, at, md_full{}, true, first);
    else
        md_load_tile(MD_OUTER p, v, at, md_clip(at, lanes), at < lanes, first);
    MD_FOR (k, MD_VL) {
        MD_RUN all = (MD_RUN)MD_GET(v[0], k);
        MD_UNROLL
        for (int s = 1; s < MD_ITEMS; s++)
            all = MD_OP(all, (MD_RUN)MD_GET(v[s], k));
        runs[y][x + k] = (MD_TOTAL)all;
    }
    __syncthreads();
    md_scan_runs(runs, totals + tile.number * MD_WIDTH);
    __syncthreads();
    if (threadIdx.x == 0 && tile.i % MD_GROUP_TILES != 0)
        md_publish(board, tile.number, MD_PARTIAL);
    md_front(slot, front, board, tile, totals, totals + tiles * MD_WIDTH);
    MD_FOR (k, MD_VL) {
        MD_RUN run = (MD_RUN)MD_OP_TOTAL(front[x + k], runs[y][x + k]);
        MD_FOR (s, MD_ITEMS) {
            const MD_RUN before = run;
            run = MD_OP(before, (MD_RUN)MD_GET(v[s], k));
            MD_SET(v[s], k, (MD_ONE)(MD_EXCLUSIVE ? before : run));
        }
    }
    if (is_full)
        md_store_tile(MD_OUTER p, v, at, md_full{}, true, first);
    else
        md_store_tile(MD_OUTER p, v, at, md_clip(at, lanes), at < lanes, first);
    md_leave(board.head, tiles);
}

#endif
