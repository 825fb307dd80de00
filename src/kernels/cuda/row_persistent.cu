/* Rows that stay in registers: memory is read once, level after level runs over the whole row, the stores come last.
 * Results are exact two-pass ones. A thread starts all its loads before it uses the first. */
#include "md_config.h"
#define MD_INSIDE 1
#include "prelude.h"
#define MD_SEEN (MD_GUARDED && MD_VL == 1 ? MD_VECTORS : 0)
#define MD_CALLS_EARLY 1
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

/* Which rows a group has. A launch of more blocks than hold all rows is one in which each SM has as many: then warps of
 * a block take rows that are as far apart as there are blocks, and the last warps none. Otherwise they are neighbours.
 * Such launches are small, so that 32 bits hold their rows. */
enum { MD_MOST_SPREAD = 1 << 20 };
struct md_turf {
    int64_t rows, first;
    int64_t warp_first; /* of the warp, or, where warps may have to meet or have several groups, of the block */
    int step; /* to the group's next row */
};
enum { MD_OF_BLOCK = MD_BLOCK_ROWS * MD_AT_ONCE, MD_OF_WARP = MD_GROUP < 32 ? 32 / MD_GROUP : 1 };
MD_INLINE md_turf md_turf_of(const md_params *p, int group)
{
    const int64_t block = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
    const int64_t first = block * MD_OF_BLOCK + group;
    md_turf t = {MD_ROWS(p), first, MD_GROUP == 32 && !MD_HAS_ELEMENTS ? first : block * MD_OF_BLOCK, MD_BLOCK_ROWS};
    if (MD_GUARDED && MD_VL == 1 && MD_GROUP <= 32 && gridDim.y == 1 && gridDim.x <= MD_MOST_SPREAD &&
        (int64_t)gridDim.x * MD_OF_BLOCK - t.rows >= MD_OF_BLOCK) {
        const int blocks = (int)gridDim.x,
                  warp_first = ((int)blockIdx.x + group / MD_OF_WARP * MD_AT_ONCE * blocks) * MD_OF_WARP;
        t.warp_first = warp_first;
        t.first = warp_first + group % MD_OF_WARP;
        t.step = blocks * MD_OF_WARP;
    }
    return t;
}
/* Row number `turn` of the group. */
MD_INLINE int64_t md_number_of(const md_turf &t, int turn) { return t.first + (int64_t)turn * t.step; }

#define MD_ADD_VECTORS(l)                                                                                              \
    md_acc##l acc;                                                                                                     \
    md_clear##l(&acc, 0);                                                                                              \
    MD_FORGET                                                                                                          \
    MD_FOR (i, md_own)                                                                                                 \
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
    MD_DERIVE_EARLY(&row)
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
#include "row_together.h"
#endif

extern "C" __global__ void __launch_bounds__(MD_BLOCK_THREADS, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int lane = (int)(threadIdx.x % MD_GROUP), group = (int)(threadIdx.x / MD_GROUP);
    const md_turf turf = md_turf_of(p, group);
    if (turf.warp_first >= turf.rows)
        return;
#if MD_AT_ONCE > 1
    md_rows_at_once(p, turf, lane);
#else
    /* groups beyond the last row repeat it and store nothing: all threads of a block exchange */
    const int64_t number = md_number_of(turf, 0);
    md_one_row(p, number < turf.rows ? number : turf.rows - 1, number < turf.rows, group, lane);
#endif
}
