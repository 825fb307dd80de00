/* Long rows by clusters of blocks (sm_90). A block has the same columns of all rows that its cluster takes, so that it
 * brings what rows share along them (weights) on chip once. Rows come by bulk copies into a ring of chunks, for which a
 * warp of its own asks: while one row is reduced and stored, the next ones arrive. Whole vectors begin at a row's first
 * boundary, wherever the row begins; its ends are with the first threads of a cluster (row_group.h), which load them
 * one row ahead. Each warp sends its part of a level to all blocks; there are no other barriers between rows.
 *   MD_GROUP     threads that compute; a block has a warp more
 *   MD_VECTORS   vectors of a thread in a chunk
 *   MD_CLUSTER   blocks of a cluster: a power of 2
 *   MD_ROOM      bytes of dynamic shared memory: weights, then the ring
 *   MD_CHUNKS    most chunks of the ring
 *   MD_KEPT      number of weights on chip, which only stores use; 0: weights come from memory for each row */
#include "md_config.h"
#define MD_INSIDE 1
#define MD_WHOLE_STORES 1
#define MD_BLOCK_ROWS 1
#include "prelude.h"
#include "row.h"
#include "tma.h"

#include "row_found.h"
#include "md_expr.h"
#if MD_KEPT
#undef MD_SHIFTS
#define MD_SHIFTS 0 /* the memory around weights on chip may be read */
#endif
#include "row_group.h"

enum { MD_WARPS = MD_GROUP / 32, MD_CHUNK_BYTES = MD_GROUP * MD_VECTORS * 16, MD_PARTS = MD_CLUSTER * MD_WARPS };

/* ---- Clusters. A block alone is none: there the compiler's barriers of clusters cannot be divided. */
#if MD_CLUSTER > 1
MD_INLINE int md_rank() { return (int)md_cluster_rank(); }
MD_INLINE void md_arrive_all() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
MD_INLINE void md_wait_all() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
enum { MD_MEETING = 1 }; /* arrivals at an exchange's barrier, besides the words that are sent */
/* Stores 8 bytes at the same place in another block, and counts them at the same barrier there. */
MD_INLINE void md_send_word(unsigned to, unsigned bar, uint64_t w, int rank)
{
    asm volatile("{\n.reg .b32 to, bar;\nmapa.shared::cluster.u32 to, %0, %3;\nmapa.shared::cluster.u32 bar, %1, %3;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [to], %2, [bar];\n}" ::"r"(to),
                 "r"(bar), "l"(w), "r"(rank)
                 : "memory");
}
/* Called by all lanes, which have the part: sends it to all blocks. */
template <int N> MD_INLINE void md_send_part(const uint64_t (&w)[N], uint64_t *to, unsigned bar)
{
    if (threadIdx.x == 0)
        md_bar_expect(bar, MD_PARTS * N * 8);
    if (md_lane_id() < MD_CLUSTER)
        MD_FOR (i, N)
            md_send_word(md_shared_address(to + i), bar, w[i], md_lane_id());
}
#else
MD_INLINE int md_rank() { return 0; }
MD_INLINE void md_arrive_all() { __syncthreads(); }
MD_INLINE void md_wait_all() {}
enum { MD_MEETING = MD_WARPS };
template <int N> MD_INLINE void md_send_part(const uint64_t (&w)[N], uint64_t *to, unsigned bar)
{
    if (md_lane_id() == 0) {
        MD_FOR (i, N)
            to[i] = w[i];
        md_bar_arrive(bar);
    }
}
#endif

