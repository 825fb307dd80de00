/* Copies both operands of a product into the workspace in a form that the copy engine can read: lines (of a batch, one
 * after the other) at multiples of MD_COPY_LINE bytes; A first, then B at a multiple of 256 bytes. The bytes after the
 * end of a line are never read. A thread makes MD_AT_ONCE pieces of 16 bytes, and starts all their loads before it uses
 * the first.
 *
 * md_config.h: MD_VL 4, MD_THREADS, MD_COPY_LINE, MD_AT_ONCE, MD_ALONG_<o> (1: lines run along K, 2: along the
 * operand's rows), MD_BATCH_<o> (0: the operand has no batch), MD_AS_IS_<o> (0: another type than that of the copy),
 * MD_DOWN(v) (a float as an operand's bits). md_expr.h: src/codegen/product/product.h. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

/* pieces that a block makes at a time; lines of copies have a multiple of LINE */
enum { UNIT = MD_THREADS * MD_AT_ONCE, LINE = MD_COPY_LINE / 16 };

typedef struct md_lines {
    int64_t length, lines, all; /* elements of a line; lines of a batch, of all */
    int64_t units; /* of work */
    uint32_t pieces, apart, magic; /* of a line; from one line to the next; of the division by `pieces` */
} md_lines;

template <int which, int along, int has_batch> MD_INLINE md_lines md_lines_of(const md_params *p)
{
    md_lines l;
    const int64_t rows = which == 0 ? md_points_rows(p) : md_points_columns(p), depth = md_points_depth(p);
    l.lines = along == 2 ? depth : rows;
    l.length = along == 2 ? rows : depth;
    l.all = (has_batch ? md_points_batch(p) : 1) * l.lines;
    l.pieces = (uint32_t)((l.length + 7) / 8);
    l.apart = (l.pieces + LINE - 1) / LINE * LINE;
    l.units = (l.all * l.pieces + UNIT - 1) / UNIT;
    l.magic = 0xffffffffu / max(l.pieces, 1);
    return l;
}

/* The place of a piece: its line among all lines, and its first element. */
typedef struct md_at {
    int64_t line, batch;
    int from;
} md_at;

/* Piece `i` behind the first one of a line; i is below 2^30. */
MD_INLINE md_at md_at_of(const md_lines &l, int64_t first_line, uint32_t i, bool has_batch)
{
    md_at at;
    uint32_t line = __umulhi(i, l.magic), piece = i - line * l.pieces;
    if (piece >= l.pieces) {
        line++;
        piece -= l.pieces;
    }
    at.line = first_line + line;
    at.batch = has_batch ? (uint32_t)at.line / (uint32_t)l.lines : 0; /* no memory holds 2^32 lines */
    at.from = (int)(piece * 8);
    return at;
}

