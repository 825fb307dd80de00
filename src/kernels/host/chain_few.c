/* Chains of few rows, as in decoding: keys and values are read once, from memory as they lie there, by dot products
 * along the depth and multiples of values. A block of the launch computes up to MD_ROWS rows of one batch, over
 * MD_SPLIT keys from a multiple of that on (0: all keys); then md_combine puts the parts of each row together in the
 * order of the keys.
 *
 * md_config.h: MD_VL, MD_ROWS, MD_KEYS, MD_SPLIT, MD_PHASE (1: the rows; 2: md_combine). All operands are loads. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "transpose.h"
#include "lanes.h"
#include "chain.h"

#define MD_RUN (16 / MD_ROWS < 2 ? 2 : 16 / MD_ROWS > 8 ? 8 : 16 / MD_ROWS) /* registers of columns at a time */

MD_INLINE int64_t md_splits(const md_params *p)
{
#if MD_SPLIT
    return md_most((md_chain_keys(p) + MD_SPLIT - 1) / MD_SPLIT, 1);
#else
    (void)p;
    return 1;
#endif
}

/* Columns with room for whole runs; a part of a row: its maximum, its sums, its results. */
MD_INLINE int64_t md_pitch(const md_params *p)
{
    return (md_chain_columns(p) + MD_RUN * MD_VL - 1) / (MD_RUN * MD_VL) * (MD_RUN * MD_VL);
}

MD_INLINE int64_t md_part(const md_params *p) { return md_pitch(p) + 16; }

#if MD_PHASE != 2

typedef struct md_region {
    md_chain_batch batch;
    int64_t row, n, depth, padded, pitch; /* padded: depth, to whole registers */
    md_chain_keys_of span;
    md_rows rows;
    float *q, *s, *o; /* q[row][padded], s[row][MD_KEYS], o[row][pitch] */
} md_region;

MD_INLINE md_f md_k_at(const md_params *p, int64_t offset, int64_t step, int64_t d, int n)
{
    return step == 1 ? md_chain_k_lanes(p, offset + d, n) : md_chain_k_steps(p, offset + d * step, step, n);
}

/* The dot products of MD_VL keys with one row. */
MD_INLINE md_f md_dots(const md_params *p, const md_region *g, const int64_t offset[MD_VL], int64_t step,
                       const float *q)
{
    md_f acc[MD_VL];
    int64_t d = 0;
    MD_FOR (j, MD_VL)
        acc[j] = (md_f){0};
    MD_ROLLED for (; d + MD_VL <= g->depth; d += MD_VL)
    {
        md_f x = md_get(q + d);
        MD_FOR (j, MD_VL)
            acc[j] = md_mac(x, md_k_at(p, offset[j], step, d, MD_VL), acc[j]);
    }
    if (d < g->depth) {
        md_f rest[MD_VL];
        MD_ROLLED for (int j = 0; j < MD_VL; j++) rest[j] = md_k_at(p, offset[j], step, d, (int)(g->depth - d));
        MD_FOR (j, MD_VL)
            acc[j] = md_mac(md_get(q + d), rest[j], acc[j]);
    }
    md_transpose_v(acc);
    for (int n = MD_VL / 2; n > 0; n /= 2)
        MD_FOR (j, MD_VL / 2)
            if (j < n)
                acc[j] += acc[j + n];
    return acc[0];
}

/* Keys that are not there take the place of the first one that is: their scores are masked. */
MD_OUTLINE void md_score_keys(const md_params *p, const md_region *g, int64_t k0, int64_t keys)
{
    const int64_t step = md_chain_k_step(p);
    for (int64_t j = 0; j < keys; j += MD_VL) {
        int64_t offset[MD_VL];
        md_b is_missing = (md_b){0};
        for (int i = 0; i < MD_VL; i++) {
            int64_t key = k0 + j + i;
            key = key < g->span.begin ? g->span.begin : key >= g->span.end ? g->span.end - 1 : key;
            offset[i] = i > 0 && key != k0 + j + i ? offset[i - 1] : md_chain_k(p, &g->batch, key);
            if (offset[i] < 0)
                is_missing[i] = -1;
        }
        for (int i = 0; i < MD_VL; i++)
            offset[i] = offset[i] < 0 ? 0 : offset[i];
        for (int64_t r = 0; r < g->n; r++) {
            md_f x = md_dots(p, g, offset, step, g->q + r * g->padded);
            md_put(g->s + r * MD_KEYS + j, md_where_f(is_missing, (md_f){0}, x));
        }
    }
}

