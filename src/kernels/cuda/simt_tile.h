/* A tile of a product of any type without tensor cores: f32 with fma, f64, integers; operands in any layout or made by
 * any expression. Tiles of both operands are in shared memory with K outermost, two of each: one is filled while the
 * other is used.
 *
 * md_config.h: MD_VL 4, MD_BM, MD_BN (the tile), MD_BK, MD_TM, MD_TN (of a thread, multiples of 4; MD_TN of each
 * product), MD_PRODUCTS, MD_ALONG_<o> (0: neither, 1: operand o is contiguous along K, 2: along its rows) and
 * MD_DIRECT_<o> (operand o is a load of the accumulators' type) for o = 0, 1, 2. */
#ifndef MD_CUDA_SIMT_TILE_H
#define MD_CUDA_SIMT_TILE_H

#include "depth_span.h"
#include "rows_apart.h"

enum {
    ACROSS = MD_BN / MD_TN,
    THREADS = MD_BM / MD_TM * ACROSS,
    ROW_GROUPS = MD_TM / 4,
    COLUMN_GROUPS = MD_TN / 4,
    A_PITCH = MD_BM + 4,
    B_PITCH = MD_BN + 4,
    A_SIZE = MD_BK * A_PITCH,
    B_SIZE = MD_BK * B_PITCH,
    STAGE = A_SIZE + MD_PRODUCTS * B_SIZE,
    C_PITCH = MD_BN + 4
};

/* An operand in one block of K. */
typedef struct md_source {
    md_view view;
    int64_t batch, row, rows, k, end; /* the tile's first row; all rows; K of the slice */
    bool is_view, is_direct;
    bool is_fast; /* whole blocks of K can be copied without any check, */
    int64_t step; /* bytes from one block of K to the next, */
    /* source of each piece */
    const char *at[MD_BM > MD_BN ? MD_BM *MD_BK / 4 / THREADS : MD_BN *MD_BK / 4 / THREADS];
} md_source;

/* Row and step of K of a thread's piece i of a tile. */
template <int along, int size> MD_INLINE int md_piece_row(int i)
{
    const int c = threadIdx.x + i * THREADS;
    return along == 1 ? c / (MD_BK / 4) : c % (size / 4) * 4;
}

template <int along, int size> MD_INLINE int md_piece_k(int i)
{
    const int c = threadIdx.x + i * THREADS;
    return along == 1 ? c % (MD_BK / 4) * 4 : c / (size / 4);
}

template <int which, int along, int direct, int size>
MD_INLINE md_source md_source_make(const md_params *p, int64_t batch, int64_t row, int64_t rows, int64_t k, int64_t end)
{
    md_source s;
    s.k = k, s.end = end;
    s.batch = batch, s.row = row, s.rows = rows;
    s.view.base = s.view.row = s.view.step = 0;
    s.is_view = md_operand_view(p, which, batch, &s.view);
    s.is_direct = false;
    if (direct && along && !MD_CUTS_PIECES(along) && s.is_view && !(MD_IS_APART(which) && along == 2)) {
        const int64_t one = along == 1 ? s.view.step : s.view.row, other = along == 1 ? s.view.row : s.view.step;
        s.is_direct = one == 1 && other * (int64_t)sizeof(md_acc) % 16 == 0 &&
                      (uint64_t)md_operand_address(p, which, s.view.base) % 16 == 0;
    }
    s.is_fast = s.is_direct && !MD_IS_APART(which) && (along == 1 || rows % 4 == 0);
    s.step = MD_BK * s.view.step * (int64_t)sizeof(md_acc);
    MD_FOR (i, size * MD_BK / 4 / THREADS) {
        /* Beyond the last row the last rows are read again: their results are not stored. */
        const int64_t r = md_least(row + md_piece_row<along, size>(i), along == 1 ? rows - 1 : rows - 4);
        s.at[i] = (const char *)md_operand_address(
            p, which, s.view.base + (s.is_fast ? r * s.view.row + (k + md_piece_k<along, size>(i)) * s.view.step : 0));
    }
    return s;
}

