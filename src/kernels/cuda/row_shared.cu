/* Long rows that stay in shared memory: memory is read once, by bulk copies (sm_90) that need neither threads nor
 * registers. Copies bring the whole vectors of a row, which begin at its first boundary wherever the row begins; its
 * ends go to the first threads, as in registers (row_group.h). A block has one row at a time, every gridDim.x-th. The
 * row is copied in chunks. While it is stored, each chunk that all threads have read is filled with the
 * block's next row, so that memory is never idle between rows.
 *   MD_GROUP     threads of a block; each takes every MD_GROUP-th vector, MD_VECTORS of them in a chunk
 *   MD_CHUNKS    most chunks of a row */
#include "md_config.h"
#define MD_INSIDE 1
#define MD_WHOLE_STORES 1
#define MD_BLOCK_ROWS 1
#include "prelude.h"
#include "row.h"
#include "tma.h"

/* Types passed as the number of elements: the row's loads are located, or found in shared memory. Weights that all rows
 * share come from memory, aligned or shifted. */
struct md_located {
    const unsigned char **at;
};
struct md_found {
    const unsigned char *at;
};
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_located n)
{
    *n.at = (const unsigned char *)((const typename S::E *)t + o);
    return md_zero_raw<S>();
}
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *, int64_t, md_found n)
{
    return md_get_whole<S>(n.at);
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *, int64_t, md_located) { return md_zero_raw<S>(); }
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_found)
{
    return md_fetch_shifted<S>(t, o, md_full());
}
#include "md_expr.h"
#include "row_group.h"

enum { MD_CHUNK_BYTES = MD_GROUP * MD_VECTORS * 16 };

/* What a block's barriers guard, and the row that it copies while it stores the one before. */
struct md_ring {
    unsigned full, read; /* shared memory addresses of the chunks' barriers: has arrived; nobody needs it any more */
    unsigned parity; /* of the current row */
    int chunks; /* chunks of each row, of which the last ones may be empty */
    const unsigned char *from; /* in thread 0: the next row's whole vectors */
    int bytes; /* bytes of those vectors; -1: there is no next row */
};

/* Finds the row that is copied next. One thread calls it. */
MD_INLINE void md_locate(md_ring &r, const md_params *p, int64_t number, int64_t rows)
{
    r.bytes = -1;
    if (number >= rows)
        return;
    MD_ROW_AT(p, number);
    const md_layout at = md_lay_out((md_pos)MD_COUNT(p), (md_pos)md_lead(MD_X p, 0), 0);
    md_elem none;
    md_fetch0(MD_X p, &none, at.first, md_located{&r.from});
    r.bytes = at.left > 0 ? (int)at.left * 16 : 0;
}
MD_INLINE void md_send(const md_ring &r, int c)
{
    const int left = r.bytes - c * MD_CHUNK_BYTES, bytes = left < 0 ? 0 : left < MD_CHUNK_BYTES ? left : MD_CHUNK_BYTES;
    const unsigned bar = r.full + c * 8;
    md_bar_expect(bar, (unsigned)bytes);
    if (bytes > 0)
        md_bulk_load(md_shared_address(md_shared) + c * MD_CHUNK_BYTES, r.from + c * MD_CHUNK_BYTES, (unsigned)bytes,
                     bar);
}
/* The next row's chunk as soon as all warps have read this one. */
MD_INLINE void md_send_next(const md_ring &r, int c)
{
    if (threadIdx.x != 0 || r.bytes < 0 || c < 0)
        return;
    md_bar_wait(r.read + c * 8, r.parity);
    md_send(r, c);
}
/* After a chunk was stored. The thread that sends waits for the chunk before: others are done with that one. */
MD_INLINE void md_release(const md_ring &r, int c)
{
    __syncwarp();
    if (md_lane_id() == 0)
        md_bar_arrive(r.read + c * 8);
    md_send_next(r, c - 1);
}

