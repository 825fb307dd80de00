/* Small products of any types in any layout: a group of lanes makes a few results, its lanes side by side along K. No
 * element is kept for other groups, so all that a short product waits for is its first loads.
 *
 * md_config.h: MD_VL 1, MD_GROUP (lanes of a group, a power of two from 4 on), MD_ROWS, MD_COLUMNS (results of a group,
 * of each product; at most MD_GROUP in all), MD_UNROLL_K (steps of K in flight), MD_PRODUCTS, MD_SPLIT 1. md_expr.h:
 * src/codegen/product/product.h; operands are loads with one index for their rows and one for K. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "gemm_step.h"

enum {
    THREADS = MD_GROUP > 128 ? MD_GROUP : 128,
    GROUPS = THREADS / MD_GROUP,
    LANES = MD_GROUP > 32 ? 32 : MD_GROUP, /* of a warp, that share a result */
    WARPS = MD_GROUP / LANES, /* that share a result */
    RESULTS = MD_ROWS * MD_COLUMNS
};

MD_INLINE float md_from_lane(float v, int other) { return __shfl_xor_sync(~0u, v, other); }
MD_INLINE double md_from_lane(double v, int other) { return __shfl_xor_sync(~0u, v, other); }
MD_INLINE int64_t md_from_lane(int64_t v, int other) { return __shfl_xor_sync(~0u, (long long)v, other); }

/* Neighbouring rows of an operand: their offsets, and that of a step of K. */
template <int n> struct md_lines {
    int64_t at[n], step;
};

/* A group beyond the last row reads that row again, and stores nothing. */
template <int which, int n>
MD_INLINE void md_lines_make(md_lines<n> &l, const md_params *p, int64_t batch, int64_t row, int64_t rows)
{
    md_view view;
    view.base = view.row = view.step = 0;
    md_operand_view(p, which, batch, &view);
    l.step = view.step;
    MD_FOR (i, n)
        l.at[i] = view.base + md_least(row + i, rows - 1) * view.row;
}

/* Division of 64 bits takes several times as long as that of 32. */
MD_INLINE int64_t md_quotient(int64_t a, int64_t b)
{
    return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

typedef struct md_operands {
    md_lines<MD_ROWS> a;
    md_lines<MD_COLUMNS> b[MD_PRODUCTS];
} md_operands;

typedef md_acc md_part[MD_PRODUCTS][RESULTS];

template <int which, int n>
MD_INLINE void md_fetch(md_acc (&out)[n], const md_params *p, const md_lines<n> &l, int64_t k, int64_t depth)
{
    MD_FOR (i, n)
        out[i] = k < depth ? md_operand_get(p, which, l.at[i] + k * l.step) : (md_acc)0;
}

/* MD_UNROLL_K steps of a lane. All elements are asked for before the first is used. */
MD_INLINE void md_round(md_part &acc, const md_params *p, const md_operands &o, int64_t k, int64_t depth)
{
    md_acc x[MD_UNROLL_K][MD_ROWS], y[MD_UNROLL_K][MD_PRODUCTS][MD_COLUMNS];
    MD_FOR (u, MD_UNROLL_K) {
        md_fetch<0>(x[u], p, o.a, k + u * MD_GROUP, depth);
        md_fetch<1>(y[u][0], p, o.b[0], k + u * MD_GROUP, depth);
        if (MD_PRODUCTS == 2)
            md_fetch<2>(y[u][MD_PRODUCTS - 1], p, o.b[MD_PRODUCTS - 1], k + u * MD_GROUP, depth);
    }
    __syncwarp(); /* a fence for the assembler, which would else wait for one load after the other */
    MD_FOR (u, MD_UNROLL_K)
        MD_FOR (q, MD_PRODUCTS)
            MD_FOR (i, RESULTS)
                acc[q][i] = md_step(x[u][i / MD_COLUMNS], y[u][q][i % MD_COLUMNS], acc[q][i]);
}

/* Adds up the lanes of each group; all of them get the sums. */
MD_INLINE void md_add_up(md_part &acc, int group, int lane)
{
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (i, RESULTS)
            MD_UNROLL for (int other = 1; other < LANES; other *= 2) acc[q][i] += md_from_lane(acc[q][i], other);
    if (WARPS > 1) {
        __shared__ md_acc sums[GROUPS][WARPS][MD_PRODUCTS][RESULTS];
        MD_FOR (q, MD_PRODUCTS)
            MD_FOR (i, RESULTS)
                if (lane % 32 == i % 32)
                    sums[group][lane / 32][q][i] = acc[q][i];
        __syncthreads();
        MD_FOR (q, MD_PRODUCTS)
            MD_FOR (i, RESULTS) {
                acc[q][i] = sums[group][0][q][i];
                MD_FOR (w, WARPS - 1)
                    acc[q][i] += sums[group][w + 1][q][i];
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const int lane = threadIdx.x % MD_GROUP, group = threadIdx.x / MD_GROUP;
    const int64_t rows = md_points_rows(&p), columns = md_points_columns(&p), depth = md_points_depth(&p);
    const int64_t across = (columns + MD_COLUMNS - 1) / MD_COLUMNS, down = (rows + MD_ROWS - 1) / MD_ROWS;
    const int64_t tile = blockIdx.x * (int64_t)GROUPS + group;
    const bool is_tile = tile < md_points_batch(&p) * down * across; /* the last block has more groups than tiles */
    const int64_t line = is_tile ? md_quotient(tile, across) : 0, batch = md_quotient(line, down);
    const int64_t row = (line - batch * down) * MD_ROWS, column = (is_tile ? tile - line * across : 0) * MD_COLUMNS;
    md_operands o;
    md_part acc;
    md_lines_make<0>(o.a, &p, batch, row, rows);
    md_lines_make<1>(o.b[0], &p, batch, column, columns);
    if (MD_PRODUCTS == 2)
        md_lines_make<2>(o.b[MD_PRODUCTS - 1], &p, batch, column, columns);
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (i, RESULTS)
            acc[q][i] = 0;
    MD_ROLLED for (int64_t k = lane; k - lane < depth; k += MD_UNROLL_K * MD_GROUP) md_round(acc, &p, o, k, depth);
    md_add_up(acc, group, lane);
    md_v v[2];
    MD_FOR (i, RESULTS)
        if (lane == i)
            v[0].v[0] = acc[0][i], v[1].v[0] = acc[MD_PRODUCTS - 1][i];
    const int64_t r = row + lane / MD_COLUMNS, c = column + lane % MD_COLUMNS;
    if (is_tile && lane < RESULTS && r < rows && c < columns)
        md_finish(&p, batch, r, c, v[0], v[1], 1);
}
