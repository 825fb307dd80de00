/* Pairs of rows and keys, summed in both directions (codegen/chain/pairs.h). A block of the launch computes a batch, or
 * one of MD_SPLIT parts of its keys. It goes through blocks of MD_KEYS keys, and for each through blocks of MD_ROWS
 * rows: the products, the weights made of them, and what these add to the results. Results towards keys are complete
 * after all rows; those towards rows stay in memory of their own until the last key. Where keys are split, a second
 * launch (MD_PHASE 2) adds their parts in order. Blocks begin at multiples of their sizes, so that bits do not depend
 * on other batches.
 *
 * md_config.h: MD_VL, MD_ROWS, MD_KEYS, MD_HEIGHT, MD_SPLIT, MD_PHASE; MD_ROWS is whole panels (panel.h) */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "transpose.h"
#include "lanes.h"
#include "panel.h"

#define MD_SUMS MD_PAIR_SUMS
#define MD_ALL_ROWS (MD_ROWS + MD_HEIGHT)
#define MD_ALL_KEYS (MD_KEYS + MD_STRIP)
#define MD_ONES MD_ALL_ROWS

MD_INLINE int64_t md_padded(int64_t n) { return (n + MD_STRIP - 1) / MD_STRIP * MD_STRIP; }

/* A block of rows with a block of keys. */
typedef struct md_grid {
    md_chain_batch batch;
    int64_t rows, keys, row, n, key, n_keys; /* all of the batch; those of the block */
    const float *ones;
    float *line[MD_PAIR_OPERANDS]; /* [row or key][padded inner] */
    float *turned[MD_PAIR_PRODUCTS]; /* keys' lines [strip][depth][MD_STRIP] */
    float *w[MD_PAIR_PRODUCTS > MD_SUMS ? MD_PAIR_PRODUCTS : MD_SUMS]; /* products, then weights: [row][key] */
    int64_t w_pitch; /* from row to row of these */
    float *sum[MD_SUMS]; /* [all rows, or keys of the block][padded columns] */
    md_chain_row *rows_of;
} md_grid;

/* ---- products */

/* c += a' * b: whole panels of the columns of a. */
MD_OUTLINE void md_multiply_turned(int64_t depth, const float *a, int64_t a_pitch, const float *b, int64_t b_pitch,
                                   float *c, int64_t c_pitch, const float *ones)
{
    md_multiply(MD_HEIGHT, depth, a, 1, a_pitch, b, b_pitch, c, c_pitch, ones);
}

MD_INLINE void md_compute_products(const md_params *p, const md_grid *g, int which)
{
    const int rows = md_pairs_product(which, 0);
    const int64_t depth = md_pairs_inner(p, rows), pitch = md_padded(depth);
    for (int64_t first = 0; first < g->n; first += md_height(g->n - first))
        for (int64_t j = 0; j < g->n_keys; j += MD_STRIP)
            md_multiply_any(md_height(g->n - first), depth, g->line[rows] + first * pitch, pitch,
                            g->turned[which] + j * depth, MD_STRIP, g->w[which] + first * g->w_pitch + j, g->w_pitch,
                            0);
}

/* Products become weights, in place. */
MD_OUTLINE void md_weigh_pairs(const md_params *p, const md_grid *g)
{
    for (int64_t i = 0; i < g->n; i++)
        for (int64_t j = 0; j < g->n_keys; j += MD_VL) {
            const int64_t at = i * g->w_pitch + j;
            const int n = (int)md_least(MD_VL, g->n_keys - j);
            const md_b valid = md_head_b(n);
            md_f w[MD_SUMS];
            md_pairs_weigh(p, &g->rows_of[i], g->key + j, md_get(g->w[0] + at), md_get(g->w[MD_PAIR_PRODUCTS - 1] + at),
                           w, n);
            MD_FOR (s, MD_SUMS)
                md_put(g->w[s] + at, md_where_f(valid, w[s], (md_f){0}));
        }
}

MD_INLINE void md_add_to_rows(const md_params *p, const md_grid *g, int which)
{
    const int keys = md_pairs_value(which);
    const int64_t pitch = md_padded(md_pairs_inner(p, keys));
    float *sum = g->sum[which] + g->row * pitch;
    for (int64_t first = 0; first < g->n; first += md_height(g->n - first))
        for (int64_t c = 0; c < pitch; c += MD_STRIP)
            md_multiply_any(md_height(g->n - first), g->n_keys, g->w[which] + first * g->w_pitch, g->w_pitch,
                            g->line[keys] + c, pitch, sum + first * pitch + c, pitch, g->ones);
}

