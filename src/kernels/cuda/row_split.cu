/* Few long rows: a row is cut over the blocks of a group, gridDim.x of them; gridDim.y groups take rows in turn.
 *   MD_EXCHANGE  how the blocks of a group exchange their results:
 *                MD_EXCHANGE_GRID     through memory; the blocks run at the same time (exchange.h)
 *                MD_EXCHANGE_CLUSTER  through each other's shared memory; the blocks are a cluster
 *                MD_EXCHANGE_TICKET   read only: the block that finishes last stores the row; no block waits
 *                MD_EXCHANGE_LAUNCH   blocks need not run at the same time: one launch leaves their results in the
 *                                     workspace (MD_PHASE 1), the next one reads them (2)
 *   MD_KEEP      1: a block's slice stays in registers, MD_VECTORS per thread; 0: it is read again where it is needed
 *   MD_EARLY     number of a thread's vectors whose operands, if only stores use them, are loaded during the exchange;
 *                those of the others are loaded while these are stored. 0: before each store
 *   MD_STAGED     not 0: these operands go to shared memory (staged.h), once for all rows of a block; else to
 *                registers */
#define MD_EXCHANGE_GRID 0
#define MD_EXCHANGE_CLUSTER 1
#define MD_EXCHANGE_TICKET 2
#define MD_EXCHANGE_LAUNCH 3
#define MD_WHOLE_STORES 1
#define MD_BOUNDARY 1
#define MD_INSIDE 1
#include "md_config.h"
#ifndef MD_PHASE
#define MD_PHASE 0
#endif
#include "prelude.h"
#include "row.h"
#include "md_expr.h"
#if MD_EXCHANGE == MD_EXCHANGE_CLUSTER
#include "cluster.h"
#endif
/* True if only one block of a group gets the row's results: nothing is stored along the row, and there is one exchange.
 */
#define MD_IS_ONE_KNOWING (MD_EXCHANGE != MD_EXCHANGE_CLUSTER && !MD_HAS_ELEMENTS && (MD_ONLINE || MD_N_LEVELS == 1))
#define MD_COPIES (!MD_IS_ONE_KNOWING)
#include "exchange.h"

