/* Long rows by clusters of blocks (sm_90). A block has the same columns of all rows that its cluster takes, so that it
 * brings what rows share along them (weights) on chip once. Rows come by bulk copies into a ring of chunks, for which a
 * warp of its own asks: while one row is reduced and stored, the next ones arrive. Whole vectors begin at a row's first
 * boundary, wherever the row begins. The row's ends are for the first threads of a cluster (row_group.h); the warp that
 * asks for rows brings them, too. Each warp sends its part of a level to all blocks. There is no other barrier between
 * rows.
 *   MD_GROUP     threads that compute; a block has a warp more
 *   MD_VECTORS   vectors of a thread in a chunk
 *   MD_CLUSTER   blocks of a cluster: a power of 2
 *   MD_ROOM      bytes of dynamic shared memory: weights, then the ring
 *   MD_CHUNKS    most chunks of the ring
 *   MD_KEPT      1: weights, which only stores use, are on chip; 0: they come from memory for each row
 *   MD_KEPT_BYTES  of all weights for one vector of the row */
#include "md_config.h"
#define MD_INSIDE 1
#define MD_WHOLE_STORES 1
#define MD_BLOCK_ROWS 1
#include "prelude.h"
#include "row.h"
#include "tma.h"

#include "row_found.h"
#include "md_expr.h"
#include "row_group.h"
#include "row_cluster_meet.h"

enum { MD_CHUNK_BYTES = MD_GROUP * MD_VECTORS * 16 };

