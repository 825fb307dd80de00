/* Few long rows: a row is cut over the blocks of a group, gridDim.x of them; gridDim.y groups take rows in turn.
 *   MD_VIA      MD_VIA_GRID     blocks that run at once, which tell each other their results through memory (exchange.h)
 *               MD_VIA_CLUSTER  blocks of a cluster, through each other's shared memory
 *               MD_VIA_TICKET   read only: the block that is ready last stores the row; nobody waits
 *   MD_KEEP     1: a block's slice stays in registers, MD_VECTORS a thread; 0: it is read again where it is needed again
 *   MD_EARLY    1: what only stores want is asked for at once
 * A slice is whole vectors; what is in front of the first and behind the last is a vector with a span, which the first block's first thread and the last
 * block's last thread have. */
#define MD_VIA_GRID 0
#define MD_VIA_CLUSTER 1
#define MD_VIA_TICKET 2
#include "md_config.h"
#include "prelude.h"
#include "row.h"
#include "md_expr.h"
#if MD_VIA == MD_VIA_CLUSTER
#include "cluster.h"
#endif
#include "exchange.h"

#define MD_MIXES(l)                                                                                                    \
    MD_INLINE void md_mix(md_part##l &into, const md_part##l &from) { md_combine##l(&into, &from); }                   \
    MD_INLINE void md_nothing(md_part##l &p) { md_clear_part##l(&p); }
MD_LEVELS(MD_MIXES)
/* Whether only one block of a group gets the row's results: nothing is stored along the row, and there is one exchange. */
#define MD_IS_ONE_KNOWING (MD_VIA != MD_VIA_CLUSTER && !MD_HAS_ELEMENTS && (MD_ONLINE || MD_N_LEVELS == 1))

/* What a thread has of a row: every MD_THREADSth whole vector of the block's slice, at distances that the compiler knows. Little arithmetic, since nothing can be
 * loaded before. */
struct md_slice {
    md_pos at; /* position of its first vector */
    md_pos left; /* whole vectors of the slice from that one on */
    md_pos edge_at;
    md_span edge;
    uint32_t turn; /* exchanges so far */
    bool wait; /* for the others in any case: their slots are used again for the next row */
    bool has_row; /* in the first warp, where only one block gets the row's results: this one */
};
MD_INLINE int md_block() { return (int)blockIdx.x; }
MD_INLINE int md_blocks() { return (int)gridDim.x; }
/* The same, for what is wanted late: the compiler shall not compute that in front of the loop over rows, where loads would wait for it. */
MD_INLINE int md_late(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}
MD_INLINE bool md_has_vector(const md_slice &s, md_pos i) { return i * MD_THREADS < s.left; }
MD_INLINE md_pos md_vector_at(const md_slice &s, md_pos i) { return s.at + i * (MD_THREADS * MD_VL); }
MD_INLINE bool md_has_edge(const md_slice &s) { return s.edge.hi > 0; }
MD_INLINE md_pos md_whole(md_pos n, md_pos lead) { return (md_pos)((uint32_t)(n - lead) / MD_VL); }
/* Vectors of a slice; slices begin where lines of memory do. */
MD_INLINE md_pos md_per_block(md_pos whole)
{
    const int shift = 31 - __clz(md_blocks()); /* a power of 2 */
    return (((whole + md_blocks() - 1) >> shift) + 7) & ~(md_pos)7;
}

/* `lead` elements stand in front of the first whole vector. */
MD_INLINE void md_cut(md_slice &s, md_pos n, md_pos lead)
{
    const md_pos whole = md_whole(n, lead), per = md_per_block(whole), from = per * md_block(), rest = whole - from, t = (md_pos)threadIdx.x;
    s.left = (rest < per ? rest : per) - t;
    s.at = lead + (from + t) * MD_VL;
}
MD_INLINE void md_cut_edge(md_slice &s, md_pos n, md_pos lead)
{
    n = md_late(n);
    const md_pos whole = md_whole(n, lead), tail = n - lead - whole * MD_VL;
    const int block = md_late(md_block()), t = md_late((int)threadIdx.x);
    const bool is_head = lead > 0 && block == 0 && t == 0, is_tail = block == md_blocks() - 1 && t == MD_THREADS - 1;
    s.edge_at = is_head ? lead - MD_VL : lead + whole * MD_VL;
    s.edge.lo = is_head ? MD_VL - (int)lead : 0;
    s.edge.hi = is_head ? MD_VL : is_tail ? (int)tail : 0;
}
/* Elements of the block's slice. */
MD_INLINE md_pos md_count_slice(md_pos n, md_pos lead)
{
    n = md_late(n);
    const md_pos whole = md_whole(n, lead), tail = n - lead - whole * MD_VL, per = md_per_block(whole), rest = whole - per * md_block();
    const md_pos vectors = rest < 0 ? 0 : rest < per ? rest : per;
    return vectors * MD_VL + (md_block() == 0 ? lead : 0) + (md_block() == md_blocks() - 1 ? tail : 0);
}

/* The epoch is asked for behind the slice, and comes to shared memory while threads wait for that. */
#if MD_VIA == MD_VIA_GRID
__shared__ __align__(16) uint32_t md_head[4];
MD_INLINE void md_ask_epoch(const md_params *p, const md_slice &s)
{
    const int t = md_late((int)threadIdx.x);
    if (md_blocks() > 1 && s.turn == 0 && t == 0) {
        md_copy16(md_head, md_head_of(p->counters0, (int)blockIdx.y, md_late(md_blocks())), 16);
        md_copy_commit();
    }
}
/* In front of the block's first barrier. */
MD_INLINE void md_await_epoch(const md_slice &s)
{
    if (s.turn == 0 && threadIdx.x == 0)
        md_copy_wait<0>();
}
/* All blocks have read the epoch before they posted. */
MD_INLINE void md_move_epoch(const md_params *p, const md_slice &s)
{
    if (s.turn > 0 && threadIdx.x == 0 && md_block() == md_blocks() - 1)
        *md_head_of(p->counters0, (int)blockIdx.y, md_blocks()) = md_head[0] + s.turn;
}
#define MD_STAMP(s) (md_head[0] + 1 + (s).turn)
#else
MD_INLINE void md_ask_epoch(const md_params *, const md_slice &) {}
MD_INLINE void md_await_epoch(const md_slice &) {}
MD_INLINE void md_move_epoch(const md_params *, const md_slice &) {}
#define MD_STAMP(s) 0
#endif

/* ---- Who mixes with whom */
/* In the first warp, what all blocks have, by lanes; whether they got it. */
#if MD_VIA == MD_VIA_CLUSTER
template <class P> MD_INLINE bool md_exchange(md_lot<P> &lot, P p, const md_params *, md_slice &s)
{
    __shared__ md_cluster_room<P> room;
    if (s.turn == 0)
        md_cluster_wait();
    md_to_cluster(p, room, md_block(), md_blocks(), (int)s.turn);
    if (md_lane_id() < md_blocks())
        lot.own[0] = room.part[s.turn & 1][md_lane_id()].p;
    return true;
}
#else
template <class P> MD_INLINE bool md_exchange(md_lot<P> &lot, P p, const md_params *q, md_slice &s)
{
    const int t = md_late((int)threadIdx.x), block = md_late(md_block()), blocks = md_late(md_blocks());
    if (t >= 32)
        return false;
    char *slots = md_slots_of(q->counters0, (int)blockIdx.y, blocks, s.turn);
    if (t == 0)
        md_post(p, slots, block, blocks, MD_STAMP(s));
    if (MD_VIA == MD_VIA_TICKET)
        s.has_row = md_is_last(md_head_of(q->counters0, (int)blockIdx.y, blocks), blocks);
    else
        s.has_row = !MD_IS_ONE_KNOWING || s.wait || block == blocks - 1;
    if (s.has_row)
        md_collect(lot, slots, t, blocks, MD_STAMP(s));
    return s.has_row;
}
#endif
/* Parts of a row. Where only one block has to know, only its first warp gets the result. */
template <class P> MD_INLINE P md_mix_row(P p, const md_params *q, md_slice &s)
{
    __shared__ md_block_room<P> room;
    p = md_mix_block(p, room);
    if (md_blocks() > 1) {
        md_lot<P> lot;
        MD_FOR (k, MD_LOTS)
            md_nothing(lot.own[k]);
        if (md_exchange(lot, p, q, s)) {
            MD_FOR (k, MD_LOTS - 1)
                md_mix(lot.own[0], lot.own[k + 1]);
            p = md_mix_warp(lot.own[0], 32);
        }
        s.turn++;
    }
    return md_tell_block(p, room);
}
/* A level's part of the row; of the slice where states are exchanged later: then only the first warp gets the last level's. */
template <int level, class P> MD_INLINE P md_mix_level(P p, const md_params *q, md_slice &s)
{
#if MD_ONLINE
    (void)q, (void)s;
    __shared__ md_block_room<P> room;
    p = md_mix_block(p, room);
    return level == MD_N_LEVELS - 1 && md_blocks() > 1 ? p : md_tell_block(p, room);
#else
    return md_mix_row(p, q, s);
#endif
}

#if MD_ONLINE
/* States of blocks to the row's: a level at a time, relative to what is common so far. */
#define MD_MIX_LOT(l)                                                                                                  \
    {                                                                                                                  \
        md_part##l part, more;                                                                                         \
        md_rebase##l(&part, &lot.own[0], &common);                                                                     \
        MD_FOR (k, MD_LOTS - 1)                                                                                        \
            if (32 * (k + 1) < md_blocks()) {                                                                             \
                md_rebase##l(&more, &lot.own[k + 1], &common);                                                         \
                md_combine##l(&part, &more);                                                                           \
            }                                                                                                          \
        part = md_mix_warp(part, 32);                                                                                  \
        md_accept##l(&common, &part);                                                                                  \
    }
/* The slice's state, which all threads of the block have, to the row's. */
MD_INLINE void md_mix_blocks(md_state &state, const md_params *q, md_slice &s, md_pos count)
{
    __shared__ md_block_room<md_state> room;
    md_lot<md_state> lot;
    MD_FOR (k, MD_LOTS)
        lot.own[k].count = 0;
    if (md_exchange(lot, state, q, s)) {
        md_state common = state;
        common.count = count;
        MD_LEVELS(MD_MIX_LOT)
        state = common;
    }
    s.turn++;
    if (MD_VIA != MD_VIA_TICKET)
        state = md_tell_block(state, room);
}
#endif

/* ---- Levels. The edge has accumulators of its own, when those of the vectors are folded: they want positions in order. */
#define MD_FINISH_LEVEL(l, edge_elem)                                                                                  \
        md_part##l part;                                                                                               \
        md_fold##l(&part, &acc);                                                                                       \
        if (s.left <= 0)                                                                                               \
            md_clear_part##l(&part);                                                                                   \
        if (md_has_edge(s)) {                                                                                          \
            md_part##l more;                                                                                           \
            md_clear##l(&acc, s.edge_at + s.edge.lo);                                                                  \
            md_add##l(MD_X p, &row, &acc, edge_elem, s.edge_at, s.edge);                                               \
            md_fold##l(&more, &acc);                                                                                   \
            if (s.left <= 0)                                                                                           \
                part = more;                                                                                           \
            else                                                                                                       \
                md_combine##l(&part, &more);                                                                           \
        }                                                                                                              \
        part = md_mix_level<l>(part, p, s);                                                                               \
        md_finish##l(MD_X p, &row, &part);

/* Vectors that are there: loads are predicated; what is done with them stands in nested branches, so that what one needs is at hand for the next. */
#define MD_EACH(i) MD_FOR (i, MD_VECTORS) if (md_has_vector(s, base + i))
#define MD_WHILE(i) MD_FOR (i, MD_VECTORS) if (!md_has_vector(s, base + i)) break; else

#if MD_KEEP
struct md_held {
    md_elem v[MD_VECTORS];
};
/* Edges lie in shared memory: few threads have one, and registers are few. */
__shared__ md_elem md_edges[2];
MD_INLINE md_elem &md_edge_of() { return md_edges[threadIdx.x != 0]; }
#define MD_LEVEL(l)                                                                                                    \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_clear##l(&acc, s.at);                                                                                       \
        MD_WHILE (i)                                                                                                   \
            md_add##l(MD_X p, &row, &acc, &held.v[i], md_vector_at(s, i), md_full());                                  \
        MD_FINISH_LEVEL(l, &md_edge_of())                                                                                 \
    }
MD_INLINE void md_hold(MD_X_DECL const md_params *p, md_held &held, md_slice &s, md_pos lead)
{
    const int base = 0;
    MD_EACH (i)
        md_fetch(MD_X p, &held.v[i], md_vector_at(s, i), md_full());
    md_cut_edge(s, (md_pos)MD_COUNT(p), lead);
    if (md_has_edge(s))
        md_fetch(MD_X p, &md_edge_of(), s.edge_at, s.edge);
}
/* Weights that only stores want are asked for at once, or, where there are not registers enough, in front of each vector's store. */
MD_INLINE void md_hold_early(MD_X_DECL const md_params *p, md_held &held, const md_slice &s)
{
    const int base = 0;
    MD_EACH (i)
        md_fetch_late(MD_X p, &held.v[i], md_vector_at(s, i), md_full());
}
MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, md_held &held, md_slice &s, md_pos lead)
{
    const int base = 0;
    md_hold(MD_X p, held, s, lead);
    if (MD_EARLY)
        md_hold_early(MD_X p, held, s);
    md_ask_epoch(p, s);
    if (MD_ONLINE)
        row.count = md_count_slice((md_pos)MD_COUNT(p), lead);
    md_await_epoch(s);
    MD_LEVELS(MD_LEVEL)
}
MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, md_held &held, const md_slice &s)
{
    const int base = 0;
    MD_WHILE (i) {
        if (!MD_EARLY)
            md_fetch_late(MD_X p, &held.v[i], md_vector_at(s, i), md_full());
        md_out(MD_X p, &row, &held.v[i], md_vector_at(s, i), md_full());
    }
    if (md_has_edge(s)) {
        md_fetch_late(MD_X p, &md_edge_of(), s.edge_at, s.edge);
        md_out(MD_X p, &row, &md_edge_of(), s.edge_at, s.edge);
    }
}
#else
struct md_held {};
MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, md_held &, const md_slice &s)
{
    for (md_pos base = 0; md_has_vector(s, base); base += MD_VECTORS) {
        md_elem e[MD_VECTORS];
        MD_EACH (i)
            md_fetch_out(MD_X p, &e[i], md_vector_at(s, base + i), md_full());
        MD_WHILE (i)
            md_out(MD_X p, &row, &e[i], md_vector_at(s, base + i), md_full());
    }
    if (md_has_edge(s)) {
        md_elem e;
        md_fetch_out(MD_X p, &e, s.edge_at, s.edge);
        md_out(MD_X p, &row, &e, s.edge_at, s.edge);
    }
}
#if MD_ONLINE
/* All levels at the scope of a thread: a chunk's state. */
#define MD_CHUNK_LEVEL(l)                                                                                              \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_part##l part;                                                                                               \
        md_clear##l(&acc, first);                                                                                      \
        MD_FOR (i, N)                                                                                                  \
            if (i < valid)                                                                                             \
                md_add##l(MD_X p, &chunk, &acc, &e[i], at + i * (MD_THREADS * MD_VL), md_n);                  \
        md_fold##l(&part, &acc);                                                                                       \
        md_finish##l(MD_X p, &chunk, &part);                                                                           \
    }
