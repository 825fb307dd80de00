/* Copies of both operands of a product in the workspace, as the copy engine can read them: each line padded to whole pieces of 16 bytes, lines and
 * batches without gaps; A first, B from the next 256 bytes on. One thread makes a piece.
 *
 * md_config.h: MD_VL 4, MD_THREADS, MD_ALONG_<o> (1: lines run along K, 2: along the operand's rows), MD_BATCH_<o> (0: the operand has no batch),
 * MD_AS_IS_<o> (0: another type than that of the copy),
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

/* Eight elements that lie one after the other, in words where their address allows: nothing outside of them is read. */
MD_INLINE uint4 md_eight(const uint16_t *x)
{
    if ((uintptr_t)x % 16 == 0)
        return *(const uint4 *)x;
    if ((uintptr_t)x % 4 == 0) {
        const uint32_t *w = (const uint32_t *)x;
        return make_uint4(w[0], w[1], w[2], w[3]);
    }
    const uint32_t *w = (const uint32_t *)(x + 1);
    const uint32_t first = x[0], a = w[0], b = w[1], c = w[2], last = x[7];
    return make_uint4(first | a << 16, __funnelshift_l(a, b, 16), __funnelshift_l(b, c, 16), c >> 16 | last << 16);
}

/* One by one, where indices of a group do not lie in one run: a rolled loop, since each value costs divisions. */
template <int which, int along> MD_OUTLINE uint4 md_eight_values(const md_params *p, int64_t batch, int64_t row, int64_t k, int n)
{
    uint64_t low = 0, high = 0;
    MD_ROLLED for (int e = 0; e < n; e++) {
        const uint64_t half = MD_DOWN(md_operand_at(p, which, batch, row + (along == 2 ? e : 0), k + (along == 2 ? 0 : e)));
        low |= e < 4 ? half << (e & 3) * 16 : 0;
        high |= e >= 4 ? half << (e & 3) * 16 : 0;
    }
    return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

/* I: a type that counts all pieces. */
template <int which, int along, bool as_is, class I> MD_INLINE uint4 md_piece(const md_params *p, const md_copy &c, I i)
{
    const I pieces = (I)c.pieces, lines = (I)c.lines, line = i / pieces, batch = c.batch > 1 ? line / lines : 0;
    const int64_t from = (int64_t)(i - line * pieces) * 8, at = line - batch * lines;
    const int64_t row = along == 2 ? from : at, k = along == 2 ? at : from;
    const int n = (int)(c.length - from < 8 ? c.length - from : 8);
    uint32_t half[8];
    md_view view;
    view.base = view.row = view.step = 0;
    const bool is_view = md_operand_view(p, which, batch, &view);
    const int64_t step = along == 2 ? view.row : view.step, first = view.base + row * view.row + k * view.step;
    if (as_is && is_view) {
        const uint16_t *x = (const uint16_t *)md_operand_address(p, which, first);
        if (n == 8 && step == 1)
            return md_eight(x);
        MD_FOR (e, 8)
            half[e] = e < n ? x[e * step] : 0;
    } else if (is_view) {
        MD_FOR (e, 8)
            half[e] = e < n ? MD_DOWN(md_operand_get(p, which, first + e * step)) : 0;
    } else {
        return md_eight_values<which, along>(p, batch, row, k, n);
    }
    return make_uint4(half[0] | half[1] << 16, half[2] | half[3] << 16, half[4] | half[5] << 16, half[6] | half[7] << 16);
}

template <class I> MD_INLINE void md_all(const md_params *p, const md_copy &a, const md_copy &b, I of_a, I of_b)
{
    enum { PIECES = MD_COPY_LINE / 16 };
    const I line_a = (I)(a.pieces + PIECES - 1) / PIECES * PIECES, line_b = (I)(b.pieces + PIECES - 1) / PIECES * PIECES;
    uint4 *to_a = (uint4 *)p->work0, *to_b = to_a + (a.batch * a.lines * line_a + 15) / 16 * 16;
    for (I i = (I)(blockIdx.x * MD_THREADS + threadIdx.x); i < of_a; i += (I)(gridDim.x * MD_THREADS))
        to_a[i / (I)a.pieces * line_a + i % (I)a.pieces] = md_piece<0, MD_ALONG_0, MD_AS_IS_0>(p, a, i);
    for (I i = (I)(blockIdx.x * MD_THREADS + threadIdx.x); i < of_b; i += (I)(gridDim.x * MD_THREADS))
        to_b[i / (I)b.pieces * line_b + i % (I)b.pieces] = md_piece<1, MD_ALONG_1, MD_AS_IS_1>(p, b, i);
}

extern "C" __global__ void __launch_bounds__(MD_THREADS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_copy a = md_copy_of<0, MD_ALONG_0, MD_BATCH_0>(&p), b = md_copy_of<1, MD_ALONG_1, MD_BATCH_1>(&p);
    const int64_t of_a = a.batch * a.lines * a.pieces, of_b = b.batch * b.lines * b.pieces;
    if (of_a < INT32_MAX / 2 && of_b < INT32_MAX / 2)
        md_all<uint32_t>(&p, a, b, (uint32_t)of_a, (uint32_t)of_b);
    else
        md_all<int64_t>(&p, a, b, of_a, of_b);
}
