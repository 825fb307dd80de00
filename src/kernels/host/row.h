/* Functions of row programs: folding lanes in a fixed order, the first greatest element, merging, values kept on chip,
 * and one pass over a part of a row. */
#ifndef MD_HOST_ROW_H
#define MD_HOST_ROW_H

#ifndef MD_SUMS
#define MD_SUMS 4 /* independent accumulators of a pass: 1, 2 or 4 */
#endif

/* clang-format off */
/* ---- Folds lanes by halves. */
#define MD_FOLD_ADD(v, ...) v = v + MD_SWAPPED(v, __VA_ARGS__);
#define MD_FOLD_MUL(v, ...) v = v * MD_SWAPPED(v, __VA_ARGS__);
#define MD_FOLD_MAX(v, ...) v = md_max_f(v, MD_SWAPPED(v, __VA_ARGS__));
#define MD_FOLD_MIN(v, ...) v = md_min_f(v, MD_SWAPPED(v, __VA_ARGS__));
MD_INLINE float md_fold_sum_f(md_f v) { MD_HALVES(MD_FOLD_ADD, v) return v[0]; }
MD_INLINE float md_fold_prod_f(md_f v) { MD_HALVES(MD_FOLD_MUL, v) return v[0]; }
MD_INLINE float md_fold_max_f(md_f v) { MD_HALVES(MD_FOLD_MAX, v) return v[0]; }
MD_INLINE float md_fold_min_f(md_f v) { MD_HALVES(MD_FOLD_MIN, v) return v[0]; }
MD_INLINE int md_fold_max_b(md_b v) { return md_any_b(v); }
MD_INLINE int md_fold_min_b(md_b v) { return md_all_b(v); }

#define MD_FOLD_ARRAY(name, vec, one, s, combined)                                                                     \
    MD_OUTLINE one md_fold_##name##_##s(vec v)                                                                         \
    {                                                                                                                  \
        for (int half = MD_VL / 2; half > 0; half /= 2)                                                                \
            for (int l = 0; l < half; l++) {                                                                           \
                one a = v[l], b = v[l + half];                                                                         \
                v[l] = combined;                                                                                       \
            }                                                                                                          \
        return v[0];                                                                                                   \
    }
MD_FOLD_ARRAY(sum, md_d, double, d, a + b)
MD_FOLD_ARRAY(prod, md_d, double, d, a *b)
MD_FOLD_ARRAY(max, md_d, double, d, md_max_sd(a, b))
MD_FOLD_ARRAY(min, md_d, double, d, md_min_sd(a, b))
MD_FOLD_ARRAY(sum, md_i, int64_t, i, a + b)
MD_FOLD_ARRAY(prod, md_i, int64_t, i, a *b)
MD_FOLD_ARRAY(max, md_i, int64_t, i, md_max_si(a, b))
MD_FOLD_ARRAY(min, md_i, int64_t, i, md_min_si(a, b))

/* Sums of integers: GCC keeps a vector of two registers in memory, but two vectors in registers. */
typedef struct md_pair {
    md_ih low, high;
} md_pair;
MD_INLINE md_pair md_splat_pair(int64_t a) { return (md_pair){a + (md_ih){0}, a + (md_ih){0}}; }
MD_INLINE md_pair md_join_pair(md_pair a, md_pair b) { return (md_pair){a.low + b.low, a.high + b.high}; }
#ifndef MD_NARROW
MD_INLINE md_pair md_gain_pair(md_pair a, md_i v) { return (md_pair){a.low + md_low_i(v), a.high + md_high_i(v)}; }
#endif
#ifndef MD_NARROW
MD_INLINE md_i md_whole_pair(md_pair a) { return md_join_i(a.low, a.high); }
#endif
MD_INLINE int64_t md_fold_sum_pair(md_pair a)
{
    const md_ih both = a.low + a.high;
    int64_t sum = both[0];
    for (int l = 1; l < MD_VL / 2; l++)
        sum += both[l];
    return sum;
}

/* Sums of integers of 16 bits and less down columns: of a few elements in lanes of 32 bits, which joining adds to those
 * of 64. */
