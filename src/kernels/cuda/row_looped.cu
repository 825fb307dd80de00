/* Rows of any length. If results of chunks can be merged, one pass over memory computes all reductions: each thread
 * runs all levels on its vectors and merges chunk after chunk, then the threads merge. Else each level is a pass over
 * memory. The stores read memory again, the last part first, which L2 may still have. */
#include "md_config.h"
#define MD_INSIDE 1
#include "prelude.h"
#include "row.h"
#include "md_expr.h"
/* a chunk has results of its own: computing vectors that do not exist costs registers, and saves little */
#if MD_ONLINE
#undef MD_GUARDED
#define MD_GUARDED 0
#endif
#include "row_group.h"

/* Works on MD_VECTORS vectors of this thread from `at` on. */
#define MD_EACH(call)                                                                                                  \
    MD_FOR (i, MD_VECTORS)                                                                                             \
        MD_WHERE(i)                                                                                                    \
    call;
#define MD_HERE (at.first + i * MD_STEP)
#define MD_PLACE (at.place + i * MD_STEP)

/* Moves to the next chunk, or to an earlier one. */
MD_INLINE void md_next(md_layout &at, md_pos chunks = 1)
{
    at.first += chunks * (MD_VECTORS * MD_STEP);
    at.place += chunks * (MD_VECTORS * MD_STEP);
    at.left -= chunks * (MD_VECTORS * MD_GROUP);
    at.warp_left -= chunks * (MD_VECTORS * MD_GROUP);
}

#if MD_ONLINE
#define MD_CHUNK_LEVEL(l)                                                                                              \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_part##l part;                                                                                               \
        md_clear##l(&acc, has_edge && (at.left <= 0 || at.edge_at < at.place) ? at.edge_at : at.place);                \
        MD_FORGET                                                                                                      \
        MD_EACH (md_add##l(MD_X p, &chunk, &acc, &elem[i], MD_PLACE, MD_ALL(i)))                                       \
            if (MD_HAS_ENDS && has_edge)                                                                               \
                md_add##l(MD_X p, &chunk, &acc, &edge, at.edge_at, at.edge);                                           \
        md_fold##l(&part, &acc);                                                                                       \
        md_finish##l(MD_X p, &chunk, &part);                                                                           \
    }

/* The results of an empty set of elements. */
#define MD_NOTHING(l)                                                                                                  \
    {                                                                                                                  \
        md_part##l part;                                                                                               \
        md_clear_part##l(&part);                                                                                       \
        md_finish##l(MD_X p, &row, &part);                                                                             \
    }

MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, md_layout at, int group)
{
    md_elem elem[MD_VECTORS], edge;
    md_row chunk = row;
    row.count = 0;
    MD_LEVELS(MD_NOTHING)
    md_state total = row, run = row;
    int steps = 0;
    bool has_edge = MD_HAS_ENDS && at.edge.hi > 0;
    if (has_edge)
        md_fetch_body(MD_X p, &edge, at.edge_at, at.edge);
    MD_ROLLED do
    {
        MD_EACH (md_fetch_body(MD_X p, &elem[i], MD_HERE, MD_ALL(i)))
            MD_LOADS_FIRST;
        chunk.count = has_edge ? at.edge.hi : 0;
        MD_FOR (i, MD_VECTORS)
            chunk.count += i * MD_GROUP < at.left ? MD_VL : 0;
        MD_LEVELS(MD_CHUNK_LEVEL)
        md_merge(MD_PAIRWISE ? &run : &total, &chunk);
        steps++;
        MD_MERGE_RUN(steps)
        md_next(at);
        has_edge = false;
    }
    while (at.warp_left > 0)
        ;
    if (MD_PAIRWISE)
        md_merge(&total, &run);
    const auto merge_lanes = [](md_state *a, int width) {
        MD_UNROLL for (int o = 16; o > 0; o /= 2) if (o < width)
        {
            const md_state from = md_shfl_xor(*a, o);
            md_merge(a, &from);
        }
    };
    md_exchange(
        &total, group, merge_lanes, [](md_state *a, const md_state *b) { md_merge(a, b); },
        [](md_state *a) { a->count = 0; }, false);
    if (total.count > 0)
        md_settle(&total);
    (md_state &)row = total;
}
#else
#define MD_PASS_LEVEL(l)                                                                                               \
    {                                                                                                                  \
        md_layout at = start;                                                                                          \
        md_acc##l acc;                                                                                                 \
        MD_RUN_START(l)                                                                                                \
        int steps = 0;                                                                                                 \
        md_clear##l(&acc, 0);                                                                                          \
        MD_ROLLED for (; at.warp_left > 0; md_next(at))                                                                \
        {                                                                                                              \
            MD_EACH (md_fetch##l(MD_X p, &elem[i], MD_HERE, MD_ALL(i)))                                                \
                MD_LOADS_FIRST;                                                                                        \
            MD_EACH (md_add##l(MD_X p, &row, &acc, &elem[i], MD_PLACE, MD_ALL(i)))                                     \
                steps++;                                                                                               \
            MD_RUN_END(l, steps, MD_VECTORS, 0)                                                                        \
        }                                                                                                              \
        if (MD_HAS_ENDS && at.edge.hi > 0) {                                                                           \
            md_fetch##l(MD_X p, &elem[0], at.edge_at, at.edge);                                                        \
            md_add##l(MD_X p, &row, &acc, &elem[0], at.edge_at, at.edge);                                              \
        }                                                                                                              \
        md_part##l part;                                                                                               \
        md_fold##l(&part, &acc);                                                                                       \
        MD_RUN_TOTAL(l)                                                                                                \
        MD_EXCHANGE_PART(l)                                                                                            \
    }

MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row &row, const md_layout &start, int group)
{
    md_elem elem[MD_VECTORS];
    MD_LEVELS(MD_PASS_LEVEL)
}
#endif

MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row &row, md_layout at)
{
    md_elem elem[MD_VECTORS], edge;
    if (MD_HAS_ENDS && at.edge.hi > 0)
        md_fetch_out(MD_X p, &edge, at.edge_at, at.edge);
    const md_pos chunks = (at.warp_left + MD_VECTORS * MD_GROUP - 1) / (MD_VECTORS * MD_GROUP);
    md_next(at, chunks - 1);
    MD_ROLLED for (md_pos c = chunks; c > 0; c--, md_next(at, -1))
    {
        MD_EACH (md_fetch_out(MD_X p, &elem[i], MD_HERE, MD_ALL(i)))
            MD_LOADS_FIRST;
        MD_EACH (md_out(MD_X p, &row, &elem[i], MD_HERE, MD_ALL(i)))
    }
    if (MD_HAS_ENDS && at.edge.hi > 0)
        md_out(MD_X p, &row, &edge, at.edge_at, at.edge);
}

MD_INLINE void md_one_row(const md_params *p, int64_t number, bool stores, int group, int lane)
{
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    const md_pos n = row.count;
    const md_layout at = md_lay_out(n, MD_ALIGNED ? 0 : (md_pos)md_lead(MD_X p, 0), lane);
    md_reduce(MD_X p, row, at, group);
    row.count = n;
    if (!stores)
        return;
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS)
        md_write(MD_X p, row, at);
    if (lane == 0)
        md_row_store(MD_X p, &row);
}

extern "C" __global__ void __launch_bounds__(MD_BLOCK_THREADS, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int lane = (int)(threadIdx.x % MD_GROUP), group = (int)(threadIdx.x / MD_GROUP);
    const int64_t rows = MD_ROWS(p), first = ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * MD_BLOCK_ROWS,
                  number = first + group;
    if (first < rows) /* groups beyond the last row repeat it and store nothing: all threads of a block exchange */
        md_one_row(p, number < rows ? number : rows - 1, number < rows, group, lane);
}
