/* Rows that stay in registers: memory is read once, level after level runs over the whole row, the stores come last.
 * Results are exact two-pass ones. A thread starts all its loads before it uses the first. */
#include "md_config.h"
#define MD_INSIDE 1
#include "prelude.h"
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

#define MD_ADD_LEVEL(l)                                                                                                \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_clear##l(&acc, 0);                                                                                          \
        MD_FORGET                                                                                                      \
        MD_FOR (i, MD_VECTORS)                                                                                         \
            MD_WHERE(i)                                                                                                \
        md_add##l(MD_X p, &row, &acc, &elem[i], at.place + i * MD_STEP, MD_ALL(i));                                    \
        if (MD_HAS_ENDS && at.edge.hi > 0)                                                                             \
            md_add##l(MD_X p, &row, &acc, &edge, at.edge_at, at.edge);                                                 \
        MD_EXCHANGE_LEVEL(l, acc)                                                                                      \
    }

MD_INLINE void md_one_row(const md_params *p, int64_t number, bool stores, int group, int lane)
{
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    const md_layout at = md_lay_out(row.count, MD_ALIGNED ? 0 : (md_pos)md_lead(MD_X p, 0), lane);
    md_elem elem[MD_VECTORS], edge;
    MD_FOR (i, MD_VECTORS)
        MD_WHERE(i)
    md_fetch(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    if (MD_HAS_ENDS && at.edge.hi > 0) {
        md_fetch(MD_X p, &edge, at.edge_at, at.edge);
        if (MD_HAS_ELEMENTS)
            md_fetch_epilogue(MD_X p, &edge, at.edge_at, at.edge);
    }
    if (MD_SHIFTS && MD_HAS_ELEMENTS)
        md_fetch_shifting(MD_X p, elem, at, 0);
    MD_FOR (i, MD_HAS_ELEMENTS && !MD_SHIFTS ? MD_EPILOGUE : 0)
        MD_WHERE(i)
    md_fetch_epilogue(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    MD_LOADS_FIRST;
    MD_LEVELS(MD_ADD_LEVEL)
    if (!stores)
        return;
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS) {
        MD_FORGET
        MD_FOR (i, MD_VECTORS) {
            if (MD_SHIFTS && i > 0 && i % MD_EPILOGUE == 0)
                md_fetch_shifting(MD_X p, elem, at, i);
            MD_WHERE(i)
            md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
            if (!MD_SHIFTS && i + MD_EPILOGUE < MD_VECTORS)
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