typedef struct md_near {
    md_b few;
    md_pair all;
} md_near;
MD_INLINE md_near md_splat_near(int64_t a) { return (md_near){{0}, md_splat_pair(a)}; }
MD_INLINE md_near md_gain_near(md_near a, md_b v) { a.few += v; return a; }
MD_INLINE md_pair md_settle_near(md_near a)
{
    const md_m few = md_widen_b(a.few);
    return (md_pair){a.all.low + md_low_i(few), a.all.high + md_high_i(few)};
}
MD_INLINE md_near md_join_near(md_near a, md_near b)
{
    a.all = md_join_pair(a.all, md_settle_near(b));
    return a;
}
#ifndef MD_NARROW
MD_INLINE md_i md_whole_near(md_near a) { return md_whole_pair(md_settle_near(a)); }
#endif

/* ---- Sets lanes n and above to the identity. */
#define MD_ONLY(vec, one, s)                                                                                           \
    MD_INLINE vec md_only_##s(vec v, one identity, int n)                                                              \
    {                                                                                                                  \
        return n == MD_VL ? v : md_where_##s(md_head_b(n), v, md_splat_##s(identity));                                 \
    }
MD_ONLY(md_f, float, f)
MD_ONLY(md_d, double, d)
MD_ONLY(md_i, int64_t, i)
MD_ONLY(md_b, int, b)

/* ---- The first greatest (least) element. NaN beats all else. Accumulators count in 32 bits, which the families'
 * envelopes allow for. */
#define MD_NAN_sf(v) ((v) != (v))
#define MD_NAN_sd(v) ((v) != (v))
#define MD_NAN_si(v) 0
MD_INLINE md_b md_splat_index(int64_t at) { return (int32_t)at + (md_b){0}; }
MD_INLINE md_i md_wide_index(md_b i) { return md_from_b(i); }
/* True if x replaces v, where x comes later: a better value, or a NaN if v is none. */
#define MD_BEATS_REAL(name, not_better, s, vec)                                                                        \
    MD_INLINE md_b md_beats_##name##_##s(vec x, vec v) { return ~md_##not_better##_##s(x, v) & md_eq_##s(v, v); }
