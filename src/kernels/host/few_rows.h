/* Products with at most MD_MAX_ROWS rows, without packed operands: B is read from memory once for all rows of A. If
 * B is stored along K (MD_ALONG_DEPTH), lanes run along K and columns are dot products. If it is stored along its
 * columns, a few rows of B at a time are added to a run of sums. Every element adds K in the same order, whatever
 * the number of rows; split.h says how that is cut.
 *
 * md_config.h: MD_VL, MD_ACC_F32 | _F64 | _I64 | _PAIRS, MD_PRODUCTS, MD_MAX_ROWS, MD_COLUMNS (most of a run), MD_CHUNK
 * (steps of K that rows of A are copied for at a time), MD_ALONG_DEPTH. */
#ifndef MD_HOST_FEW_ROWS_H
#define MD_HOST_FEW_ROWS_H

#define MD_RUN_PITCH (MD_COLUMNS + MD_VL) /* of a row of sums: the epilogue reads whole registers */
#define MD_STEPS 8 /* rows of B added at a time */

#if defined(MD_HALVES_B) && MD_ALONG_DEPTH && MD_VL == 16 && defined(__AVX512F__)
#define MD_BY_HALVES
#define MD_FIRST_STEP r->halves
#else
#define MD_FIRST_STEP 0
#endif

typedef struct md_run {
    int64_t batch, row, column, columns; /* the first row and column */
    int rows;
    md_acc *x; /* rows of A in this chunk of K, zeros up to a multiple of MD_VL */
    int64_t pitch;
    int64_t halves; /* steps of this chunk that go through tables of weights (half_dots.h) */
    md_out *sum, *part; /* [product][row][MD_RUN_PITCH]: of the span of K, of MD_SUM_DEPTH steps */
    md_total *total; /* of all spans */
} md_run;
#define MD_RUN_SUMS (MD_MAX_ROWS * MD_RUN_PITCH) /* sums of a product */

/* a * b + c, lane by lane. */
MD_INLINE md_v md_mac_v(md_v a, md_v b, md_v c)
{
#if defined(MD_ACC_F32) || defined(MD_ACC_PAIRS)
    return (md_v)md_mac_t(a, b, c);
#else
    return a * b + c;
#endif
}

MD_INLINE md_v md_times_v(md_v a, md_v b)
{
#ifdef MD_ACC_PAIRS
    return md_mac_v(a, b, (md_v){0});
#else
    return a * b;
#endif
}

