/* How the blocks that share a row combine their parts of it. A part of row_split.cu. */
#ifndef MD_CUDA_ROW_SPLIT_EXCHANGE_H
#define MD_CUDA_ROW_SPLIT_EXCHANGE_H

/* The addresses and stamps of posts: loaded after the slice, while that is in flight. */
#if MD_EXCHANGE == MD_EXCHANGE_GRID || MD_EXCHANGE == MD_EXCHANGE_TICKET
MD_INLINE void md_ask_epoch(const md_params *p, md_slice &s)
{
    if (s.blocks == 1) /* one block a row: it exchanges nothing, and has no place in the counters */
        return;
    if (s.turn == 0 && s.t < 32)
        s.epoch = md_read_epoch(md_head_of(p->counters0, (int)blockIdx.y, s.blocks));
    s.slots = md_slots_of(p->counters0, (int)blockIdx.y, s.blocks, 0);
    asm volatile("" : "+l"(s.slots)); /* now */
}
/* Every block reads the epoch before it posts, and the block that advances it has seen all posts. By ticket there is
 * one exchange. */
MD_INLINE void md_move_epoch(const md_params *p, const md_slice &s)
{
    if (s.turn > 0 && s.t == 0 && (MD_EXCHANGE == MD_EXCHANGE_TICKET ? s.has_row : s.block == s.blocks - 1))
        *md_head_of(p->counters0, (int)blockIdx.y, s.blocks) = s.epoch + s.turn;
}
#else
MD_INLINE void md_ask_epoch(const md_params *, md_slice &) {}
MD_INLINE void md_move_epoch(const md_params *, const md_slice &) {}
#endif

/* Work on vectors that exist: loads are predicated; what is done with them is in nested branches, so that values that
 * one needs are available to the next. */
#define MD_EACH(i)                                                                                                     \
    MD_FOR (i, MD_VECTORS)                                                                                             \
        if (md_has_vector(s, base + i))
#define MD_WHILE(i)                                                                                                    \
    MD_FOR (i, MD_VECTORS)                                                                                             \
        if (!md_has_vector(s, base + i))                                                                               \
            break;                                                                                                     \
        else

#if MD_STAGED
#include "staged.h"
/* When copies of weights start. Before the row's loads or among them they would delay those. With 4-byte elements they
 * start when each warp's part of the row has arrived (md_hold_early). With shorter ones, where instructions count,
 * those of the first warp start after the row's loads, since it has no time later; those of other warps while they wait
 * for other blocks. Later rows have the same weights. */
enum { MD_WAITS_TO_PUT = MD_VL > 4 };
MD_INLINE void md_put_weights(const md_params *p, const md_slice &s)
{
    const int base = 0;
    MD_ROW_AT(p, s.number)
    md_elem none;
    if (s.turn > 0)
        return;
    MD_EACH (i)
        if (i < MD_EARLY) {
            int piece = i * MD_STAGED;
            md_fetch_epilogue(MD_X p, &none, md_vector_at(s, i), md_copy_staged{&piece});
        }
    md_copy_commit();
}
MD_INLINE void md_wait_staged() { md_copy_wait<0>(); }
MD_INLINE void md_take_weights(MD_X_DECL const md_params *p, md_elem &elem, const md_slice &s, int i)
{
    int piece = i * MD_STAGED;
    if (i < MD_EARLY)
        md_fetch_epilogue(MD_X p, &elem, md_vector_at(s, i), md_take_staged{&piece});
}
#else
enum { MD_WAITS_TO_PUT = 0 };
MD_INLINE void md_put_weights(const md_params *, const md_slice &) {}
MD_INLINE void md_wait_staged() {}
MD_INLINE void md_take_weights(MD_X_DECL const md_params *, md_elem &, const md_slice &, int) {}
#endif

/* ---- Who combines with whom */
/* In the first warp: the parts of all blocks, by lanes; true if it got them. */
#if MD_EXCHANGE == MD_EXCHANGE_CLUSTER
template <class P> MD_INLINE bool md_exchange(md_lot<P> &lot, P p, const md_params *, md_slice &s)
{
    __shared__ md_cluster_room<P> room;
    if (s.turn == 0)
        md_cluster_wait();
    md_to_cluster(p, room, s.block, s.blocks, (int)s.turn);
    lot.own[0] = room.part[s.turn & 1][(s.t & 31) & (s.blocks - 1)].p;
    return true;
}
#elif MD_EXCHANGE == MD_EXCHANGE_LAUNCH
template <class P> MD_INLINE bool md_exchange(md_lot<P> &lot, P p, const md_params *q, md_slice &s)
{
    md_parcel<P> *parts = (md_parcel<P> *)q->work0 + s.number * s.blocks;
    if (MD_PHASE == 1 && s.t == 0)
        parts[s.block] = md_wrap(p);
    if (MD_PHASE == 2 && s.t < 32)
        MD_FOR (k, MD_LOTS)
            lot.own[k] = parts[(s.t + 32 * k) & (s.blocks - 1)].p;
    return MD_PHASE == 2 && s.t < 32;
}
#else
template <class P> MD_INLINE bool md_exchange(md_lot<P> &lot, P p, const md_params *q, md_slice &s)
{
    const int t = s.t, block = s.block, blocks = s.blocks;
    if (t >= 32)
        return false;
    char *slots = s.slots + (s.turn & 1) * blocks * MD_SLOT_BYTES;
    md_post(p, slots, t, block, blocks, s.epoch + 1 + s.turn);
    if (MD_EXCHANGE == MD_EXCHANGE_TICKET)
        s.has_row = md_is_last(md_head_of(q->counters0, (int)blockIdx.y, blocks), blocks);
    else
        s.has_row = !MD_IS_ONE_KNOWING || s.wait || block == blocks - 1;
    if (s.has_row)
        md_collect(lot, slots, t, block, blocks, s.epoch + 1 + s.turn);
    return s.has_row;
}
#endif
/* Combines the parts of a row. If only one block needs the result, only its first warp gets it. */
template <class P> MD_INLINE P md_mix_row(P p, const md_params *q, md_slice &s)
{
    __shared__ md_block_room<P> room;
    if (MD_PHASE != 2)
        p = md_mix_block(p, room, s.t);
    if (MD_WAITS_TO_PUT && s.t >= 32)
        md_put_weights(q, s);
    if (s.blocks > 1 || MD_PHASE > 0) {
        md_lot<P> lot;
        if (md_exchange(lot, p, q, s)) {
            MD_FOR (k, MD_LOTS)
                if ((s.t & 31) + 32 * k >= s.blocks)
                    md_nothing(lot.own[k]);
            MD_FOR (k, MD_LOTS - 1)
                md_mix(lot.own[0], lot.own[k + 1]);
            p = md_mix_warp(lot.own[0], 32);
        }
        s.turn++;
    }
    return MD_IS_ONE_KNOWING && !s.wait ? p : md_tell_block(p, room, s.t);
}
/* A level's part of the row; of the warp if states are exchanged later. */
template <class P> MD_INLINE P md_mix_level(P p, const md_params *q, md_slice &s)
{
#if MD_ONLINE
    (void)q, (void)s;
    return md_mix_warp(p, 32);
#else
    return md_mix_row(p, q, s);
#endif
}

