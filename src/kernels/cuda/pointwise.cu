/* Elementwise stages: vectors are numbered over all rows; a block takes MD_UNROLL_BY * MD_THREADS of them, a thread every MD_THREADS-th. All its
 * loads are on their way before the first is used.
 *
 * md_config.h: MD_VL, MD_THREADS, MD_UNROLL_BY.
 * md_expr.h: md_params, md_points(p), md_lanes(p), md_has_vectors(p) (whether all vectors of the tensors are aligned), md_at and md_find(p, point, lane)
 * (indices), md_elem, md_fetch(p, at, elem, n), md_out(p, at, elem, n). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

#define MD_BLOCK_VECTORS (MD_THREADS * MD_UNROLL_BY)

MD_INLINE md_at md_find_vector(const md_params *p, int64_t v, int64_t vectors)
{
#if MD_ONE_ROW
    return md_find(p, 0, v * MD_VL);
#else
    const uint64_t row = (uint64_t)v / (uint64_t)vectors;
    return md_find(p, (int64_t)row, (v - (int64_t)row * vectors) * MD_VL);
#endif
}

/* Everything is there, and aligned. */
MD_INLINE void md_run_whole(const md_params *p, int64_t v, int64_t vectors)
{
    md_at at[MD_UNROLL_BY];
    md_elem elem[MD_UNROLL_BY];
    const md_whole n = {};
    MD_FOR (u, MD_UNROLL_BY) {
        at[u] = md_find_vector(p, v + u * MD_THREADS, vectors);
        md_fetch(p, at[u], &elem[u], n);
    }
    MD_FOR (u, MD_UNROLL_BY)
        md_out(p, at[u], &elem[u], n);
}

/* Ends of rows, the end of all, and tensors that lie askew. */
MD_INLINE void md_run_ragged(const md_params *p, int64_t v, int64_t vectors, int64_t total, int64_t lanes)
{
    MD_ROLLED for (int u = 0; u < MD_UNROLL_BY && v < total; u++, v += MD_THREADS)
    {
        const md_at at = md_find_vector(p, v, vectors);
        const md_span n = md_clip<int64_t>(0, lanes - at.lane);
        md_elem elem;
        md_fetch(p, at, &elem, n);
        md_out(p, at, &elem, n);
    }
}

MD_EXPORT void __launch_bounds__(MD_THREADS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const int64_t lanes = md_lanes(&p), vectors = (lanes + MD_VL - 1) / MD_VL, total = vectors * md_points(&p);
    const int64_t first = (int64_t)blockIdx.x * MD_BLOCK_VECTORS, v = first + threadIdx.x;
    if (blockDim.x < MD_THREADS)
        return; /* no work */
    /* Vectors that rows end in are partial. */
    const bool is_whole = MD_ONE_ROW ? (first + MD_BLOCK_VECTORS) * MD_VL <= lanes : first + MD_BLOCK_VECTORS <= total && lanes % MD_VL == 0;
    if (is_whole && md_has_vectors(&p))
        md_run_whole(&p, v, vectors);
    else if (v < total)
        md_run_ragged(&p, v, vectors, total, lanes);
}
