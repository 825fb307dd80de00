/* Scans of few long columns in one pass, cut into tiles of a block each. A thread has a run of a vector of columns:
 * MD_ITEMS elements in registers, and MD_KEPT before them in shared memory, as they were loaded (scan_ahead.h) or as
 * values. The more is on chip, the longer blocks may wait for one another without leaving memory idle.
 *
 * A block publishes its tile's totals, of each column, as soon as it has them. The totals before a group of
 * MD_GROUP_TILES tiles are those before the group before it and that group's tiles, in this order. Every tile adds them
 * up itself, since it would wait longer for another one; the first tile of a group publishes them for the group after.
 * So all is added in one order, whatever the timing. The workspace has an MD_TOTAL a column for each tile, then for
 * each group; before them, for more than MD_COUNTED tiles, states, which launch 4 clears. */
#include "md_config.h"
#include "prelude.h"
#include "recur.h"
#include "md_expr.h"
#include "mark.h"
#include "lookback.h"

#ifndef MD_ROUNDS
#define MD_ROUNDS 1
#endif
#define MD_AT_ONCE (MD_VL > 4 ? 1 : 2) /* elements that are taken from shared memory */
#define MD_ACROSS 8
#define MD_DOWN (MD_THREADS / MD_ACROSS)
#define MD_WIDTH (MD_ACROSS * MD_VL)
#define MD_RUN_LENGTH (MD_ITEMS * MD_ROUNDS)
#define MD_TILE_LENGTH (MD_DOWN * MD_RUN_LENGTH)
#define MD_GROUP_TILES (MD_THREADS / 8)
#define MD_SLOTS (MD_THREADS / MD_WIDTH)
#define MD_EACH (MD_GROUP_TILES / MD_SLOTS)
/* Threads of an SM: as many as have the registers for their elements. */
#define MD_RESIDENT (MD_ITEMS * (int)sizeof(MD_VALUE) > 160 ? 512 : 640)

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

MD_INLINE double md_word_up(double v, int by) { return __shfl_up_sync(0xffffffffu, v, by, MD_DOWN); }
MD_INLINE float md_word_up(float v, int by) { return __shfl_up_sync(0xffffffffu, v, by, MD_DOWN); }
MD_INLINE int md_word_up(int v, int by) { return __shfl_up_sync(0xffffffffu, v, by, MD_DOWN); }
MD_INLINE int64_t md_word_up(int64_t v, int by)
{
    return (int64_t)__shfl_up_sync(0xffffffffu, (long long)v, by, MD_DOWN);
}
#if MD_RECURRENCE
template <class T> MD_INLINE md_step<T> md_word_up(const md_step<T> &v, int by)
{
    return md_step<T>(md_word_up(v.a, by), md_word_up(v.b, by));
}
#endif