#if MD_ONLINE
/* Counts the elements of all blocks' slices while the row is in flight; read after the next barrier. Two buffers
 * alternate, as those of clusters. */
__shared__ md_pos md_counts[2][MD_BLOCKS];
MD_INLINE void md_record_counts(const md_slice &s, md_pos lead)
{
    if (s.t < s.blocks)
        md_counts[s.turn & 1][s.t] = md_count_slice(s, s.n, lead, s.t);
}
/* Exchanging whole states: what a thread tells others of its own, and how a state is made of that. */
#define MD_TOLD(l) md_part##l of##l;
#define MD_TELL(l) md_tell##l(&told.of##l, &state);
#define MD_HEAR(l) md_accept##l(&state, &told.of##l);
#define MD_TELL_NOTHING(l) md_clear_part##l(&told.of##l);
struct md_told {
    MD_LEVELS(MD_TOLD)
};
struct md_tile_state {
    md_parcel<md_told> told;
    md_pos count;
};
MD_INLINE md_told md_tell(const md_state &state)
{
    md_told told;
    MD_LEVELS(MD_TELL)
    return told;
}
MD_INLINE md_state md_hear(const md_told &told, md_pos count)
{
    md_state state;
    state.count = count;
    MD_LEVELS(MD_HEAR)
    return state;
}
MD_INLINE md_told md_told_nothing()
{
    md_told told;
    MD_LEVELS(MD_TELL_NOTHING)
    return told;
}
/* Merges a warp's states to one, for all lanes: a level at a time, relative to what is common so far. */
#define MD_MIX_LOT(l)                                                                                                  \
    {                                                                                                                  \
        md_part##l part, more;                                                                                         \
        md_rebase##l(&part, &own[0], &common);                                                                         \
        MD_FOR (k, N - 1) {                                                                                            \
            md_rebase##l(&more, &own[k + 1], &common);                                                                 \
            md_combine##l(&part, &more);                                                                               \
        }                                                                                                              \
        part = md_mix_warp(part, width);                                                                               \
        md_accept##l(&common, &part);                                                                                  \
    }
template <int N, int width> MD_INLINE md_state md_mix_states(const md_state *own, md_pos count)
{
    md_state common;
    common.count = count;
    MD_LEVELS(MD_MIX_LOT)
    return common;
}
/* Merges the warps' states to the block's, and the blocks' to the row's, which all threads get; by ticket, one block's
 * first warp. */
MD_INLINE void md_mix_all(md_state &state, const md_params *q, md_slice &s, md_pos n)
{
    __shared__ md_tile_state note[MD_WARPS];
    __shared__ md_parcel<md_told> all;
    const int t = s.t, lane = (s.t & 31);
    if (MD_PHASE != 2 && lane == 0) {
        note[t / 32].told = md_wrap(md_tell(state));
        note[t / 32].count = state.count;
    }
    __syncthreads();
    const md_pos *counts = md_counts[s.turn & 1];
    if (MD_WAITS_TO_PUT && t >= 32)
        md_put_weights(q, s);
    if (MD_PHASE != 2 && t < 32) {
        const md_state own = md_hear(note[lane % MD_WARPS].told.p, note[lane % MD_WARPS].count);
        state = md_mix_states<1, MD_WARPS>(&own, counts[s.block]);
    }
    if (s.blocks > 1 || MD_PHASE > 0) {
        md_lot<md_told> lot;
        if (md_exchange(lot, md_tell(state), q, s)) {
            md_state own[MD_LOTS];
            MD_FOR (k, MD_LOTS) {
                const int block = lane + 32 * k;
                const bool is_there = block < s.blocks;
                own[k] = md_hear(is_there ? lot.own[k] : md_told_nothing(), is_there ? counts[block] : 0);
            }
            state = md_mix_states<MD_LOTS, 32>(own, n);
        }
        s.turn++;
    }
    if (MD_EXCHANGE == MD_EXCHANGE_CLUSTER || (MD_IS_ONE_KNOWING && !s.wait))
        return;
    if (t == 0)
        all = md_wrap(md_tell(state));
    __syncthreads();
    state = md_hear(all.p, n);
}
#else
MD_INLINE void md_record_counts(const md_slice &, md_pos) {}
#endif

#endif