/* ---- The columns of a block */
struct md_bars {
    uint64_t full[MD_CHUNKS], empty[MD_CHUNKS], weights, met[2];
};
enum { MD_EMPTY = MD_CHUNKS * 8 }; /* from a chunk's full barrier to its empty one */
struct md_slice {
    md_pos first; /* its first vector of a row */
    md_pos per; /* vectors of each block, the last ones may have fewer */
    int rank, chunks; /* chunks of a slice */
    unsigned shared; /* address of shared memory: weights, then the ring */
    unsigned ring, full, full_end; /* the first chunk and its barrier, the last one's end */
    unsigned weights, met; /* barriers: weights are here; of both exchange rooms */
};
/* A chunk of the ring: its full barrier, its place (for this thread), and the parity to wait for. */
struct md_cursor {
    unsigned bar, place, parity;
};
MD_INLINE void md_step(md_cursor &at, const md_slice &s, unsigned ring)
{
    at.bar += 8;
    at.place += MD_CHUNK_BYTES;
    if (at.bar == s.full_end) {
        at.bar = s.full;
        at.place = ring;
        at.parity ^= 1;
    }
}
/* src/family/cuda/row/row_cluster.c knows these sizes too. */
MD_INLINE md_pos md_kept_vectors(md_pos per) { return per + 3; }
MD_INLINE void md_cut(md_slice &s, md_pos n, const md_bars &bars)
{
    s.rank = md_rank();
    s.per = (n / MD_VL + MD_CLUSTER - 1) / MD_CLUSTER;
    s.first = s.rank * s.per;
    s.chunks = (int)((s.per + MD_GROUP * MD_VECTORS - 1) / (MD_GROUP * MD_VECTORS));
    const int weights = (int)md_kept_vectors(s.per) * MD_KEPT_BYTES, slots = (MD_ROOM - weights) / MD_CHUNK_BYTES;
    s.shared = md_shared_address(md_shared);
    s.ring = s.shared + weights;
    s.full = md_shared_address(bars.full);
    asm volatile("" : "+r"(s.shared), "+r"(s.ring), "+r"(s.full)); /* once */
    s.full_end = s.full + (slots < MD_CHUNKS ? slots : MD_CHUNKS) * 8;
    s.weights = md_shared_address(&bars.weights);
    s.met = md_shared_address(bars.met);
}
/* The part of a row that a thread has. */
MD_INLINE md_layout md_lay_out_slice(const md_slice &s, md_pos n, md_pos lead, int lane)
{
    md_layout at = md_lay_out(n, lead, lane);
    const md_pos rest = at.left + lane - s.first;
    at.left = (rest < s.per ? rest : s.per) - lane;
    at.place += s.first * MD_VL;
    at.first += s.first * MD_VL;
    if (s.rank > 0)
        at.edge.hi = 0;
    return at;
}