MD_INLINE md_v md_load_v(const md_acc *from)
{
    md_v v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

/* Lanes of B from (column, k), value by value: for strides that the family did not compile for. */
MD_OUTLINE md_v md_b_slowly(const md_params *p, int which, const md_source *s, int64_t column, int64_t k, int n)
{
    md_acc v[MD_VL] = {0};
    for (int i = 0; i < n; i++) {
        int64_t c = MD_ALONG_DEPTH ? column : column + i, at = MD_ALONG_DEPTH ? k + i : k;
        v[i] = MD_PRODUCTS == 2 && which == 2 ? md_source_at(p, 2, s, c, at) : md_source_at(p, 1, s, c, at);
    }
    return md_load_v(v);
}

#ifdef MD_BY_HALVES
#include "half_dots.h"
#endif

/* True if B has the layout that the family compiled for. */
MD_INLINE int md_is_expected(const md_source *s)
{
    return s->lanes == (MD_ALONG_DEPTH ? MD_LANES_DEPTH : MD_LANES_ROWS);
}

#if MD_ALONG_DEPTH
/* Adds lanes by halves: one order of addition for every element. */
MD_INLINE md_acc md_sum_v(md_v v)
{
#ifdef MD_ACC_F32
#if MD_VL == 16
    v += MD_SHUFFLE(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    v += MD_SHUFFLE(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v += MD_SHUFFLE(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    v += MD_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif MD_VL == 8
    v += MD_SHUFFLE(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += MD_SHUFFLE(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
    v += MD_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    v += MD_SHUFFLE(v, v, 2, 3, 0, 1);
    v += MD_SHUFFLE(v, v, 1, 0, 3, 2);
#endif
    return v[0];
#else
    md_acc t[MD_VL];
    __builtin_memcpy(t, &v, sizeof v);
    for (int half = MD_VL / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] += t[i + half];
    return t[0];
#endif
}

#ifdef MD_BY_HALVES
/* Adds r->halves steps of K to the dot products of columns at[]. */
MD_INLINE void md_add_halves(const md_params *p, int which, const md_source *s, const md_run *r, int rows, int columns,
                             int64_t ahead, const int64_t at[4], md_v acc[MD_MAX_ROWS][4])
{
    MD_ROLLED for (int64_t k = 0; k < r->halves; k += MD_HALVES_BLOCK)
    {
        const float *x = r->x + k;
        md_f table[4];
        md_u weights[4];
        MD_FOR (c, columns) {
            const int64_t from = md_operand_weight(p, which, s->batch, at[c], s->k0 + k);
            table[c] = md_operand_table(p, which, s->batch, at[c], s->k0 + k);
            __builtin_memcpy(&weights[c], md_operand_weights(p, which) + (from >> 1), sizeof weights[c]);
            md_ask(md_operand_weights(p, which) +
                   (md_operand_weight(p, which, s->batch, at[c] + ahead, s->k0 + k) >> 1));
        }
        MD_ROLLED for (int j = 0; j < 8; j++, x += MD_VL)
        {
            md_v w[4];
            MD_FOR (c, columns) {
                w[c] = md_pick(table[c], (md_b)weights[c]);
                weights[c] >>= 4;
            }
            MD_FOR (i, rows)
                MD_FOR (c, columns)
                    acc[i][c] = md_mac_v(md_load_v(x + i * r->pitch), w[c], acc[i][c]);
        }
    }
}
#endif

/* `rows` dot products with each of `columns` columns from `column`, for all whole registers of K. Past the end the last
 * column is computed again. Asks for what the columns `ahead` of these read. There is no call in the loop, because it
 * would move the accumulators to memory. */
MD_INLINE void md_dots(const md_params *p, int which, const md_source *s, const md_run *r, int rows, int columns,
                       int64_t ahead, int64_t column, md_out *sum)
{
    md_v acc[MD_MAX_ROWS][4];
    int64_t at[4], depth = s->whole;
    MD_FOR (c, columns) {
        at[c] = r->column + md_least(column + c, r->columns - 1);
        MD_FOR (i, rows)
            acc[i][c] = (md_v){0};
    }
#ifdef MD_BY_HALVES
    md_add_halves(p, which, s, r, rows, columns, ahead, at, acc);
#endif
    MD_ROLLED for (int64_t k = MD_FIRST_STEP; k + MD_VL <= depth; k += MD_VL)
    {
        md_v w[4];
        MD_FOR (c, columns) {
            w[c] = md_source_vector(p, which, s, at[c], k);
            md_source_ask(p, which, s, at[c] + ahead, k);
        }
        MD_FOR (i, rows) {
            md_v x = md_load_v(r->x + i * r->pitch + k);
            MD_FOR (c, columns)
                acc[i][c] = md_mac_v(x, w[c], acc[i][c]);
        }
    }
    MD_FOR (c, columns)
        if (column + c < r->columns)
            MD_FOR (i, rows)
                sum[i * MD_RUN_PITCH + column + c] += (md_out)md_sum_v(acc[i][c]);
}

/* The tail of K, less than a register. */
MD_INLINE void md_dots_tail(const md_params *p, int which, const md_source *s, const md_run *r, md_out *sum)
{
    int64_t k = s->whole / MD_VL * MD_VL;
    for (int64_t c = 0; c < r->columns && k < s->depth; c++) {
        md_v w = md_source_lanes(p, which, s, r->column + c, k, s->depth - k);
        for (int i = 0; i < r->rows; i++)
            sum[i * MD_RUN_PITCH + c] += md_sum_v(md_times_v(md_load_v(r->x + i * r->pitch + k), w));
    }
}

/* As many columns at a time as fit into registers together with the accumulators and one row of A. */
#if MD_VL == 16
enum { MD_AT_1 = 4, MD_AT_2 = 4, MD_AT_3 = 4, MD_AT_4 = 4, MD_AT_5 = 4, MD_AT_6 = 4, MD_AT_7 = 3, MD_AT_8 = 3 };
#else
enum { MD_AT_1 = 4, MD_AT_2 = 4, MD_AT_3 = 3, MD_AT_4 = 2, MD_AT_5 = 2, MD_AT_6 = 2, MD_AT_7 = 1, MD_AT_8 = 1 };
#endif
#define MD_DOTS_OF(n, which)                                                                                           \
    do {                                                                                                               \
        const int64_t ahead = md_source_ahead(p, which, s, r->column, MD_AT_##n);                                      \
        for (int64_t c = 0; c < r->columns; c += MD_AT_##n)                                                            \
            md_dots(p, which, s, r, n, MD_AT_##n, ahead, c, sum);                                                      \
    } while (0)
#define MD_DOTS(n)                                                                                                     \
    MD_OUTLINE void md_dots_##n(const md_params *p, const md_source *s, const md_run *r, int which, md_out *sum)       \
    {                                                                                                                  \
        if (which == 1)                                                                                                \
            MD_DOTS_OF(n, 1);                                                                                          \
        else if (MD_PRODUCTS == 2)                                                                                     \
            MD_DOTS_OF(n, 2);                                                                                          \
    }
MD_DOTS(1)
MD_DOTS(2)
MD_DOTS(3)
MD_DOTS(4)
MD_DOTS(5)
MD_DOTS(6)
MD_DOTS(7)
MD_DOTS(8)

/* Dot products of columns of any strides. */
MD_OUTLINE void md_dots_slowly(const md_params *p, const md_source *s, const md_run *r, int which, md_out *sum)
{
    for (int64_t c = 0; c < r->columns; c++)
        for (int i = 0; i < r->rows; i++) {
            md_v acc = {0};
            for (int64_t k = 0; k < s->depth; k += MD_VL)
                acc = md_mac_v(md_load_v(r->x + i * r->pitch + k),
                               md_b_slowly(p, which, s, r->column + c, k, (int)md_least(MD_VL, s->depth - k)), acc);
            sum[i * MD_RUN_PITCH + c] += md_sum_v(acc);
        }
}

static void md_accumulate(const md_params *p, const md_source *s, const md_run *r, int which, md_out *sum)
{
    typedef void dots(const md_params *p, const md_source *s, const md_run *r, int which, md_out *sum);
    static dots *const table[] = {md_dots_1, md_dots_2, md_dots_3, md_dots_4,
                                  md_dots_5, md_dots_6, md_dots_7, md_dots_8};
    if (!md_is_expected(s)) {
        md_dots_slowly(p, s, r, which, sum);
        return;
    }
    table[r->rows - 1](p, s, r, which, sum);
    if (which == 1)
        md_dots_tail(p, 1, s, r, sum);
    else if (MD_PRODUCTS == 2)
        md_dots_tail(p, 2, s, r, sum);
}
#else
/* sum[row][columns] += x[row][k ..] * w, a register of columns. */
MD_INLINE void md_add_rows(const md_run *r, const md_v *w, int steps, int64_t k, md_acc *sum)
{
    for (int row = 0; row < r->rows; row++) {
        const md_acc *x = r->x + row * r->pitch + k;
        md_v acc = md_load_v(sum + row * MD_RUN_PITCH);
        MD_FOR (i, steps)
            acc = md_mac_v(x[i] - (md_v){0}, w[i], acc);
        md_store_v(sum + row * MD_RUN_PITCH, acc, MD_VL);
    }
}

/* n columns at one step of K, of any layout. */
MD_OUTLINE void md_add_slowly(const md_params *p, const md_source *s, const md_run *r, int which, int64_t k, int64_t c,
                              int n, md_acc *sum)
{
    md_v w = md_b_slowly(p, which, s, r->column + c, k, n);
    md_add_rows(r, &w, 1, k, sum + c);
}

MD_INLINE void md_accumulate_which(const md_params *p, int which, const md_source *s, const md_run *r, md_acc *sum)
{
    int64_t whole = md_is_expected(s) ? r->columns / MD_VL * MD_VL : 0, k = 0;
    for (; k + MD_STEPS <= s->depth; k += MD_STEPS)
        for (int64_t c = 0; c < whole; c += MD_VL) {
            md_v w[MD_STEPS];
            MD_FOR (i, MD_STEPS) {
                md_source_prefetch(p, which, s, r->column + c, k + MD_STEPS + i);
                w[i] = md_source_lanes(p, which, s, r->column + c, k + i, MD_VL);
            }
            md_add_rows(r, w, MD_STEPS, k, sum + c);
        }
    for (; k < s->depth; k++)
        for (int64_t c = 0; c < whole; c += MD_VL) {
            md_v w = md_source_lanes(p, which, s, r->column + c, k, MD_VL);
            md_add_rows(r, &w, 1, k, sum + c);
        }
    for (k = 0; k < s->depth && whole < r->columns; k++)
        for (int64_t c = whole; c < r->columns; c += MD_VL)
            md_add_slowly(p, s, r, which, k, c, (int)md_least(MD_VL, r->columns - c), sum);
}

static void md_accumulate(const md_params *p, const md_source *s, const md_run *r, int which, md_acc *sum)
{
    if (which == 1)
        md_accumulate_which(p, 1, s, r, sum);
    else if (MD_PRODUCTS == 2)
        md_accumulate_which(p, 2, s, r, sum);
}
#endif

/* The rows of A in one chunk of K. */
static void md_copy_rows(const md_params *p, const md_run *r, int64_t k0, int64_t depth)
{
    md_source s = md_source_make(p, 0, r->batch, k0, depth);
    for (int row = 0; row < r->rows; row++) {
        md_acc *x = r->x + row * r->pitch;
        int64_t k = 0;
        if (s.lanes == MD_LANES_DEPTH)
            for (; k + MD_VL <= s.whole; k += MD_VL)
                md_store_v(x + k, md_source_vector(p, 0, &s, r->row + row, k), MD_VL);
        for (; k < depth; k++)
            x[k] = md_source_at(p, 0, &s, r->row + row, k);
        for (; k % MD_VL != 0; k++)
            x[k] = 0;
#ifdef MD_BY_HALVES
        md_turn_blocks(x, md_halves_of(p, r->batch, k0, depth));
#endif
    }
}

static void md_run_finish(const md_params *p, const md_run *r)
{
    for (int row = 0; row < r->rows; row++)
        for (int64_t c = 0; c < r->columns;) {
            int64_t n = md_least(md_least(MD_VL, r->columns - c), md_epilogue_room(p, r->column + c));
            const md_out *at = r->sum + row * MD_RUN_PITCH + c;
            md_epilogue(p, r->batch, md_row_of(p, r->row + row), r->column + c, at, at + MD_RUN_SUMS, (int)n);
            c += n;
        }
}

/* Adds sums, a row at a time: to the sums of a span, or those of all spans. */
#define MD_ADD_SUMS(name, type)                                                                                        \
    static void name(const md_run *r, type *to, const md_out *from, int is_first)                                      \
    {                                                                                                                  \
        for (int i = 0; i < MD_PRODUCTS * MD_MAX_ROWS; i++) {                                                          \
            if (i % MD_MAX_ROWS >= r->rows)                                                                            \
                continue;                                                                                              \
            for (int64_t c = 0; c < r->columns; c++)                                                                   \
                to[i * MD_RUN_PITCH + c] =                                                                             \
                    is_first ? from[i * MD_RUN_PITCH + c] : to[i * MD_RUN_PITCH + c] + from[i * MD_RUN_PITCH + c];     \
        }                                                                                                              \
    }
MD_ADD_SUMS(md_run_add_part, md_out)
MD_ADD_SUMS(md_run_add_span, md_total)

/* Steps [k, k + depth) of the chunk that starts at k0. */
static void md_add_steps(const md_params *p, const md_run *r, int64_t k0, int64_t k, int64_t depth, md_out *sum)
{
    md_run at = *r;
    at.x += k;
#ifdef MD_BY_HALVES
    at.halves = md_halves_of(p, r->batch, k0 + k, depth);
#endif
    for (int which = 1; which <= MD_PRODUCTS; which++) {
        md_source s =
            which == 1 ? md_source_make(p, 1, r->batch, k0 + k, depth) : md_source_make(p, 2, r->batch, k0 + k, depth);
        md_accumulate(p, &s, &at, which, sum + (which - 1) * MD_RUN_SUMS);
    }
}

/* A chunk of K, added to the sums of its span. */
static void md_add_chunk(const md_params *p, const md_run *r, int64_t k0, int64_t depth)
{
    const int64_t steps = MD_ALONG_DEPTH ? MD_CHUNK : MD_SUM_DEPTH; /* r->part is for lanes along columns */
    for (int64_t k = 0; k < depth; k += steps) {
        const int is_first = (k0 + k) % MD_SPAN == 0;
        md_out *sum = is_first || MD_ALONG_DEPTH ? r->sum : r->part;
        if (is_first || !MD_ALONG_DEPTH)
            __builtin_memset(sum, 0, sizeof(md_out) * MD_PRODUCTS * MD_RUN_SUMS);
        md_add_steps(p, r, k0, k, md_least(steps, depth - k), sum);
        if (sum == r->part)
            md_run_add_part(r, r->sum, r->part, 0);
    }
}

/* A run with its memory: `scratch` has md_run_scratch accumulators. */
MD_INLINE md_run md_run_make(int64_t depth, void *scratch)
{
    md_run r = {.sum = scratch, .batch = -1};
    r.part = r.sum + MD_PRODUCTS * MD_RUN_SUMS;
    r.total = (md_total *)(r.part + MD_PRODUCTS * MD_RUN_SUMS);
    r.x = depth > MD_SPAN ? (md_acc *)(r.total + MD_PRODUCTS * MD_RUN_SUMS) : (md_acc *)r.total;
    r.pitch = (md_least(depth, MD_CHUNK) + MD_VL - 1) / MD_VL * MD_VL;
    return r;
}

/* Computes and stores the run. `is_copied`: x has the rows of A already. */
static void md_run_columns(const md_params *p, const md_run *r, int64_t depth, int is_copied)
{
    if (depth == 0)
        __builtin_memset(r->sum, 0, sizeof(md_out) * MD_PRODUCTS * MD_RUN_SUMS);
    for (int64_t k0 = 0; k0 < depth; k0 += MD_CHUNK) {
        int64_t chunk = md_least(MD_CHUNK, depth - k0), end = k0 + chunk;
        if (!is_copied)
            md_copy_rows(p, r, k0, chunk);
        md_add_chunk(p, r, k0, chunk);
        if (depth > MD_SPAN && (end % MD_SPAN == 0 || end == depth))
            md_run_add_span(r, r->total, r->sum, end <= MD_SPAN);
    }
    for (int64_t k = 0; depth > MD_SPAN && k < MD_PRODUCTS * MD_RUN_SUMS; k++)
        r->sum[k] = (md_out)r->total[k];
    md_run_finish(p, r);
}

#endif
