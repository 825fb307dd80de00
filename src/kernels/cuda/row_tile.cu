/* Short rows that lie side by side in memory, wherever they begin. A block's rows are one run of bytes, which its
 * threads copy to shared memory in whole 16-byte vectors, all on their way at once; then each group of threads reads
 * its rows element by element, side by side. Results along the rows can go back the same way.
 *   MD_TURNS    rows of a group, one after the other
 *   MD_BYTES    of an element of the rows
 *   MD_STAGED   1: results along the row are as large as its elements and take their places in shared memory, from
 *               where the block writes them as one run */
#include "md_config.h"
#include "prelude.h"
#define MD_SEEN (MD_GUARDED && MD_VL == 1 ? MD_VECTORS : 0)
#include "row.h"

/* Types passed as the number of elements: rows are located, or found in shared memory; results are located, or put
 * there. */
struct md_located : md_maybe {
    const unsigned char **at;
};
struct md_found : md_maybe {
    const unsigned char *at;
};
struct md_placed : md_maybe {
    unsigned char **at;
};
struct md_into : md_maybe {
    unsigned char *at;
};
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_located n)
{
    *n.at = (const unsigned char *)((const typename S::E *)t + o);
    return md_zero_raw<S>();
}
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *, int64_t, md_found n)
{
    md_raw<S> r = md_zero_raw<S>();
    if (n.all)
        md_put(r, 0, *(const typename S::E *)n.at);
    return r;
}
/* The last argument is an int where these are called, so that they go before the store that all templates share. */
template <class S> MD_INLINE void md_store_unit(void *t, int64_t o, typename S::V, md_placed n, bool, int)
{
    *n.at = (unsigned char *)((typename S::E *)t + o);
}
template <class S> MD_INLINE void md_store_unit(void *, int64_t, typename S::V v, md_into n, bool, int)
{
    if (n.all)
        *(typename S::E *)n.at = md_get(md_pack<S>(v), 0);
}
#include "md_expr.h"
#include "row_group.h"

enum { MD_TILE = MD_BLOCK_ROWS * MD_TURNS };
#if MD_BYTES == 8
typedef uint64_t md_bits;
#elif MD_BYTES == 4
typedef uint32_t md_bits;
#elif MD_BYTES == 2
typedef uint16_t md_bits;
#else
typedef uint8_t md_bits;
#endif

/* A run of bytes as this thread moves it: whole vectors, and one element of the ends, each shorter than a vector. */
struct md_run {
    int first, end; /* of the vectors */
    int edge; /* the element's place; -1: none */
};
MD_INLINE md_run md_cut(int past, int bytes)
{
    const int room = past > 0 ? 16 - past : 0, head = room < bytes ? room : bytes,
              rest = head + (bytes - head) / 16 * 16, own = (int)threadIdx.x * MD_BYTES,
              edge = own < head ? own : own - head + rest;
    md_run r = {head + (int)threadIdx.x * 16, rest, edge < bytes && own < 32 ? edge : -1};
    return r;
}
/* Both sides lie `past` bytes behind a boundary. The copies are not waited for. */
MD_INLINE void md_bring(const unsigned char *from, int past, int bytes)
{
    const md_run r = md_cut(past, bytes);
    for (int i = r.first; i < r.end; i += MD_BLOCK_THREADS * 16)
        md_copy16(md_shared + past + i, from + i, 16);
    if (r.edge >= 0)
        *(md_bits *)(md_shared + past + r.edge) = *(const md_bits *)(from + r.edge);
}
MD_INLINE void md_send(unsigned char *to, int past, int bytes)
{
    const unsigned char *from = md_shared + past;
    if ((int)((uintptr_t)to % 16) != past) {
        for (int i = (int)threadIdx.x * MD_BYTES; i < bytes; i += MD_BLOCK_THREADS * MD_BYTES)
            *(md_bits *)(to + i) = *(const md_bits *)(from + i);
        return;
    }
    const md_run r = md_cut(past, bytes);
    for (int i = r.first; i < r.end; i += MD_BLOCK_THREADS * 16)
        *(uint4 *)(to + i) = *(const uint4 *)(from + i);
    if (r.edge >= 0)
        *(md_bits *)(to + r.edge) = *(const md_bits *)(from + r.edge);
}

