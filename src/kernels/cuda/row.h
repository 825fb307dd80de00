/* Functions of row programs: folding a thread's lanes in a fixed order, the first greatest element, merging. */
#ifndef MD_CUDA_ROW_H
#define MD_CUDA_ROW_H

/* clang-format off */
/* Splits one index off a row's number, the fastest one first; leaves the rest for the others. */
MD_INLINE int64_t md_split_off(int64_t *rest, int64_t n)
{
    const uint64_t a = (uint64_t)*rest, b = (uint64_t)n;
    const uint64_t q = (a | b) >> 32 ? a / b : (uint32_t)a / (uint32_t)b;
    *rest = (int64_t)q;
    return (int64_t)(a - q * b);
}

/* Hides these values from the compiler. */
template <int bytes> MD_INLINE void md_hide(md_words<bytes> &r)
{
    MD_FOR (i, (int)md_words<bytes>::N)
        asm("" : "+r"(r.w[i]));
}

/* Loads 16 aligned bytes if they exist; otherwise the words are undefined. */
MD_INLINE void md_get_piece_maybe(uint32_t *w, const void *p, md_maybe n)
{
    asm volatile("{\n.reg .pred q;\nsetp.ne.s32 q, %5, 0;\n@q ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(__cvta_generic_to_global(p)), "r"(n.all)
                     : "memory");
}
/* The same for vectors of 1 to 8 bytes. */
MD_INLINE void md_get_short_maybe(uint32_t *w, const void *p, int bytes, md_maybe n)
{
#define MD_GET_MAYBE(type)                                                                                             \
    asm volatile("{\n.reg .pred q;\nsetp.ne.s32 q, %2, 0;\n@q ld.global." type " %0, [%1];\n}"                         \
                 : "=r"(w[0]) : "l"(__cvta_generic_to_global(p)), "r"(n.all) : "memory")
    if (bytes == 8)
        asm volatile("{\n.reg .pred q;\nsetp.ne.s32 q, %3, 0;\n@q ld.global.v2.b32 {%0, %1}, [%2];\n}"
                     : "=r"(w[0]), "=r"(w[1]) : "l"(__cvta_generic_to_global(p)), "r"(n.all) : "memory");
    else if (bytes == 4)
        MD_GET_MAYBE("b32");
    else if (bytes == 2)
        MD_GET_MAYBE("u16");
    else
        MD_GET_MAYBE("u8");
#undef MD_GET_MAYBE
}
/* A whole vector. */
template <class S> MD_INLINE md_raw<S> md_get_maybe(const void *p, md_maybe n)
{
    typedef md_raw<S> R;
    R r;
    if constexpr (R::BYTES < 16)
        md_get_short_maybe(r.w, p, R::BYTES, n);
    else
        MD_FOR_STEP (i, R::N, 4)
            md_get_piece_maybe(r.w + i, (const char *)p + 4 * i, n);
    return r;
}

/* The tensor that md_lead is about. MD_BOUNDARY 1: the template places whole vectors on its boundaries, so that
 * alignment is not tested again. */
#ifndef MD_BOUNDARY
#define MD_BOUNDARY 0
#endif
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_full n)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        return md_fetch_unit<S>(t, o, n, true);
    if (MD_BOUNDARY)
        return md_get_whole<S>((const typename S::E *)t + o);
    return md_fetch_unit<S>(t, o, n, true);
}
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_maybe n)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        return md_fetch_unit<S>(t, o, n, true);
    if (MD_BOUNDARY)
        return md_get_maybe<S>((const typename S::E *)t + o, n);
    return md_fetch_unit<S>(t, o, n, true);
}
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_span n)
    { return md_get_steps<S>(t, o, 1, n); }

/* Weights along a row whose vectors are aligned for the row but not for the weights: the aligned vectors around them,
 * shifted. MD_INSIDE 1: where MD_SHIFTS says that there are such, the template keeps whole vectors far enough from both
 * ends of the axis that nothing outside it is touched. */