#define MD_MIXES(l)                                                                                                    \
    MD_INLINE void md_mix(md_part##l &into, const md_part##l &from) { md_combine##l(&into, &from); }                   \
    MD_INLINE void md_nothing(md_part##l &p) { md_clear_part##l(&p); }
MD_LEVELS(MD_MIXES)
#if (MD_ONLINE || MD_N_LEVELS == 1)
#define MD_MIXES_WARP(l)                                                                                               \
    MD_INLINE md_part##l md_mix_warp(md_part##l p, int width) { MD_ACROSS##l(p, width) return p; }
MD_LEVELS(MD_MIXES_WARP)
#endif

#include "slice.h"

#include "row_split_exchange.h"

/* ---- Levels. The edge is added to accumulators of its own after those of the vectors are folded, since these want
 * positions in order. */
#define MD_FINISH_LEVEL(l, edge_elem, meanwhile)                                                                       \
    md_part##l part;                                                                                                   \
    md_fold##l(&part, &acc);                                                                                           \
    meanwhile;                                                                                                         \
    if (s.left <= 0)                                                                                                   \
        md_clear_part##l(&part);                                                                                       \
    if (md_has_edge(s)) {                                                                                              \
        md_part##l more;                                                                                               \
        md_clear##l(&acc, s.edge_at + s.edge.lo);                                                                      \
        md_add##l(MD_X p, &row, &acc, edge_elem, s.edge_at, s.edge);                                                   \
        md_fold##l(&more, &acc);                                                                                       \
        if (s.left <= 0)                                                                                               \
            part = more;                                                                                               \
        else                                                                                                           \
            md_combine##l(&part, &more);                                                                               \
    }                                                                                                                  \
    part = md_mix_level(part, p, s);                                                                                   \
    md_finish##l(MD_X p, &row, &part);

#if MD_KEEP
struct md_held {
    md_elem v[MD_VECTORS];
};
/* Edges are in shared memory: few threads have one, and registers are few. */
__shared__ md_elem md_edges[MD_SHIFTS ? 4 : 2];
MD_INLINE md_elem &md_edge_of(const md_slice &s) { return md_edges[MD_SHIFTS ? s.t & 3 : s.t != 0]; }
/* Loads weights that only stores use: after the slice, which they would delay, and before the first exchange. `part`,
 * which is made of the slice, goes into their addresses, so that the compiler cannot move them forward. */
template <class P> MD_INLINE void md_hold_early(MD_X_DECL const md_params *p, md_held &held, md_slice &s, const P &part)
{
    const int base = 0;
    s.at = __shfl_sync(MD_ALL_LANES, s.at, (s.t & 31) | ((int)((const uint32_t &)part) & ~31));
    md_put_weights(p, s);
    MD_EACH (i)
        if (i < MD_EARLY && !MD_STAGED)
            md_fetch_epilogue(MD_X p, &held.v[i], md_vector_at(s, i), md_full());
}
#define MD_LEVEL(l)                                                                                                    \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_clear##l(&acc, s.at);                                                                                       \
        MD_WHILE(i)                                                                                                    \
        md_add##l(MD_X p, &row, &acc, &held.v[i], md_vector_at(s, i), md_full());                                      \
        MD_FINISH_LEVEL(l, &md_edge_of(s),                                                                             \
                        if (l == 0 && MD_EARLY > 0 && !MD_WAITS_TO_PUT) md_hold_early(MD_X p, held, s, part))          \
    }
MD_INLINE void md_hold(MD_X_DECL const md_params *p, md_held &held, md_slice &s, md_pos lead)
{
    const int base = 0;
    MD_EACH (i)
        md_fetch(MD_X p, &held.v[i], md_vector_at(s, i), md_full());
    if (MD_WAITS_TO_PUT && s.t < 32)
        md_put_weights(p, s);
    MD_LOADS_FIRST;
    md_from_here(s);
    md_ask_epoch(p, s);
    md_record_counts(s, lead);
    md_cut_edge(s, s.n, lead);
    if (md_has_edge(s)) {
        md_fetch(MD_X p, &md_edge_of(s), s.edge_at, s.edge);
        asm volatile("" ::: "memory"); /* one after the other, since registers are scarce */
        md_fetch_epilogue(MD_X p, &md_edge_of(s), s.edge_at, s.edge);
    }
}
MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, md_held &held, md_slice &s, md_pos lead)
{
    const int base = 0;
    md_hold(MD_X p, held, s, lead);
    if (MD_ONLINE)
        row.count = md_count_warp(s, s.n, lead);
    MD_LEVELS(MD_LEVEL)
}
MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, md_held &held, const md_slice &s)
{
    const int base = 0;
    md_wait_staged();
    MD_WHILE(i)
    {
        if (MD_EARLY == 0)
            md_fetch_epilogue(MD_X p, &held.v[i], md_vector_at(s, i), md_full());
        md_take_weights(MD_X p, held.v[i], s, i);
        md_out(MD_X p, &row, &held.v[i], md_vector_at(s, i), md_full());
        if (MD_EARLY > 0 && i + MD_EARLY < MD_VECTORS && md_has_vector(s, i + MD_EARLY))
            md_fetch_epilogue(MD_X p, &held.v[i + MD_EARLY], md_vector_at(s, i + MD_EARLY), md_full());
    }
    if (md_has_edge(s))
        md_out(MD_X p, &row, &md_edge_of(s), s.edge_at, s.edge);
}
#else
struct md_held {
};
MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, md_held &, const md_slice &s)
{
    for (md_pos base = 0; md_has_vector(s, base); base += MD_VECTORS) {
        md_elem e[MD_VECTORS];
        MD_EACH (i)
            md_fetch_out(MD_X p, &e[i], md_vector_at(s, base + i), md_full());
        MD_WHILE(i)
        md_out(MD_X p, &row, &e[i], md_vector_at(s, base + i), md_full());
    }
    if (md_has_edge(s)) {
        md_elem e;
        md_fetch_out(MD_X p, &e, s.edge_at, s.edge);
        md_out(MD_X p, &row, &e, s.edge_at, s.edge);
    }
}
#if MD_ONLINE
/* All levels at the scope of one thread: a chunk's state. */
#define MD_CHUNK_LEVEL(l)                                                                                              \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_part##l part;                                                                                               \
        md_clear##l(&acc, first);                                                                                      \
        MD_FOR (i, N)                                                                                                  \
            if (i < valid)                                                                                             \
                md_add##l(MD_X p, &chunk, &acc, &e[i], at + i * (MD_THREADS * MD_VL), md_n);                           \
        md_fold##l(&part, &acc);                                                                                       \
        md_finish##l(MD_X p, &chunk, &part);                                                                           \
    }
