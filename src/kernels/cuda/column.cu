/* Rows that are not contiguous: lanes run over the last outer index. A block is MD_THREADS_X vectors of columns times
 * MD_THREADS_Y threads that share the axis. Each thread has every MD_THREADS_Y-th element and loads MD_ITEMS of them
 * at once. The threads of one column combine their results once per level.
 *   MD_KEEP    1: a thread's elements stay in registers: the axis has at most MD_THREADS_Y * MD_ITEMS elements; 0: the
 *              axis is read again where it is needed again
 *   MD_SPLIT   1: gridDim.y blocks share the axis, and the block that finishes last makes the results (read only); the
 *              partial results are in the workspace
 *   MD_PHASE   of a split that stores along the axis: 1: blocks write their partial results; 2, another launch: each
 *              block reads all of them and stores its share */
#include "md_config.h"
/* a part has a vector of columns: no registers for a second one, and a split makes the parts of a thread few */
#define MD_RUN_MIDDLE 0
#ifndef MD_PHASE
#define MD_PHASE 0
#endif
#include "prelude.h"
#include "row.h"
/* Functions of lanes that merging needs: counts are the same in all lanes. */
MD_INLINE md_b md_narrow_index(md_i i)
{
    md_b r;
    MD_LANES((int32_t)i.v[l])
}
template <class T> MD_INLINE md_vec<T> operator/(md_vec<T> a, T b) { return a / md_splat<T>(b); }
template <class T> MD_INLINE md_vec<T> operator*(md_vec<T> a, T b) { return a * md_splat<T>(b); }
#include "md_expr.h"

enum { MD_THREADS = MD_THREADS_X * MD_THREADS_Y, MD_WARPS = MD_THREADS / 32, MD_STEP = MD_THREADS_Y * MD_ITEMS };
/* The stream's counters (exchange.h uses others): one for each tile of a split launch, zero between launches. */
enum { MD_TICKETS_AT = 114688 };

