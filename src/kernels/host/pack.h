/* Packs operands of products: out[k][lane], lanes along the operand's rows, zeros beyond the last row. */
#ifndef MD_HOST_PACK_H
#define MD_HOST_PACK_H

#include "window.h"

/* MD_VL steps of K from any rows and steps. The loop is rolled, since a load with its code for computed operands or for
 * tails is long: unrolled, most of a product's time in the compiler went here. */
MD_INLINE void md_load_edge(md_v out[MD_VL], const md_params *p, int which, const md_source *s, int64_t row, int rows,
                            int64_t k, int64_t n)
{
    MD_ROLLED for (int i = 0; i < MD_VL; i++) out[i] =
        i < rows ? md_source_lanes(p, which, s, row + i, k, n) : (md_v){0};
}

/* An operand stored along K: MD_VL steps of K from each row, transposed. Prefetches the rows after this block. */
MD_INLINE void md_pack_along_depth(const md_params *p, int which, const md_source *s, md_acc *out, md_block block,
                                   int64_t row, int rows)
{
    MD_ROLLED for (int64_t k = 0; k < s->depth; k += MD_VL)
    {
        int64_t n = md_least(MD_VL, s->depth - k);
        md_v v[MD_VL], edge[MD_VL];
        if (md_operand_is_plain(which) && k + MD_VL <= s->whole && rows == block.full) {
            MD_FOR (i, MD_VL)
                v[i] = i < block.full ? md_source_vector(p, which, s, row + i, k) : (md_v){0};
            MD_FOR (i, MD_VL)
                if (i < block.full)
                    md_source_prefetch(p, which, s, row + i + block.full, k);
        } else {
            md_load_edge(edge, p, which, s, row, rows, k, n);
            MD_FOR (i, MD_VL)
                v[i] = edge[i];
        }
        md_transpose_v(v);
        MD_FOR (i, MD_VL)
            if (i < n)
                md_store_v(out + (k + i) * block.pitch, v[i], block.width);
    }
}

/* The same where rows lie apart: each is found once. */
MD_INLINE void md_pack_rows_apart(const md_params *p, int which, const md_source *s, md_acc *out, md_block block,
                                  int64_t row, int rows)
{
    int64_t at[MD_VL] = {0};
    int is_there[MD_VL] = {0};
    for (int i = 0; i < rows; i++)
        is_there[i] = md_source_begin(&at[i], p, which, s, row + i);
    MD_ROLLED for (int64_t k = 0; k < s->depth; k += MD_VL)
    {
        const int64_t n = md_least(MD_VL, s->depth - k);
        md_v v[MD_VL];
        MD_ROLLED for (int i = 0; i < MD_VL; i++) v[i] =
            is_there[i] ? md_operand_load(p, which, at[i] + k, n) : (md_v){0};
        md_transpose_v(v);
        MD_ROLLED for (int i = 0; i < n; i++) md_store_v(out + (k + i) * block.pitch, v[i], block.width);
    }
}

/* One block of an operand that is not stored along its rows. */
MD_INLINE void md_pack_block(const md_params *p, int which, const md_source *s, md_acc *out, md_block block,
                             int64_t row, int rows)
{
    if (MD_IS_WINDOW(which) && s->is_window) {
        md_window_pack_block(p, which, s, out, block, row, rows);
        return;
    }
    if (MD_IS_BY_ROW(which) && s->has_rows) {
        md_pack_rows_apart(p, which, s, out, block, row, rows);
        return;
    }
    if (s->lanes == MD_LANES_DEPTH) {
        md_pack_along_depth(p, which, s, out, block, row, rows);
        return;
    }
    MD_ROLLED for (int64_t k = 0; k < s->depth; k++)
        MD_ROLLED for (int i = 0; i < md_least(block.width, block.pitch); i++) out[k * block.pitch + i] =
            i < rows ? md_source_at(p, which, s, row + i, k) : (md_acc)0;
}