/* ---- Weights on chip: whole pieces of 16 bytes by a bulk copy, what is around them element by element. */
struct md_weight {
    const unsigned char *from, *begin, *end; /* a boundary up to the slice; its columns in memory */
    int to;
};
MD_INLINE void md_locate_weights(md_weight *w, const md_params *p, const md_slice &s)
{
    MD_ROW_AT(p, 0);
    const unsigned char *at[MD_MOST_KEPT];
    int bytes[MD_MOST_KEPT], next = 0, to = 0;
    md_elem none;
    const md_pos n = (md_pos)MD_COUNT(p), first = s.first * MD_VL, columns = s.per * MD_VL + MD_VL,
                 rest = n - first < columns ? n - first : columns;
    if (MD_KEPT)
        md_fetch_epilogue(MD_X p, &none, first, md_weights_located{at, bytes, &next});
    MD_FOR (i, MD_KEPT) {
        w[i].begin = at[i];
        w[i].end = at[i] + (rest > 0 ? (int64_t)rest * bytes[i] : 0);
        w[i].from = (const unsigned char *)((uintptr_t)at[i] & ~(uintptr_t)15);
        w[i].to = to;
        to += (int)md_kept_vectors(s.per) * MD_VL * bytes[i];
    }
}
MD_INLINE md_kept md_places_of(const md_weight *w, const md_slice &s)
{
    md_kept r;
    MD_FOR (i, MD_KEPT)
        r.move[i] = s.shared + (uint32_t)w[i].to - (uint32_t)(uintptr_t)w[i].from;
    return r;
}
MD_INLINE const unsigned char *md_piece_up(const unsigned char *p) { return p + (-(uintptr_t)p & 15); }
MD_INLINE const unsigned char *md_piece_down(const unsigned char *p) { return p - ((uintptr_t)p & 15); }
/* By one thread. */
MD_INLINE void md_ask_weights(const md_weight *w, const md_slice &s)
{
    unsigned all = 0, bytes[MD_MOST_KEPT];
    MD_FOR (i, MD_KEPT) {
        const int64_t whole = md_piece_down(w[i].end) - md_piece_up(w[i].begin);
        bytes[i] = whole > 0 ? (unsigned)whole : 0;
        all += bytes[i];
    }
    md_bar_expect(s.weights, all);
    MD_FOR (i, MD_KEPT)
        if (bytes[i] > 0)
            md_bulk_load(s.shared + w[i].to + (unsigned)(md_piece_up(w[i].begin) - w[i].from), md_piece_up(w[i].begin),
                         bytes[i], s.weights);
}
/* By 32 threads: the 2-byte pieces in front of the first whole piece of 16, and after the last. */
MD_INLINE void md_copy_weight_ends(const md_weight *w, int lane)
{
    MD_FOR (i, MD_KEPT) {
        const unsigned char *up = md_piece_up(w[i].begin), *down = md_piece_down(w[i].end);
        const unsigned char *at = (lane < 16   ? w[i].begin
                                   : down < up ? w[i].end
                                               : down) +
                                  lane % 16 * 2,
                            *end = lane < 16 && up < w[i].end ? up : w[i].end;
        if (at < end)
            *(uint16_t *)(md_shared + w[i].to + (at - w[i].from)) = *(const uint16_t *)at;
    }
}

/* ---- The warp that asks for rows */
MD_INLINE void md_feed(const md_params *p, const md_slice &s, int64_t rows, const md_weight *weight)
{
    const int64_t first = blockIdx.x / MD_CLUSTER;
    md_cursor at = {s.full, s.ring, 1};
    for (int64_t number = first; number < rows; number += gridDim.x / MD_CLUSTER) {
        MD_ROW_AT(p, number);
        const md_layout line = md_lay_out_slice(s, (md_pos)MD_COUNT(p), (md_pos)md_lead(MD_X p, 0), 0);
        const unsigned char *from = 0;
        md_elem none;
        md_fetch0(MD_X p, &none, line.first, md_located{&from});
        int left = line.left > 0 ? (int)line.left * 16 : 0;
        MD_ROLLED for (int c = 0; c < s.chunks; c++)
        {
            const int bytes = left < MD_CHUNK_BYTES ? left : MD_CHUNK_BYTES;
            md_bar_wait(at.bar + MD_EMPTY, at.parity);
            md_bar_expect(at.bar, (unsigned)bytes);
            if (bytes > 0)
                md_bulk_load(at.place, from, (unsigned)bytes, at.bar);
            from += bytes;
            left -= bytes;
            md_step(at, s, s.ring);
        }
        if (MD_KEPT && number == first) /* the first row is needed before them */
            md_ask_weights(weight, s);
    }
}

/* ---- Exchanges: warps send their parts to all blocks. Two rooms alternate: who sends to a room again has got all
 * parts of the other one, whose senders had read this one before. */
struct md_room {
    uint64_t word[2][MD_PARTS * MD_PART_WORDS];
};
template <class P, class Tree, class Combine>
MD_INLINE void md_exchange_all(P *part, const md_slice &s, md_room &room, unsigned &turn, Tree tree, Combine combine)
{
    enum { N = (int)(sizeof(P) + 7) / 8, LOTS = (MD_PARTS + 31) / 32 };
    static_assert(N <= MD_PART_WORDS, "room for a part");
    union {
        P p;
        uint64_t w[N];
    } a;
    const int lane = md_lane_id(), warp = (int)threadIdx.x / 32;
    uint64_t *words = room.word[turn & 1];
    const unsigned bar = s.met + (turn & 1) * 8;
    tree(part, 32);
    a.w[N - 1] = 0;
    a.p = *part;
    md_send_part(a.w, words + (s.rank * MD_WARPS + warp) * N, bar);
    md_bar_wait_cluster(bar, turn / 2 & 1);
    MD_FOR (k, LOTS) {
        MD_FOR (i, N)
            a.w[i] = words[((lane + 32 * k) % MD_PARTS) * N + i];
        if (k == 0)
            *part = a.p;
        else
            combine(part, &a.p);
    }
    tree(part, MD_PARTS < 32 ? MD_PARTS : 32);
    turn++;
}