#define MD_MIXES(l)                                                                                                    \
    MD_INLINE void md_mix(md_part##l &into, const md_part##l &from) { md_combine##l(&into, &from); }                   \
    MD_INLINE void md_nothing(md_part##l &p) { md_clear_part##l(&p); }
MD_LEVELS(MD_MIXES)
#define MD_MEMBER(l) md_part##l p##l;
union md_any_part {
    MD_LEVELS(MD_MEMBER)
};
static_assert(sizeof(md_any_part) <= MD_PART_BYTES && sizeof(md_state) <= 2 * MD_PART_BYTES,
              "the family counts on this for shared memory and workspace");
__shared__ md_any_part md_room[2][MD_WARPS][MD_THREADS_X];
__shared__ int md_last;

/* The place of a thread in the work. */
struct md_spot {
    int x, y;
    int64_t from, to; /* the thread's elements: from, from + MD_THREADS_Y, ... */
    int64_t count; /* of the block */
    int turn;
};

/* Combines the parts of all threads of a column in order of warps. Two buffers alternate, since no thread is two
 * exchanges ahead. Where the first thread of a column alone needs the result, the others get no sum: if all threads
 * read the parts of 16 warps, that takes longer than adding up. */
enum { MD_FIRST_ONLY = 0, MD_ALL = 1 };
#define MD_WHO(l) (MD_HAS_ELEMENTS || (l) < MD_N_LEVELS - 1 ? MD_ALL : MD_FIRST_ONLY)
template <int who, class P> MD_INLINE P md_mix_column(P p, md_spot &s)
{
    MD_UNROLL
    for (int o = MD_THREADS_X; o < 32; o *= 2)
        md_mix(p, md_shfl_xor(p, o));
    if (MD_WARPS == 1)
        return p;
    auto *room = md_room[s.turn++ & 1];
    if (md_lane_id() < MD_THREADS_X)
        *(P *)&room[md_warp_id()][s.x] = p;
    __syncthreads();
    if (who == MD_FIRST_ONLY && s.y != 0)
        return p;
    p = *(const P *)&room[0][s.x];
    MD_ROLLED
    for (int w = 1; w < MD_WARPS; w++)
        md_mix(p, *(const P *)&room[w][s.x]);
    return p;
}

#define MD_AT MD_X_AT(at, md_n)
#define MD_EACH(i, j)                                                                                                  \
    MD_FOR (i, N)                                                                                                      \
        if ((j) + (i)*MD_THREADS_Y < s.to)

/* ---- Levels of what a thread holds, of a chunk, of a pass over the axis */
#define MD_ADD_LEVEL(l, row)                                                                                           \
    md_acc##l acc;                                                                                                     \
    md_part##l part;                                                                                                   \
    md_clear##l(&acc, j);                                                                                              \
    MD_EACH (i, j)                                                                                                     \
        md_add##l(MD_AT p, &(row), &acc, &e[i], j + i * MD_THREADS_Y);                                                 \
    md_fold##l(&part, &acc);                                                                                           \
    if (j >= s.to)                                                                                                     \
        md_clear_part##l(&part);

#if MD_KEEP
#define MD_LEVEL(l)                                                                                                    \
    {                                                                                                                  \
        MD_ADD_LEVEL(l, row)                                                                                           \
        part = md_mix_column<MD_WHO(l)>(part, s);                                                                      \
        md_finish##l(MD_AT p, &row, &part);                                                                            \
    }
template <int N, class md_n_t>
MD_INLINE void md_reduce(MD_OUTER_DECL const md_params *p, md_row &row, md_elem (&e)[MD_ITEMS], md_spot &s, int64_t at,
                         md_n_t md_n)
{
    const int64_t j = s.from;
    MD_EACH (i, j)
        md_fetch(MD_AT p, &e[i], j + i * MD_THREADS_Y);
    MD_LEVELS(MD_LEVEL)
}
template <int N, class md_n_t>
MD_INLINE void md_write(MD_OUTER_DECL const md_params *p, const md_row &row, md_elem (&e)[MD_ITEMS], const md_spot &s,
                        int64_t at, md_n_t md_n)
{
    const int64_t j = s.from;
    MD_EACH (i, j) {
        md_fetch_epilogue(MD_AT p, &e[i], j + i * MD_THREADS_Y);
        md_out(MD_AT p, &row, &e[i], j + i * MD_THREADS_Y);
    }
}
#else
template <int N, class md_n_t>
MD_INLINE void md_write(MD_OUTER_DECL const md_params *p, const md_row &row, md_elem (&)[MD_ITEMS], const md_spot &s,
                        int64_t at, md_n_t md_n)
{
    MD_ROLLED
    for (int64_t j = s.from; j < s.to; j += N * MD_THREADS_Y) {
        md_elem e[N];
        MD_EACH (i, j)
            md_fetch_out(MD_AT p, &e[i], j + i * MD_THREADS_Y);
        MD_EACH (i, j)
            md_out(MD_AT p, &row, &e[i], j + i * MD_THREADS_Y);
    }
}
#if MD_ONLINE
#define MD_CHUNK_LEVEL(l)                                                                                              \
    {                                                                                                                  \
        MD_ADD_LEVEL(l, chunk)                                                                                         \
        md_finish##l(MD_AT p, &chunk, &part);                                                                          \
    }
#define MD_BLOCK_LEVEL(l)                                                                                              \
    {                                                                                                                  \
        md_part##l part;                                                                                               \
        md_rebase##l(&part, &total, &row);                                                                             \
        part = md_mix_column<MD_WHO(l)>(part, s);                                                                      \
        md_accept##l(&row, &part);                                                                                     \
    }
template <int N, class md_n_t>
MD_INLINE void md_reduce(MD_OUTER_DECL const md_params *p, md_row &row, md_elem (&)[MD_ITEMS], md_spot &s, int64_t at,
                         md_n_t md_n)
{
    md_state total = row, run;
    total.count = 0;
    run = total;
    int steps = 0;
    MD_ROLLED
    for (int64_t j = s.from; j < s.to; j += N * MD_THREADS_Y) {
        md_elem e[N];
        MD_EACH (i, j)
            md_fetch_body(MD_AT p, &e[i], j + i * MD_THREADS_Y);
        md_row chunk = row;
        const int64_t left = (s.to - j + MD_THREADS_Y - 1) / MD_THREADS_Y;
        chunk.count = (md_pos)(left < N ? left : N);
        MD_LEVELS(MD_CHUNK_LEVEL)
        md_merge(MD_PAIRWISE ? &run : &total, &chunk);
        steps++;
        MD_MERGE_RUN(steps)
    }
    if (MD_PAIRWISE)
        md_merge(&total, &run);
    row.count = (md_pos)s.count;
    MD_LEVELS(MD_BLOCK_LEVEL)
}
#else
#define MD_LEVEL(l)                                                                                                    \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_part##l part;                                                                                               \
        MD_RUN_START(l)                                                                                                \
        int steps = 0;                                                                                                 \
        md_clear##l(&acc, s.from);                                                                                     \
        MD_ROLLED                                                                                                      \
        for (int64_t j = s.from; j < s.to; j += N * MD_THREADS_Y) {                                                    \
            md_elem e[N];                                                                                              \
            MD_EACH (i, j)                                                                                             \
                md_fetch##l(MD_AT p, &e[i], j + i * MD_THREADS_Y);                                                     \
            MD_EACH (i, j)                                                                                             \
                md_add##l(MD_AT p, &row, &acc, &e[i], j + i * MD_THREADS_Y);                                           \
            steps++;                                                                                                   \
            MD_RUN_END(l, steps, N, s.from)                                                                            \
        }                                                                                                              \
        md_fold##l(&part, &acc);                                                                                       \
        MD_RUN_TOTAL(l)                                                                                                \
        if (s.from >= s.to)                                                                                            \
            md_clear_part##l(&part);                                                                                   \
        part = md_mix_column<MD_WHO(l)>(part, s);                                                                      \
        md_finish##l(MD_AT p, &row, &part);                                                                            \
    }
template <int N, class md_n_t>
MD_INLINE void md_reduce(MD_OUTER_DECL const md_params *p, md_row &row, md_elem (&)[MD_ITEMS], md_spot &s, int64_t at,
                         md_n_t md_n)
{
    MD_LEVELS(MD_LEVEL)
}
#endif
#endif

#if MD_SPLIT
/* Stores the block's partial results. */
MD_INLINE void md_leave(const md_params *p, const md_state &mine, const md_spot &s)
{
    md_state *all = (md_state *)p->work0 + ((int64_t)blockIdx.x * gridDim.y + blockIdx.y) * MD_THREADS_X;
    if (s.y == 0)
        all[s.x] = mine;
}
#if MD_PHASE == 0
/* True if all other blocks have stored theirs. */
MD_INLINE bool md_is_last(const md_params *p)
{
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *ticket = (uint32_t *)((char *)p->counters0 + MD_TICKETS_AT) + blockIdx.x;
        md_last = atomicAdd(ticket, 1) == gridDim.y - 1;
        if (md_last)
            *ticket = 0;
        __threadfence();
    }
    __syncthreads();
    return md_last;
}
#endif
MD_INLINE md_state md_left(const md_params *p, int block, int x)
{
    const md_state *from = (const md_state *)p->work0 + ((int64_t)blockIdx.x * gridDim.y + block) * MD_THREADS_X + x;
    union {
        uint32_t w[sizeof(md_state) / 4];
        md_state s;
    } a;
    MD_FOR (i, (int)(sizeof(md_state) / 4))
        a.w[i] = __ldcg((const uint32_t *)from + i);
    return a.s;
}
/* Reads and combines all blocks' results, some at once: one after the other, each takes the latency of the L2. */
enum { MD_GATHERED = sizeof(md_state) <= 48 ? 4 : 2 };
#if MD_ONLINE
MD_INLINE void md_gather_blocks(const md_params *p, md_row &row, md_spot &s)
{
    md_state total = row;
    total.count = 0;
    MD_ROLLED
    for (int b = s.y; b < (int)gridDim.y; b += MD_GATHERED * MD_THREADS_Y) {
        md_state other[MD_GATHERED];
        MD_FOR (i, MD_GATHERED)
            if (b + i * MD_THREADS_Y < (int)gridDim.y)
                other[i] = md_left(p, b + i * MD_THREADS_Y, s.x);
        MD_FOR (i, MD_GATHERED)
            if (b + i * MD_THREADS_Y < (int)gridDim.y)
                md_merge(&total, &other[i]);
    }
    row.count = (md_pos)MD_COUNT(p);
    MD_LEVELS(MD_BLOCK_LEVEL)
}
#else
MD_INLINE void md_gather_blocks(const md_params *p, md_row &row, md_spot &s)
{
    md_part0 part, more;
    md_nothing(part);
    MD_ROLLED
    for (int b = s.y; b < (int)gridDim.y; b += MD_GATHERED * MD_THREADS_Y) {
        md_state other[MD_GATHERED];
        MD_FOR (i, MD_GATHERED)
            if (b + i * MD_THREADS_Y < (int)gridDim.y)
                other[i] = md_left(p, b + i * MD_THREADS_Y, s.x);
        MD_FOR (i, MD_GATHERED)
            if (b + i * MD_THREADS_Y < (int)gridDim.y) {
                md_rebase0(&more, &other[i], &other[i]);
                md_mix(part, more);
            }
    }
    part = md_mix_column<MD_WHO(0)>(part, s);
    md_accept0(&row, &part);
}
#endif
#endif