/* A vector's place in shared memory, and its number among the thread's own. */
MD_INLINE unsigned char *md_place_of(int c, int i)
{
    return md_shared + c * MD_CHUNK_BYTES + (i * MD_GROUP + (int)threadIdx.x) * 16;
}
#define MD_OWN (c * MD_VECTORS + i)
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
#define MD_ADD_LEVEL(l)                                                                                                \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_clear##l(&acc, 0);                                                                                          \
        MD_ROLLED for (int c = 0; c < r.chunks; c++)                                                                   \
        {                                                                                                              \
            if (l == 0)                                                                                                \
                md_bar_wait(r.full + c * 8, r.parity);                                                                 \
            MD_EACH (md_elem e; md_fetch##l(MD_X p, &e, at.first + MD_OWN * MD_STEP, md_found{md_place_of(c, i)});     \
                     md_add##l(MD_X p, &row, &acc, &e, at.place + MD_OWN * MD_STEP, md_full()))                        \
        }                                                                                                              \
        if (at.edge.hi > 0)                                                                                            \
            md_add##l(MD_X p, &row, &acc, &edge, at.edge_at, at.edge);                                                 \
        MD_EXCHANGE_LEVEL(l, acc)                                                                                      \
    }

MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, const md_ring &r, const md_layout &at)
{
    const md_pos vectors = at.left + (md_pos)threadIdx.x;
    MD_ROLLED for (int c = 0; c < r.chunks; c++)
    {
        md_elem elem[MD_VECTORS];
        MD_EACH (md_fetch_out(MD_X p, &elem[i], at.first + MD_OWN * MD_STEP, md_found{md_place_of(c, i)}))
            MD_LOADS_FIRST;
        MD_EACH (md_out(MD_X p, &row, &elem[i], at.first + MD_OWN * MD_STEP, md_full()))
            md_release(r, c);
    }
    md_send_next(r, r.chunks - 1);
}

MD_INLINE void md_one_row(const md_params *p, int64_t number, const md_ring &r)
{
    const int lane = (int)threadIdx.x, group = 0;
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    const md_layout at = md_lay_out(row.count, (md_pos)md_lead(MD_X p, 0), lane);
    const md_pos vectors = at.left + lane;
    md_elem edge;
    if (at.edge.hi > 0) {
        md_fetch(MD_X p, &edge, at.edge_at, at.edge);
        md_fetch_epilogue(MD_X p, &edge, at.edge_at, at.edge);
    }
    MD_LEVELS(MD_ADD_LEVEL)
    md_derive(MD_X p, &row);
    md_write(MD_X p, row, r, at);
    if (at.edge.hi > 0)
        md_out(MD_X p, &row, &edge, at.edge_at, at.edge);
    if (lane == 0)
        md_row_store(MD_X p, &row);
}

extern "C" __global__ void __launch_bounds__(MD_GROUP, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    __shared__ alignas(8) uint64_t bars[2 * MD_CHUNKS];
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t rows = MD_ROWS(p);
    md_ring r;
    r.full = md_shared_address(bars);
    r.read = r.full + MD_CHUNKS * 8;
    r.parity = 0;
    r.chunks = (int)(((md_pos)MD_COUNT(p) / MD_VL + MD_GROUP * MD_VECTORS - 1) / (MD_GROUP * MD_VECTORS));
    if (threadIdx.x == 0) {
        MD_ROLLED for (int c = 0; c < r.chunks; c++)
        {
            md_bar_init(r.full + c * 8, 1);
            md_bar_init(r.read + c * 8, MD_GROUP / 32);
        }
        md_bar_init_fence();
    }
    __syncthreads();
    r.bytes = -1;
    if (threadIdx.x == 0) {
        md_locate(r, p, blockIdx.x, rows);
        MD_ROLLED for (int c = 0; r.bytes >= 0 && c < r.chunks; c++) md_send(r, c);
    }
    for (int64_t number = blockIdx.x; number < rows; number += gridDim.x) {
        if (threadIdx.x == 0)
            md_locate(r, p, number + gridDim.x, rows);
        md_one_row(p, number, r);
        r.parity ^= 1;
        if (MD_N_LEVELS == 1) /* with more levels, their barriers keep a row's parts from the next row's */
            __syncthreads();
    }
}