template <int N, class md_n_t>
MD_INLINE void md_chunk(MD_X_DECL const md_params *p, md_state &state, const md_row &row, md_elem *e, md_pos at,
                        int valid, md_pos first, md_pos count, md_n_t md_n)
{
    md_row chunk = row;
    chunk.count = count;
    MD_LEVELS(MD_CHUNK_LEVEL)
    md_merge(&state, &chunk);
}
#define MD_SLICE_LEVEL(l)                                                                                              \
    {                                                                                                                  \
        md_part##l part;                                                                                               \
        md_rebase##l(&part, &total, &row);                                                                             \
        part = md_mix_level(part, p, s);                                                                               \
        md_accept##l(&row, &part);                                                                                     \
    }
MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, md_held &, md_slice &s, md_pos lead)
{
    md_state total = md_hear(md_told_nothing(), 0), run = total, &state = MD_PAIRWISE ? run : total;
    int steps = 0;
    for (md_pos base = 0; md_warp_has_vector(s, base); base += MD_VECTORS) {
        md_elem e[MD_VECTORS];
        int valid = 0;
        MD_EACH (i) {
            md_fetch_body(MD_X p, &e[i], md_vector_at(s, base + i), md_full());
            valid = i + 1;
        }
        MD_LOADS_FIRST;
        md_chunk<MD_VECTORS>(MD_X p, state, row, e, md_vector_at(s, base), valid, md_vector_at(s, base), valid * MD_VL,
                             md_full());
        steps++;
        MD_MERGE_RUN(steps)
    }
    md_from_here(s);
    md_ask_epoch(p, s);
    md_record_counts(s, lead);
    md_cut_edge(s, s.n, lead);
    if (md_has_edge(s)) {
        md_elem e;
        md_fetch_body(MD_X p, &e, s.edge_at, s.edge);
        md_chunk<1>(MD_X p, state, row, &e, s.edge_at, 1, s.edge_at + s.edge.lo, s.edge.hi - s.edge.lo, s.edge);
    }
    if (MD_PAIRWISE)
        md_merge(&total, &run);
    row.count = md_count_warp(s, s.n, lead);
    MD_LEVELS(MD_SLICE_LEVEL)
}
#else
#define MD_LEVEL(l)                                                                                                    \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_elem edge;                                                                                                  \
        MD_RUN_START(l)                                                                                                \
        int steps = 0;                                                                                                 \
        md_clear##l(&acc, s.at);                                                                                       \
        for (md_pos base = 0; md_warp_has_vector(s, base); base += MD_VECTORS) {                                       \
            md_elem e[MD_VECTORS];                                                                                     \
            MD_EACH (i)                                                                                                \
                md_fetch##l(MD_X p, &e[i], md_vector_at(s, base + i), md_full());                                      \
            MD_LOADS_FIRST;                                                                                            \
            MD_WHILE(i)                                                                                                \
            md_add##l(MD_X p, &row, &acc, &e[i], md_vector_at(s, base + i), md_full());                                \
            steps++;                                                                                                   \
            MD_RUN_END(l, steps, MD_VECTORS, s.at)                                                                     \
        }                                                                                                              \
        md_from_here(s);                                                                                               \
        md_ask_epoch(p, s);                                                                                            \
        md_cut_edge(s, s.n, lead);                                                                                     \
        if (md_has_edge(s))                                                                                            \
            md_fetch##l(MD_X p, &edge, s.edge_at, s.edge);                                                             \
        MD_FINISH_LEVEL(l, &edge, MD_RUN_TOTAL(l))                                                                     \
    }
MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, md_held &, md_slice &s, md_pos lead)
{
    MD_LEVELS(MD_LEVEL)
}
#endif
#endif

#if MD_PHASE == 2
/* Reads the results of all blocks, and nothing of the row. */
#define MD_TAKE_LEVEL(l)                                                                                               \
    {                                                                                                                  \
        md_part##l part;                                                                                               \
        md_nothing(part);                                                                                              \
        part = md_mix_row(part, p, s);                                                                                 \
        md_finish##l(MD_X p, &row, &part);                                                                             \
    }
MD_INLINE void md_take(MD_X_DECL const md_params *p, md_row &row, md_slice &s, md_pos lead)
{
    md_from_here(s);
    md_record_counts(s, lead);
    md_cut_edge(s, s.n, lead);
#if !MD_ONLINE
    MD_LEVELS(MD_TAKE_LEVEL)
#endif
}
#endif

MD_INLINE void md_one_row(int64_t number, const md_params *p, md_slice &s)
{
    MD_ROW_AT(p, number)
    md_row row;
    md_held held;
    md_start(MD_X p, &row);
    md_pos lead = MD_ALIGNED ? 0 : (md_pos)md_lead(MD_X p, 0);
    s.n = (md_pos)MD_COUNT(p);
    s.number = number;
    if (!MD_ALIGNED && lead > s.n)
        lead = s.n;
    s.head = lead;
    if (MD_SHIFTS)
        lead = s.n - lead < MD_VL ? s.n : lead + MD_VL;
    md_cut(s, s.n, lead);
#if MD_PHASE == 2
    md_take(MD_X p, row, s, lead);
#else
    md_reduce(MD_X p, row, held, s, lead);
#endif
#if MD_ONLINE
    const md_state own = row;
    md_mix_all(row, p, s, s.n);
    md_rescale(&row, &own);
    row.count = s.n;
    if (row.count > 0)
        md_settle(&row);
#endif
    if (MD_PHASE == 1)
        return;
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS)
        md_write(MD_X p, row, held, s);
    if (s.t == 0 && (s.blocks == 1 ? true : MD_IS_ONE_KNOWING && !s.wait ? s.has_row : s.block == 0))
        md_row_store(MD_X p, &row);
}

MD_EXPORT void __launch_bounds__(MD_THREADS, MD_BLOCKS_PER_SM) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t rows = MD_ROWS(p), group = blockIdx.y, groups = gridDim.y;
    md_slice s;
    s.t = (int)threadIdx.x;
    s.block = (int)blockIdx.x;
    s.blocks = (int)gridDim.x;
    s.turn = s.epoch = 0;
    s.slots = nullptr;
    s.has_row = s.block == 0;
    s.wait = rows > groups;
#if MD_EXCHANGE == MD_EXCHANGE_CLUSTER
    md_cluster_arrive(); /* no block may write into one that does not run yet: the first exchange waits */
#endif
    for (int64_t number = group; number < rows; number += groups)
        md_one_row(number, p, s);
#if MD_EXCHANGE == MD_EXCHANGE_CLUSTER
    if (s.turn == 0)
        md_cluster_wait();
#endif
    md_move_epoch(p, s);
}
