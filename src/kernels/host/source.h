/* Where the values of a product's operands come from. `which` (0: A, 1: B, 2: the second B) is a constant wherever
 * these functions are inlined; "rows" of an operand are the product's rows or columns. md_expr.h has, printed by
 * src/codegen/product/operand.c:
 *   md_operand_is_plain(which)                     constant: the operand is a load
 *   md_operand_view(p, which, batch, &view)        whether it is a strided matrix in memory, and which. A load may
 *                                                  be none (a split index group)
 *   md_operand_load(p, which, offset, n)           n lanes from consecutive elements, as accumulator type
 *   md_operand_get(p, which, offset)               one element
 *   md_operand_pairs(p, which, offset, n)          with MD_PAIRED: n values, two to a lane (pairs.h)
 *   md_operand_axis(p, which)                      of any other operand: the axis of md_operand_lanes,
 *                                                  MD_LANES_DEPTH or MD_LANES_ROWS, or MD_LANES_RUNS: along the rows
 *                                                  until the run ends (window.h)
 *   md_operand_lanes(p, which, batch, row, k, n)   n lanes along that axis from (row, k)
 *   md_operand_at(p, which, batch, row, k)         one element of any operand
 *   md_operand_row(p, which, batch, row, &at)      of operands with a bit in MD_BY_ROW: where the row begins; false: it
 *                                                  is read as zeros
 *   md_operand_row_step(p, which, &step)           what a step of K adds there; false: not always the same
 * With MD_GROUPED, md_row_of (grouped.h) says which row of A is at a place. */
#ifndef MD_HOST_SOURCE_H
#define MD_HOST_SOURCE_H

#ifndef MD_GROUPED
/* The stage's row at a place. */
MD_INLINE int64_t md_row_of(const md_params *p, int64_t place)
{
    (void)p;
    return place;
}
#endif

#ifdef MD_BY_ROW
#define MD_IS_BY_ROW(which) (MD_BY_ROW >> (which)&1)
#else
#define MD_IS_BY_ROW(which) 0
#define md_operand_row(p, which, batch, row, at) 0
#define md_operand_row_step(p, which, step) 0
#endif

#ifdef MD_WINDOWS
#define MD_IS_WINDOW(which) (MD_WINDOWS >> (which)&1)
#else
#define MD_IS_WINDOW(which) 0
#endif

/* Where an operand's values come from in one block of K. */
typedef struct md_source {
    md_view view;
    int64_t batch, k0, depth;
    int64_t whole; /* steps of K that are whole: the last pair may be half */
#ifdef MD_PAIRED
    int64_t values; /* of K, from k0 on: k0 counts values, depth and what functions are asked for are pairs */
#endif
    int is_view, lanes; /* if it is no view: what md_operand_axis said */
    int has_rows; /* each row is a run of memory, found by md_operand_row */
    int is_window; /* packed by window.h */
} md_source;

/* Rows of a grouped product are taken in the order of their groups. */
MD_INLINE int64_t md_source_row(const md_params *p, int which, int64_t row)
{
    return which == 0 ? md_row_of(p, row) : row;
}

MD_INLINE md_source md_source_make(const md_params *p, int which, int64_t batch, int64_t k0, int64_t depth)
{
    md_source s = {.batch = batch, .k0 = k0, .depth = depth, .whole = depth};
#ifdef MD_PAIRED
    s.k0 = 2 * k0;
    s.values = md_points_values(p) - s.k0;
    s.whole = s.values / 2 < depth ? s.values / 2 : depth;
#endif
    s.is_view = md_operand_view(p, which, batch, &s.view);
    s.lanes = MD_LANES_NONE;
    int64_t step = 0;
    s.has_rows = MD_IS_BY_ROW(which) && md_operand_row_step(p, which, &step) && step == 1;
    s.is_window = MD_IS_WINDOW(which) && !s.is_view && !s.has_rows;
    if (s.has_rows)
        s.lanes = MD_LANES_DEPTH;
    else if (!s.is_view)
        s.lanes = md_operand_axis(p, which);
    else if (s.view.step == 1)
        s.lanes = MD_LANES_DEPTH;
    else if (s.view.row == 1)
        s.lanes = MD_LANES_ROWS;
#ifdef MD_GROUPED
    if (which == 0 && s.lanes == MD_LANES_ROWS)
        s.lanes = MD_LANES_NONE; /* neighbours are not side by side */
#endif
    return s;
}

/* The offset of (row, k0 + k) in a plain operand; 0 for others. */
MD_INLINE int64_t md_source_offset(const md_params *p, int which, const md_source *s, int64_t row, int64_t k)
{
    return md_operand_is_plain(which)
               ? s->view.base + md_source_row(p, which, row) * s->view.row + (s->k0 + k) * s->view.step
               : 0;
}

