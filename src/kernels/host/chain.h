/* Parts that both forms of a chain's kernel share: the weights of a block of keys, and the end of a row.
 *
 * md_config.h: MD_VL, MD_ROWS rows of a block, MD_KEYS keys of a block of keys. md_expr.h: codegen/chain/chain.h */
#ifndef MD_HOST_CHAIN_H
#define MD_HOST_CHAIN_H

#include "chain_lanes.h"

#define MD_SUMS (MD_CHAIN_TERMS > 0 ? MD_CHAIN_TERMS : 1)
#define MD_MINUS_INF (-__builtin_inff())

/* The larger lane; NaN never wins: it reaches the sums through the exponential. */
MD_INLINE md_f md_larger(md_f a, md_f b) { return (md_f)md_where_b((md_b)(a > b), (md_b)a, (md_b)b); }

MD_INLINE float md_largest_lane(md_f v)
{
    float m = v[0];
    MD_FOR (i, MD_VL)
        m = v[i] > m ? v[i] : m;
    return m;
}

/* Adds the lanes in pairs, so that the order does not depend on the compiler. */
MD_INLINE float md_sum_lanes(md_f v)
{
    float a[MD_VL];
    __builtin_memcpy(a, &v, sizeof v);
    for (int n = MD_VL / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            a[i] += a[i + n];
    return a[0];
}

/* What a block of rows has summed so far. */
typedef struct md_rows {
    md_chain_row *row;
    float *maximum, *sum; /* sum[t * pitch + row] */
    float *scale; /* of what was summed before the block of keys at hand */
    int64_t pitch;
} md_rows;

MD_INLINE int md_is_open(int64_t key, const md_chain_keys_of *span)
{
    return key >= span->open_begin && key + MD_VL <= span->open_end;
}

/* Sums become scores, in place. Returns the largest one. */
MD_INLINE float md_score_row(const md_params *p, const md_chain_row *r, float *s, int64_t k0, int64_t keys,
                             const md_chain_keys_of *span)
{
    md_f most = md_splat_f(MD_MINUS_INF);
    for (int64_t j = 0; j < keys; j += MD_VL) {
        md_f x = md_get(s + j);
        if (md_is_open(k0 + j, span)) {
            x = md_chain_open(p, r, k0 + j, x, MD_VL);
        } else {
            int64_t n = md_least(span->end - k0 - j, MD_VL);
            x = n > 0 ? md_chain_score(p, r, k0 + j, x, (int)n) : x;
            md_b valid = md_between(k0 + j, span->begin, span->end);
            x = md_where_f(valid, x, md_splat_f(MD_CHAIN_MAXIMUM ? MD_MINUS_INF : 0.0f));
        }
        md_put(s + j, x);
        most = md_larger(x, most);
    }
    return md_largest_lane(most);
}

/* Scores become weights, in place; terms are added up. */
MD_INLINE void md_weigh_row(const md_params *p, const md_rows *rows, int64_t i, float *s, int64_t k0, int64_t keys,
                            const md_chain_keys_of *span)
{
    const md_chain_row *r = &rows->row[i];
    const float m = rows->maximum[i];
    const md_f shift = md_splat_f(m == MD_MINUS_INF ? 0.0f : m);
    md_f sum[MD_SUMS];
    MD_FOR (t, MD_SUMS)
        sum[t] = (md_f){0};
    for (int64_t j = 0; j < keys; j += MD_VL) {
        md_f e = md_get(s + j);
        int n = md_is_open(k0 + j, span) ? MD_VL : (int)md_least(md_most(span->end - k0 - j, 0), MD_VL);
#if MD_CHAIN_MAXIMUM
        e = md_exp_f(e - shift);
#endif
        md_b valid = md_between(k0 + j, span->begin, span->end);
        MD_FOR (t, MD_CHAIN_TERMS) {
            md_f v = MD_CHAIN_TERM == 0 ? e : n > 0 ? md_chain_term(t, p, r, k0 + j, e, n) : e;
            sum[t] += MD_CHAIN_MAXIMUM && MD_CHAIN_TERM == 0 ? v : md_where_f(valid, v, (md_f){0});
        }
        md_f w = n > 0 ? md_chain_weight(p, r, k0 + j, e, n) : e;
        md_put(s + j, MD_CHAIN_MAXIMUM && MD_CHAIN_WEIGHT == 0 ? w : md_where_f(valid, w, (md_f){0}));
    }
    (void)shift;
    MD_FOR (t, MD_CHAIN_TERMS) {
        float *at = &rows->sum[t * rows->pitch + i];
        *at = *at * rows->scale[i] + md_sum_lanes(sum[t]);
    }
}

/* Rows first .. first+n-1 of a block of keys: s[row * pitch + key] become weights; rows->scale is set. */
MD_INLINE void md_weigh(const md_params *p, const md_rows *rows, int64_t first, int64_t n, float *s, int64_t pitch,
                        int64_t k0, int64_t keys, const md_chain_keys_of *span)
{
    for (int64_t i = 0; i < n; i++) {
        float most = md_score_row(p, &rows->row[first + i], s + i * pitch, k0, keys, span);
#if MD_CHAIN_MAXIMUM
        float old = rows->maximum[first + i], new = most > old ? most : old;
        rows->maximum[first + i] = new;
        rows->scale[first + i] = new == old ? 1.0f : md_exp_sf(old - new);
#else
        rows->scale[first + i] = 1.0f;
        (void)most;
#endif
    }
    for (int64_t i = 0; i < n; i++)
        md_weigh_row(p, rows, first + i, s + i * pitch, k0, keys, span);
}

MD_INLINE void md_start_rows(const md_params *p, const md_chain_batch *b, md_rows *rows, int64_t row, int64_t n,
                             int64_t all)
{
    for (int64_t i = 0; i < all; i++) {
        rows->maximum[i] = MD_MINUS_INF;
        rows->scale[i] = 1.0f;
        for (int t = 0; t < MD_SUMS; t++)
            rows->sum[t * rows->pitch + i] = 0.0f;
        if (i < n)
            rows->row[i] = md_chain_row_of(p, b, row + i);
    }
}

/* Closes a row and stores it; o is changed. */
MD_OUTLINE void md_finish_row(const md_params *p, const md_chain_row *r, md_chain_state *s, float *o)
{
    const int64_t columns = md_chain_columns(p);
    const md_f f = md_splat_f(md_chain_close(p, r, s));
    for (int64_t c = 0; c < columns;) {
        int64_t n = md_least(md_least(MD_VL, columns - c), md_chain_room(p, c));
        md_chain_store(p, r, s, c, md_load_f32_unit(o, c, (int)n) * f, (int)n);
        c += n;
    }
    md_chain_store_row(p, r, s);
}

MD_INLINE md_chain_state md_state_of(const md_rows *rows, int64_t i)
{
    md_chain_state s = md_chain_start();
    s.maximum = rows->maximum[i];
    for (int t = 0; t < MD_CHAIN_TERMS; t++)
        s.sum[t] = rows->sum[t * rows->pitch + i];
    return s;
}

#endif
