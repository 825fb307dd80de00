/* Operands of products whose rows lie apart: rows in the order of their groups, or rows that a look-up or a quotient
 * finds. MD_BY_ROW (md_config.h): bit o: operand o is read row by row; then md_expr.h has
 * (src/codegen/product/by_row.c):
 *   md_operand_row(p, which, batch, row, &at)   where the row begins; false: it is read as zeros
 *   md_operand_row_step(p, which, &step)   what a step of K adds; false: not always the same */
#ifndef MD_CUDA_ROWS_APART_H
#define MD_CUDA_ROWS_APART_H

#ifdef MD_BY_ROW
#define MD_IS_BY_ROW(which) (MD_BY_ROW >> (which)&1)
#else
#define MD_IS_BY_ROW(which) 0
#endif
#ifdef MD_GROUPED
#define MD_IS_APART(which) ((which) == 0 || MD_IS_BY_ROW(which))
#else
#define MD_IS_APART(which) MD_IS_BY_ROW(which)
#endif

/* The stage's row at a place in an operand. */
template <int which> MD_INLINE int64_t md_row_at(const md_params *p, int64_t place)
{
    return which == 0 ? md_row_of(p, place) : place;
}

/* True if each row is a run of memory. */
template <int which> MD_INLINE bool md_has_row_runs(const md_params *p, bool is_view, const md_view &view)
{
#ifdef MD_BY_ROW
    int64_t step = 0;
    if (MD_IS_BY_ROW(which))
        return md_operand_row_step(p, which, &step) && step == 1;
#endif
    return is_view && view.step == 1;
}

/* The first element of a row; null: it is read as zeros. */
template <int which>
MD_INLINE const void *md_row_begin(const md_params *p, int64_t batch, const md_view &view, int64_t place)
{
    const int64_t row = md_row_at<which>(p, place);
#ifdef MD_BY_ROW
    int64_t at = 0;
    if (MD_IS_BY_ROW(which))
        return md_operand_row(p, which, batch, row, &at) ? md_operand_address(p, which, at) : nullptr;
#endif
    return md_operand_address(p, which, view.base + row * view.row);
}

#endif
