/* Chains of many rows. A block of the launch computes MD_ROWS rows of one batch. It goes through blocks of MD_KEYS
 * keys: it packs the keys and their values, and then for each panel of rows computes scores, weights, and what they add
 * to the results. Blocks of keys begin at multiples of MD_KEYS, and a panel passes over those of which it needs
 * nothing, so the bits of a row depend on nothing but its own keys.
 *
 * md_config.h: MD_VL, MD_ROWS, MD_KEYS, MD_HEIGHT (rows of a panel) */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "transpose.h"
#include "lanes.h"
#include "chain.h"
#include "panel.h"

/* One block of rows. */
typedef struct md_region {
    md_chain_batch batch;
    int64_t row, n, depth, columns, pitch; /* pitch: columns, padded to whole strips */
    md_chain_keys_of span; /* of all rows */
    md_rows rows;
    float *q, *k, *v, *s,
        *o; /* q[row][depth], k[strip][depth][MD_STRIP], v[key][pitch], s[MD_HEIGHT][MD_KEYS], o[row][pitch] */
} md_region;

/* ---- Packing */

/* n elements of a row of an operand, n <= MD_VL: loaded from `offset` on, or computed one by one. */
#define MD_LOADED_LANES(name, x)                                                                                       \
    MD_INLINE md_f name(const md_params *p, const md_region *g, int64_t key, int64_t offset, int64_t step, int64_t at, \
                        int n)                                                                                         \
    {                                                                                                                  \
        (void)g, (void)key;                                                                                            \
        if (offset < 0)                                                                                                \
            return (md_f){0};                                                                                          \
        return step == 1 ? md_chain_##x##_lanes(p, offset + at, n)                                                     \
                         : md_chain_##x##_steps(p, offset + at * step, step, n);                                       \
    }
#define MD_COMPUTED_LANES(name, x)                                                                                     \
    MD_INLINE md_f name(const md_params *p, const md_region *g, int64_t key, int64_t offset, int64_t step, int64_t at, \
                        int n)                                                                                         \
    {                                                                                                                  \
        float value[MD_VL] = {0};                                                                                      \
        (void)offset, (void)step;                                                                                      \
        for (int i = 0; i < n; i++)                                                                                    \
            value[i] = md_chain_##x##_at(p, &g->batch, key, at + i);                                                   \
        return md_load_f32_unit(value, 0, MD_VL);                                                                      \
    }
#if MD_CHAIN_K_LOAD
MD_LOADED_LANES(md_k_lanes, k)
#else
MD_COMPUTED_LANES(md_k_lanes, k)
#endif
#if MD_CHAIN_V_LOAD
MD_LOADED_LANES(md_v_lanes, v)
#else
MD_COMPUTED_LANES(md_v_lanes, v)
#endif

#if MD_CHAIN_K_LOAD
#define MD_K_STEP md_chain_k_step(p)
#define MD_K_OFFSET(key) md_chain_k(p, &g->batch, key)
#else
#define MD_K_STEP 1
#define MD_K_OFFSET(key) 0
#endif
#if MD_CHAIN_V_LOAD
#define MD_V_STEP md_chain_v_step(p)
#define MD_V_OFFSET(key) md_chain_v(p, &g->batch, key)
#else
#define MD_V_STEP 1
#define MD_V_OFFSET(key) 0
#endif

/* MD_VL keys, transposed: k[d][key]. Keys outside the rows' span are not read. */
MD_INLINE void md_pack_lanes_of_keys(const md_params *p, const md_region *g, float *out, int64_t key)
{
    const int64_t step = MD_K_STEP;
    int64_t offset[MD_VL];
    for (int i = 0; i < MD_VL; i++)
        offset[i] = key + i >= g->span.begin && key + i < g->span.end ? MD_K_OFFSET(key + i) : -1;
    MD_ROLLED for (int64_t d = 0; d < g->depth; d += MD_VL)
    {
        int n = (int)md_least(MD_VL, g->depth - d);
        md_f v[MD_VL], rolled[MD_VL];
        if (n == MD_VL && key >= g->span.begin && key + MD_VL <= g->span.end) {
            MD_FOR (i, MD_VL)
                v[i] = md_k_lanes(p, g, key + i, offset[i], step, d, MD_VL);
        } else {
            MD_ROLLED for (int i = 0; i < MD_VL; i++) rolled[i] = key + i >= g->span.begin && key + i < g->span.end
                                                                      ? md_k_lanes(p, g, key + i, offset[i], step, d, n)
                                                                      : (md_f){0};
            MD_FOR (i, MD_VL)
                v[i] = rolled[i];
        }
        md_transpose_v(v);
        MD_FOR (i, MD_VL)
            if (i < n)
                md_put(out + (d + i) * MD_STRIP, v[i]);
    }
}

MD_OUTLINE void md_pack_keys(const md_params *p, const md_region *g, int64_t k0, int64_t keys)
{
    for (int64_t j = 0; j < keys; j += MD_VL)
        md_pack_lanes_of_keys(p, g, g->k + j / MD_STRIP * MD_STRIP * g->depth + j % MD_STRIP, k0 + j);
}