/* o = o * scale + weights * values, in runs of columns. */
MD_INLINE void md_add_run(const md_params *p, const md_region *g, int64_t k0, int64_t keys, int64_t c, int is_whole)
{
    const int64_t step = md_chain_v_step(p), columns = md_chain_columns(p);
    md_f acc[MD_ROWS][MD_RUN];
    MD_FOR (i, MD_ROWS)
        MD_FOR (j, MD_RUN)
            acc[i][j] = (md_f){0};
    MD_ROLLED for (int64_t k = md_most(g->span.begin - k0, 0); k < keys; k++)
    {
        int64_t offset = md_chain_v(p, &g->batch, k0 + k);
        md_f v[MD_RUN];
        if (offset < 0)
            continue;
        MD_FOR (j, MD_RUN) {
            int64_t at = c + j * MD_VL, n = is_whole ? MD_VL : md_least(md_most(columns - at, 0), MD_VL);
            v[j] = n <= 0      ? (md_f){0}
                   : step == 1 ? md_chain_v_lanes(p, offset + at, (int)n)
                               : md_chain_v_steps(p, offset + at * step, step, (int)n);
        }
        MD_FOR (i, MD_ROWS) {
            md_f w = md_splat_f(g->s[i * MD_KEYS + k]);
            MD_FOR (j, MD_RUN)
                acc[i][j] = md_mac(w, v[j], acc[i][j]);
        }
    }
    MD_FOR (i, MD_ROWS)
        MD_FOR (j, MD_RUN) {
            float *at = g->o + i * g->pitch + c + j * MD_VL;
            md_put(at, md_get(at) * md_splat_f(g->rows.scale[i]) + acc[i][j]);
        }
}

MD_OUTLINE void md_add_whole_run(const md_params *p, const md_region *g, int64_t k0, int64_t keys, int64_t c)
{
    md_add_run(p, g, k0, keys, c, 1);
}

MD_OUTLINE void md_add_last_run(const md_params *p, const md_region *g, int64_t k0, int64_t keys, int64_t c)
{
    md_add_run(p, g, k0, keys, c, 0);
}

static void md_copy_rows(const md_params *p, const md_region *g)
{
    for (int64_t i = 0; i < g->n; i++) {
        const int64_t offset = md_chain_q(p, &g->rows.row[i]), step = md_chain_q_step(p);
        for (int64_t d = 0; d < g->padded; d += MD_VL) {
            int n = (int)md_least(MD_VL, g->depth - d);
            md_put(g->q + i * g->padded + d, offset < 0  ? (md_f){0}
                                             : step == 1 ? md_chain_q_lanes(p, offset + d, n)
                                                         : md_chain_q_steps(p, offset + d * step, step, n));
        }
    }
}

static void md_run(const md_params *p, md_region *g, int64_t begin, int64_t end)
{
    md_chain_keys_of span = md_chain_span(p, &g->batch, g->row, g->row + g->n);
    g->span = (md_chain_keys_of){md_most(span.begin, begin), md_least(span.end, end), md_most(span.open_begin, begin),
                                 md_least(span.open_end, end)};
    md_start_rows(p, &g->batch, &g->rows, g->row, g->n, MD_ROWS);
    md_copy_rows(p, g);
    __builtin_memset(g->s, 0, MD_ROWS * MD_KEYS * sizeof *g->s);
    __builtin_memset(g->o, 0, (uint64_t)(MD_ROWS * g->pitch) * sizeof *g->o);
    for (int64_t k0 = md_most(g->span.begin, 0) / MD_KEYS * MD_KEYS; k0 < g->span.end; k0 += MD_KEYS) {
        int64_t keys = md_least(MD_KEYS, g->span.end - k0), whole = (keys + MD_VL - 1) / MD_VL * MD_VL;
        md_score_keys(p, g, k0, whole);
        md_weigh(p, &g->rows, 0, g->n, g->s, MD_KEYS, k0, whole, &g->span);
        for (int64_t c = 0; c < g->pitch; c += MD_RUN * MD_VL)
            if (c + MD_RUN * MD_VL <= md_chain_columns(p))
                md_add_whole_run(p, g, k0, keys, c);
            else
                md_add_last_run(p, g, k0, keys, c);
    }
}