template <int N, class md_n_t> MD_INLINE void md_chunk(MD_X_DECL const md_params *p, md_state &state, const md_row &row, md_elem *e, md_pos at, int valid,
                                                       md_pos first, md_pos count, md_n_t md_n)
{
    md_row chunk = row;
    chunk.count = count;
    MD_LEVELS(MD_CHUNK_LEVEL)
    md_merge(&state, &chunk);
}
#define MD_SLICE_LEVEL(l)                                                                                              \
    {                                                                                                                  \
        md_part##l part;                                                                                               \
        md_rebase##l(&part, &state, &row);                                                                             \
        part = md_mix_level<l>(part, p, s);                                                                            \
        md_accept##l(&row, &part);                                                                                     \
    }
MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, md_held &, md_slice &s, md_pos lead)
{
    md_state state = row;
    state.count = 0;
    md_cut_edge(s, (md_pos)MD_COUNT(p), lead);
    md_ask_epoch(p, s);
    for (md_pos base = 0; md_has_vector(s, base); base += MD_VECTORS) {
        md_elem e[MD_VECTORS];
        int valid = 0;
        MD_EACH (i) {
            md_fetch_body(MD_X p, &e[i], md_vector_at(s, base + i), md_full());
            valid = i + 1;
        }
        md_chunk<MD_VECTORS>(MD_X p, state, row, e, md_vector_at(s, base), valid, md_vector_at(s, base), valid * MD_VL, md_full());
    }
    if (md_has_edge(s)) {
        md_elem e;
        md_fetch_body(MD_X p, &e, s.edge_at, s.edge);
        md_chunk<1>(MD_X p, state, row, &e, s.edge_at, 1, s.edge_at + s.edge.lo, s.edge.hi - s.edge.lo, s.edge);
    }
    md_await_epoch(s);
    row.count = md_count_slice((md_pos)MD_COUNT(p), lead);
    MD_LEVELS(MD_SLICE_LEVEL)
}
#else
#define MD_LEVEL(l)                                                                                                    \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_elem edge;                                                                                                  \
        md_clear##l(&acc, s.at);                                                                                       \
        for (md_pos base = 0; md_has_vector(s, base); base += MD_VECTORS) {                                           \
            md_elem e[MD_VECTORS];                                                                                     \
            MD_EACH (i)                                                                                                \
                md_fetch##l(MD_X p, &e[i], md_vector_at(s, base + i), md_full());                                      \
            MD_WHILE (i)                                                                                               \
                md_add##l(MD_X p, &row, &acc, &e[i], md_vector_at(s, base + i), md_full());                            \
        }                                                                                                              \
        if (md_has_edge(s))                                                                                            \
            md_fetch##l(MD_X p, &edge, s.edge_at, s.edge);                                                             \
        MD_FINISH_LEVEL(l, &edge)                                                                                      \
    }
MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, md_held &, md_slice &s, md_pos lead)
{
    md_cut_edge(s, (md_pos)MD_COUNT(p), lead);
    md_ask_epoch(p, s);
    md_await_epoch(s);
    MD_LEVELS(MD_LEVEL)
}
#endif
#endif

MD_INLINE void md_one_row(int64_t number, const md_params *p, md_slice &s)
{
    MD_ROW_AT(p, number)
    md_row row;
    md_held held;
    md_start(MD_X p, &row);
    md_pos lead = MD_ALIGNED ? 0 : (md_pos)md_lead(MD_X p, 0);
    if (!MD_ALIGNED && lead > (md_pos)MD_COUNT(p))
        lead = (md_pos)MD_COUNT(p);
    md_cut(s, (md_pos)MD_COUNT(p), lead);
    md_reduce(MD_X p, row, held, s, lead);
#if MD_ONLINE
    const md_state own = row;
    if (MD_COUNT(p) > 0 && md_blocks() > 1)
        md_mix_blocks(row, p, s, (md_pos)MD_COUNT(p));
    md_rescale(&row, &own);
    row.count = (md_pos)MD_COUNT(p);
    if (row.count > 0)
        md_settle(&row);
#endif
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS)
        md_write(MD_X p, row, held, s);
    if (threadIdx.x == 0 && (md_blocks() == 1 ? true : MD_IS_ONE_KNOWING && !s.wait ? s.has_row : md_block() == 0))
        md_row_store(MD_X p, &row);
}

MD_EXPORT void __launch_bounds__(MD_THREADS, MD_PER_SM) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t rows = MD_ROWS(p), group = blockIdx.y, groups = gridDim.y;
    md_slice s;
    s.turn = 0;
    s.has_row = md_block() == 0;
    s.wait = rows > groups;
#if MD_VIA == MD_VIA_CLUSTER
    md_cluster_arrive(); /* nobody writes into a block that does not run yet: the first exchange waits */
#endif
    for (int64_t number = group; number < rows; number += groups)
        md_one_row(number, p, s);
#if MD_VIA == MD_VIA_CLUSTER
    if (s.turn == 0)
        md_cluster_wait();
#endif
    md_move_epoch(p, s);
}