/* Rows [row, end) of A as panels, one after the other: the panel of row r starts at (r - row) * depth. */
MD_OUTLINE void md_pack_a(const md_params *p, md_acc *out, int64_t batch, int64_t row, int64_t end, int64_t k0,
                          int64_t depth)
{
    md_source s = md_source_make(p, 0, batch, k0, depth);
    if (md_window_is_across(p, 0, &s)) {
        md_window_pack_across(p, 0, &s, out, row, end, 0);
        return;
    }
    if (s.lanes != MD_LANES_ROWS) {
        for (int64_t r = row; r < end; r += md_height(end - r)) {
            int height = md_height(end - r);
            md_block block = {.pitch = height, .full = MD_HEIGHT0, .width = MD_VL};
            md_pack_block(p, 0, &s, out + (r - row) * depth, block, r, (int)md_least(height, end - r));
        }
        return;
    }
    for (int64_t k = 0; k < depth; k++) /* k outermost: memory is read along its rows */
        for (int64_t r = row; r < end; r += md_height(end - r)) {
            int64_t height = md_height(end - r);
            md_v v = md_source_across(p, 0, &s, r, k, end - r >= MD_VL ? MD_VL : md_least(height, end - r));
            md_store_v(out + (r - row) * depth + k * height, v, (depth - k) * height >= MD_VL ? MD_VL : height);
        }
}

/* An operand stored along its rows (the columns of the product): k outermost, so that memory is read along its rows.
 * Prefetches. */
MD_INLINE void md_pack_strips_across(const md_params *p, int which, const md_source *s, md_acc *out, int64_t column,
                                     int64_t end)
{
    int64_t strips = (end - column + MD_STRIP - 1) / MD_STRIP;
    int is_whole = end - column == strips * MD_STRIP;
    for (int64_t k = 0; k < s->depth; k++)
        for (int64_t i = 0; i < strips; i++)
            for (int64_t j = 0; j < MD_STRIP; j += MD_STRIP_BLOCK) {
                int64_t c = column + i * MD_STRIP + j, left = c < end ? end - c : 0;
                md_acc *at = out + i * MD_PITCH * s->depth + k * MD_PITCH + j;
                md_source_prefetch(p, which, s, c, k + 8);
                md_v v = is_whole ? md_source_across(p, which, s, c, k, MD_STRIP_BLOCK)
                                  : md_source_across(p, which, s, c, k, md_least(MD_STRIP_BLOCK, left));
                md_store_v(at, v, MD_STRIP_BLOCK);
            }
}

MD_INLINE void md_pack_strips(const md_params *p, int which, md_acc *out, int64_t batch, int64_t column, int64_t end,
                              int64_t k0, int64_t depth)
{
    md_source s = md_source_make(p, which, batch, k0, depth);
    md_block block = {.pitch = MD_PITCH, .full = MD_STRIP_BLOCK, .width = MD_STRIP_BLOCK};
    if (s.lanes == MD_LANES_ROWS) {
        md_pack_strips_across(p, which, &s, out, column, end);
        return;
    }
    if (md_window_is_across(p, which, &s)) {
        md_window_pack_across(p, which, &s, out, column, end, MD_STRIP);
        return;
    }
    for (int64_t c = column; c < end; c += MD_STRIP, out += MD_PITCH * depth)
        MD_ROLLED for (int64_t j = 0; j < MD_STRIP; j += MD_STRIP_BLOCK)
        { /* not inlined: the body is long */
            int64_t left = c + j < end ? end - c - j : 0;
            md_pack_block(p, which, &s, out + j, block, c + j, (int)md_least(MD_STRIP_BLOCK, left));
        }
}

MD_OUTLINE void md_pack_b(const md_params *p, md_acc *out, int64_t batch, int64_t column, int64_t end, int64_t k0,
                          int64_t depth)
{
    md_pack_strips(p, 1, out, batch, column, end, k0, depth);
#if MD_PRODUCTS == 2
    md_pack_strips(p, 2, out + MD_STRIP, batch, column, end, k0, depth);
#endif
}

#endif