/* ---- The columns of a block */
enum { MD_RING_ROWS = 4 }; /* most rows in the ring */
struct md_bars {
    uint64_t full[MD_CHUNKS], empty[MD_CHUNKS], met[2];
};
enum { MD_EMPTY = MD_CHUNKS * 8 }; /* bytes from a chunk's full barrier to its empty one */
struct md_slice {
    md_pos first; /* the block's first vector of each row */
    md_pos per; /* vectors of each block, the last ones may have fewer */
    int rank, chunks; /* chunks of a slice */
    unsigned shared; /* address of shared memory: weights, then the ring */
    unsigned ring, full, full_end; /* the first chunk and its barrier, the last one's end */
    unsigned met; /* barriers of both exchange rooms */
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
MD_INLINE void md_cut(md_slice &s, md_pos n, const md_bars &bars)
{
    s.rank = md_rank();
    s.per = (n / MD_VL + MD_CLUSTER - 1) / MD_CLUSTER;
    s.first = s.rank * s.per;
    s.chunks = (int)((s.per + MD_GROUP * MD_VECTORS - 1) / (MD_GROUP * MD_VECTORS));
    s.chunks = s.chunks > 0 ? s.chunks : 1; /* a row that is only ends has one empty chunk */
    const int weights = (int)s.per * MD_KEPT_BYTES, slots = (MD_ROOM - weights) / MD_CHUNK_BYTES,
              most = s.chunks * MD_RING_ROWS < MD_CHUNKS ? s.chunks * MD_RING_ROWS : MD_CHUNKS;
    s.shared = md_shared_address(md_shared);
    s.ring = s.shared + weights;
    s.full = md_shared_address(bars.full);
    asm volatile("" : "+r"(s.shared), "+r"(s.ring), "+r"(s.full)); /* once */
    s.full_end = s.full + (slots < most ? slots : most) * 8;
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

/* ---- The rows of a cluster: a range of them, at most 2^31. With weights on chip they are sorted: rows r, r + MD_VL,
 * ... of contiguous tensors begin at the same distance from a boundary, so that weights are moved once or twice. */
enum { MD_KINDS = MD_KEPT ? MD_VL : 1 };
struct md_rows {
    int number, kind, left;
};
MD_INLINE md_rows md_rows_of(int rows)
{
    const int64_t cluster = blockIdx.x / MD_CLUSTER, clusters = gridDim.x / MD_CLUSTER;
    const int from = (int)md_share(rows, cluster, clusters), each = rows / MD_KINDS, more = rows % MD_KINDS,
              rest = from - more * (each + 1);
    md_rows r;
    r.left = (int)md_share(rows, cluster + 1, clusters) - from;
    r.kind = rest < 0 ? from / (each + 1) : each > 0 ? more + rest / each : 0;
    r.number = r.kind + (rest < 0 ? from % (each + 1) : each > 0 ? rest % each : 0) * MD_KINDS;
    return r;
}
MD_INLINE void md_next_row(md_rows &r, int rows)
{
    r.left--;
    r.number += MD_KINDS;
    if (MD_KINDS > 1 && r.number >= rows)
        r.number = ++r.kind;
}

/* ---- Weights on chip. They lie as a row with `lead` elements in front of a boundary needs them: piece after piece of
 * the vectors of a slice. A thread puts there what it reads later. One vector at a time: more would take registers. */
MD_INLINE void md_put_weights(MD_X_DECL const md_params *p, const md_slice &s, const md_layout &at)
{
    MD_ROLLED for (md_pos v = 0; v * MD_GROUP < at.left; v++)
    {
        md_elem none;
        unsigned to = s.shared + (unsigned)(v * MD_GROUP + (md_pos)threadIdx.x) * 16;
        md_fetch_epilogue(MD_X p, &none, at.first + v * MD_STEP, md_brought{&to, (unsigned)s.per * 16});
    }
}

/* ---- The warp that asks for rows */
/* The ends of the rows in the ring, and of one that is being stored: what levels use. */
enum { MD_LINES = MD_RING_ROWS + 1 };
struct md_ends {
    md_elem of[MD_LINES][4];
};
MD_INLINE void md_ask_ends(const md_params *p, md_elem &end, const md_slice &s, const md_rows &r)
{
    if (s.rank > 0 || md_lane_id() > 3 || r.left <= 0)
        return;
    MD_ROW_AT(p, r.number);
    const md_layout at = md_lay_out_slice(s, (md_pos)MD_COUNT(p), (md_pos)md_lead(MD_X p, 0), md_lane_id());
    if (at.edge.hi > 0)
        md_fetch(MD_X p, &end, at.edge_at, at.edge);
}
MD_INLINE void md_send_chunk(const md_cursor &at, const unsigned char *from, int bytes)
{
    MD_TEST_POISON(at.place, bytes);
    if (bytes > 0)
        md_bulk_load(at.place, from, (unsigned)bytes, at.bar);
}
/* A row. Its first chunk has not arrived before its ends are there. */
MD_INLINE void md_feed_row(const md_params *p, const md_slice &s, int number, md_cursor &at, md_elem *to,
                           const md_elem &end)
{
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
        if (md_lane_id() == 0)
            md_send_chunk(at, from, bytes);
        if (c == 0 && md_lane_id() < 4)
            to[md_lane_id()] = end;
        __syncwarp();
        if (md_lane_id() == 0)
            md_bar_expect(at.bar, (unsigned)bytes);
        from += bytes;
        left -= bytes;
        md_step(at, s, s.ring);
    }
}
MD_INLINE void md_feed(const md_params *p, const md_slice &s, int rows, md_ends &ends)
{
    md_rows r = md_rows_of(rows);
    md_cursor at = {s.full, s.ring, 1};
    md_elem end, next;
    int line = 0;
    md_ask_ends(p, end, s, r);
    while (r.left > 0) {
        const int number = r.number;
        md_next_row(r, rows);
        md_ask_ends(p, next, s, r);
        md_feed_row(p, s, number, at, ends.of[line], end);
        line = line + 1 < MD_LINES ? line + 1 : 0;
        end = next;
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
        if (at.edge.hi > 0) {                                                                                          \
            md_elem end = ends[threadIdx.x];                                                                           \
            md_add##l(MD_X p, &row, &acc, &end, at.edge_at, at.edge);                                                  \
        }                                                                                                              \
        md_fold##l(&part, &acc);                                                                                       \
        md_exchange_all(                                                                                               \
            &part, s, room, turn, [](md_part##l *a, int width) { md_tree##l(a, width); },                              \
            [](md_part##l *a, const md_part##l *b) { md_combine##l(a, b); });                                          \
        md_finish##l(MD_X p, &row, &part);                                                                             \
        end = now;                                                                                                     \
    }

MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, const md_slice &s, const md_layout &at,
                        md_cursor now)
{
    const md_pos vectors = at.left + (md_pos)threadIdx.x;
    unsigned kept = s.shared + threadIdx.x * 16;
    MD_ROLLED for (int c = 0; c < s.chunks; c++)
    {
        md_elem elem[MD_VECTORS];
#if MD_KEPT
        MD_EACH (unsigned weights = kept + i * MD_GROUP * 16;
                 md_fetch_out(MD_X p, &elem[i], at.first + MD_OWN * MD_STEP,
                              md_found_kept{MD_PLACE, &weights, (unsigned)s.per * 16}))
#else
        MD_EACH (md_fetch_out(MD_X p, &elem[i], at.first + MD_OWN * MD_STEP, md_found{MD_PLACE}))
#endif
            md_release(now); /* also a fence: loads come before everything else */
        MD_EACH (md_out(MD_X p, &row, &elem[i], at.first + MD_OWN * MD_STEP, md_full()))
            md_step(now, s, md_own_ring(s));
        kept += MD_CHUNK_BYTES;
    }
}
MD_INLINE void md_one_row(const md_params *p, int number, const md_slice &s, md_cursor &begin, md_room &room,
                          unsigned &turn, const md_elem *ends, md_pos &kept_lead)
{
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    const md_pos lead = (md_pos)md_lead(MD_X p, 0);
    const md_layout at = md_lay_out_slice(s, row.count, lead, (int)threadIdx.x);
    const md_pos vectors = at.left + (md_pos)threadIdx.x;
    md_cursor end = begin;
    if (MD_KEPT && lead != kept_lead) {
        md_put_weights(MD_X p, s, at);
        kept_lead = lead;
    }
    MD_LEVELS(MD_ADD_LEVEL)
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS) {
        md_write(MD_X p, row, s, at, begin);
        if (at.edge.hi > 0) {
            md_elem end = ends[threadIdx.x];
            md_fetch_epilogue(MD_X p, &end, at.edge_at, at.edge);
            md_out(MD_X p, &row, &end, at.edge_at, at.edge);
        }
    }
    if (s.rank == 0 && threadIdx.x == 0)
        md_row_store(MD_X p, &row);
    begin = end;
}

MD_INLINE void md_compute(const md_params *p, const md_slice &s, md_room &room, const md_ends &ends, int rows)
{
    md_rows r = md_rows_of(rows);
    md_cursor begin = {s.full, md_own_ring(s), 0};
    unsigned turn = 0;
    md_pos kept_lead = -1;
    int line = 0;
    for (; r.left > 0; md_next_row(r, rows)) {
        md_one_row(p, r.number, s, begin, room, turn, ends.of[line], kept_lead);
        line = line + 1 < MD_LINES ? line + 1 : 0;
    }
}

extern "C" __global__ void __launch_bounds__(MD_GROUP + 32, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    __shared__ alignas(8) md_bars bars;
    __shared__ alignas(16) md_room room;
    __shared__ md_ends ends;
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int rows = (int)MD_ROWS(p);
    const bool is_feeder = threadIdx.x >= MD_GROUP;
    md_slice s;
    md_cut(s, (md_pos)MD_COUNT(p), bars);
    if (threadIdx.x == MD_GROUP) {
        MD_ROLLED for (unsigned bar = s.full; bar != s.full_end; bar += 8)
        {
            md_bar_init(bar, 1);
            md_bar_init(bar + MD_EMPTY, MD_WARPS);
        }
        md_bar_init(s.met, MD_MEETING);
        md_bar_init(s.met + 8, MD_MEETING);
        md_bar_init_fence();
    }
    __syncwarp();
    md_arrive_all();
    if (is_feeder) {
        md_feed(p, s, rows, ends);
        __syncwarp();
        md_wait_all();
        return;
    }
    md_wait_all();
    md_compute(p, s, room, ends, rows);
}
