/* The first greatest (least) element of a row. NaN beats all else. Accumulators count in 32 bits, which the families'
 * envelopes allow for. */
#ifndef MD_CUDA_ROW_BEST_H
#define MD_CUDA_ROW_BEST_H

/* clang-format off */
MD_INLINE md_b md_splat_index(int64_t at) { return md_splat<int32_t>((int32_t)at); }
MD_INLINE md_b md_lane_index() { return md_iota_b(); }
MD_INLINE md_b operator-(md_b a, md_b b) { md_b r; MD_LANES(a.v[l] - b.v[l]) }
MD_INLINE md_i md_wide_index(md_b i) { md_i r; MD_LANES((int64_t)i.v[l]) }
template <class T> MD_INLINE bool md_is_same(T a, T b) { return a == b || (a != a && b != b); }
/* The best value of a thread so far: the vector that holds it, its greatest element, its position. One comparison of
 * vectors' greatest elements decides; the element's place in its vector is found once, at the end. Whole vectors come
 * in order, partial ones (a row's ends, from lane 0 on) at any time. In columns (one lane each) elements come one by
 * one. join: elements from anywhere. */
/* MD_SEEN > 0: a thread takes that many single elements, MD_GROUP apart, and remembers all. The greatest then takes
 * one instruction for each, and its place is looked for once. A comparison for each element and its place would take a
 * predicate until the place is known: there are seven, and loads would wait for one another. */
#ifndef MD_SEEN
#define MD_SEEN 0
#endif
template <class T> struct md_best {
    T most, least; /* least: every element beats it */
    int32_t at;
    md_vec<T> x;
    T seen[MD_SEEN > 0 ? MD_SEEN : 1];
    int32_t n;
};
template <class T> MD_INLINE void md_clear_best(md_best<T> *b, T least, int64_t first)
{
    b->most = b->least = least;
    b->at = (int32_t)first;
    b->x = md_splat<T>(least);
    b->n = 0;
}
template <class T> MD_INLINE void md_see(md_best<T> *b, T x, int64_t at, md_maybe n)
{
    b->at = b->n == 0 && n.all ? (int32_t)at : b->at;
    b->seen[b->n++] = n.all ? x : b->least;
}
template <class T> MD_INLINE int32_t md_place_of_seen(const md_best<T> &b)
{
    int32_t place = 0;
    MD_UNROLL for (int l = MD_SEEN - 1; l >= 0; l--)
        place = l < b.n && b.seen[l] == b.most ? l : place;
    if (b.most != b.most)
        MD_UNROLL for (int l = MD_SEEN - 1; l >= 0; l--)
            place = l < b.n && b.seen[l] != b.seen[l] ? l : place;
    return b.at + place * MD_GROUP;
}
template <class T> MD_INLINE void md_fold_best(T *v, int32_t *i, const md_best<T> &b)
{
    int32_t lane = MD_VL;
    *v = b.most;
    if constexpr (MD_SEEN > 0) {
        *i = md_place_of_seen(b);
        return;
    }
    MD_UNROLL for (int l = MD_VL - 1; l >= 0; l--)
        lane = b.x.v[l] == b.most ? l : lane;
    if (b.most != b.most)
        MD_UNROLL for (int l = MD_VL - 1; l >= 0; l--)
            lane = b.x.v[l] != b.x.v[l] ? l : lane;
    *i = b.at + lane;
}
/* Over `width` lanes; all get the result. f32 as integers of the same order, NaN above all: the processor has an
 * instruction for the greatest of a warp. */
template <bool is_max> MD_INLINE void md_tree_first(float *v, int32_t *i, int width)
{
    const uint32_t w = md_u32(*v + 0.0f);
    const int32_t ordered = (int32_t)(w ^ ((uint32_t)((int32_t)w >> 31) & 0x7fffffffu)), nan = INT32_MAX;
    int32_t key = *v != *v ? nan : is_max ? ordered : ~ordered;
    if (width == 32) {
        const int32_t own = key;
        key = __reduce_max_sync(MD_ALL_LANES, own);
        *i = __reduce_min_sync(MD_ALL_LANES, own == key ? *i : INT32_MAX);
    } else {
        MD_UNROLL for (int o = 16; o > 0; o /= 2)
            if (o < width) {
                const int32_t k = __shfl_xor_sync(MD_ALL_LANES, key, o), at = __shfl_xor_sync(MD_ALL_LANES, *i, o);
                const bool take = k > key || (k == key && at < *i);
                key = take ? k : key;
                *i = take ? at : *i;
            }
    }
    const int32_t back = is_max ? key : ~key;
    *v = key == nan ? __int_as_float(0x7fc00000) : md_f32((uint32_t)back ^ ((uint32_t)(back >> 31) & 0x7fffffffu));
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
    MD_INLINE void md_take_##name##_##s(md_best<one> *b, vec x, int64_t at, md_maybe n)                                \
    {                                                                                                                  \
        if constexpr (MD_SEEN > 0) {                                                                                   \
            md_see(b, x.v[0], at, n);                                                                                  \
            b->most = md_either_##best(b->most, b->seen[b->n - 1]);                                                    \
            return;                                                                                                    \
        }                                                                                                              \
        const one most = md_fold_##best##_##s(x);                                                                      \
        const bool take = n.all && md_beyond_##best##_s##s(most, b->most); \
        b->most = take ? most : b->most;                                                                               \
        b->at = take ? (int32_t)at : b->at;                                                                            \
        MD_FOR (l, MD_VL)                                                                                              \
            b->x.v[l] = take ? x.v[l] : b->x.v[l];                                                                     \
    }                                                                                                                  \
    MD_INLINE void md_take_##name##_##s(md_best<one> *b, vec x, int64_t at, md_full)                                   \
    {                                                                                                                  \
        const md_maybe all = {1};                                                                                      \
        md_take_##name##_##s(b, x, at, all);                                                                           \
    }                                                                                                                  \
    MD_INLINE void md_take_##name##_##s(md_best<one> *b, vec x, int64_t at, md_span n)                                 \
    {                                                                                                                  \
        x = md_only(x, b->least, n);                                                                               \
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
/* clang-format on */

#endif
