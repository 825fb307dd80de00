/* Rows that stay in registers: memory is read once, level after level runs over the whole row, the stores come last.
 * Results are exact two-pass ones. A thread starts all its loads before it uses the first. */
#include "md_config.h"
#define MD_INSIDE 1
#include "prelude.h"
#define MD_SEEN (MD_GUARDED && MD_VL == 1 ? MD_VECTORS : 0)
#include "row.h"
#include "md_expr.h"
#include "row_group.h"

/* Weights that all rows share and only stores use are loaded for this many vectors of a thread after the row's loads;
 * those of the others when these vectors are stored: one by one, or, if they have to be shifted, together. Then one
 * branch serves all of them: shifting waits for its loads, and under a predicate registers would be taken from the
 * start of the kernel on. With 4-byte elements two vectors at a time do not fit the registers. Eight single elements
 * are two vectors. */
enum { MD_EPILOGUE = MD_VECTORS < 2 || (MD_SHIFTS && MD_VL == 4) ? 1 : MD_VL == 1 && MD_VECTORS >= 8 ? 8 : 2 };
MD_INLINE bool md_has_vectors(const md_layout &at, int n) { return n <= MD_VECTORS && (n - 1) * MD_GROUP < at.left; }
MD_INLINE void md_fetch_shifting(MD_X_DECL const md_params *p, md_elem *elem, const md_layout &at, int from)
{
    if (md_has_vectors(at, from + MD_EPILOGUE)) {
        MD_FOR (k, MD_EPILOGUE)
            md_fetch_epilogue(MD_X p, &elem[from + k], at.first + (from + k) * MD_STEP, md_full());
    } else {
        MD_FOR (k, MD_EPILOGUE)
            if (md_has_vectors(at, from + k + 1))
                md_fetch_epilogue(MD_X p, &elem[from + k], at.first + (from + k) * MD_STEP, md_full());
    }
}

/* Which rows a block has. A launch of more blocks than hold all rows is one in which each SM has as many: then warps of
 * a block take rows that are as far apart as there are blocks, and the last warps none. Otherwise they are neighbours.
 */
struct md_turf {
    int64_t rows, block, blocks;
    bool is_spread;
};
enum { MD_OF_BLOCK = MD_BLOCK_ROWS * MD_AT_ONCE, MD_OF_WARP = MD_GROUP < 32 ? 32 / MD_GROUP : 1 };
MD_INLINE md_turf md_turf_of(const md_params *p)
{
    md_turf t = {MD_ROWS(p), (int64_t)blockIdx.y * gridDim.x + blockIdx.x, (int64_t)gridDim.y * gridDim.x, false};
    t.is_spread = MD_GUARDED && MD_VL == 1 && MD_GROUP <= 32 && t.blocks * MD_OF_BLOCK - t.rows >= MD_OF_BLOCK;
    return t;
}
/* Row number `turn` of a group. */
MD_INLINE int64_t md_number_of(const md_turf &t, int group, int turn)
{
    if (t.is_spread)
        return (t.block + (group / MD_OF_WARP * MD_AT_ONCE + turn) * t.blocks) * MD_OF_WARP + group % MD_OF_WARP;
    return t.block * MD_OF_BLOCK + turn * MD_BLOCK_ROWS + group;
}
/* True if the warp has no row, or, where warps may have to meet, the block. */
MD_INLINE bool md_is_idle(const md_turf &t, int group)
{
    const int of_warp = t.is_spread ? group / MD_OF_WARP * MD_OF_WARP : 0;
    return md_number_of(t, of_warp, 0) >= t.rows;
}

#define MD_ADD_VECTORS(l)                                                                                              \
    md_acc##l acc;                                                                                                     \
    md_clear##l(&acc, 0);                                                                                              \
    MD_FORGET                                                                                                          \
    MD_FOR (i, MD_VECTORS)                                                                                             \
        MD_WHERE(i)                                                                                                    \
    md_add##l(MD_X p, &row, &acc, &elem[i], at.place + i * MD_STEP, MD_ALL(i));
