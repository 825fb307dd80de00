/* The epilogue of a product whose sums a library left in memory, one after the other: MD_PRODUCTS arrays of
 * [batch][row][column] in p->work0. Each block of the launch is a run of MD_COLUMNS columns of one row.
 *
 * md_config.h: MD_VL, MD_ACC_F32 | _F64, MD_PRODUCTS, MD_COLUMNS.  md_expr.h: as gemm.c. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "mac.h"

/* c0 and c1 are read in whole registers, so the last sums are copied to a place that has room behind them. */
MD_OUTLINE void md_tail(const md_params *p, int64_t batch, int64_t row, int64_t column, const md_out *c0,
                        const md_out *c1, int n)
{
    md_out sum[2][MD_VL] = {{0}};
    for (int i = 0; i < n; i++) {
        sum[0][i] = c0[i];
        if (MD_PRODUCTS == 2)
            sum[1][i] = c1[i];
    }
    md_epilogue(p, batch, row, column, sum[0], sum[1], n);
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    int64_t rows = md_points_rows(p), columns = md_points_columns(p), runs = (columns + MD_COLUMNS - 1) / MD_COLUMNS;
    int64_t product = md_points_batch(p) * rows * columns;
    (void)scratch;
    for (int64_t i = first; i < last; i++) {
        int64_t row = i / runs, column = i % runs * MD_COLUMNS, end = md_least(column + MD_COLUMNS, columns);
        while (column < end) {
            int64_t n = md_least(md_least(MD_VL, end - column), md_epilogue_room(p, column));
            const md_out *at = (const md_out *)p->work0 + row * columns + column;
            if (n == MD_VL)
                md_epilogue(p, row / rows, row % rows, column, at, at + (MD_PRODUCTS - 1) * product, MD_VL);
            else
                md_tail(p, row / rows, row % rows, column, at, at + (MD_PRODUCTS - 1) * product, (int)n);
            column += n;
        }
    }
}