#ifndef MD_INSIDE
#define MD_INSIDE 0
#endif
#define MD_SHIFTS 0
template <class S> MD_INLINE md_raw<S> md_shift_down(uint32_t *w, int past)
{
    typedef md_raw<S> R;
    R r;
    MD_FOR (i, R::N + 2)
        w[i] = past & 8 ? w[i + 2] : w[i];
    MD_FOR (i, R::N + 1)
        w[i] = past & 4 ? w[i + 1] : w[i];
    MD_FOR (i, R::N)
        r.w[i] = sizeof(typename S::E) >= 4 ? w[i] : __funnelshift_r(w[i], w[i + 1], past % 4 * 8);
    return r;
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_full n)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        return md_fetch_unit<S>(t, o, n, true);
    typedef md_raw<S> R;
    if constexpr (MD_INSIDE && !MD_ALIGNED && R::BYTES % 16 == 0) {
        const int size = (int)sizeof(typename S::E), past = (int)(((uint32_t)(uintptr_t)t + (uint32_t)o * size) % 16);
        /* so that the compiler sees what vectors' addresses have in common */
        const char *from = (const char *)t + (o * size - past);
        uint32_t w[R::N + 4];
        MD_FOR_STEP (i, R::N + 4, 4) /* a vector that begins between two pieces ends in one piece more */
            md_get_piece(w + i, i < R::N || past ? from + 4 * i : from, 16);
        return md_shift_down<S>(w, past);
    } else {
        return md_fetch_unit<S>(t, o, n, true);
    }
}
/* In a branch if it has to be shifted: under a predicate its registers would be taken from the start of the kernel on.
 */
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_maybe n)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        return md_fetch_unit<S>(t, o, n, true);
    if constexpr (MD_ALIGNED) {
        return md_get_maybe<S>((const typename S::E *)t + o, n);
    } else {
        md_raw<S> r = md_zero_raw<S>();
        if (n.all)
            r = md_fetch_shifted<S>(t, o, md_full());
        return r;
    }
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_span n)
    { return md_get_steps<S>(t, o, 1, n); }

/* ---- Long loops along an axis. After MD_RUN_ADDITIONS a thread folds its accumulators and adds them to `middle`, and
 * after MD_RUN_RUNS of these runs it adds that to `total`. So an element goes through these additions, and one for each
 * 4,096 elements of the thread (MD_RUN_MIDDLE 0: one for each run). MD_PAIRWISE 0: nothing in the stage rounds.
 * MD_RUN_END: after loop step number `steps`, counted from 1, of `items` additions each; MD_RUN_TOTAL: when what is
 * left of the last run is in `part`. */
#ifndef MD_PAIRWISE
#define MD_PAIRWISE 1
#endif
#ifndef MD_RUN_MIDDLE
#define MD_RUN_MIDDLE 1
#endif
enum { MD_RUN_ADDITIONS = 64, MD_RUN_RUNS = 64, MD_RUN_MERGES = 64 };
#define MD_RUN_START(l)                                                                                                \
    md_part##l total, middle;                                                                                          \
    if (MD_PAIRWISE) {                                                                                                 \
        md_clear_part##l(&total);                                                                                      \
        md_clear_part##l(&middle);                                                                                     \
    }
#define MD_RUN_END(l, steps, items, first)                                                                             \
    if (MD_PAIRWISE && (steps) % (MD_RUN_ADDITIONS / (items)) == 0) {                                                  \
        md_part##l run;                                                                                                \
        md_fold##l(&run, &acc);                                                                                        \
        md_combine##l(MD_RUN_MIDDLE ? &middle : &total, &run);                                                         \
        md_clear##l(&acc, first);                                                                                      \
        if (MD_RUN_MIDDLE && (steps) % (MD_RUN_ADDITIONS / (items)*MD_RUN_RUNS) == 0) {                                \
            md_combine##l(&total, &middle);                                                                            \
            md_clear_part##l(&middle);                                                                                 \
        }                                                                                                              \
    }
#define MD_RUN_TOTAL(l)                                                                                                \
    if (MD_PAIRWISE) {                                                                                                 \
        if (MD_RUN_MIDDLE)                                                                                             \
            md_combine##l(&total, &middle);                                                                            \
        md_combine##l(&part, &total);                                                                                  \
    }
/* The same of states that are merged chunk after chunk: MD_RUN_MERGES go into `run`, which then goes into `total`. */
#define MD_MERGE_RUN(steps)                                                                                            \
    if (MD_PAIRWISE && (steps) % MD_RUN_MERGES == 0) {                                                                 \
        md_merge(&total, &run);                                                                                        \
        run.count = 0;                                                                                                 \
    }

/* ---- Folds lanes by halves: lane l with l + MD_VL/2, and so on. */
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

/* ---- Lanes that do not exist become the identity. Vectors that exist as a whole or not at all (md_maybe) are computed
 * with all others, without a branch, and counted only if they exist. */
template <class T> MD_INLINE md_vec<T> md_only(md_vec<T> v, T, md_full) { return v; }
template <class T> MD_INLINE md_vec<T> md_only(md_vec<T> v, T identity, md_span n)
    { md_vec<T> r; MD_LANES(md_has(n, l) ? v.v[l] : identity) }
template <class T> MD_INLINE md_vec<T> md_only(md_vec<T> v, T identity, md_maybe n)
    { md_vec<T> r; MD_LANES(n.all ? v.v[l] : identity) }
