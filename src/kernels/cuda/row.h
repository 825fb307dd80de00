/* What row programs need besides the prelude: a thread's lanes to one value in a fixed order, the first greatest element, merging. */
#ifndef MD_CUDA_ROW_H
#define MD_CUDA_ROW_H

/* clang-format off */
/* An index of a row's number, the fastest one first: the remainder, and the rest for the others. */
MD_INLINE int64_t md_split_off(int64_t *rest, int64_t n)
{
    const uint64_t a = (uint64_t)*rest, b = (uint64_t)n;
    const uint64_t q = (a | b) >> 32 ? a / b : (uint32_t)a / (uint32_t)b;
    *rest = (int64_t)q;
    return (int64_t)(a - q * b);
}

/* What md_lead asked about. MD_BOUNDARY 1: the template places whole vectors on the boundaries that it told of, so that nothing is asked again. */
#ifndef MD_BOUNDARY
#define MD_BOUNDARY 0
#endif
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_full n)
{
    if (MD_BOUNDARY)
        return md_get_whole<S>((const typename S::E *)t + o);
    return md_fetch_unit<S>(t, o, n, true);
}
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_span n) { return md_get_each<S>((const typename S::E *)t + o, 1, n); }

/* Weights along a row whose vectors lie on the row's boundaries, not on theirs: aligned vectors around them, shifted. x: of `count` elements of the axis. */
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_pos x, md_pos count, md_full n)
{
    typedef md_raw<S> R;
    if constexpr (MD_BOUNDARY && !MD_ALIGNED && R::BYTES % 16 == 0) {
        enum { SIZE = (int)sizeof(typename S::E), ELEMENTS = 16 / SIZE };
        const typename S::E *p = (const typename S::E *)t + o;
        const int past = (int)((uintptr_t)p % 16);
        if (past == 0)
            return md_get_whole<S>(p);
        if (x < ELEMENTS || count - x < MD_VL + ELEMENTS) /* nothing beside the axis is touched */
            return md_get_each<S>(p, 1, n);
        uint32_t w[R::N + 4];
        MD_FOR_STEP (i, R::N + 4, 4)
            md_get_piece(w + i, (const char *)p - past + i * 4, 16);
        MD_FOR (i, R::N + 3)
            w[i] = past & 4 ? w[i + 1] : w[i];
        MD_FOR (i, R::N + 1)
            w[i] = past & 8 ? w[i + 2] : w[i];
        R r;
        MD_FOR (i, R::N)
            r.w[i] = __funnelshift_r(w[i], w[i + 1], past % 4 * 8);
        return r;
    } else {
        return md_fetch_unit<S>(t, o, n, true);
    }
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_pos, md_pos, md_span n)
{
    return md_get_each<S>((const typename S::E *)t + o, 1, n);
}

/* ---- Lanes to one value, by halves: lane l with l + MD_VL/2, and so on. */
#define MD_FOLD(name, vec, one, s, combined)                                                                           \
    MD_INLINE one md_fold_##name##_##s(vec v)                                                                          \
    {                                                                                                                  \
        MD_UNROLL for (int half = MD_VL / 2; half > 0; half /= 2)                                                      \
            MD_FOR (l, half) {                                                                                         \
                const one a = v.v[l], b = v.v[l + half];                                                               \
                v.v[l] = combined;                                                                                     \
            }                                                                                                          \
        return v.v[0];                                                                                                 \
    }