MD_OUTLINE void md_pack_values(const md_params *p, const md_region *g, int64_t k0, int64_t keys)
{
    const int64_t step = MD_V_STEP;
    for (int64_t j = 0; j < keys; j++) {
        float *out = g->v + j * g->pitch;
        int is_read = k0 + j >= g->span.begin && k0 + j < g->span.end;
        int64_t offset = is_read ? MD_V_OFFSET(k0 + j) : -1;
        for (int64_t c = 0; c < g->pitch; c += MD_VL) {
            int64_t n = md_least(MD_VL, g->columns - c);
            md_put(out + c, is_read && n > 0 ? md_v_lanes(p, g, k0 + j, offset, step, c, (int)n) : (md_f){0});
        }
    }
}

MD_OUTLINE void md_pack_rows(const md_params *p, const md_region *g, int64_t padded)
{
    for (int64_t i = 0; i < padded; i++) {
        float *out = g->q + i * g->depth;
        if (i >= g->n) {
            __builtin_memset(out, 0, (uint64_t)g->depth * sizeof *out);
            continue;
        }
#if MD_CHAIN_Q_LOAD
        const int64_t offset = md_chain_q(p, &g->rows.row[i]), step = md_chain_q_step(p);
        for (int64_t d = 0; d < g->depth; d += MD_VL) {
            int n = (int)md_least(MD_VL, g->depth - d);
            md_f x = offset < 0  ? (md_f){0}
                     : step == 1 ? md_chain_q_lanes(p, offset + d, n)
                                 : md_chain_q_steps(p, offset + d * step, step, n);
            md_store_f32_unit(out, d, x, n);
        }
#else
        for (int64_t d = 0; d < g->depth; d++)
            out[d] = md_chain_q_at(p, &g->rows.row[i], d);
#endif
    }
}

/* ---- One block of keys */

MD_INLINE void md_panel(const md_params *p, const md_region *g, int64_t first, int64_t k0, int64_t keys)
{
    const int height = md_height(g->n - first);
    const int64_t n = md_least(height, g->n - first);
    const md_chain_keys_of span = md_chain_span(p, &g->batch, g->row + first, g->row + first + n);
    if (k0 >= span.end || k0 + keys <= span.begin)
        return;
    keys = md_least((span.end - k0 + MD_STRIP - 1) / MD_STRIP * MD_STRIP, keys);
    for (int64_t j = 0; j < keys; j += MD_STRIP)
        md_multiply_any(height, g->depth, g->q + first * g->depth, g->depth, g->k + j * g->depth, MD_STRIP, g->s + j,
                        MD_KEYS, 0);
    md_weigh(p, &g->rows, first, n, g->s, MD_KEYS, k0, keys, &span);
    for (int64_t c = 0; c < g->pitch; c += MD_STRIP)
        md_multiply_any(height, md_least(keys, span.end - k0), g->s, MD_KEYS, g->v + c, g->pitch,
                        g->o + first * g->pitch + c, g->pitch, g->rows.scale + first);
}

static void md_run(const md_params *p, md_region *g)
{
    int64_t padded = 0;
    while (padded < g->n)
        padded += md_height(g->n - padded);
    md_start_rows(p, &g->batch, &g->rows, g->row, g->n, padded);
    md_pack_rows(p, g, padded);
    __builtin_memset(g->o, 0, (uint64_t)(padded * g->pitch) * sizeof *g->o);
    g->span = md_chain_span(p, &g->batch, g->row, g->row + g->n);
    for (int64_t k0 = g->span.begin / MD_KEYS * MD_KEYS; k0 < g->span.end; k0 += MD_KEYS) {
        int64_t keys = md_least(MD_KEYS, (g->span.end - k0 + MD_STRIP - 1) / MD_STRIP * MD_STRIP);
        md_pack_keys(p, g, k0, keys);
        md_pack_values(p, g, k0, keys);
        for (int64_t first = 0; first < g->n; first += md_height(g->n - first))
            md_panel(p, g, first, k0, keys);
    }
    for (int64_t i = 0; i < g->n; i++) {
        md_chain_state state = md_state_of(&g->rows, i);
        md_finish_row(p, &g->rows.row[i], &state, g->o + i * g->pitch);
    }
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t rows = md_chain_rows(p), tiles = (rows + MD_ROWS - 1) / MD_ROWS, most = MD_ROWS + MD_HEIGHT;
    md_region g = {.depth = md_chain_depth(p), .columns = md_chain_columns(p)};
    float *at = scratch;
    g.pitch = (g.columns + MD_STRIP - 1) / MD_STRIP * MD_STRIP;
    g.s = md_take(&at, MD_HEIGHT * MD_KEYS);
    g.rows = (md_rows){.pitch = most};
    g.rows.maximum = md_take(&at, most);
    g.rows.scale = md_take(&at, most);
    g.rows.sum = md_take(&at, MD_SUMS * most);
    g.q = md_take(&at, most * g.depth);
    g.k = md_take(&at, MD_KEYS * g.depth);
    g.v = md_take(&at, MD_KEYS * g.pitch);
    g.o = md_take(&at, most * g.pitch);
    g.rows.row = (md_chain_row *)at;
    for (int64_t i = first; i < last; i++) {
        const int64_t tile = tiles - 1 - i % tiles; /* the last rows of a causal chain take longest */
        g.batch = md_chain_batch_of(p, i / tiles);
        g.row = tile * MD_ROWS;
        g.n = md_least(MD_ROWS, rows - g.row);
        md_run(p, &g);
    }
}