MD_BEATS_REAL(argmax, le, f, md_f)
MD_BEATS_REAL(argmin, ge, f, md_f)
MD_BEATS_REAL(argmax, le, d, md_d)
MD_BEATS_REAL(argmin, ge, d, md_d)
MD_INLINE md_b md_beats_argmax_i(md_i x, md_i v) { return md_gt_i(x, v); }
MD_INLINE md_b md_beats_argmin_i(md_i x, md_i v) { return md_lt_i(x, v); }
/* take: elements after all those in v, at their position minus their lane. join: elements from anywhere. */
#define MD_ARG(name, better, vec, one, s, ss)                                                                          \
    MD_INLINE void md_take_##name##_##s(vec *v, md_b *i, vec x, int64_t at, int n)                                     \
    {                                                                                                                  \
        md_b take = md_beats_##name##_##s(x, *v);                                                                      \
        if (n != MD_VL)                                                                                                \
            take = take & md_head_b(n);                                                                                \
        *v = md_where_##s(take, x, *v);                                                                                \
        *i = md_where_b(take, md_splat_index(at), *i);                                                                 \
    }                                                                                                                  \
    MD_INLINE void md_join_##name##_##ss(one *v, int64_t *i, one x, int64_t at)                                        \
    {                                                                                                                  \
        int same = x == *v || (MD_NAN_##ss(x) && MD_NAN_##ss(*v));                                                     \
        if (better##_##ss(x, *v) || (MD_NAN_##ss(x) && !MD_NAN_##ss(*v)) || (same && at < *i)) {                       \
            *v = x;                                                                                                    \
            *i = at;                                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    MD_INLINE void md_join_##name##_##s(vec *v, md_b *i, vec x, md_b at)                                               \
    {                                                                                                                  \
        md_b same = ~(md_beats_##name##_##s(x, *v) | md_beats_##name##_##s(*v, x));                                    \
        md_b take = md_beats_##name##_##s(x, *v) | (same & (md_b)(at < *i));                                           \
        *v = md_where_##s(take, x, *v);                                                                                \
        *i = md_where_b(take, at, *i);                                                                                 \
    }                                                                                                                  \
    MD_OUTLINE void md_fold_##name##_##s(one *v, int64_t *i, vec x, md_b at)                                           \
    {                                                                                                                  \
        *v = x[0];                                                                                                     \
        *i = at[0];                                                                                                    \
        for (int l = 1; l < MD_VL; l++)                                                                                \
            md_join_##name##_##ss(v, i, x[l], at[l] + l);                                                              \
    }
MD_ARG(argmax, md_gt, md_f, float, f, sf)
MD_ARG(argmin, md_lt, md_f, float, f, sf)
MD_ARG(argmax, md_gt, md_d, double, d, sd)
MD_ARG(argmin, md_lt, md_d, double, d, sd)
MD_ARG(argmax, md_gt, md_i, int64_t, i, si)
MD_ARG(argmin, md_lt, md_i, int64_t, i, si)

/* ---- Sums of c * exp(a - shift), where shift is the maximum of a. If all of a chunk's a is -inf, its exponentials are
 * to be 0, not NaN: the bodies see a shift of 0 there. Only if all of the row is -inf the result becomes NaN, as it
 * does without chunks. */
#define MD_SHIFT(one, s, inf)                                                                                          \
    MD_INLINE one md_shift_##s(one shift) \
        { return md_where_##s(md_eq_##s(shift, MD_SPLAT_##s(-inf)), MD_SPLAT_##s(0), shift); } \
    MD_INLINE one md_settled_##s(one sum, one shift)                                                                   \
    {                                                                                                                  \
        return md_where_##s(md_eq_##s(shift, MD_SPLAT_##s(-inf)), shift - shift, sum);                                 \
    }
#define MD_SPLAT_sf(x) ((float)(x))
#define MD_SPLAT_sd(x) ((double)(x))
#define MD_SPLAT_f(x) md_splat_f(x)
#define MD_SPLAT_d(x) md_splat_d(x)
MD_SHIFT(float, sf, __builtin_inff())
MD_SHIFT(double, sd, __builtin_inf())
MD_SHIFT(md_f, f, __builtin_inff())
MD_SHIFT(md_d, d, __builtin_inf())
#ifdef MD_USE_EXP
/* The factor from a sum relative to `shift` to one relative to `common`: exactly 1 if they are equal, also if infinite.
 */
#define MD_WEIGHT(one, s, inf)                                                                                         \
    MD_INLINE one md_weight_##s(one shift, one common)                                                                 \
    {                                                                                                                  \
        return shift == common || shift == -inf ? 1 : md_exp_##s(shift - common);                                      \
    }
MD_WEIGHT(float, sf, __builtin_inff())
MD_WEIGHT(double, sd, __builtin_inf())
#endif

/* ---- Values kept between passes: element j of a slot. Slots hold whole vectors. */
MD_INLINE void md_keep_f(char *slot, int64_t j, md_f v) { __builtin_memcpy((float *)slot + j, &v, sizeof v); }
MD_INLINE void md_keep_d(char *slot, int64_t j, md_d v) { __builtin_memcpy((double *)slot + j, &v, sizeof v); }
MD_INLINE md_f md_recall_f(const char *slot, int64_t j)
    { md_f v; __builtin_memcpy(&v, (const float *)slot + j, sizeof v); return v; }
MD_INLINE md_d md_recall_d(const char *slot, int64_t j)
    { md_d v; __builtin_memcpy(&v, (const double *)slot + j, sizeof v); return v; }

/* ---- With MD_RANGED a condition leaves elements [from, to) of a row: md_range narrows them bound by bound.
 * The limit less a shift, or more by it, stays inside 64 bits. */
#ifndef MD_RANGED
#define MD_RANGED 0
#endif
MD_INLINE int64_t md_before(int64_t limit, int64_t shift)
{
    int64_t at;
    return !__builtin_sub_overflow(limit, shift, &at) ? at : shift > 0 ? INT64_MIN : INT64_MAX;
}
MD_INLINE int64_t md_beyond(int64_t limit, int64_t shift)
{
    int64_t at;
    return !__builtin_add_overflow(limit, shift, &at) ? at : shift < 0 ? INT64_MIN : INT64_MAX;
}
MD_INLINE void md_narrow_lt(int64_t *from, int64_t *to, int64_t limit)
    { *to = md_max_si(*from, md_min_si(*to, limit)); }
MD_INLINE void md_narrow_ge(int64_t *from, int64_t *to, int64_t limit)
    { *from = md_min_si(*to, md_max_si(*from, limit)); }
MD_INLINE void md_narrow_le(int64_t *from, int64_t *to, int64_t limit)
    { if (limit < *to) md_narrow_lt(from, to, limit + 1); }
MD_INLINE void md_narrow_gt(int64_t *from, int64_t *to, int64_t limit)
    { md_narrow_ge(from, to, limit < *to ? limit + 1 : *to); }

/* Prefetches elements MD_DISTANCE further on while the second and later levels compute. */
#ifndef MD_PREFETCH
#define MD_PREFETCH 0
#endif
#define MD_FETCH(l, j) if (MD_PREFETCH && l > 0) md_prefetch(MD_X p, (j) + MD_DISTANCE)

/* ---- Pairwise sums. With MD_PAIRWISE a row is cut into runs of MD_RUN_LENGTH elements, and results of runs are joined
 * as a binary number is counted up: two runs, two pairs, and so on. So no element goes through more than 256 / MD_SUMS
 * additions and some for each doubling of the length, and the error grows with the logarithm of it. */
#ifndef MD_PAIRWISE
#define MD_PAIRWISE 1
#endif
#define MD_RUN_LENGTH (256 * MD_VECTOR_LANES)
#ifndef MD_PAIRS
#define MD_PAIRS 20 /* results that wait to be joined; where no place is left all are joined */
#endif
/* The last element of the run that starts at j, plus one. */
MD_INLINE int64_t md_run_end(int64_t j, int64_t to, int64_t run)
    { return MD_PAIRWISE && to - j > run ? j + run : to; }
/* How often the last two of n results are joined after run number `runs`, counted from 1. */
MD_INLINE int md_pairs(int64_t runs, int n)
{
    const int pairs = n == MD_PAIRS ? n - 1 : __builtin_ctzll((uint64_t)runs);
    return pairs < n - 1 ? pairs : n - 1;
}

/* ---- md_pass<l>: level l over elements [from, to) of a row whose lower levels are known. The accumulator of an
 * element depends only on its distance from `from`. md_rest<l>: all but the first run, in a function of its own, so
 * that the compiler sees one simple loop for short rows. */
#define MD_CLEAR_SUMS(l)                                                                                               \
    md_clear##l(&a0, from);                                                                                            \
    md_clear##l(&a1, from);                                                                                            \
    md_clear##l(&a2, from);                                                                                            \
    md_clear##l(&a3, from);
#define MD_ADD_SUMS(l)                                                                                                 \
    for (; MD_SUMS > 1 && j + MD_SUMS * MD_VECTOR_LANES <= end; j += MD_SUMS * MD_VECTOR_LANES) {                      \
        MD_FETCH(l, j);                                                                                                \
        md_add##l(MD_X p, row, &a0, keep, j, MD_VECTOR_LANES);                                                         \
        MD_FETCH(l, j + MD_VECTOR_LANES);                                                                              \
        md_add##l(MD_X p, row, &a1, keep, j + MD_VECTOR_LANES, MD_VECTOR_LANES);                                       \
        if (MD_SUMS > 2) {                                                                                             \
            MD_FETCH(l, j + 2 * MD_VECTOR_LANES);                                                                      \
            md_add##l(MD_X p, row, &a2, keep, j + 2 * MD_VECTOR_LANES, MD_VECTOR_LANES);                               \
            MD_FETCH(l, j + 3 * MD_VECTOR_LANES);                                                                      \
            md_add##l(MD_X p, row, &a3, keep, j + 3 * MD_VECTOR_LANES, MD_VECTOR_LANES);                               \
        }                                                                                                              \
    }
#define MD_JOIN_SUMS(l)                                                                                                \
    md_join##l(&a0, &a1);                                                                                              \
    if (MD_SUMS > 2) {                                                                                                 \
        md_join##l(&a2, &a3);                                                                                          \
        md_join##l(&a0, &a2);                                                                                          \
    }
#define MD_REST(l)                                                                                                     \
    MD_OUTLINE md_acc##l md_rest##l(MD_X_DECL const md_params *p, md_row *row, char *keep, int64_t from, int64_t to)   \
    {                                                                                                                  \
        md_acc##l wait[MD_PAIRS];                                                                                      \
        int n = 0;                                                                                                     \
        for (int64_t j = from, runs = 1; j < to; runs++) {                                                             \
            const int64_t end = md_run_end(j, to, MD_RUN_LENGTH);                                                      \
            md_acc##l a0, a1, a2, a3;                                                                                  \
            MD_CLEAR_SUMS(l)                                                                                           \
            MD_ADD_SUMS(l)                                                                                             \
            for (; j < end; j += MD_VECTOR_LANES)                                                                      \
                md_add##l(MD_X p, row, &a1, keep, j, (int)md_min_si(end - j, MD_VECTOR_LANES));                        \
            MD_JOIN_SUMS(l)                                                                                            \
            wait[n++] = a0;                                                                                            \
            for (int pairs = end < to ? md_pairs(runs, n) : n - 1; pairs > 0; pairs--, n--)                            \
                md_join##l(&wait[n - 2], &wait[n - 1]);                                                                \
            j = end;                                                                                                   \
        }                                                                                                              \
        return wait[0];                                                                                                \
    }
#define MD_PASS(l)                                                                                                     \
    MD_REST(l)                                                                                                         \
    MD_INLINE void md_pass##l(MD_X_DECL const md_params *p, md_row *row, char *keep, int64_t from, int64_t to)         \
    {                                                                                                                  \
        const int64_t end = md_run_end(from, to, MD_RUN_LENGTH);                                                       \
        md_acc##l a0, a1, a2, a3;                                                                                      \
        int64_t j = from;                                                                                              \
        if (MD_RANGED && to - from <= MD_VL) { /* the other accumulators would be those of nothing */                  \
            md_clear##l(&a0, from);                                                                                    \
            if (from < to)                                                                                             \
                md_add##l(MD_X p, row, &a0, keep, from, (int)(to - from));                                             \
            md_finish##l(MD_X p, row, &a0);                                                                            \
            return;                                                                                                    \
        }                                                                                                              \
        MD_CLEAR_SUMS(l)                                                                                               \
        MD_ADD_SUMS(l)                                                                                                 \
        for (; j + MD_VECTOR_LANES <= end; j += MD_VECTOR_LANES) {                                                     \
            MD_FETCH(l, j);                                                                                            \
            md_add##l(MD_X p, row, &a0, keep, j, MD_VECTOR_LANES);                                                     \
        }                                                                                                              \
        if (j < end)                                                                                                   \
            md_add##l(MD_X p, row, &a1, keep, j, (int)(end - j));                                                      \
        MD_JOIN_SUMS(l)                                                                                                \
        if (MD_PAIRWISE && !MD_LIKELY(end == to)) { /* copies: what a function gets the address of is in memory */     \
            const md_params all = *p;                                                                                  \
            md_row own = *row;                                                                                         \
            const md_acc##l rest = md_rest##l(MD_X &all, &own, keep, end, to);                                         \
            md_join##l(&a0, &rest);                                                                                    \
        }                                                                                                              \
        md_finish##l(MD_X p, row, &a0);                                                                                \
    }
/* ---- md_write: the stores along the axis. Streaming ones start at a vector's boundary. */
#define MD_WRITE                                                                                                       \
    MD_INLINE void md_write(MD_X_DECL const md_params *p, const md_row *row, char *keep, int64_t n)                    \
    {                                                                                                                  \
        int64_t j = MD_NONTEMPORAL ? md_min_si(n, md_lead(MD_X p, 0)) : 0; \
        if (j > 0)                                                                                                     \
            md_out(MD_X p, row, keep, 0, (int)j);                                                                      \
        for (; j + MD_VECTOR_LANES <= n; j += MD_VECTOR_LANES) {                                                       \
            if (MD_PREFETCH_WRITES)                                                                                    \
                md_prefetch(MD_X p, j + MD_DISTANCE);                                                                  \
            md_out(MD_X p, row, keep, j, MD_VECTOR_LANES);                                                             \
        }                                                                                                              \
        if (j < n)                                                                                                     \
            md_out(MD_X p, row, keep, j, (int)(n - j));                                                                \
    }
/* clang-format on */

#endif
