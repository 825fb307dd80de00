/* Rows that stay in registers: memory is read once, level follows level over the whole row, the stores come last. Results are exact two-pass ones. All loads
 * of a thread are on their way before the first is used. */
#include "md_config.h"
#define MD_INSIDE 1
#include "prelude.h"
#include "row.h"
#include "md_expr.h"
#include "row_group.h"

/* Weights that all rows share and only stores want are fetched for so many vectors of a thread behind the row, for the others when these are stored: one
 * by one, or, where they have to be shifted, together, since shifting waits for them. */
enum { MD_LATE = MD_VECTORS < 2 ? MD_VECTORS : 2, MD_TOGETHER = MD_SHIFTS ? MD_LATE : 1 };

#define MD_ADD_LEVEL(l)                                                                                                \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_clear##l(&acc, 0);                                                                                          \
        MD_FORGET                                                                                                      \
        MD_FOR (i, MD_VECTORS)                                                                                         \
            MD_WHERE (i)                                                                                               \
                md_add##l(MD_X p, &row, &acc, &elem[i], at.place + i * MD_STEP, MD_ALL(i));                            \
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
        MD_WHERE (i)
            md_fetch(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    if (MD_HAS_ENDS && at.edge.hi > 0) {
        md_fetch(MD_X p, &edge, at.edge_at, at.edge);
        if (MD_HAS_ELEMENTS)
            md_fetch_late(MD_X p, &edge, at.edge_at, at.edge);
    }
    MD_FOR (i, MD_HAS_ELEMENTS ? MD_LATE : 0)
        MD_WHERE (i)
            md_fetch_late(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    MD_LOADS_FIRST;
    MD_LEVELS(MD_ADD_LEVEL)
    if (!stores)
        return;
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS) {
        MD_FORGET
        MD_FOR (i, MD_VECTORS) {
            MD_WHERE (i)
                md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
            MD_FOR (k, i % MD_TOGETHER == MD_TOGETHER - 1 ? MD_TOGETHER : 0)
                if (i + k + 1 + MD_LATE - MD_TOGETHER < MD_VECTORS)
                    MD_WHERE (i + k + 1 + MD_LATE - MD_TOGETHER)
                        md_fetch_late(MD_X p, &elem[i + k + 1 + MD_LATE - MD_TOGETHER], at.first + (i + k + 1 + MD_LATE - MD_TOGETHER) * MD_STEP,
                                      MD_ALL(i + k + 1 + MD_LATE - MD_TOGETHER));
        }
        if (MD_HAS_ENDS && at.edge.hi > 0)
            md_out(MD_X p, &row, &edge, at.edge_at, at.edge);
    }
    if (lane == 0)
        md_row_store(MD_X p, &row);
}

extern "C" __global__ void __launch_bounds__(MD_BLOCK_THREADS, MD_MIN_BLOCKS) md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int lane = (int)(threadIdx.x % MD_GROUP), group = (int)(threadIdx.x / MD_GROUP);
    const int64_t rows = MD_ROWS(p), first = ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * MD_BLOCK_ROWS, number = first + group;
    if (first < rows) /* groups beyond the last row repeat it and store nothing: all threads of a block exchange */
        md_one_row(p, number < rows ? number : rows - 1, number < rows, group, lane);
}
