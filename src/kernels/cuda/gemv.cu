/* Products with few rows: the operand of the columns is read from memory once, 16 bytes a lane along K, several columns
 * a warp. The few rows come from the caches. Warps of a block may share columns and split K.
 *
 * md_config.h: MD_MAX_ROWS (most rows), MD_COLUMNS (of a warp, of each product), MD_UNROLL_K (vectors of each column in
 * flight), MD_SLICE_K (warps that split K), MD_WARPS, MD_PRODUCTS, MD_SPLIT 1, MD_OPERAND_BYTES and MD_WIDEN(bits) (an
 * operand's element as float). md_expr.h: src/codegen/product/product.h; both operands are contiguous along K, aligned
 * to 16 bytes. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"

enum {
    THREADS = 32 * MD_WARPS,
    GROUPS = MD_WARPS / MD_SLICE_K,
    ALL = GROUPS * MD_COLUMNS, /* columns of a block */
    V = 16 / MD_OPERAND_BYTES,
    STEP = 32 * MD_SLICE_K * V /* of K, all lanes that share a column together */
};

MD_INLINE void md_widen(float (&out)[V], uint4 from)
{
    const uint32_t w[4] = {from.x, from.y, from.z, from.w};
    MD_FOR (i, 4) {
#if MD_OPERAND_BYTES == 4
        out[i] = md_f32(w[i]);
#else
        out[2 * i] = MD_WIDEN((uint16_t)w[i]);
        out[2 * i + 1] = MD_WIDEN((uint16_t)(w[i] >> 16));
#endif
    }
}

/* 16 bytes at k of a line of `depth` elements; elements beyond its end are 0 and are not read. */
MD_INLINE uint4 md_line(const char *line, int64_t k, int64_t depth)
{
    if (k + V <= depth)
        return *(const uint4 *)(line + k * MD_OPERAND_BYTES);
    uint32_t w[4] = {0, 0, 0, 0};
    MD_FOR (i, V) {
        if (MD_OPERAND_BYTES == 4)
            w[i & 3] = k + i < depth ? *(const uint32_t *)(line + (k + i) * 4) : 0;
        else if (k + i < depth)
            w[i / 2 & 3] |= (uint32_t) * (const uint16_t *)(line + (k + i) * 2) << i % 2 * 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* The same for data that is read once: it does not displace the rows in L1. */
MD_INLINE uint4 md_line_once(const char *line, int64_t k, int64_t depth)
{
    if (k + V > depth)
        return md_line(line, k, depth);
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(line + k * MD_OPERAND_BYTES));
    return v;
}

typedef struct md_lines {
    const char *x[MD_MAX_ROWS], *w[MD_PRODUCTS][MD_COLUMNS];
} md_lines;

template <int which> MD_INLINE const char *md_line_of(const md_params *p, int64_t batch, int64_t row, int64_t rows)
{
    md_view view;
    view.base = view.row = view.step = 0;
    md_operand_view(p, which, batch, &view);
    return (const char *)md_operand_address(p, which, view.base + md_least(row, rows - 1) * view.row);
}

typedef float md_part[MD_PRODUCTS][MD_MAX_ROWS][MD_COLUMNS];

/* Loads MD_UNROLL_K vectors of each column, then multiplies them. */
MD_INLINE void md_step(md_part &acc, const md_lines &l, int64_t k, int64_t depth)
{
    uint4 w[MD_UNROLL_K][MD_PRODUCTS][MD_COLUMNS];
    MD_FOR (u, MD_UNROLL_K)
        MD_FOR (q, MD_PRODUCTS)
            MD_FOR (c, MD_COLUMNS)
                w[u][q][c] =
                    k + u * STEP < depth ? md_line_once(l.w[q][c], k + u * STEP, depth) : make_uint4(0, 0, 0, 0);
    MD_FOR (u, MD_UNROLL_K) {
        if (k + u * STEP >= depth)
            break;
        float x[MD_MAX_ROWS][V];
        MD_FOR (r, MD_MAX_ROWS)
            md_widen(x[r], md_line(l.x[r], k + u * STEP, depth));
        MD_FOR (q, MD_PRODUCTS)
            MD_FOR (c, MD_COLUMNS) {
                float y[V];
                md_widen(y, w[u][q][c]);
                MD_FOR (r, MD_MAX_ROWS)
                    MD_FOR (i, V)
                        acc[q][r][c] = __fmaf_rn(x[r][i], y[i], acc[q][r][c]);
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    __shared__ __align__(16) float sums[MD_SLICE_K][MD_PRODUCTS][MD_MAX_ROWS][ALL];
    MD_IF_EMPTY_RETURN;
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, group = warp / MD_SLICE_K, share = warp % MD_SLICE_K;
    const int64_t rows = md_points_rows(&p), columns = md_points_columns(&p), depth = md_points_depth(&p);
    const int64_t across = (columns + ALL - 1) / ALL;
    const md_place at = {blockIdx.x / across, 0, blockIdx.x % across * ALL, 0};
    md_lines l;
    md_part acc;
    MD_FOR (r, MD_MAX_ROWS)
        l.x[r] = md_line_of<0>(&p, at.batch, r, rows);
    MD_FOR (c, MD_COLUMNS) {
        l.w[0][c] = md_line_of<1>(&p, at.batch, at.column + group * MD_COLUMNS + c, columns);
        if (MD_PRODUCTS == 2)
            l.w[MD_PRODUCTS - 1][c] = md_line_of<2>(&p, at.batch, at.column + group * MD_COLUMNS + c, columns);
    }
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (r, MD_MAX_ROWS)
            MD_FOR (c, MD_COLUMNS)
                acc[q][r][c] = 0;
    MD_ROLLED for (int64_t k = (share * 32 + lane) * V; k < depth; k += MD_UNROLL_K * STEP) md_step(acc, l, k, depth);
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (r, MD_MAX_ROWS)
            MD_FOR (c, MD_COLUMNS) {
                float sum = acc[q][r][c];
                MD_FOR (i, 5)
                    sum += __shfl_xor_sync(0xffffffffu, sum, 1 << i);
                if (lane == 0)
                    sums[share][q][r][group * MD_COLUMNS + c] = sum;
            }
    __syncthreads();
    if (MD_SLICE_K > 1) {
        for (int i = threadIdx.x; i < MD_PRODUCTS * MD_MAX_ROWS * ALL; i += THREADS) {
            float sum = 0;
            MD_FOR (s, MD_SLICE_K)
                sum += (&sums[s][0][0][0])[i];
            (&sums[0][0][0][0])[i] = sum;
        }
        __syncthreads();
    }
    md_store_tile(&p, &sums[0][0][0][0], &sums[0][MD_PRODUCTS - 1][0][0], ALL, at, (int)md_least(rows, MD_MAX_ROWS),
                  ALL, threadIdx.x, THREADS);
}
