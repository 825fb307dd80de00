/* Very short rows, one thread for each. All elements are read into registers, then each level goes over them, then the
 * stores. A row is MD_VECTORS vectors and, at its end, less than a vector more; vectors begin at its first element. Of
 * single elements (MD_VL 1) more than half are there, so that the others alone are asked for. */
#include "md_config.h"
#define MD_INSIDE 1
#include "prelude.h"
#define MD_SEEN (MD_GUARDED && MD_VL == 1 ? MD_VECTORS : 0)
#define MD_CALLS_EARLY 1
#include "row.h"
#include "md_expr.h"
#include "row_group.h"

#define MD_HAS_TAIL (MD_HAS_ENDS && at.edge.hi > 0)
#define MD_ADD_LEVEL(l)                                                                                                \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_part##l part;                                                                                               \
        md_clear##l(&acc, 0);                                                                                          \
        MD_FORGET                                                                                                      \
        MD_FOR (i, MD_VECTORS)                                                                                         \
            MD_WHERE(i)                                                                                                \
        md_add##l(MD_X p, &row, &acc, &elem[i], at.place + i * MD_STEP, MD_ALL(i));                                    \
        if (MD_HAS_TAIL)                                                                                               \
            md_add##l(MD_X p, &row, &acc, &tail, at.edge_at, at.edge);                                                 \
        md_fold##l(&part, &acc);                                                                                       \
        md_finish##l(MD_X p, &row, &part);                                                                             \
    }

/* Weights of one vector are loaded with the row, those of more when they are stored: registers would be few. */
enum { MD_WEIGHTS_FIRST = MD_HAS_ELEMENTS && MD_VECTORS == 1 };

template <int md_sure> MD_INLINE void md_row_with(MD_X_DECL const md_params *p, md_row row, bool stores)
{
    md_layout at = md_lay_out(row.count, 0, 0);
    at.edge_at = row.count / MD_VL * MD_VL;
    at.edge.hi = (int)(row.count - at.edge_at);
    md_elem elem[MD_VECTORS], tail;
    MD_FOR (i, MD_VECTORS)
        MD_WHERE(i)
    md_fetch(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    if (MD_HAS_TAIL)
        md_fetch(MD_X p, &tail, at.edge_at, at.edge);
    if (MD_WEIGHTS_FIRST) {
        MD_FOR (i, MD_VECTORS)
            MD_WHERE(i)
        md_fetch_epilogue(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
        if (MD_HAS_TAIL)
            md_fetch_epilogue(MD_X p, &tail, at.edge_at, at.edge);
    }
    MD_LOADS_FIRST;
    MD_DERIVE_EARLY(&row)
    MD_LEVELS(MD_ADD_LEVEL)
    if (!stores)
        return;
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS) {
        MD_FORGET
        MD_FOR (i, MD_VECTORS) {
            if (!MD_WEIGHTS_FIRST)
                MD_WHERE(i)
            md_fetch_epilogue(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
            MD_WHERE(i)
            md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
        }
        if (MD_HAS_TAIL) {
            if (!MD_WEIGHTS_FIRST)
                md_fetch_epilogue(MD_X p, &tail, at.edge_at, at.edge);
            md_out(MD_X p, &row, &tail, at.edge_at, at.edge);
        }
    }
    md_row_store(MD_X p, &row);
}
MD_INLINE void md_one_row(const md_params *p, int64_t number, bool stores)
{
    MD_ROW_AT(p, number);
    md_row row;
    md_start(MD_X p, &row);
    if (MD_GUARDED && MD_VL == 1 && __all_sync(MD_ALL_LANES, row.count > MD_VECTORS / 2))
        md_row_with<MD_VECTORS / 2 + 1>(MD_X p, row, stores);
    else
        md_row_with<0>(MD_X p, row, stores);
}

extern "C" __global__ void __launch_bounds__(MD_BLOCK_THREADS, MD_MIN_BLOCKS)
    md_kernel(const __grid_constant__ md_params params)
{
    MD_IF_EMPTY_RETURN;
    const md_params *p = &params;
    const int64_t rows = MD_ROWS(p), first = ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * MD_BLOCK_ROWS,
                  number = first + threadIdx.x;
    if (first < rows) /* threads beyond the last row repeat it and store nothing, so that warps stay whole */
        md_one_row(p, number < rows ? number : rows - 1, number < rows);
}