template <int which> MD_INLINE md_acc md_source_at(const md_params *p, const md_source &s, int64_t row, int64_t k)
{
    if (row >= s.rows || k >= s.end)
        return 0;
    if (md_operand_is_plain(which) && s.is_view)
        return md_operand_get(p, which, s.view.base + md_row_at<which>(p, row) * s.view.row + k * s.view.step);
    return md_operand_at(p, which, s.batch, md_row_at<which>(p, row), k);
}

/* Four elements a piece: along K (from (row, k) on), or along the rows. `size` rows are in the tile. */
template <int size> struct md_pieces {
    enum { N = size * MD_BK / 4 / THREADS };
    md_acc v[N][4];
};

template <int which, int along, int size>
MD_INLINE void md_fetch(md_pieces<size> &out, const md_params *p, const md_source &s)
{
    if (s.is_fast && s.k + MD_BK <= s.end) {
        MD_FOR (i, md_pieces<size>::N)
            md_take(out.v[i], (const md_acc *)s.at[i]);
        return;
    }
    MD_FOR (i, md_pieces<size>::N) {
        const int64_t row = s.row + md_piece_row<along, size>(i), k = s.k + md_piece_k<along, size>(i);
        if (s.is_direct && row + (along == 1 ? 0 : 3) < s.rows && k + (along == 1 ? 3 : 0) < s.end) {
            md_take(out.v[i], (const md_acc *)md_operand_address(
                                  p, which, s.view.base + md_row_at<which>(p, row) * s.view.row + k * s.view.step));
        } else {
            MD_FOR (j, 4)
                out.v[i][j] = md_source_at<which>(p, s, row + (along == 1 ? 0 : j), k + (along == 1 ? j : 0));
        }
    }
}

template <int along, int size> MD_INLINE void md_keep(md_acc *to, const md_pieces<size> &from)
{
    MD_FOR (i, md_pieces<size>::N) {
        const int r = md_piece_row<along, size>(i), d = md_piece_k<along, size>(i);
        MD_FOR (j, 4)
            to[(d + (along == 1 ? j : 0)) * (size + 4) + r + (along == 1 ? 0 : j)] = from.v[i][j];
    }
}

/* The operands of a block: A, B and perhaps the second B. */
typedef struct md_sources {
    md_source a, b, b2;
} md_sources;

typedef struct md_tiles {
    md_pieces<MD_BM> a;
    md_pieces<MD_BN> b, b2;
} md_tiles;

MD_INLINE void md_tiles_fetch(md_tiles &t, const md_params *p, const md_sources &s)
{
    md_fetch<0, MD_ALONG_0>(t.a, p, s.a);
    md_fetch<1, MD_ALONG_1>(t.b, p, s.b);
    if (MD_PRODUCTS == 2)
        md_fetch<2, MD_ALONG_2>(t.b2, p, s.b2);
}

MD_INLINE void md_tiles_keep(md_acc *to, const md_tiles &t)
{
    md_keep<MD_ALONG_0>(to, t.a);
    md_keep<MD_ALONG_1>(to + A_SIZE, t.b);
    if (MD_PRODUCTS == 2)
        md_keep<MD_ALONG_2>(to + A_SIZE + B_SIZE, t.b2);
}

template <int size> MD_INLINE void md_source_step(md_source &s)
{
    s.k += MD_BK;
    MD_FOR (i, md_pieces<size>::N)
        s.at[i] += s.step;
}

MD_INLINE void md_sources_step(md_sources &s)
{
    md_source_step<MD_BM>(s.a);
    md_source_step<MD_BN>(s.b);
    md_source_step<MD_BN>(s.b2);
}