#define MD_ADD_LEVEL(l)                                                                                                \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_clear##l(&acc, 0);                                                                                          \
        MD_FORGET                                                                                                      \
        MD_FOR (i, md_own)                                                                                             \
            md_add##l(MD_X p, &row, &acc, &elem[i], at.place + i * MD_STEP, MD_ALL(i));                                \
        MD_EXCHANGE_LEVEL(l, acc)                                                                                      \
    }

/* `here`: the row's place in shared memory. `elem` has the weights already. */
template <int md_own, int md_sure>
MD_INLINE void md_one_row(const md_params *p, md_elem (&elem)[md_own], int64_t number, bool stores, unsigned char *here,
                          int group, int lane)
{
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    const md_layout at = md_lay_out(row.count, 0, lane);
    MD_FOR (i, md_own)
        md_fetch(MD_X p, &elem[i], at.first + i * MD_STEP,
                 md_found{md_when(!MD_STAGED || stores, MD_ALL(i)), here + (lane + i * MD_GROUP) * MD_BYTES});
    MD_LEVELS(MD_ADD_LEVEL)
    if (!stores)
        return;
    md_derive(MD_X p, &row);
    MD_FORGET
    MD_FOR (i, MD_HAS_ELEMENTS ? md_own : 0) {
        if (MD_STAGED)
            md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP,
                   md_into{MD_ALL(i), here + (lane + i * MD_GROUP) * MD_BYTES});
        else
            md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    }
    if (lane == 0)
        md_row_store(MD_X p, &row);
}

/* Where results of these rows begin. */
MD_INLINE unsigned char *md_results_of(const md_params *p, const md_elem *elem, int64_t number)
{
    unsigned char *to = nullptr;
    MD_ROW_AT(p, number);
    md_row row = {};
    md_out(MD_X p, &row, elem, 0, md_placed{{0}, &to});
    return to;
}

/* The rows of a block from `first` on, `held` of them, which lie `past` bytes into shared memory. */
template <int md_own, int md_sure>
MD_INLINE void md_rows_of(const md_params *p, int64_t first, int held, int past, int group, int lane)
{
    const int n = (int)MD_COUNT(p);
    const md_layout at = md_lay_out(n, 0, lane);
    md_elem elem[md_own];
    MD_ROW_AT(p, first);
    MD_FOR (i, MD_HAS_ELEMENTS ? md_own : 0)
        md_fetch_epilogue(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    md_copy_commit();
    md_copy_wait<0>();
    __syncthreads();
    MD_ROLLED for (int own = group, t = 0; t < MD_TURNS && t * MD_BLOCK_ROWS < held; t++, own += MD_BLOCK_ROWS)
    {
        /* groups beyond the last row store nothing, but all threads of a warp exchange */
        const int row = own < held ? own : held - 1;
        unsigned char *here = md_shared + past + row * n * MD_BYTES;
        md_one_row<md_own, md_sure>(p, elem, first + row, own < held, here, group, lane);
    }
}

template <int md_own>
MD_INLINE void md_rows_by_length(const md_params *p, int64_t first, int held, int past, int group, int lane)
{
    const int n = (int)MD_COUNT(p);
    if constexpr (md_own <= MD_LEAST_OWN)
        md_rows_of<MD_VECTORS, 0>(p, first, held, past, group, lane);
    else if (md_are_sure(n, n, md_own))
        md_rows_of<md_own, md_own - MD_UNSURE>(p, first, held, past, group, lane);
    else
        md_rows_by_length<md_own - MD_UNSURE>(p, first, held, past, group, lane);
}

extern "C" __global__ void __launch_bounds__(MD_BLOCK_THREADS, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int lane = (int)(threadIdx.x % MD_GROUP), group = (int)(threadIdx.x / MD_GROUP);
    const int64_t rows = MD_ROWS(p), first = ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * MD_TILE;
    if (first >= rows)
        return;
    const int n = (int)MD_COUNT(p), held = (int)(rows - first < MD_TILE ? rows - first : MD_TILE), bytes = n * MD_BYTES;
    MD_ROW_AT(p, first);
    md_elem elem;
    const unsigned char *from = nullptr;
    md_fetch(MD_X p, &elem, 0, md_located{{0}, &from});
    const int past = (int)((uintptr_t)from % 16);
    md_bring(from, past, held * bytes);
    md_rows_by_length<MD_VECTORS>(p, first, held, past, group, lane);
    if (MD_STAGED) {
        __syncthreads();
        md_send(md_results_of(p, &elem, first), past, held * bytes);
    }
}