#define MD_ADD_LEVEL(l)                                                                                                \
    {                                                                                                                  \
        MD_ADD_VECTORS(l)                                                                                              \
        if (MD_HAS_ENDS && at.edge.hi > 0)                                                                             \
            md_add##l(MD_X p, &row, &acc, &edge, at.edge_at, at.edge);                                                 \
        MD_EXCHANGE_LEVEL(l, acc)                                                                                      \
    }

template <int md_own, int md_sure>
MD_INLINE void md_row_with(MD_X_DECL const md_params *p, md_row row, bool stores, int group, int lane)
{
    const md_layout at = md_lay_out(row.count, MD_ALIGNED ? 0 : (md_pos)md_lead(MD_X p, 0), lane);
    md_elem elem[md_own], edge;
    MD_FOR (i, md_own)
        MD_WHERE(i)
    md_fetch(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    if (MD_HAS_ENDS && at.edge.hi > 0) {
        md_fetch(MD_X p, &edge, at.edge_at, at.edge);
        if (MD_HAS_ELEMENTS)
            md_fetch_epilogue(MD_X p, &edge, at.edge_at, at.edge);
    }
    if (MD_SHIFTS && MD_HAS_ELEMENTS)
        md_fetch_shifting(MD_X p, elem, at, 0);
    MD_FOR (i, !MD_HAS_ELEMENTS || MD_SHIFTS ? 0 : md_own < MD_EPILOGUE ? md_own : MD_EPILOGUE)
        MD_WHERE(i)
    md_fetch_epilogue(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    MD_LOADS_FIRST;
    MD_LEVELS(MD_ADD_LEVEL)
    if (!stores)
        return;
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS) {
        MD_FORGET
        MD_FOR (i, md_own) {
            if (MD_SHIFTS && i > 0 && i % MD_EPILOGUE == 0)
                md_fetch_shifting(MD_X p, elem, at, i);
            MD_WHERE(i)
            md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
            if (!MD_SHIFTS && i + MD_EPILOGUE < md_own)
                MD_WHERE(i + MD_EPILOGUE)
            md_fetch_epilogue(MD_X p, &elem[i + MD_EPILOGUE], at.first + (i + MD_EPILOGUE) * MD_STEP,
                              MD_ALL(i + MD_EPILOGUE));
        }
        if (MD_HAS_ENDS && at.edge.hi > 0)
            md_out(MD_X p, &row, &edge, at.edge_at, at.edge);
    }
    if (lane == 0)
        md_row_store(MD_X p, &row);
}
template <int md_own>
MD_INLINE void md_row_by_length(MD_X_DECL const md_params *p, const md_row &row, bool stores, int group, int lane)
{
    if constexpr (md_own <= MD_LEAST_OWN)
        md_row_with<MD_VECTORS, 0>(MD_X p, row, stores, group, lane);
    else if (md_are_sure(row.count, row.count, md_own))
        md_row_with<md_own, md_own - MD_UNSURE>(MD_X p, row, stores, group, lane);
    else
        md_row_by_length<md_own - MD_UNSURE>(MD_X p, row, stores, group, lane);
}
MD_INLINE void md_one_row(const md_params *p, int64_t number, bool stores, int group, int lane)
{
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    md_row_by_length<MD_VECTORS>(MD_X p, row, stores, group, lane);
}

#if MD_AT_ONCE > 1
/* Several rows of single elements at once, in groups inside a warp: rows are short, so loads of one alone would leave
 * memory idle. Rows of a block lie side by side. */
template <int md_own> struct md_held {
    md_row row;
    md_layout at;
    md_elem elem[md_own];
};
#define MD_HELD(u)                                                                                                     \
    md_row &row = held[u].row;                                                                                         \
    md_layout &at = held[u].at;                                                                                        \
    md_elem(&elem)[md_own] = held[u].elem;                                                                             \
    const int64_t own = md_number_of(turf, group, u), number = own < turf.rows ? own : turf.rows - 1;                  \
    MD_ROW_AT(p, number);
#define MD_ADD_LEVEL_TO_ALL(l)                                                                                         \
    MD_FOR (u, MD_AT_ONCE) {                                                                                           \
        MD_HELD(u)                                                                                                     \
        MD_ADD_VECTORS(l)                                                                                              \
        MD_EXCHANGE_LEVEL(l, acc)                                                                                      \
    }

/* Weights that all rows share are loaded once, as far as the longest row goes, into the first row's elements. */
template <int md_own, int md_sure>
MD_INLINE void md_fetch_weights(const md_params *p, md_held<md_own> (&held)[MD_AT_ONCE], const md_turf &turf, int group)
{
    md_layout at = held[0].at;
    MD_FOR (u, MD_AT_ONCE)
        at.left = held[u].at.left > at.left ? held[u].at.left : at.left;
    const int64_t own = md_number_of(turf, group, 0);
    MD_ROW_AT(p, own < turf.rows ? own : turf.rows - 1);
    MD_FOR (i, md_own)
        MD_WHERE(i)
    md_fetch_epilogue(MD_X p, &held[0].elem[i], at.first + i * MD_STEP, MD_ALL(i));
    MD_FOR (u, MD_AT_ONCE)
        MD_FOR (i, md_own)
            held[u].elem[i] = held[0].elem[i];
}

template <int md_own, int md_sure>
MD_INLINE void md_rows_with(const md_params *p, const md_turf &turf, int group, int lane)
{
    md_held<md_own> held[MD_AT_ONCE];
    MD_FOR (u, MD_AT_ONCE) {
        MD_HELD(u)
        md_start(MD_X p, &row);
        at = md_lay_out(row.count, 0, lane);
    }
    if (MD_HAS_ELEMENTS)
        md_fetch_weights<md_own, md_sure>(p, held, turf, group);
    MD_FOR (u, MD_AT_ONCE) {
        MD_HELD(u)
        MD_FOR (i, md_own)
            MD_WHERE(i)
        md_fetch(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    }
    MD_LOADS_FIRST;
    MD_LEVELS(MD_ADD_LEVEL_TO_ALL)
    MD_FOR (u, MD_AT_ONCE) {
        MD_HELD(u)
        if (own >= turf.rows)
            return;
        md_derive(MD_X p, &row);
        MD_FORGET
        MD_FOR (i, MD_HAS_ELEMENTS ? md_own : 0) {
            MD_WHERE(i)
            md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
        }
        if (lane == 0)
            md_row_store(MD_X p, &row);
    }
}
template <int md_own>
MD_INLINE void md_rows_by_length(const md_params *p, const md_turf &turf, int group, int lane, md_pos least,
                                 md_pos most)
{
    if constexpr (md_own <= MD_LEAST_OWN)
        md_rows_with<MD_VECTORS, 0>(p, turf, group, lane);
    else if (md_are_sure(least, most, md_own))
        md_rows_with<md_own, md_own - MD_UNSURE>(p, turf, group, lane);
    else
        md_rows_by_length<md_own - MD_UNSURE>(p, turf, group, lane, least, most);
}
MD_INLINE void md_rows_at_once(const md_params *p, const md_turf &turf, int group, int lane)
{
    md_pos least = 0, most = 0;
    MD_FOR (u, MD_AT_ONCE) {
        const int64_t own = md_number_of(turf, group, u);
        MD_ROW_AT(p, own < turf.rows ? own : turf.rows - 1);
        md_row row;
        md_start(MD_X p, &row);
        least = u == 0 || row.count < least ? row.count : least;
        most = row.count > most ? row.count : most;
    }
    md_rows_by_length<MD_VECTORS>(p, turf, group, lane, least, most);
}
#endif

extern "C" __global__ void __launch_bounds__(MD_BLOCK_THREADS, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int lane = (int)(threadIdx.x % MD_GROUP), group = (int)(threadIdx.x / MD_GROUP);
    const md_turf turf = md_turf_of(p);
    if (md_is_idle(turf, group))
        return;
#if MD_AT_ONCE > 1
    md_rows_at_once(p, turf, group, lane);
#else
    /* groups beyond the last row repeat it and store nothing: all threads of a block exchange */
    const int64_t number = md_number_of(turf, group, 0);
    md_one_row(p, number < turf.rows ? number : turf.rows - 1, number < turf.rows, group, lane);
#endif
}