/* What another block wrote: not from this SM's cache. */
template <class W> MD_INLINE MD_TOTAL md_total_load_as(const MD_TOTAL *at)
{
    MD_TOTAL total;
    MD_FOR (k, (int)(sizeof(MD_TOTAL) / sizeof(W)))
        ((W *)&total)[k] = __ldcg((const W *)at + k);
    return total;
}
MD_INLINE MD_TOTAL md_total_load(const MD_TOTAL *at)
{
    return sizeof(MD_TOTAL) % 8 == 0 ? md_total_load_as<unsigned long long>(at) : md_total_load_as<unsigned>(at);
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

/* Column k of a thread's vector, as totals are ordered: neighbours in shared memory are of neighbouring threads. */
MD_INLINE int md_place(int k) { return k * MD_ACROSS + (int)threadIdx.x % MD_ACROSS; }

/* Scans the runs of each column: the total of a run becomes that of the tile's runs before it. Stores the tile's
 * totals. */
MD_INLINE void md_scan_runs(MD_TOTAL (&runs)[MD_DOWN][MD_WIDTH + 1], MD_TOTAL *total)
{
    const int lane = (int)threadIdx.x % MD_DOWN, team = (int)threadIdx.x / MD_DOWN;
    MD_FOR (c, MD_VL) {
        const int column = team * MD_VL + c;
        MD_TOTAL all = runs[lane][column];
        MD_UNROLL
        for (int by = 1; by < MD_DOWN; by *= 2) {
            const MD_TOTAL left = md_word_up(all, by);
            all = lane >= by ? MD_OP_TOTAL(left, all) : all;
        }
        const MD_TOTAL before = md_word_up(all, 1);
        runs[lane][column] = lane > 0 ? before : (MD_TOTAL)MD_TOTAL_IDENTITY;
        if (lane == MD_DOWN - 1)
            total[column] = all;
    }
}

/* The total of a thread's share of n <= MD_GROUP_TILES tiles, whose totals of a column are `stride` apart. */
MD_INLINE MD_TOTAL md_share_of(const MD_TOTAL *totals, int n, int64_t stride)
{
    const int STEP = MD_EACH < 4 ? MD_EACH : 4, column = (int)threadIdx.x % MD_WIDTH,
              first = (int)threadIdx.x / MD_WIDTH * MD_EACH;
    MD_TOTAL all = MD_TOTAL_IDENTITY;
    MD_ROLLED
    for (int from = 0; from < MD_EACH; from += STEP) {
        MD_TOTAL t[STEP]; /* few at a time, which leaves registers to the tile */
        MD_FOR (k, STEP) {
            t[k] = MD_TOTAL_IDENTITY;
            if (first + from + k < n)
                t[k] = md_total_load(totals + (first + from + k) * stride + column);
        }
        all = from == 0 ? t[0] : MD_OP_TOTAL(all, t[0]);
        MD_UNROLL
        for (int k = 1; k < STEP; k++)
            all = MD_OP_TOTAL(all, t[k]);
    }
    return all;
}

/* Totals of shares of the tiles before a tile: of the group before its own, and of its own. */
struct md_shares {
    MD_TOTAL far[MD_SLOTS][MD_WIDTH], near[MD_SLOTS][MD_WIDTH];
};

/* The totals before the tile, in front[c]. */
MD_INLINE void md_front(md_shares &shares, MD_TOTAL *front, const md_board &board, const md_column_tile &tile,
                        const MD_TOTAL *totals, MD_TOTAL *groups)
{
    const int64_t group = tile.i / MD_GROUP_TILES, stride = tile.chains * MD_WIDTH;
    const int64_t own = group * MD_GROUP_TILES, from = group > 0 ? own - MD_GROUP_TILES : 0;
    const int lane = (int)threadIdx.x, column = lane % MD_WIDTH, s = lane / MD_WIDTH;
    if (lane < tile.i - from)
        md_await(board, (from + lane) * tile.chains + tile.chain, group > 0 && lane == 0 ? MD_COMPLETE : MD_PARTIAL);
    __syncthreads();
    const MD_TOTAL *const of_chain = totals + tile.chain * MD_WIDTH;
    MD_TOTAL sum = MD_TOTAL_IDENTITY;
    if (group > 0 && lane < MD_WIDTH)
        sum = md_total_load(groups + ((group - 1) * tile.chains + tile.chain) * MD_WIDTH + lane);
    shares.far[s][column] = md_share_of(of_chain + from * stride, (int)(own - from), stride);
    shares.near[s][column] = md_share_of(of_chain + own * stride, (int)(tile.i - own), stride);
    __syncthreads();
    if (lane < MD_WIDTH) {
        MD_FOR (k, MD_SLOTS)
            sum = MD_OP_TOTAL(sum, shares.far[k][lane]);
        if (tile.i == own)
            groups[(group * tile.chains + tile.chain) * MD_WIDTH + lane] = sum;
        MD_FOR (k, MD_SLOTS)
            sum = MD_OP_TOTAL(sum, shares.near[k][lane]);
        front[lane] = sum;
    }
    __syncthreads();
    if (tile.i == own && lane == 0)
        md_publish(board, tile.number, MD_COMPLETE);
}

MD_INLINE int64_t md_place_on_axis(const md_params *p, int64_t i) { return MD_REVERSE ? MD_COUNT(p) - 1 - i : i; }

/* Loads MD_ITEMS elements of a thread's run from position `first` on. */
MD_N_DECL MD_INLINE void md_load_part(MD_OUTER_DECL const md_params *p, MD_VALUE (&v)[MD_ITEMS], int64_t at, md_n_t n,
                                      bool is_inside, int64_t first)
{
    MD_FOR (s, MD_ITEMS) {
        v[s] = MD_SPLAT(MD_IDENTITY);
        if (is_inside && first + s < MD_COUNT(p))
            v[s] = md_body(MD_X_AT(at, n) p, md_place_on_axis(p, first + s));
    }
}

#define MD_KEPT (MD_ITEMS * (MD_ROUNDS - 1)) /* elements of a thread in shared memory, each for this thread only */
#if MD_KEPT > 0 && MD_PIECES > 0
/* The elements wait as they were loaded. */
#include "scan_ahead.h"

MD_N_DECL MD_INLINE void md_keep_run(MD_OUTER_DECL const md_params *p, int64_t at, md_n_t n, bool is_inside,
                                     int64_t first)
{
#pragma unroll 4
    for (int i = 0; i < MD_KEPT; i++)
        if (is_inside && first + i < MD_COUNT(p)) {
            unsigned char *to = md_ahead_at(i);
            md_body(MD_X_AT(at, (md_ahead{&to, md_lanes_of(n)})) p, md_place_on_axis(p, first + i));
        }
    md_copy_commit();
}
MD_INLINE void md_await_kept(void) { md_copy_wait<0>(); }

MD_N_DECL MD_INLINE MD_VALUE md_get_kept(MD_OUTER_DECL const md_params *p, int64_t at, md_n_t, bool is_inside,
                                         int64_t first, int i)
{
    MD_VALUE v = MD_SPLAT(MD_IDENTITY);
    if (is_inside && first + i < MD_COUNT(p)) {
        const unsigned char *from = md_ahead_at(i);
        v = md_body(MD_X_AT(at, (md_landed{&from})) p, md_place_on_axis(p, first + i));
    }
    return v;
}
#elif MD_KEPT > 0
/* The elements wait as values. */
MD_INLINE MD_RESULT *md_kept_at(int vector)
{
    return (MD_RESULT *)md_shared + (vector * MD_THREADS + (int)threadIdx.x);
}
#if MD_RECURRENCE
MD_INLINE void md_keep(int item, const MD_VALUE &v)
{
    *md_kept_at(2 * item) = v.a;
    *md_kept_at(2 * item + 1) = v.b;
}
MD_INLINE MD_VALUE md_kept_value(int item) { return MD_VALUE(*md_kept_at(2 * item), *md_kept_at(2 * item + 1)); }
#else
MD_INLINE void md_keep(int item, const MD_VALUE &v) { *md_kept_at(item) = v; }
MD_INLINE MD_VALUE md_kept_value(int item) { return *md_kept_at(item); }
#endif

/* The loop is not unrolled, so that the compiler does not load all parts at once. */
MD_N_DECL MD_INLINE void md_keep_run(MD_OUTER_DECL const md_params *p, int64_t at, md_n_t n, bool is_inside,
                                     int64_t first)
{
    MD_ROLLED
    for (int r = 0; r < MD_KEPT; r += MD_ITEMS) {
        MD_VALUE v[MD_ITEMS];
        md_load_part(MD_OUTER p, v, at, n, is_inside, first + r);
        MD_FOR (s, MD_ITEMS)
            md_keep(r + s, v[s]);
    }
}
MD_INLINE void md_await_kept(void) {}

MD_N_DECL MD_INLINE MD_VALUE md_get_kept(MD_OUTER_DECL const md_params *, int64_t, md_n_t, bool, int64_t, int i)
{
    return md_kept_value(i);
}
#endif

/* Adds an element to the total of a thread's run in each of its columns. */
MD_INLINE void md_add_item(MD_ONE (&all)[MD_VL], const MD_VALUE &v, bool is_first)
{
    MD_FOR (k, MD_VL)
        all[k] = is_first ? (MD_ONE)MD_GET(v, k) : MD_OP(all[k], (MD_ONE)MD_GET(v, k));
}

/* What stands before the next of a thread's elements, in one column. Sums and products of f32 are taken in f32 inside
 * a run; a recurrence or another operation starts with what is before the run. */
struct md_progress {
#if MD_CARRY == 1 || MD_CARRY == 2
    md_mark mark;
#endif
    MD_ONE run;
};

MD_INLINE md_progress md_progress_after(MD_TOTAL before)
{
#if MD_CARRY == 1 || MD_CARRY == 2
    return md_progress{md_mark_of(before), (MD_ONE)MD_IDENTITY};
#else
    return md_progress{(MD_ONE)before};
#endif
}

MD_INLINE MD_ONE md_advance(md_progress &x, MD_ONE v)
{
    const MD_ONE before = x.run;
    x.run = MD_OP(before, v);
#if MD_CARRY == 1 || MD_CARRY == 2
    return md_after(x.mark, MD_EXCLUSIVE ? before : x.run);
#else
    return MD_EXCLUSIVE ? before : x.run;
#endif
}

/* Scans an element and stores it. */
MD_N_DECL MD_INLINE void md_store_item(MD_OUTER_DECL const md_params *p, md_progress (&run)[MD_VL], MD_VALUE v,
                                       int64_t at, md_n_t n, bool is_inside, int64_t i)
{
    MD_FOR (k, MD_VL)
        MD_SET(v, k, md_advance(run[k], (MD_ONE)MD_GET(v, k)));
    if (is_inside && i < MD_COUNT(p))
        md_out(MD_X_AT(at, n) p, md_place_on_axis(p, i), MD_RESULT_OF(v));
}

/* Loads the thread's run from position `first` on, the last MD_ITEMS elements into registers, and totals it. */
MD_N_DECL MD_INLINE void md_load_run(MD_OUTER_DECL const md_params *p, MD_ONE (&total)[MD_VL], MD_VALUE (&v)[MD_ITEMS],
                                     int64_t at, md_n_t n, bool is_inside, int64_t first)
{
#if MD_KEPT > 0
    md_keep_run(MD_OUTER p, at, n, is_inside, first);
#endif
    md_load_part(MD_OUTER p, v, at, n, is_inside, first + MD_KEPT);
#if MD_KEPT > 0
    md_await_kept();
    md_add_item(total, md_get_kept(MD_OUTER p, at, n, is_inside, first, 0), true);
#pragma unroll(MD_AT_ONCE)
    for (int i = 1; i < MD_KEPT; i++)
        md_add_item(total, md_get_kept(MD_OUTER p, at, n, is_inside, first, i), false);
#endif
    MD_FOR (s, MD_ITEMS)
        md_add_item(total, v[s], MD_KEPT == 0 && s == 0);
}

/* Scans the run and stores it: the elements in registers last, and few of the others in registers at a time. */
MD_N_DECL MD_INLINE void md_store_run(MD_OUTER_DECL const md_params *p, md_progress (&run)[MD_VL],
                                      const MD_VALUE (&v)[MD_ITEMS], int64_t at, md_n_t n, bool is_inside,
                                      int64_t first)
{
#if MD_KEPT > 0
#pragma unroll(MD_AT_ONCE)
    for (int i = 0; i < MD_KEPT; i++)
        md_store_item(MD_OUTER p, run, md_get_kept(MD_OUTER p, at, n, is_inside, first, i), at, n, is_inside,
                      first + i);
#endif
    MD_FOR (s, MD_ITEMS)
        md_store_item(MD_OUTER p, run, v[s], at, n, is_inside, first + MD_KEPT + s);
}

/* Tiles take numbers in the order in which blocks start, so that a block waits only for blocks that run. */
MD_INLINE md_column_tile md_take_tile(const md_params *p, md_head *head)
{
    __shared__ unsigned taken;
    if (threadIdx.x == 0)
        taken = atomicAdd(&head->started, 1u);
    __syncthreads();
    const unsigned chains = (unsigned)(md_pieces(p) * MD_ROWS(p)); /* no more than blocks */
    return md_column_tile{taken, taken % chains, taken / chains, chains};
}

extern "C" __global__ void __launch_bounds__(MD_THREADS, MD_RESIDENT / MD_THREADS)
    md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    __shared__ MD_TOTAL runs[MD_DOWN][MD_WIDTH + 1], front[MD_WIDTH];
    __shared__ md_shares shares;
    const md_params *p = &params;
    const int64_t tiles = md_all_tiles(p);
    if (blockIdx.x >= tiles)
        return;
    const md_board board = md_board_of(p, tiles);
    const md_column_tile tile = md_take_tile(p, board.head);
    MD_TOTAL *const totals = (MD_TOTAL *)((char *)p->work0 + (tiles > MD_COUNTED ? (tiles + 1) * 16 : 0));
    const int x = (int)threadIdx.x % MD_ACROSS * MD_VL, y = (int)threadIdx.x / MD_ACROSS;
    const int64_t lanes = MD_COLUMNS(p);
    const unsigned pieces = (unsigned)md_pieces(p), chain = (unsigned)tile.chain, row = chain / pieces;
    const int64_t left = (int64_t)(chain % pieces) * MD_WIDTH, at = left + x;
    const int64_t first = tile.i * MD_TILE_LENGTH + y * MD_RUN_LENGTH;
    const bool is_full = left + MD_WIDTH <= lanes;
    MD_VALUE v[MD_ITEMS];
    MD_ONE total[MD_VL];
    MD_ROW_AT(p, row);
    if (is_full)
        md_load_run(MD_OUTER p, total, v, at, md_full{}, true, first);
    else
        md_load_run(MD_OUTER p, total, v, at, md_clip(at, lanes), at < lanes, first);
    MD_FOR (k, MD_VL)
        runs[y][md_place(k)] = (MD_TOTAL)total[k];
    __syncthreads();
    md_scan_runs(runs, totals + tile.number * MD_WIDTH);
    __syncthreads();
    if (threadIdx.x == 0)
        md_publish(board, tile.number, MD_PARTIAL);
    md_front(shares, front, board, tile, totals, totals + tiles * MD_WIDTH);
    md_progress run[MD_VL];
    MD_FOR (k, MD_VL)
        run[k] = md_progress_after(MD_OP_TOTAL(front[md_place(k)], runs[y][md_place(k)]));
    if (is_full)
        md_store_run(MD_OUTER p, run, v, at, md_full{}, true, first);
    else
        md_store_run(MD_OUTER p, run, v, at, md_clip(at, lanes), at < lanes, first);
    md_leave(board.head, tiles);
}

#endif