/* A warp's threads form a rectangle in the tile, so that they read few different lines of shared memory. */
enum { LANES_ACROSS = ACROSS < 8 ? ACROSS : 8, LANES_DOWN = 32 / LANES_ACROSS };
MD_INLINE int md_thread_down()
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return (warp / (ACROSS / LANES_ACROSS) * LANES_DOWN + lane / LANES_ACROSS) * 4;
}

MD_INLINE int md_thread_across()
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return (warp % (ACROSS / LANES_ACROSS) * LANES_ACROSS + lane % LANES_ACROSS) * 4;
}

typedef md_acc md_part[MD_PRODUCTS][MD_TM][MD_TN];

MD_INLINE void md_multiply(md_part &acc, const md_acc *a, const md_acc *b)
{
    const int down = md_thread_down(), across = md_thread_across();
    _Pragma("unroll 4") for (int k = 0; k < MD_BK; k++)
    {
        md_acc x[ROW_GROUPS][4], y[MD_PRODUCTS][COLUMN_GROUPS][4];
        MD_FOR (i, ROW_GROUPS)
            md_take(x[i], a + k * A_PITCH + down + i * (MD_BM / ROW_GROUPS));
        MD_FOR (q, MD_PRODUCTS)
            MD_FOR (j, COLUMN_GROUPS)
                md_take(y[q][j], b + q * B_SIZE + k * B_PITCH + across + j * (MD_BN / COLUMN_GROUPS));
        MD_FOR (q, MD_PRODUCTS)
            MD_FOR (i, MD_TM)
                MD_FOR (j, MD_TN)
                    acc[q][i][j] = md_step(x[i / 4][i % 4], y[q][j / 4][j % 4], acc[q][i][j]);
    }
}

MD_INLINE void md_part_store(md_acc *c, const md_part &acc)
{
    const int down = md_thread_down(), across = md_thread_across();
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (i, MD_TM)
            MD_FOR (j, MD_TN)
                c[q * (MD_BM * C_PITCH) + (down + i / 4 * (MD_BM / ROW_GROUPS) + i % 4) * C_PITCH + across +
                  j / 4 * (MD_BN / COLUMN_GROUPS) + j % 4] = acc[q][i][j];
}

/* The tile at `at`, over the steps [from, to) of K, through the epilogue to the results. */
MD_INLINE void md_make_tile(const md_params *p, md_acc *memory, const md_place &at, int64_t from, int64_t to)
{
    md_sources s;
    s.a = md_source_make<0, MD_ALONG_0, MD_DIRECT_0, MD_BM>(p, at.batch, at.row, md_rows_end(p, at), from, to);
    s.b = md_source_make<1, MD_ALONG_1, MD_DIRECT_1, MD_BN>(p, at.batch, at.column, md_points_columns(p), from, to);
    s.b2 = s.b;
    if (MD_PRODUCTS == 2)
        s.b2 =
            md_source_make<2, MD_ALONG_2, MD_DIRECT_2, MD_BN>(p, at.batch, at.column, md_points_columns(p), from, to);
    md_part acc;
    md_tiles tiles;
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (i, MD_TM)
            MD_FOR (j, MD_TN)
                acc[q][i][j] = 0;
    if (from < to) {
        md_tiles_fetch(tiles, p, s);
        md_tiles_keep(memory, tiles);
    }
    __syncthreads();
    int stage = 0;
    MD_ROLLED for (int64_t k = from; k < to; k += MD_BK)
    {
        const bool is_last = k + MD_BK >= to;
        md_sources_step(s);
        if (!is_last)
            md_tiles_fetch(tiles, p, s);
        md_multiply(acc, memory + stage * STAGE, memory + stage * STAGE + A_SIZE);
        stage ^= 1;
        if (!is_last)
            md_tiles_keep(memory + stage * STAGE, tiles);
        __syncthreads();
    }
    md_part_store(memory, acc);
    __syncthreads();
    md_store_tile(p, memory, memory + MD_BM * C_PITCH, C_PITCH, at, MD_BM, MD_BN, threadIdx.x, THREADS);
}

#endif