/* Element by element: other types, strides, groups of indices that are not contiguous, and the ends of the tensor. */
template <int which, int along, bool as_is>
MD_OUTLINE uint4 md_slowly(const md_params *p, int64_t batch, int64_t row, int64_t k, int n)
{
    uint64_t low = 0, high = 0;
    md_view view;
    view.base = view.row = view.step = 0;
    const bool is_view = md_operand_view(p, which, batch, &view);
    const int64_t step = along == 2 ? view.row : view.step, first = view.base + row * view.row + k * view.step;
    MD_ROLLED for (int e = 0; e < n; e++)
    {
        const uint64_t half =
            as_is && is_view ? *(const uint16_t *)md_operand_address(p, which, first + e * step)
            : is_view        ? MD_DOWN(md_operand_get(p, which, first + e * step))
                      : MD_DOWN(md_operand_at(p, which, batch, row + (along == 2 ? e : 0), k + (along == 2 ? 0 : e)));
        low |= e < 4 ? half << (e & 3) * 16 : 0;
        high |= e >= 4 ? half << (e & 3) * 16 : 0;
    }
    return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

/* 16 bytes from byte `past` (even, below 16) of two adjacent pieces. */
MD_INLINE uint4 md_moved(uint4 a, uint4 b, unsigned past)
{
    const bool eight = past & 8, four = past & 4;
    const uint32_t w0 = eight ? a.z : a.x, w1 = eight ? a.w : a.y, w2 = eight ? b.x : a.z, w3 = eight ? b.y : a.w,
                   w4 = eight ? b.z : b.x, w5 = eight ? b.w : b.y;
    const uint32_t v0 = four ? w1 : w0, v1 = four ? w2 : w1, v2 = four ? w3 : w2, v3 = four ? w4 : w3,
                   v4 = four ? w5 : w4;
    const unsigned bits = past * 8; /* modulo 32 */
    return make_uint4(__funnelshift_r(v0, v1, bits), __funnelshift_r(v1, v2, bits), __funnelshift_r(v2, v3, bits),
                      __funnelshift_r(v3, v4, bits));
}

template <int which, int along, int has_batch, bool as_is>
MD_INLINE void md_unit(const md_params *p, const md_lines &l, int64_t unit, uint4 *to)
{
    const int64_t first = unit * UNIT;
    int64_t line = (int64_t)((double)first / (double)l.pieces); /* may be off by one */
    line -= line * l.pieces > first;
    line += (line + 1) * l.pieces <= first;
    const uint32_t skipped = (uint32_t)(first - line * l.pieces);
    md_view view;
    view.base = view.row = view.step = 0;
    bool is_view = md_operand_view(p, which, 0, &view) && (along == 2 ? view.row : view.step) == 1;
    uint4 low[MD_AT_ONCE], high[MD_AT_ONCE];
    md_at at[MD_AT_ONCE];
    unsigned past[MD_AT_ONCE];
    bool is_whole[MD_AT_ONCE];
    MD_FOR (u, MD_AT_ONCE) {
        at[u] = md_at_of(l, line, skipped + u * MD_THREADS + threadIdx.x, has_batch);
        if (has_batch)
            md_operand_view(p, which, at[u].batch, &view);
        const int64_t in = at[u].line - at[u].batch * l.lines, pitch = along == 2 ? view.step : view.row;
        const char *begin = (const char *)md_operand_address(p, which, view.base),
                   *end = begin + ((l.lines - 1) * pitch + l.length) * 2;
        const char *x = begin + (in * pitch + at[u].from) * 2;
        past[u] = (unsigned)(uintptr_t)x & 15;
        x -= past[u];
        is_whole[u] = as_is && is_view && at[u].line < l.all && x >= begin && x + 32 <= end;
        if (is_whole[u]) {
            low[u] = *(const uint4 *)x;
            high[u] = *(const uint4 *)(x + 16);
        }
    }
    MD_FOR (u, MD_AT_ONCE) {
        if (at[u].line >= l.all)
            continue;
        const int64_t in = at[u].line - at[u].batch * l.lines;
        const uint4 v = is_whole[u] ? md_moved(low[u], high[u], past[u])
                                    : md_slowly<which, along, as_is>(p, at[u].batch, along == 2 ? at[u].from : in,
                                                                     along == 2 ? in : at[u].from,
                                                                     (int)min(l.length - at[u].from, (int64_t)8));
        to[at[u].line * l.apart + at[u].from / 8] = v;
    }
}

extern "C" __global__ void __launch_bounds__(MD_THREADS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_lines a = md_lines_of<0, MD_ALONG_0, MD_BATCH_0>(&p), b = md_lines_of<1, MD_ALONG_1, MD_BATCH_1>(&p);
    uint4 *to_a = (uint4 *)p.work0, *to_b = to_a + (a.all * a.apart + 15) / 16 * 16;
    MD_ROLLED for (int64_t unit = blockIdx.x; unit < a.units + b.units; unit += gridDim.x)
    {
        if (unit < a.units)
            md_unit<0, MD_ALONG_0, MD_BATCH_0, MD_AS_IS_0>(&p, a, unit, to_a);
        else
            md_unit<1, MD_ALONG_1, MD_BATCH_1, MD_AS_IS_1>(&p, b, unit - a.units, to_b);
    }
}