/* Where the operand's row begins in this block of K, in *at; false: it is read as zeros. has_rows only. */
MD_INLINE int md_source_begin(int64_t *at, const md_params *p, int which, const md_source *s, int64_t row)
{
    const int is_there = md_operand_row(p, which, s->batch, md_source_row(p, which, row), at);
    *at += s->k0;
    return is_there;
}

#ifdef MD_PAIRED
/* n pairs from (row, pair k) along K. */
MD_INLINE md_v md_source_lanes(const md_params *p, int which, const md_source *s, int64_t row, int64_t k, int64_t n)
{
    const int64_t left = s->values - 2 * k;
    return md_operand_pairs(p, which, md_source_offset(p, which, s, row, 2 * k), (int)(2 * n < left ? 2 * n : left));
}

/* MD_VL of them, which are whole. */
MD_INLINE md_v md_source_vector(const md_params *p, int which, const md_source *s, int64_t row, int64_t k)
{
    return md_operand_pairs(p, which, md_source_offset(p, which, s, row, 2 * k), 2 * MD_VL);
}

/* Pair k of n rows side by side. */
MD_INLINE md_v md_source_across(const md_params *p, int which, const md_source *s, int64_t row, int64_t k, int64_t n)
{
    const md_v first = md_operand_load(p, which, md_source_offset(p, which, s, row, 2 * k), (int)n);
    if (2 * k + 1 >= s->values)
        return first & 0xffff;
    return (first & 0xffff) | md_operand_load(p, which, md_source_offset(p, which, s, row, 2 * k + 1), (int)n) << 16;
}
#else
/* n lanes from (row, k0 + k) along s->lanes, which is not NONE. */
MD_INLINE md_v md_source_lanes(const md_params *p, int which, const md_source *s, int64_t row, int64_t k, int64_t n)
{
    int64_t at = 0;
    if (MD_IS_BY_ROW(which) && s->has_rows)
        return md_source_begin(&at, p, which, s, row) ? md_operand_load(p, which, at + k, n) : (md_v){0};
    if (md_operand_is_plain(which))
        return md_operand_load(p, which, md_source_offset(p, which, s, row, k), n);
    return md_operand_lanes(p, which, s->batch, md_source_row(p, which, row), s->k0 + k, n);
}

#define md_source_across md_source_lanes
#define md_source_vector(p, which, s, row, k) md_source_lanes(p, which, s, row, k, MD_VL)
#endif

#ifdef MD_PAIRED
#define MD_STEP_VALUES 2 /* of a step of K */
#else
#define MD_STEP_VALUES 1
#endif
/* Prefetches the line of (row, k0 + k). */
MD_INLINE void md_source_prefetch(const md_params *p, int which, const md_source *s, int64_t row, int64_t k)
{
    if (md_operand_is_plain(which))
        __builtin_prefetch(md_operand_address(p, which, md_source_offset(p, which, s, row, MD_STEP_VALUES * k)));
}

/* Asks for it md_source_ahead of its use. */
MD_INLINE void md_source_ask(const md_params *p, int which, const md_source *s, int64_t row, int64_t k)
{
    if (md_operand_is_plain(which))
        md_ask(md_operand_address(p, which, md_source_offset(p, which, s, row, MD_STEP_VALUES * k)));
}

/* How many rows of a plain operand, a multiple of `rows`, span MD_ASK_BYTES: so far ahead memory is asked for. */
MD_INLINE int64_t md_source_ahead(const md_params *p, int which, const md_source *s, int64_t row, int64_t rows)
{
    if (!md_operand_is_plain(which))
        return rows;
    const int64_t bytes = (const char *)md_operand_address(p, which, md_source_offset(p, which, s, row + rows, 0)) -
                          (const char *)md_operand_address(p, which, md_source_offset(p, which, s, row, 0));
    return bytes <= 0 || bytes >= MD_ASK_BYTES ? rows : (MD_ASK_BYTES + bytes - 1) / bytes * rows;
}

MD_INLINE md_acc md_source_value(const md_params *p, int which, const md_source *s, int64_t row, int64_t k)
{
    if (s->is_view)
        return md_operand_get(p, which, md_source_offset(p, which, s, row, k));
    return md_operand_at(p, which, s->batch, md_source_row(p, which, row), s->k0 + k);
}

/* The value, or the pair, of (row, k0 + k). */
MD_INLINE md_acc md_source_at(const md_params *p, int which, const md_source *s, int64_t row, int64_t k)
{
#ifdef MD_PAIRED
    const md_acc first = md_source_value(p, which, s, row, 2 * k);
    return md_pair_of(first, 2 * k + 1 < s->values ? md_source_value(p, which, s, row, 2 * k + 1) : 0);
#else
    return md_source_value(p, which, s, row, k);
#endif
}

#endif