#define MD_FOLDS(vec, one, s)                                                                                          \
    MD_FOLD(sum, vec, one, s, a + b)                                                                                   \
    MD_FOLD(prod, vec, one, s, a * b)                                                                                  \
    MD_FOLD(max, vec, one, s, md_max_s##s(a, b))                                                                       \
    MD_FOLD(min, vec, one, s, md_min_s##s(a, b))
MD_FOLDS(md_f, float, f)
MD_FOLDS(md_d, double, d)
MD_FOLDS(md_i, int64_t, i)
#undef MD_FOLDS
#undef MD_FOLD
MD_INLINE int md_fold_max_b(md_b v) { return md_any_b(v); }
MD_INLINE int md_fold_min_b(md_b v) { return md_all_b(v); }

/* ---- Lanes that are not there become the identity. */
#define MD_ONLY(vec, one, s)                                                                                           \
    MD_INLINE vec md_only_##s(vec v, one, md_full) { return v; }                                                       \
    MD_INLINE vec md_only_##s(vec v, one identity, md_span n) { vec r; MD_LANES(md_has(n, l) ? v.v[l] : identity) }
MD_ONLY(md_f, float, f)
MD_ONLY(md_d, double, d)
MD_ONLY(md_i, int64_t, i)
MD_INLINE md_b md_only_b(md_b v, int, md_full) { return v; }
MD_INLINE md_b md_only_b(md_b v, int identity, md_span n) { md_b r; MD_LANES(md_has(n, l) ? v.v[l] : -identity) }
#undef MD_ONLY

/* ---- The first greatest (least) element. NaN beats all else. Accumulators count in 32 bits, which the families' envelopes allow for. */
MD_INLINE md_b md_splat_index(int64_t at) { return md_splat<int32_t>((int32_t)at); }
MD_INLINE md_b md_lane_index() { return md_iota_b(); }
MD_INLINE md_b operator-(md_b a, md_b b) { md_b r; MD_LANES(a.v[l] - b.v[l]) }
MD_INLINE md_i md_wide_index(md_b i) { md_i r; MD_LANES((int64_t)i.v[l]) }
template <class T> MD_INLINE bool md_is_same(T a, T b) { return a == b || (a != a && b != b); }
/* What a thread has met of a row: the vector that holds the best value so far, its greatest element, its position. One comparison of vectors' greatest
 * elements decides; where in its vector the element stands is found once, at the end. Whole vectors come in order, parts of one (a row's ends, from lane
 * 0 on) at any time. In columns (a lane each) elements come one by one. join: elements from anywhere. */
template <class T> struct md_best {
    T most, least; /* least: what no element loses against */
    int32_t at;
    md_vec<T> x;
};
template <class T> MD_INLINE void md_clear_best(md_best<T> *b, T least, int64_t first)
{
    b->most = b->least = least;
    b->at = (int32_t)first;
    b->x = md_splat<T>(least);
}
template <class T> MD_INLINE void md_fold_best(T *v, int32_t *i, const md_best<T> &b)
{
    int32_t lane = MD_VL;
    MD_UNROLL for (int l = MD_VL - 1; l >= 0; l--)
        lane = md_is_same(b.x.v[l], b.most) ? l : lane;
    *v = b.most;
    *i = b.at + lane;
}
#define MD_ARG(name, best, better, vec, one, s)                                                                        \
    template <class I> MD_INLINE void md_join_##name##_s##s(one *v, I *i, one x, I at)                                 \
    {                                                                                                                  \
        const bool take = md_beyond_##best##_s##s(x, *v) || (md_is_same(x, *v) && at < *i);                            \
        *v = take ? x : *v;                                                                                            \
        *i = take ? at : *i;                                                                                           \
    }                                                                                                                  \
    MD_INLINE void md_join_##name##_##s(vec *v, md_b *i, vec x, md_b at)                                               \
    {                                                                                                                  \
        MD_FOR (l, MD_VL)                                                                                              \
            md_join_##name##_s##s(&v->v[l], &i->v[l], x.v[l], at.v[l]);                                                \
    }                                                                                                                  \
    MD_INLINE void md_join_##name##_##s(vec *v, md_i *i, vec x, md_i at)                                               \
    {                                                                                                                  \
        MD_FOR (l, MD_VL)                                                                                              \
            md_join_##name##_s##s(&v->v[l], &i->v[l], x.v[l], at.v[l]);                                                \
    }                                                                                                                  \
    MD_INLINE void md_take_##name##_##s(vec *v, md_b *i, vec x, int64_t at, md_full)                                   \
    {                                                                                                                  \
        MD_FOR (l, MD_VL) {                                                                                            \
            const bool take = md_beyond_##best##_s##s(x.v[l], v->v[l]);                                                \
            v->v[l] = take ? x.v[l] : v->v[l];                                                                         \
            i->v[l] = take ? (int32_t)at : i->v[l];                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    MD_INLINE void md_take_##name##_##s(md_best<one> *b, vec x, int64_t at, md_full)                                   \
    {                                                                                                                  \
        const one most = md_fold_##best##_##s(x);                                                                      \
        const bool take = md_beyond_##best##_s##s(most, b->most);                                                      \
        b->most = take ? most : b->most;                                                                               \
        b->at = take ? (int32_t)at : b->at;                                                                            \
        MD_FOR (l, MD_VL)                                                                                              \
            b->x.v[l] = take ? x.v[l] : b->x.v[l];                                                                     \
    }                                                                                                                  \
    MD_INLINE void md_take_##name##_##s(md_best<one> *b, vec x, int64_t at, md_span n)                                 \
    {                                                                                                                  \
        x = md_only_##s(x, b->least, n);                                                                               \
        const one most = md_fold_##best##_##s(x);                                                                      \
        if (md_beyond_##best##_s##s(most, b->most) || (md_is_same(most, b->most) && (int32_t)at < b->at)) {            \
            b->most = most;                                                                                            \
            b->at = (int32_t)at;                                                                                       \
            b->x = x;                                                                                                  \
        }                                                                                                              \
    }
MD_ARG(argmax, max, >, md_f, float, f)
MD_ARG(argmin, min, <, md_f, float, f)
MD_ARG(argmax, max, >, md_d, double, d)
MD_ARG(argmin, min, <, md_d, double, d)
MD_ARG(argmax, max, >, md_i, int64_t, i)
MD_ARG(argmin, min, <, md_i, int64_t, i)
#undef MD_ARG

/* ---- Sums of c * exp(a - shift), shift the maximum of a. In a chunk where all of a is -inf the exponentials are to be 0, not NaN: bodies see
 * a shift of 0 there, and only a row that is so as a whole becomes NaN, as it is without chunks. */
#define MD_SHIFT(one, s, inf)                                                                                          \
    MD_INLINE one md_shift_s##s(one shift) { return shift == -inf ? (one)0 : shift; }                                  \
    MD_INLINE one md_settled_s##s(one sum, one shift) { return shift == -inf ? shift - shift : sum; }                  \
    MD_LIFT1(shift, md_##s, s) MD_LIFT2(settled, md_##s, s)
MD_SHIFT(float, f, MD_INF_F)
MD_SHIFT(double, d, MD_INF_D)
#undef MD_SHIFT
#ifdef MD_USE_EXP
/* What a sum relative to `shift` counts in one relative to `common`: exactly 1 where they are equal, infinite ones too. */
#define MD_WEIGHT(one, s, inf)                                                                                         \
    MD_INLINE one md_weight_s##s(one shift, one common) { return shift == common || shift == -inf ? (one)1 : md_exp_s##s(shift - common); } \
    MD_LIFT2(weight, md_##s, s)
MD_WEIGHT(float, f, MD_INF_F)
MD_WEIGHT(double, d, MD_INF_D)
#undef MD_WEIGHT
#endif
/* clang-format on */

#endif
