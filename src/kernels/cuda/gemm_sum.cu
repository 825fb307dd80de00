/* The second launch of products whose K is split: adds partial sums in the order of the slices, so that results do not
 * depend on timing, and runs the epilogue. With one slice: the epilogue after a library's product. md_config.h: MD_VL
 * 4, MD_SLICES, MD_SPLIT 1, MD_PRODUCTS, MD_WRAPS, MD_THREADS. md_expr.h: as in gemm_epilogue.h. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"

enum { AT_ONCE = MD_SLICES < 8 ? MD_SLICES : 8 }; /* slices that are loaded before the first one is used */

/* Adds n columns of one product's slices, which are `slice` apart. */
MD_INLINE md_v md_add_up(const md_acc *from, int64_t slice, int n, bool is_aligned)
{
    md_v sum;
    MD_FOR (l, MD_VL)
        sum.v[l] = 0;
    MD_ROLLED for (int s = 0; s < MD_SLICES; s += AT_ONCE)
    {
        md_acc part[AT_ONCE][4];
        MD_FOR (i, AT_ONCE) {
            if (s + i >= MD_SLICES)
                continue;
            if (is_aligned)
                md_take(part[i], from + (s + i) * slice);
            else
                MD_FOR (l, MD_VL)
                    part[i][l] = l < n ? from[(s + i) * slice + l] : 0;
        }
        MD_FOR (i, AT_ONCE)
            if (s + i < MD_SLICES)
                MD_FOR (l, MD_VL)
                    sum.v[l] += part[i][l];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(MD_THREADS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const int64_t rows = md_points_rows(&p), columns = md_points_columns(&p), batch = md_points_batch(&p);
    const int64_t vectors = (columns + MD_VL - 1) / MD_VL, plane = rows * columns, slice = batch * MD_PRODUCTS * plane;
    for (int64_t i = blockIdx.x * (int64_t)MD_THREADS + threadIdx.x; i < batch * rows * vectors;
         i += (int64_t)gridDim.x * MD_THREADS) {
        const int64_t line = i / vectors, column = (i - line * vectors) * MD_VL, b = line / rows, row = line - b * rows;
        const int n = (int)md_least(MD_VL, columns - column);
        const md_acc *from = (const md_acc *)p.work0 + b * MD_PRODUCTS * plane + row * columns + column;
        md_v sum[2];
        MD_FOR (q, MD_PRODUCTS)
            sum[q] = md_add_up(from + q * plane, slice, n, columns % 4 == 0);
        md_finish(&p, b, row, column, sum[0], sum[MD_PRODUCTS - 1], n);
    }
}