MD_INLINE void md_add_to_keys(const md_params *p, const md_grid *g, int which)
{
    const int rows = md_pairs_value(which);
    const int64_t pitch = md_padded(md_pairs_inner(p, rows));
    for (int64_t first = 0; first < g->n_keys; first += MD_HEIGHT)
        for (int64_t c = 0; c < pitch; c += MD_STRIP)
            md_multiply_turned(g->n, g->w[which] + first, g->w_pitch, g->line[rows] + c, pitch,
                               g->sum[which] + first * pitch + c, pitch, g->ones);
}

/* ---- lines */

/* Lines of an operand as f32, columns padded with zeros. */
MD_INLINE void md_load_lines(const md_params *p, const md_grid *g, int which, int64_t n)
{
    const int64_t inner = md_pairs_inner(p, which), pitch = md_padded(inner);
    for (int64_t i = 0; i < n; i++) {
        const md_chain_row *row = md_pairs_of_keys(which) ? 0 : &g->rows_of[i];
        float *out = g->line[which] + i * pitch;
        for (int64_t c = 0; c < pitch; c += MD_VL) {
            const int64_t lanes = md_least(MD_VL, inner - c);
            md_put(out + c, lanes > 0 ? md_pairs_load(which, p, &g->batch, row, g->key + i, c, (int)lanes) : (md_f){0});
        }
    }
}

/* turned[strip][depth][key of the strip]; keys behind the last one have any finite or infinite content. */
MD_INLINE void md_turn_lines(const md_params *p, const md_grid *g, int which)
{
    const int keys = md_pairs_product(which, 1);
    const int64_t depth = md_pairs_inner(p, keys), pitch = md_padded(depth);
    for (int64_t j = 0; j < g->n_keys; j += MD_VL)
        for (int64_t d = 0; d < depth; d += MD_VL) {
            float *out = g->turned[which] + j / MD_STRIP * MD_STRIP * depth + j % MD_STRIP + d * MD_STRIP;
            md_f v[MD_VL];
            MD_FOR (i, MD_VL)
                v[i] = md_get(g->line[keys] + (j + i) * pitch + d);
            md_transpose_v(v);
            MD_FOR (i, MD_VL)
                if (d + i < depth)
                    md_put(out + i * MD_STRIP, v[i]);
        }
}

/* ---- a batch */

MD_OUTLINE void md_start_keys(const md_params *p, md_grid *g)
{
    MD_FOR (o, MD_PAIR_OPERANDS)
        if (md_pairs_of_keys(o))
            md_load_lines(p, g, o, g->n_keys);
    MD_FOR (x, MD_PAIR_PRODUCTS)
        md_turn_lines(p, g, x);
    MD_FOR (s, MD_SUMS)
        if (md_pairs_towards_keys(s))
            __builtin_memset(g->sum[s], 0,
                             (uint64_t)((g->n_keys + MD_HEIGHT) * md_padded(md_pairs_columns(p, s))) * sizeof(float));
}

MD_OUTLINE void md_add_rows(const md_params *p, md_grid *g)
{
    const md_chain_keys_of span = md_chain_span(p, &g->batch, g->row, g->row + g->n);
    if (g->key >= span.end || g->key + g->n_keys <= span.begin)
        return;
    for (int64_t i = 0; i < g->n; i++)
        g->rows_of[i] = md_chain_row_of(p, &g->batch, g->row + i);
    MD_FOR (o, MD_PAIR_OPERANDS)
        if (!md_pairs_of_keys(o))
            md_load_lines(p, g, o, g->n);
    MD_FOR (x, MD_PAIR_PRODUCTS)
        md_compute_products(p, g, x);
    md_weigh_pairs(p, g);
    MD_FOR (s, MD_SUMS)
        if (md_pairs_towards_keys(s))
            md_add_to_keys(p, g, s);
        else
            md_add_to_rows(p, g, s);
}

MD_INLINE void md_store_lines(const md_params *p, const md_grid *g, int which, int64_t first, int64_t n)
{
    const int64_t columns = md_pairs_columns(p, which), pitch = md_padded(columns);
    for (int64_t i = 0; i < n; i++) {
        md_chain_row row = {0};
        if (!md_pairs_towards_keys(which))
            row = md_chain_row_of(p, &g->batch, first + i);
        for (int64_t c = 0; c < columns; c += MD_VL)
            md_pairs_store(which, p, &g->batch, &row, first + i, c, md_get(g->sum[which] + i * pitch + c),
                           (int)md_least(MD_VL, columns - c));
    }
}

MD_OUTLINE void md_store_keys(const md_params *p, const md_grid *g)
{
    MD_FOR (s, MD_SUMS)
        if (md_pairs_towards_keys(s))
            md_store_lines(p, g, s, g->key, g->n_keys);
}

MD_OUTLINE void md_store_rows(const md_params *p, const md_grid *g)
{
    MD_FOR (s, MD_SUMS)
        if (!md_pairs_towards_keys(s))
            md_store_lines(p, g, s, 0, g->rows);
}