/* ---- The warps that compute */
#define MD_OWN (c * MD_VECTORS + i)
#define MD_PLACE (now.place + i * MD_GROUP * 16)
#define MD_IS_WHOLE_CHUNK ((c + 1) * (MD_VECTORS * MD_GROUP) <= vectors)
/* Vectors of a chunk: those of a whole one without tests. */
#define MD_EACH(call)                                                                                                  \
    if (MD_IS_WHOLE_CHUNK) {                                                                                           \
        MD_FOR (i, MD_VECTORS) {                                                                                       \
            call;                                                                                                      \
        }                                                                                                              \
    } else {                                                                                                           \
        MD_FOR (i, MD_VECTORS)                                                                                         \
            if (MD_OWN * MD_GROUP < at.left) {                                                                         \
                call;                                                                                                  \
            }                                                                                                          \
    }
/* Gives a chunk back. */
MD_INLINE void md_release(const md_cursor &now)
{
    __syncwarp();
    if (md_lane_id() == 0)
        md_bar_arrive(now.bar + MD_EMPTY);
}
MD_INLINE unsigned md_own_ring(const md_slice &s) { return s.ring + threadIdx.x * 16; }
#define MD_ADD_LEVEL(l)                                                                                                \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_part##l part;                                                                                               \
        md_cursor now = begin;                                                                                         \
        md_clear##l(&acc, 0);                                                                                          \
        MD_ROLLED for (int c = 0; c < s.chunks; c++)                                                                   \
        {                                                                                                              \
            if (l == 0)                                                                                                \
                md_bar_wait(now.bar, now.parity);                                                                      \
            MD_EACH (md_elem e; md_fetch##l(MD_X p, &e, at.first + MD_OWN * MD_STEP, md_found{MD_PLACE});              \
                     md_add##l(MD_X p, &row, &acc, &e, at.place + MD_OWN * MD_STEP, md_full()))                        \
                if (!MD_HAS_ELEMENTS && l == MD_N_LEVELS - 1)                                                          \
                    md_release(now);                                                                                   \
            md_step(now, s, md_own_ring(s));                                                                           \
        }                                                                                                              \
        if (at.edge.hi > 0)                                                                                            \
            md_add##l(MD_X p, &row, &acc, &edge, at.edge_at, at.edge);                                                 \
        md_fold##l(&part, &acc);                                                                                       \
        md_exchange_all(                                                                                               \
            &part, s, room, turn, [](md_part##l *a, int width) { md_tree##l(a, width); },                              \
            [](md_part##l *a, const md_part##l *b) { md_combine##l(a, b); });                                          \
        md_finish##l(MD_X p, &row, &part);                                                                             \
        end = now;                                                                                                     \
    }

MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, const md_slice &s, const md_layout &at,
                        md_cursor now, const md_kept *kept)
{
    const md_pos vectors = at.left + (md_pos)threadIdx.x;
    MD_ROLLED for (int c = 0; c < s.chunks; c++)
    {
        md_elem elem[MD_VECTORS];
#if MD_KEPT
        MD_EACH (int next = 0;
                 md_fetch_out(MD_X p, &elem[i], at.first + MD_OWN * MD_STEP, md_found_kept{MD_PLACE, kept, &next}))
#else
        MD_EACH (md_fetch_out(MD_X p, &elem[i], at.first + MD_OWN * MD_STEP, md_found{MD_PLACE}))
#endif
            md_release(now); /* and a fence: loads before everything else */
        MD_EACH (md_out(MD_X p, &row, &elem[i], at.first + MD_OWN * MD_STEP, md_full()))
            md_step(now, s, md_own_ring(s));
    }
}
/* The ends of a row: what its levels use. */
MD_INLINE void md_ask_edge(const md_params *p, md_elem &edge, const md_slice &s, int64_t number, int64_t rows)
{
    if (s.rank > 0 || threadIdx.x > 3 || number >= rows)
        return;
    MD_ROW_AT(p, number);
    const md_layout at = md_lay_out_slice(s, (md_pos)MD_COUNT(p), (md_pos)md_lead(MD_X p, 0), (int)threadIdx.x);
    if (at.edge.hi > 0)
        md_fetch(MD_X p, &edge, at.edge_at, at.edge);
}
MD_INLINE void md_one_row(const md_params *p, int64_t number, const md_slice &s, md_cursor &begin, md_room &room,
                          unsigned &turn, md_elem &edge, const md_kept *kept)
{
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    const md_layout at = md_lay_out_slice(s, row.count, (md_pos)md_lead(MD_X p, 0), (int)threadIdx.x);
    const md_pos vectors = at.left + (md_pos)threadIdx.x;
    md_cursor end = begin;
    MD_LEVELS(MD_ADD_LEVEL)
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS) {
        if (at.edge.hi > 0)
            md_fetch_epilogue(MD_X p, &edge, at.edge_at, at.edge);
        if (MD_KEPT)
            md_bar_wait(s.weights, 0);
        md_write(MD_X p, row, s, at, begin, kept);
        if (at.edge.hi > 0)
            md_out(MD_X p, &row, &edge, at.edge_at, at.edge);
    }
    if (s.rank == 0 && threadIdx.x == 0)
        md_row_store(MD_X p, &row);
    begin = end;
}

MD_INLINE void md_compute(const md_params *p, const md_slice &s, md_room &room, int64_t rows, const md_kept *kept)
{
    const int64_t step = gridDim.x / MD_CLUSTER;
    md_cursor begin = {s.full, md_own_ring(s), 0};
    unsigned turn = 0;
    md_elem edge;
    md_ask_edge(p, edge, s, blockIdx.x / MD_CLUSTER, rows);
    for (int64_t number = blockIdx.x / MD_CLUSTER; number < rows; number += step) {
        md_elem next;
        md_ask_edge(p, next, s, number + step, rows);
        md_one_row(p, number, s, begin, room, turn, edge, kept);
        edge = next;
    }
}

extern "C" __global__ void __launch_bounds__(MD_GROUP + 32, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    __shared__ alignas(8) md_bars bars;
    __shared__ alignas(16) md_room room;
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t rows = MD_ROWS(p);
    const bool is_feeder = threadIdx.x >= MD_GROUP;
    md_slice s;
    md_cut(s, (md_pos)MD_COUNT(p), bars);
    md_weight weight[MD_MOST_KEPT];
    md_locate_weights(weight, p, s);
    const md_kept kept = md_places_of(weight, s);
    if (threadIdx.x < 32)
        md_copy_weight_ends(weight, (int)threadIdx.x);
    if (threadIdx.x == MD_GROUP) {
        MD_ROLLED for (unsigned bar = s.full; bar != s.full_end; bar += 8)
        {
            md_bar_init(bar, 1);
            md_bar_init(bar + MD_EMPTY, MD_WARPS);
        }
        md_bar_init(s.weights, 1);
        md_bar_init(s.met, MD_MEETING);
        md_bar_init(s.met + 8, MD_MEETING);
        md_bar_init_fence();
    }
    __syncwarp();
    md_arrive_all();
    if (is_feeder) {
        if (threadIdx.x == MD_GROUP)
            md_feed(p, s, rows, weight);
        __syncwarp();
        md_wait_all();
        return;
    }
    md_wait_all();
    md_compute(p, s, room, rows, &kept);
}