MD_INLINE md_b md_only(md_b v, int, md_full) { return v; }
MD_INLINE md_b md_only(md_b v, int identity, md_span n) { md_b r; MD_LANES(md_has(n, l) ? v.v[l] : -identity) }
MD_INLINE md_b md_only(md_b v, int identity, md_maybe n) { md_b r; MD_LANES(n.all ? v.v[l] : -identity) }
#define MD_EITHER(name, a_or_b)                                                                                        \
    MD_INLINE float md_either_##name(float a, float b) { return md_##name##_sf(a, b); }                                \
    MD_INLINE double md_either_##name(double a, double b) { return md_##name##_sd(a, b); }                             \
    MD_INLINE int64_t md_either_##name(int64_t a, int64_t b) { return md_##name##_si(a, b); }                          \
    MD_INLINE int md_either_##name(int a, int b) { return a a_or_b b; }
MD_EITHER(max, |)
MD_EITHER(min, &)
#undef MD_EITHER
template <class T> MD_INLINE T md_plus(T a, T b) { return a + b; }
MD_INLINE int64_t md_plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
/* f32: under a predicate; otherwise the compiler makes branches, and computes in them. */
#define MD_GAIN(name, both, ptx)                                                                                       \
    template <class T, class I, class N> MD_INLINE void md_gain_##name(md_vec<T> &acc, md_vec<T> y, I identity, N n)   \
    {                                                                                                                  \
        if constexpr (!md_is_maybe<N>::V)                                                                              \
            y = md_only(y, (T)identity, n);                                                                            \
        MD_FOR (l, MD_VL)                                                                                              \
            if constexpr (!md_is_maybe<N>::V)                                                                          \
                acc.v[l] = both(acc.v[l], y.v[l]);                                                                     \
            else if constexpr (sizeof(T) == 4 && (T)0.5f != 0)                                                         \
                asm("{\n.reg .pred q;\nsetp.ne.s32 q, %2, 0;\n@q " ptx ".f32 %0, %0, %1;\n}" : "+f"(acc.v[l]) \
                    : "f"(y.v[l]), "r"(n.all)); \
            else                                                                                                       \
                acc.v[l] = n.all ? both(acc.v[l], y.v[l]) : acc.v[l];                                                  \
    }
MD_GAIN(sum, md_plus, "add.rn")
MD_GAIN(prod, md_times, "mul.rn")
MD_GAIN(max, md_either_max, "max.NaN")
MD_GAIN(min, md_either_min, "min.NaN")
#undef MD_GAIN
template <class N> MD_INLINE void md_gain_product(md_f &acc, md_f a, md_f b, N n)
{
    MD_FOR (l, MD_VL)
        if constexpr (md_is_maybe<N>::V)
            asm("{\n.reg .pred q;\nsetp.ne.s32 q, %3, 0;\n@q fma.rn.f32 %0, %1, %2, %0;\n}" : "+f"(acc.v[l])
                : "f"(a.v[l]), "f"(b.v[l]), "r"(n.all));
        else if (md_has(n, l))
            acc.v[l] = __fmaf_rn(a.v[l], b.v[l], acc.v[l]);
}
template <class N> MD_INLINE void md_gain_product(md_d &acc, md_d a, md_d b, N n)
{
    MD_FOR (l, MD_VL)
        acc.v[l] = md_has(n, l) ? __fma_rn(a.v[l], b.v[l], acc.v[l]) : acc.v[l];
}

#include "row_best.h"

/* ---- Sums of c * exp(a - shift), where shift is the maximum of a. If all of a chunk's a is -inf, its exponentials are
 * to be 0, not NaN: the bodies see a shift of 0 there. Only if all of the row is -inf the result becomes NaN, as it
 * does without chunks. */
#define MD_SHIFT(one, s, inf)                                                                                          \
    MD_INLINE one md_shift_s##s(one shift) { return shift == -inf ? (one)0 : shift; }                                  \
    MD_INLINE one md_settled_s##s(one sum, one shift) { return shift == -inf ? shift - shift : sum; }                  \
    MD_LIFT1(shift, md_##s, s) MD_LIFT2(settled, md_##s, s)
MD_SHIFT(float, f, MD_INF_F)
MD_SHIFT(double, d, MD_INF_D)
#undef MD_SHIFT
#ifdef MD_USE_EXP
/* The factor from a sum relative to `shift` to one relative to `common`: exactly 1 if they are equal, also if infinite.
 */
#define MD_WEIGHT(one, s, inf)                                                                                         \
    MD_INLINE one md_weight_s##s(one shift, one common) \
        { return shift == common || shift == -inf ? (one)1 : md_exp_s##s(shift - common); } \
    MD_LIFT2(weight, md_##s, s)
MD_WEIGHT(float, f, MD_INF_F)
MD_WEIGHT(double, d, MD_INF_D)
#undef MD_WEIGHT
#endif
/* clang-format on */

#endif