/* Keys of blocks begin .. end-1. */
static void md_run(const md_params *p, md_grid *g, int64_t begin, int64_t end)
{
    MD_FOR (s, MD_SUMS)
        if (!md_pairs_towards_keys(s))
            __builtin_memset(g->sum[s], 0,
                             (uint64_t)((g->rows + MD_HEIGHT) * md_padded(md_pairs_columns(p, s))) * sizeof(float));
    for (g->key = begin * MD_KEYS; g->key < md_least(end * MD_KEYS, g->keys); g->key += MD_KEYS) {
        g->n_keys = md_least(MD_KEYS, g->keys - g->key);
        g->w_pitch = md_padded(g->n_keys) + MD_STRIP;
        md_start_keys(p, g);
        for (g->row = 0; g->row < g->rows; g->row += MD_ROWS) {
            g->n = md_least(MD_ROWS, g->rows - g->row);
            md_add_rows(p, g);
        }
        md_store_keys(p, g);
    }
}

/* ---- memory */

MD_INLINE int64_t md_floats(int64_t n) { return (n + 15) / 16 * 16; }

/* Floats of all results towards rows. */
MD_INLINE int64_t md_row_floats(const md_params *p)
{
    int64_t n = 0;
    MD_FOR (s, MD_SUMS)
        if (!md_pairs_towards_keys(s))
            n += md_floats((md_chain_rows(p) + MD_HEIGHT) * md_padded(md_pairs_columns(p, s)));
    return n;
}

MD_INLINE void md_place_rows(const md_params *p, md_grid *g, float *at)
{
    MD_FOR (s, MD_SUMS)
        if (!md_pairs_towards_keys(s))
            g->sum[s] = md_take(&at, (md_chain_rows(p) + MD_HEIGHT) * md_padded(md_pairs_columns(p, s)));
}

/* Everything but results towards rows; gives back what follows. */
MD_INLINE float *md_place(const md_params *p, md_grid *g, float *at)
{
    float *ones = md_take(&at, MD_ONES);
    for (int i = 0; i < MD_ONES; i++)
        ones[i] = 1;
    g->ones = ones;
    MD_FOR (o, MD_PAIR_OPERANDS)
        g->line[o] = md_take(&at, (md_pairs_of_keys(o) ? MD_ALL_KEYS : MD_ALL_ROWS) * md_padded(md_pairs_inner(p, o)));
    MD_FOR (x, MD_PAIR_PRODUCTS)
        g->turned[x] = md_take(&at, MD_ALL_KEYS * md_pairs_inner(p, md_pairs_product(x, 1)));
    MD_FOR (s, (int)(sizeof g->w / sizeof *g->w))
        g->w[s] = md_take(&at, MD_ALL_ROWS * MD_ALL_KEYS);
    MD_FOR (s, MD_SUMS)
        if (md_pairs_towards_keys(s))
            g->sum[s] = md_take(&at, (MD_KEYS + MD_HEIGHT) * md_padded(md_pairs_columns(p, s)));
    g->rows_of = (md_chain_row *)at;
    return at + md_floats((int64_t)(MD_ROWS * sizeof(md_chain_row) / sizeof(float) + 1));
}

#if MD_PHASE == 1
MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    md_grid g = {.rows = md_chain_rows(p), .keys = md_chain_keys(p)};
    float *at = md_place(p, &g, scratch);
    const int64_t blocks = (g.keys + MD_KEYS - 1) / MD_KEYS;
    for (int64_t i = first; i < last; i++) {
        const int64_t split = i % MD_SPLIT;
        g.batch = md_chain_batch_of(p, i / MD_SPLIT);
        md_place_rows(p, &g, MD_SPLIT > 1 ? (float *)p->work0 + i * md_row_floats(p) : at);
        md_run(p, &g, blocks * split / MD_SPLIT, blocks * (split + 1) / MD_SPLIT);
        if (MD_SPLIT == 1)
            md_store_rows(p, &g);
    }
}
#else
/* Adds the parts of a batch to the first one, in order, and stores them. */
MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    md_grid g = {.rows = md_chain_rows(p), .keys = md_chain_keys(p)};
    const int64_t n = md_row_floats(p);
    (void)scratch;
    for (int64_t i = first; i < last; i++) {
        float *at = (float *)p->work0 + i * MD_SPLIT * n;
        g.batch = md_chain_batch_of(p, i);
        for (int64_t c = 0; c < n; c += MD_VL) {
            md_f sum = md_get(at + c);
            MD_FOR (s, MD_SPLIT - 1)
                sum += md_get(at + (s + 1) * n + c);
            md_put(at + c, sum);
        }
        md_place_rows(p, &g, at);
        md_store_rows(p, &g);
    }
}
#endif
