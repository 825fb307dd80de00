/* Copies of both operands of a product in the workspace, as the copy engine can read them: each line padded to whole pieces of 16 bytes, lines and
 * batches without gaps; A first, B from the next 256 bytes on. One thread makes a piece.
 *
 * md_config.h: MD_VL 4, MD_THREADS, MD_ALONG_<o> (1: lines run along K, 2: along the operand's rows), MD_BATCH_<o> (0: the operand has no batch),
 * MD_DOWN(v) (a float as an operand's bits). md_expr.h: src/codegen/product.h. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

typedef struct md_copy {
    int64_t batch, lines, length, pieces; /* elements, and pieces, of a line */
} md_copy;

template <int which, int along, int has_batch> MD_INLINE md_copy md_copy_of(const md_params *p)
{
    md_copy c;
    const int64_t rows = which == 0 ? md_points_rows(p) : md_points_columns(p), depth = md_points_depth(p);
    c.batch = has_batch ? md_points_batch(p) : 1;
    c.lines = along == 2 ? depth : rows;
    c.length = along == 2 ? rows : depth;
    c.pieces = (c.length + 7) / 8;
    return c;
}

template <int which, int along> MD_INLINE void md_piece(const md_params *p, const md_copy &c, uint4 *to, int64_t i)
{
    const int64_t line = i / c.pieces, from = (i - line * c.pieces) * 8, batch = line / c.lines, at = line - batch * c.lines;
    const int64_t row = along == 2 ? from : at, k = along == 2 ? at : from;
    const int n = (int)(c.length - from < 8 ? c.length - from : 8);
    uint32_t half[8];
    md_view view;
    view.base = view.row = view.step = 0;
    if (md_operand_view(p, which, batch, &view)) {
        const int64_t step = along == 2 ? view.row : view.step;
        const uint16_t *x = (const uint16_t *)md_operand_address(p, which, view.base + row * view.row + k * view.step);
        MD_FOR (e, 8)
            half[e] = e < n ? x[e * step] : 0;
    } else {
        MD_FOR (e, 8)
            half[e] = e < n ? MD_DOWN(md_operand_at(p, which, batch, row + (along == 2 ? e : 0), k + (along == 2 ? 0 : e))) : 0;
    }
    to[i] = make_uint4(half[0] | half[1] << 16, half[2] | half[3] << 16, half[4] | half[5] << 16, half[6] | half[7] << 16);
}

extern "C" __global__ void __launch_bounds__(MD_THREADS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_copy a = md_copy_of<0, MD_ALONG_0, MD_BATCH_0>(&p), b = md_copy_of<1, MD_ALONG_1, MD_BATCH_1>(&p);
    const int64_t of_a = a.batch * a.lines * a.pieces, of_b = b.batch * b.lines * b.pieces;
    uint4 *to_a = (uint4 *)p.work0, *to_b = to_a + (of_a + 15) / 16 * 16;
    for (int64_t i = blockIdx.x * (int64_t)MD_THREADS + threadIdx.x; i < of_a + of_b; i += (int64_t)gridDim.x * MD_THREADS)
        if (i < of_a)
            md_piece<0, MD_ALONG_0>(&p, a, to_a, i);
        else
            md_piece<1, MD_ALONG_1>(&p, b, to_b, i - of_a);
}
