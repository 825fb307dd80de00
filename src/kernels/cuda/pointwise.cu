/* Elementwise stages. Vectors are numbered over all rows; a block takes MD_UNROLL_BY * MD_THREADS of them, a thread
 * every MD_THREADS-th. It starts all its loads before it uses the first.
 *
 * md_config.h: MD_VL, MD_THREADS, MD_BOUNDS (threads, and the least blocks of an SM), MD_UNROLL_BY, MD_ONE_ROW (all
 * indices are merged). md_expr.h: md_params, md_points(p), md_lanes(p), md_has_vectors(p) (whether all vectors of the
 * tensors are aligned), md_at and md_find(p, point, lane) (indices), md_lead(p, at) (lanes from the row's beginning to
 * the output's next boundary), md_elem, md_fetch(p, at, elem, n), md_out(p, at, elem, n). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

#define MD_BLOCK_VECTORS (MD_THREADS * MD_UNROLL_BY)

/* Places of vectors: `per_row` in each row. If tensors are not aligned, the first vector of a row begins before the
 * row, at a boundary of the output. In a grid of two dimensions blocks are arranged by rows (the family asks for it if
 * rows fill them), so that no division is needed. */
struct md_layout {
    int64_t lanes, rows, per_row, end; /* end: of a row, or of all vectors */
    bool is_unaligned, is_ragged; /* not aligned; the last vector of a row is partial */
};

MD_INLINE bool md_is_in_rows() { return !MD_ONE_ROW && gridDim.y > 1; }

MD_INLINE md_layout md_lay_out(const md_params *p)
{
    md_layout s;
    s.lanes = md_lanes(p);
    s.rows = md_points(p);
    s.is_unaligned = !md_has_vectors(p);
    s.is_ragged = !MD_ONE_ROW && s.lanes % MD_VL != 0;
    s.per_row = (s.lanes + MD_VL - 1) / MD_VL + s.is_unaligned;
    s.end = md_is_in_rows() ? s.per_row : s.per_row * s.rows;
    return s;
}

MD_INLINE md_at md_find_vector(const md_params *p, int64_t row, int64_t v, const md_layout &s)
{
    if (!MD_ONE_ROW && !md_is_in_rows()) {
        row = (int64_t)((uint64_t)v / (uint64_t)s.per_row);
        v -= row * s.per_row;
    }
    return md_find(p, row, v * MD_VL);
}

/* All vectors are whole and aligned. */
MD_INLINE void md_run_whole(const md_params *p, int64_t row, int64_t v, const md_layout &s)
{
    md_at at[MD_UNROLL_BY];
    md_elem elem[MD_UNROLL_BY];
    const md_whole n = {};
    MD_FOR (u, MD_UNROLL_BY) {
        at[u] = md_find_vector(p, row, v + u * MD_THREADS, s);
        md_fetch(p, at[u], &elem[u], n);
    }
    MD_FOR (u, MD_UNROLL_BY)
        md_out(p, at[u], &elem[u], n);
}

/* Ends of rows, the end of all, and unaligned tensors; the grid may be a little short for these. */
MD_INLINE void md_run_ragged(const md_params *p, int64_t row, int64_t v, const md_layout &s)
{
    MD_ROLLED for (; v < s.end; v += (int64_t)gridDim.x * MD_BLOCK_VECTORS)
        MD_ROLLED for (int u = 0; u < MD_UNROLL_BY && v + u * MD_THREADS < s.end; u++)
    {
        md_at at = md_find_vector(p, row, v + u * MD_THREADS, s);
        if (s.is_unaligned)
            at.lane -= (MD_VL - md_lead(p, at)) % MD_VL;
        const md_span n = md_clip<int64_t>(at.lane, s.lanes);
        md_elem elem;
        md_fetch(p, at, &elem, n);
        md_out(p, at, &elem, n);
    }
}

MD_EXPORT void __launch_bounds__(MD_BOUNDS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_layout s = md_lay_out(&p);
    const int64_t first = (int64_t)blockIdx.x * MD_BLOCK_VECTORS, v = first + threadIdx.x;
    const bool is_full = MD_ONE_ROW ? (first + MD_BLOCK_VECTORS) * MD_VL <= s.lanes : first + MD_BLOCK_VECTORS <= s.end;
    int64_t row = blockIdx.y;
    MD_ROLLED do
    {
        if (is_full && !s.is_unaligned && !s.is_ragged)
            md_run_whole(&p, row, v, s);
        else
            md_run_ragged(&p, row, v, s);
        row += gridDim.y;
    }
    while (md_is_in_rows() && row < s.rows)
        ;
}