template <int N, class md_n_t>
MD_INLINE void md_one_tile(const md_params *p, int64_t number, int64_t at, md_spot &s, md_n_t md_n)
{
    MD_ROW_AT(p, number)
    md_row row;
    md_elem e[MD_ITEMS];
    md_start(MD_AT p, &row);
#if MD_PHASE != 2
    md_reduce<N>(MD_OUTER p, row, e, s, at, md_n);
#endif
#if MD_PHASE == 1
    md_leave(p, row, s);
    return;
#elif MD_PHASE == 2
    md_gather_blocks(p, row, s);
#elif MD_SPLIT
    if (gridDim.y > 1) {
        md_leave(p, row, s);
        if (!md_is_last(p))
            return;
        md_gather_blocks(p, row, s);
    }
#endif
    row.count = (md_pos)MD_COUNT(p);
#if MD_ONLINE
    if (row.count > 0)
        md_settle(&row);
#endif
    md_derive(MD_AT p, &row);
    if (MD_HAS_ELEMENTS)
        md_write<N>(MD_OUTER p, row, e, s, at, md_n);
    if (s.y == 0 && (MD_PHASE == 0 || blockIdx.y == 0))
        md_row_store(MD_AT p, &row);
}

extern "C" __global__ void __launch_bounds__(MD_THREADS_X *MD_THREADS_Y, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t columns = MD_COLUMNS(p), tiles = (columns + MD_THREADS_X * MD_VL - 1) / (MD_THREADS_X * MD_VL),
                  n = MD_COUNT(p);
    const int64_t number = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    md_spot s;
    s.x = (int)threadIdx.x % MD_THREADS_X;
    s.y = (int)threadIdx.x / MD_THREADS_X;
    s.turn = 0;
    const int64_t per = (n + gridDim.y - 1) / gridDim.y, first = md_min_si(per * blockIdx.y, n);
    s.to = md_min_si(first + per, n);
    s.count = s.to - first;
    s.from = first + s.y;
    const int64_t at = (tile * MD_THREADS_X + s.x) * MD_VL;
    if ((tile + 1) * (MD_THREADS_X * MD_VL) <= columns)
        md_one_tile<MD_ITEMS>(p, number, at, s, md_full());
    else
        md_one_tile<MD_ITEMS>(p, number, at, s, md_clip(at, columns));
}