/* Ends the rows of a region, or leaves their parts for the second launch. */
static void md_leave(const md_params *p, md_region *g, int64_t batch, int64_t split)
{
    for (int64_t i = 0; i < g->n; i++) {
#if MD_SPLIT
        float *part = (float *)p->work0 + ((batch * md_chain_rows(p) + g->row + i) * md_splits(p) + split) * md_part(p);
        part[0] = g->rows.maximum[i];
        for (int t = 0; t < MD_CHAIN_TERMS; t++)
            part[1 + t] = g->rows.sum[t * g->rows.pitch + i];
        __builtin_memcpy(part + 16, g->o + i * g->pitch, (uint64_t)g->pitch * sizeof *part);
#else
        md_chain_state state = md_state_of(&g->rows, i);
        (void)batch, (void)split;
        md_finish_row(p, &g->rows.row[i], &state, g->o + i * g->pitch);
#endif
    }
}

MD_INLINE float *md_take(float **at, int64_t n)
{
    float *taken = *at;
    *at += (n + 15) / 16 * 16;
    return taken;
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t rows = md_chain_rows(p), tiles = (rows + MD_ROWS - 1) / MD_ROWS, splits = md_splits(p);
    md_region g = {.depth = md_chain_depth(p), .pitch = md_pitch(p)};
    float *at = scratch;
    g.padded = (g.depth + MD_VL - 1) / MD_VL * MD_VL;
    g.rows = (md_rows){.pitch = MD_ROWS};
    g.rows.maximum = md_take(&at, MD_ROWS);
    g.rows.scale = md_take(&at, MD_ROWS);
    g.rows.sum = md_take(&at, MD_SUMS * MD_ROWS);
    g.s = md_take(&at, MD_ROWS * MD_KEYS);
    g.q = md_take(&at, MD_ROWS * g.padded);
    g.o = md_take(&at, MD_ROWS * g.pitch);
    g.rows.row = (md_chain_row *)at;
    for (int64_t i = first; i < last; i++) {
        const int64_t batch = i / splits / tiles, split = i % splits;
        g.batch = md_chain_batch_of(p, batch);
        g.row = i / splits % tiles * MD_ROWS;
        g.n = md_least(MD_ROWS, rows - g.row);
        md_run(p, &g, split * MD_SPLIT, MD_SPLIT ? (split + 1) * MD_SPLIT : md_chain_keys(p));
        md_leave(p, &g, batch, split);
    }
}

#else

/* Merges what the splits of the keys found for a row: the state and the sums of each, in order. */
static void md_combine(const md_params *p, const float *part, md_chain_state *s, float *o)
{
    const int64_t pitch = md_pitch(p);
    *s = md_chain_start();
    __builtin_memset(o, 0, (uint64_t)pitch * sizeof *o);
    for (int64_t split = 0; split < md_splits(p); split++, part += md_part(p)) {
        float ours = 1.0f, theirs = 1.0f;
#if MD_CHAIN_MAXIMUM
        const float new = part[0] > s->maximum ? part[0] : s->maximum;
        ours = s->maximum == new ? 1.0f : md_exp_sf(s->maximum - new);
        theirs = part[0] == new ? 1.0f : md_exp_sf(part[0] - new);
        s->maximum = new;
#endif
        for (int t = 0; t < MD_CHAIN_TERMS; t++)
            s->sum[t] = s->sum[t] * ours + part[1 + t] * theirs;
        for (int64_t c = 0; c < pitch; c += MD_VL)
            md_put(o + c, md_get(o + c) * md_splat_f(ours) + md_get(part + 16 + c) * md_splat_f(theirs));
    }
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t rows = md_chain_rows(p);
    for (int64_t i = first; i < last; i++) {
        const md_chain_batch b = md_chain_batch_of(p, i / rows);
        const md_chain_row r = md_chain_row_of(p, &b, i % rows);
        md_chain_state state;
        md_combine(p, (const float *)p->work0 + i * md_splits(p) * md_part(p), &state, scratch);
        md_finish_row(p, &r, &state, scratch);
    }
}

#endif
