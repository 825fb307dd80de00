/* What generated host kernels are written in: lanes, scalars, and the elementary operations on both. The list stands
 * in src/codegen/codegen.h. GCC's vector extensions only, as GCC 12 and Clang 14 both take them in C: no intrinsics
 * header, whose parsing costs more than most kernels. Scalar and lane forms give the same bits. */
#ifndef MD_HOST_PRELUDE_H
#define MD_HOST_PRELUDE_H

#ifdef MD_CONTRACT
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#endif

#include <stdint.h>

#ifndef MD_VL
#define MD_VL 16
#endif

#define MD_INLINE static inline __attribute__((always_inline, unused))
#define MD_OUTLINE static __attribute__((noinline, unused))
#define MD_EXPORT __attribute__((visibility("default")))
#define MD_VECTOR(bytes) __attribute__((vector_size(bytes)))
#define MD_LIKELY(x) __builtin_expect(!!(x), 1)
/* Loops that are written out, so that arrays of vectors live in registers, and one that is not. */
#ifdef __clang__
#define MD_UNROLL _Pragma("clang loop unroll(full)")
#define MD_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define MD_UNROLL _Pragma("GCC unroll 32")
#define MD_ROLLED _Pragma("GCC unroll 1")
#endif
#define MD_FOR(i, n) MD_UNROLL for (int i = 0; i < (n); i++)
#define MD_FOR_STEP(i, n, step) MD_UNROLL for (int i = 0; i < (n); i += (step))

typedef float md_f MD_VECTOR(MD_VL * 4);
typedef double md_d MD_VECTOR(MD_VL * 8);
typedef int64_t md_i MD_VECTOR(MD_VL * 8);
typedef int32_t md_b MD_VECTOR(MD_VL * 4);
typedef uint32_t md_u MD_VECTOR(MD_VL * 4);
typedef uint64_t md_w MD_VECTOR(MD_VL * 8);
/* Halves of the wide ones: one register. GCC compares and permutes nothing wider than a register in vector code. */
typedef double md_dh MD_VECTOR(MD_VL * 4);
typedef int64_t md_ih MD_VECTOR(MD_VL * 4);

typedef union md_d2 {
    md_d v;
    md_dh h[2];
} md_d2;
typedef union md_i2 {
    md_i v;
    md_ih h[2];
} md_i2;

/* clang-format off */
MD_INLINE md_dh md_low_d(md_d a) { return ((md_d2){a}).h[0]; }
MD_INLINE md_dh md_high_d(md_d a) { return ((md_d2){a}).h[1]; }
MD_INLINE md_d md_join_d(md_dh a, md_dh b) { md_d2 r; r.h[0] = a; r.h[1] = b; return r.v; }
MD_INLINE md_ih md_low_i(md_i a) { return ((md_i2){a}).h[0]; }
MD_INLINE md_ih md_high_i(md_i a) { return ((md_i2){a}).h[1]; }
MD_INLINE md_i md_join_i(md_ih a, md_ih b) { md_i2 r; r.h[0] = a; r.h[1] = b; return r.v; }

/* ---- The same value in all lanes; positions */
MD_INLINE md_f md_splat_f(float a) { return a - (md_f){0}; } /* minus zero: keeps the sign of a zero */
MD_INLINE md_d md_splat_d(double a) { return a - (md_d){0}; }
MD_INLINE md_i md_splat_i(int64_t a) { return a + (md_i){0}; }
MD_INLINE md_b md_splat_b(int a) { return -(int32_t)(a != 0) + (md_b){0}; }
MD_INLINE md_u md_splat_u(uint32_t a) { return a + (md_u){0}; }

#if MD_VL == 16
#define MD_IOTA {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif MD_VL == 8
#define MD_IOTA {0, 1, 2, 3, 4, 5, 6, 7}
#elif MD_VL == 4
#define MD_IOTA {0, 1, 2, 3}
#else
#define MD_IOTA {0, 1}
#endif
MD_INLINE md_i md_iota_i(int64_t first) { return first + (md_i)MD_IOTA; }
MD_INLINE md_b md_head_b(int n) { return (md_b)((md_b)MD_IOTA < n + (md_b){0}); }

/* ---- Comparisons. Wide ones give 64-bit masks first. */
#define MD_COMPARE(name, sign)                                                                                         \
    MD_INLINE md_b md_##name##_f(md_f a, md_f b) { return (md_b)(a sign b); }                                          \
    MD_INLINE md_i md_wide_##name##_d(md_d a, md_d b)                                                                  \
    {                                                                                                                  \
        return md_join_i((md_ih)(md_low_d(a) sign md_low_d(b)), (md_ih)(md_high_d(a) sign md_high_d(b)));              \
    }                                                                                                                  \
    MD_INLINE md_i md_wide_##name##_i(md_i a, md_i b)                                                                  \
    {                                                                                                                  \
        return md_join_i((md_ih)(md_low_i(a) sign md_low_i(b)), (md_ih)(md_high_i(a) sign md_high_i(b)));              \
    }                                                                                                                  \
    MD_INLINE md_b md_##name##_d(md_d a, md_d b) { return __builtin_convertvector(md_wide_##name##_d(a, b), md_b); }   \
    MD_INLINE md_b md_##name##_i(md_i a, md_i b) { return __builtin_convertvector(md_wide_##name##_i(a, b), md_b); }   \
    MD_INLINE md_b md_##name##_b(md_b a, md_b b) { return (md_b)(-a sign -b); }                                        \
    MD_INLINE int md_##name##_sf(float a, float b) { return a sign b; }                                                \
    MD_INLINE int md_##name##_sd(double a, double b) { return a sign b; }                                              \
    MD_INLINE int md_##name##_si(int64_t a, int64_t b) { return a sign b; }                                            \
    MD_INLINE int md_##name##_sb(int a, int b) { return a sign b; }
MD_COMPARE(lt, <)
MD_COMPARE(le, <=)
MD_COMPARE(gt, >)
MD_COMPARE(ge, >=)
MD_COMPARE(eq, ==)
MD_COMPARE(ne, !=)

MD_INLINE md_b md_and_b(md_b a, md_b b) { return a & b; }
MD_INLINE md_b md_or_b(md_b a, md_b b) { return a | b; }
MD_INLINE md_b md_not_b(md_b a) { return ~a; }
MD_INLINE int md_and_sb(int a, int b) { return a & b; }
MD_INLINE int md_or_sb(int a, int b) { return a | b; }
MD_INLINE int md_not_sb(int a) { return !a; }

/* One bit a lane. */
MD_INLINE unsigned md_bits_b(md_b a)
{
#if MD_VL == 16 && defined(__AVX512DQ__)
    return (uint16_t)__builtin_ia32_cvtd2mask512((int MD_VECTOR(64))a);
#elif MD_VL == 8 && defined(__AVX__)
    return (unsigned)__builtin_ia32_movmskps256((float MD_VECTOR(32))a);
#elif MD_VL == 4 && defined(__SSE__)
    return (unsigned)__builtin_ia32_movmskps((float MD_VECTOR(16))a);
#else
    unsigned r = 0;
    for (int l = 0; l < MD_VL; l++)
        r |= (unsigned)(a[l] & 1) << l;
    return r;
#endif
}
MD_INLINE int md_any_b(md_b a) { return md_bits_b(a) != 0; }
MD_INLINE int md_all_b(md_b a) { return md_bits_b(a) == (unsigned)((UINT64_C(1) << MD_VL) - 1); }

/* ---- Selection */
MD_INLINE md_b md_where_b(md_b c, md_b a, md_b b) { return (a & c) | (b & ~c); }
MD_INLINE md_f md_where_f(md_b c, md_f a, md_f b) { return (md_f)(((md_b)a & c) | ((md_b)b & ~c)); }
MD_INLINE md_i md_wide_where_i(md_i c, md_i a, md_i b) { return (a & c) | (b & ~c); }
MD_INLINE md_d md_wide_where_d(md_i c, md_d a, md_d b) { return (md_d)md_wide_where_i(c, (md_i)a, (md_i)b); }
MD_INLINE md_i md_where_i(md_b c, md_i a, md_i b) { return md_wide_where_i(__builtin_convertvector(c, md_i), a, b); }
MD_INLINE md_d md_where_d(md_b c, md_d a, md_d b) { return (md_d)md_where_i(c, (md_i)a, (md_i)b); }
MD_INLINE float md_where_sf(int c, float a, float b) { return c ? a : b; }
MD_INLINE double md_where_sd(int c, double a, double b) { return c ? a : b; }
MD_INLINE int64_t md_where_si(int c, int64_t a, int64_t b) { return c ? a : b; }
MD_INLINE int md_where_sb(int c, int a, int b) { return c ? a : b; }

/* NaN in a wins by the second test, NaN in b because no comparison with it holds. */
#define MD_EXTREME(name, sign)                                                                                         \
    MD_INLINE md_f md_##name##_f(md_f a, md_f b) { return md_where_f((md_b)(a sign b) | (md_b)(a != a), a, b); }       \
    MD_INLINE md_d md_##name##_d(md_d a, md_d b)                                                                       \
    {                                                                                                                  \
        md_i2 c;                                                                                                       \
        c.h[0] = (md_ih)(md_low_d(a) sign md_low_d(b)) | (md_ih)(md_low_d(a) != md_low_d(a));                          \
        c.h[1] = (md_ih)(md_high_d(a) sign md_high_d(b)) | (md_ih)(md_high_d(a) != md_high_d(a));                      \
        return md_wide_where_d(c.v, a, b);                                                                             \
    }                                                                                                                  \
    MD_INLINE float md_##name##_sf(float a, float b) { return a sign b || a != a ? a : b; }                            \
    MD_INLINE double md_##name##_sd(double a, double b) { return a sign b || a != a ? a : b; }                         \
    MD_INLINE int64_t md_##name##_si(int64_t a, int64_t b) { return a sign b ? a : b; }
MD_EXTREME(max, >)
MD_EXTREME(min, <)
MD_INLINE md_i md_max_i(md_i a, md_i b) { return md_wide_where_i(md_wide_gt_i(a, b), a, b); }
MD_INLINE md_i md_min_i(md_i a, md_i b) { return md_wide_where_i(md_wide_lt_i(a, b), a, b); }
MD_INLINE md_b md_max_b(md_b a, md_b b) { return a | b; }
MD_INLINE md_b md_min_b(md_b a, md_b b) { return a & b; }
MD_INLINE int md_max_sb(int a, int b) { return a | b; }
MD_INLINE int md_min_sb(int a, int b) { return a & b; }

/* Whether a candidate takes the place of the best so far: a NaN where that is none, or a better value. */
#define MD_BEYOND(name, compare)                                                                                       \
    MD_INLINE md_b md_beyond_##name##_f(md_f a, md_f b) \
        { return md_##compare##_f(a, b) | (md_ne_f(a, a) & md_eq_f(b, b)); } \
    MD_INLINE md_b md_beyond_##name##_d(md_d a, md_d b) \
        { return md_##compare##_d(a, b) | (md_ne_d(a, a) & md_eq_d(b, b)); } \
    MD_INLINE md_b md_beyond_##name##_i(md_i a, md_i b) { return md_##compare##_i(a, b); }                             \
    MD_INLINE md_b md_beyond_##name##_b(md_b a, md_b b) { return md_##compare##_b(a, b); }                             \
    MD_INLINE int md_beyond_##name##_sf(float a, float b) { return md_##compare##_sf(a, b) | (a != a && b == b); }     \
    MD_INLINE int md_beyond_##name##_sd(double a, double b) { return md_##compare##_sd(a, b) | (a != a && b == b); }   \
    MD_INLINE int md_beyond_##name##_si(int64_t a, int64_t b) { return md_##compare##_si(a, b); }                      \
    MD_INLINE int md_beyond_##name##_sb(int a, int b) { return md_##compare##_sb(a, b); }
MD_BEYOND(max, gt)
MD_BEYOND(min, lt)

/* Whether an index lies in 0 .. n-1. */
MD_INLINE int md_inside_si(int64_t a, int64_t n) { return (uint64_t)a < (uint64_t)n; }
MD_INLINE md_b md_inside_i(md_i a, int64_t n) { return md_ge_i(a, (md_i){0}) & md_lt_i(a, md_splat_i(n)); }

/* Where part `block` of `blocks` equal ones begins, without overflow. */
MD_INLINE int64_t md_share(int64_t points, int64_t block, int64_t blocks)
    { return points / blocks * block + points % blocks * block / blocks; }

/* ---- Conversions between value types. Reals to integers truncate, saturate, and NaN gives 0. */
MD_INLINE md_d md_cast_f_d(md_f a) { return __builtin_convertvector(a, md_d); }
MD_INLINE md_f md_cast_d_f(md_d a) { return __builtin_convertvector(a, md_f); }
MD_INLINE md_f md_cast_i_f(md_i a) { return __builtin_convertvector(a, md_f); }
MD_INLINE md_d md_cast_i_d(md_i a) { return __builtin_convertvector(a, md_d); }
MD_INLINE md_f md_cast_b_f(md_b a) { return (md_f)(a & (md_b)md_splat_f(1.0f)); }
MD_INLINE md_d md_cast_b_d(md_b a) { return __builtin_convertvector(-a, md_d); }
MD_INLINE md_i md_cast_b_i(md_b a) { return -__builtin_convertvector(a, md_i); }
MD_INLINE md_b md_cast_f_b(md_f a) { return (md_b)(a != (md_f){0}); }
MD_INLINE md_b md_cast_d_b(md_d a) { return md_ne_d(a, (md_d){0}); }
MD_INLINE md_b md_cast_i_b(md_i a) { return md_ne_i(a, (md_i){0}); }
MD_INLINE md_i md_cast_d_i(md_d a)
{
    md_i r = __builtin_convertvector(a, md_i);
    r = md_wide_where_i(md_wide_ge_d(a, md_splat_d(0x1p63)), md_splat_i(INT64_MAX), r);
    r = md_wide_where_i(md_wide_le_d(a, md_splat_d(-0x1p63)), md_splat_i(INT64_MIN), r);
    return r & md_wide_eq_d(a, a);
}
MD_INLINE md_i md_cast_f_i(md_f a) { return md_cast_d_i(md_cast_f_d(a)); }

MD_INLINE double md_cast_sf_sd(float a) { return (double)a; }
MD_INLINE float md_cast_sd_sf(double a) { return (float)a; }
MD_INLINE float md_cast_si_sf(int64_t a) { return (float)a; }
MD_INLINE double md_cast_si_sd(int64_t a) { return (double)a; }
MD_INLINE float md_cast_sb_sf(int a) { return (float)a; }
MD_INLINE double md_cast_sb_sd(int a) { return (double)a; }
MD_INLINE int64_t md_cast_sb_si(int a) { return a; }
MD_INLINE int md_cast_sf_sb(float a) { return a != 0.0f; }
MD_INLINE int md_cast_sd_sb(double a) { return a != 0.0; }
MD_INLINE int md_cast_si_sb(int64_t a) { return a != 0; }
MD_INLINE int64_t md_saturate(double a, double low, double high, int64_t lowest, int64_t highest)
{
    return a != a ? 0 : a <= low ? lowest : a >= high ? highest : (int64_t)a;
}
MD_INLINE int64_t md_cast_sd_si(double a) { return md_saturate(a, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX); }
MD_INLINE int64_t md_cast_sf_si(float a) { return md_cast_sd_si((double)a); }

/* ---- Rounding to odd: toward zero, the last bit set where inexact, so that a second rounding to a narrower type
 * gives what a single one would (Boldo and Melquiond, 2008). */
MD_INLINE float md_odd_sd_sf(double a)
{
    float f = (float)a;
    uint32_t u;
    __builtin_memcpy(&u, &f, 4);
    if ((double)f == a || a != a)
        return f;
    u = (u - (__builtin_fabs((double)f) > __builtin_fabs(a))) | 1;
    __builtin_memcpy(&f, &u, 4);
    return f;
}
MD_INLINE double md_odd_integer(int64_t a)
{
    if (a > -(INT64_C(1) << 53) && a < INT64_C(1) << 53)
        return (double)a;
    return (double)((a & ~INT64_C(0x7ff)) | (a & 0x7ff ? 0x800 : 0));
}
MD_INLINE float md_odd_si_sf(int64_t a) { return md_odd_sd_sf(md_odd_integer(a)); }
MD_INLINE md_f md_odd_d_f(md_d a)
{
    md_f f = md_cast_d_f(a);
    md_d back = md_cast_f_d(f), distance = (md_d)((md_i)a & INT64_MAX), reached = (md_d)((md_i)back & INT64_MAX);
    md_b u = (md_b)f + md_gt_d(reached, distance); /* -1 where it went too far */
    return (md_f)md_where_b(md_eq_d(back, a) | md_ne_d(a, a), (md_b)f, u | 1);
}
MD_OUTLINE md_f md_odd_i_f(md_i a)
{
    md_f r;
    for (int l = 0; l < MD_VL; l++)
        r[l] = md_odd_si_sf(a[l]);
    return r;
}

/* Values after a store to and a load from i32 and u8. */
MD_INLINE int64_t md_round_i32_sd(double a) { return md_saturate(a, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX); }
MD_INLINE int64_t md_round_i32_sf(float a) { return md_round_i32_sd((double)a); }
MD_INLINE int64_t md_round_i32_si(int64_t a) { return (int32_t)a; }
MD_INLINE int64_t md_round_u8_sd(double a) { return md_saturate(a, 0.0, 255.0, 0, 255); }
MD_INLINE int64_t md_round_u8_sf(float a) { return md_round_u8_sd((double)a); }
MD_INLINE int64_t md_round_u8_si(int64_t a) { return (uint8_t)a; }
MD_INLINE md_i md_round_i32_d(md_d a)
{
    a = md_wide_where_d(md_wide_gt_d(a, md_splat_d(0x1p31 - 1)), md_splat_d(0x1p31 - 1), a);
    a = md_wide_where_d(md_wide_lt_d(a, md_splat_d(-0x1p31)), md_splat_d(-0x1p31), a);
    a = (md_d)((md_i)a & md_wide_eq_d(a, a));
    return __builtin_convertvector(__builtin_convertvector(a, md_b), md_i);
}
MD_INLINE md_i md_round_i32_f(md_f a) { return md_round_i32_d(md_cast_f_d(a)); }
MD_INLINE md_i md_round_i32_i(md_i a) { return a << 32 >> 32; }
MD_INLINE md_i md_round_u8_f(md_f a)
{
    a = md_where_f(md_gt_f(a, md_splat_f(255.0f)), md_splat_f(255.0f), a);
    a = md_where_f(md_gt_f(a, (md_f){0}), a, (md_f){0});
    return __builtin_convertvector(__builtin_convertvector(a, md_b), md_i);
}
MD_INLINE md_i md_round_u8_d(md_d a)
{
    a = md_wide_where_d(md_wide_gt_d(a, md_splat_d(255.0)), md_splat_d(255.0), a);
    a = md_wide_where_d(md_wide_gt_d(a, (md_d){0}), a, (md_d){0});
    return __builtin_convertvector(__builtin_convertvector(a, md_b), md_i);
}
MD_INLINE md_i md_round_u8_i(md_i a) { return a & 255; }

/* ---- Signs and magnitudes */
MD_INLINE md_f md_abs_f(md_f a) { return (md_f)((md_b)a & INT32_MAX); }
MD_INLINE md_d md_abs_d(md_d a) { return (md_d)((md_i)a & INT64_MAX); }
MD_INLINE md_i md_abs_i(md_i a) { return (a ^ (a >> 63)) - (a >> 63); }
MD_INLINE float md_abs_sf(float a) { return __builtin_fabsf(a); }
MD_INLINE double md_abs_sd(double a) { return __builtin_fabs(a); }
MD_INLINE int64_t md_abs_si(int64_t a) { return a < 0 ? -a : a; }
MD_INLINE md_f md_copysign_f(md_f a, md_f b) { return (md_f)(((md_b)a & INT32_MAX) | ((md_b)b & INT32_MIN)); }
MD_INLINE md_d md_copysign_d(md_d a, md_d b) { return (md_d)(((md_i)a & INT64_MAX) | ((md_i)b & INT64_MIN)); }
MD_INLINE md_f md_sign_f(md_f a)
    { return md_where_f((md_b)(a != a), a, md_cast_b_f(md_gt_f(a, (md_f){0})) - md_cast_b_f(md_lt_f(a, (md_f){0}))); }
MD_INLINE md_d md_sign_d(md_d a)
    { return md_where_d(md_ne_d(a, a), a, md_cast_b_d(md_gt_d(a, (md_d){0})) - md_cast_b_d(md_lt_d(a, (md_d){0}))); }
MD_INLINE md_i md_sign_i(md_i a) { return md_wide_lt_i(a, (md_i){0}) - md_wide_gt_i(a, (md_i){0}); }
MD_INLINE float md_sign_sf(float a) { return a != a ? a : (float)((a > 0) - (a < 0)); }
MD_INLINE double md_sign_sd(double a) { return a != a ? a : (double)((a > 0) - (a < 0)); }
MD_INLINE int64_t md_sign_si(int64_t a) { return (a > 0) - (a < 0); }
MD_INLINE md_b md_isnan_f(md_f a) { return (md_b)(a != a); }
MD_INLINE md_b md_isnan_d(md_d a) { return md_ne_d(a, a); }
MD_INLINE int md_isnan_sf(float a) { return a != a; }
MD_INLINE int md_isnan_sd(double a) { return a != a; }
MD_INLINE md_b md_isinf_f(md_f a) { return (md_b)(md_abs_f(a) == md_splat_f(__builtin_inff())); }
MD_INLINE md_b md_isinf_d(md_d a) { return md_eq_d(md_abs_d(a), md_splat_d(__builtin_inf())); }
MD_INLINE int md_isinf_sf(float a) { return __builtin_fabsf(a) == __builtin_inff(); }
MD_INLINE int md_isinf_sd(double a) { return __builtin_fabs(a) == __builtin_inf(); }

#define MD_RELU_CLAMP(vec, s, zero)                                                                                    \
    MD_INLINE vec md_relu_##s(vec a) { return md_max_##s(a, zero); }                                                   \
    MD_INLINE vec md_clamp_##s(vec a, vec low, vec high) { return md_min_##s(md_max_##s(a, low), high); }
MD_RELU_CLAMP(md_f, f, (md_f){0})
MD_RELU_CLAMP(md_d, d, (md_d){0})
MD_RELU_CLAMP(md_i, i, (md_i){0})
MD_RELU_CLAMP(float, sf, 0.0f)
MD_RELU_CLAMP(double, sd, 0.0)
MD_RELU_CLAMP(int64_t, si, 0)

/* ---- Rounding to whole numbers: adding 2^23 (2^52) to a magnitude leaves no bits for a fraction. Signs of zeros
 * are kept. */
#define MD_WHOLE(vec, s, big, one)                                                                                     \
    MD_INLINE vec md_round_##s(vec a)                                                                                  \
    {                                                                                                                  \
        vec m = md_abs_##s(a);                                                                                         \
        return md_where_##s(md_lt_##s(m, md_splat_##s(big)), md_copysign_##s((m + big) - big, a), a);                  \
    }                                                                                                                  \
    MD_INLINE vec md_floor_##s(vec a)                                                                                  \
    {                                                                                                                  \
        vec r = md_round_##s(a);                                                                                       \
        return md_copysign_##s(md_where_##s(md_gt_##s(r, a), r - one, r), a);                                          \
    }                                                                                                                  \
    MD_INLINE vec md_ceil_##s(vec a) { return -md_floor_##s(-a); }                                                     \
    MD_INLINE vec md_trunc_##s(vec a) { return md_copysign_##s(md_floor_##s(md_abs_##s(a)), a); }
MD_WHOLE(md_f, f, 0x1p23f, 1.0f)
MD_WHOLE(md_d, d, 0x1p52, 1.0)
MD_INLINE float md_round_sf(float a) { return __builtin_rintf(a); }
MD_INLINE double md_round_sd(double a) { return __builtin_rint(a); }
#define MD_WHOLE_SCALAR(name)                                                                                          \
    MD_INLINE float md_##name##_sf(float a) { return __builtin_##name##f(a); }                                         \
    MD_INLINE double md_##name##_sd(double a) { return __builtin_##name(a); }
MD_WHOLE_SCALAR(floor)
MD_WHOLE_SCALAR(ceil)
MD_WHOLE_SCALAR(trunc)

/* ---- Roots, fma: one lane after the other in the source, vector code after GCC's loop vectoriser. */
#define MD_LANES1(name, call_f, call_d)                                                                                \
    MD_INLINE float md_##name##_sf(float a) { return call_f; }                                                         \
    MD_INLINE double md_##name##_sd(double a) { return call_d; }                                                       \
    MD_INLINE md_f md_##name##_f(md_f v)                                                                               \
    {                                                                                                                  \
        md_f r = v;                                                                                                    \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_##name##_sf(v[l]);                                                                               \
        return r;                                                                                                      \
    }                                                                                                                  \
    MD_INLINE md_d md_##name##_d(md_d v)                                                                               \
    {                                                                                                                  \
        md_d r = v;                                                                                                    \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_##name##_sd(v[l]);                                                                               \
        return r;                                                                                                      \
    }
MD_LANES1(sqrt, __builtin_sqrtf(a), __builtin_sqrt(a))
MD_INLINE float md_rsqrt_sf(float a) { return 1.0f / md_sqrt_sf(a); }
MD_INLINE double md_rsqrt_sd(double a) { return 1.0 / md_sqrt_sd(a); }
MD_INLINE md_f md_rsqrt_f(md_f a) { return 1.0f / md_sqrt_f(a); }
MD_INLINE md_d md_rsqrt_d(md_d a) { return 1.0 / md_sqrt_d(a); }

MD_INLINE float md_fma_sf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MD_INLINE double md_fma_sd(double a, double b, double c) { return __builtin_fma(a, b, c); }
MD_INLINE int64_t md_fma_si(int64_t a, int64_t b, int64_t c) { return a * b + c; }
MD_INLINE md_i md_fma_i(md_i a, md_i b, md_i c) { return a * b + c; }
#define MD_FMA_LANES(vec, s)                                                                                           \
    MD_INLINE vec md_fma_##s(vec a, vec b, vec c)                                                                      \
    {                                                                                                                  \
        vec r = c;                                                                                                     \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_fma_s##s(a[l], b[l], c[l]);                                                                      \
        return r;                                                                                                      \
    }
MD_FMA_LANES(md_f, f)
MD_FMA_LANES(md_d, d)

/* ---- Division that rounds down and its remainder, as Python's; by an integer zero both give 0. */
MD_INLINE int64_t md_floordiv_si(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b * a; /* 0, -a: INT64_MIN / -1 traps */
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
MD_INLINE int64_t md_mod_si(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
MD_OUTLINE double md_floordiv_sd(double a, double b)
{
    if (b == 0.0)
        return a / b;
    double mod = __builtin_fmod(a, b), div = (a - mod) / b;
    if (mod != 0.0 && (b < 0.0) != (mod < 0.0))
        div -= 1.0;
    if (div == 0.0)
        return __builtin_copysign(0.0, a / b);
    double down = __builtin_floor(div);
    return div - down > 0.5 ? down + 1.0 : down;
}
MD_OUTLINE double md_mod_sd(double a, double b)
{
    double mod = __builtin_fmod(a, b);
    if (mod == 0.0)
        return __builtin_copysign(0.0, b);
    return (b < 0.0) != (mod < 0.0) && mod == mod ? mod + b : mod;
}
MD_INLINE float md_floordiv_sf(float a, float b) { return (float)md_floordiv_sd((double)a, (double)b); }
MD_INLINE float md_mod_sf(float a, float b) { return (float)md_mod_sd((double)a, (double)b); }

/* A negative exponent gives the power rounded toward zero: 0, but for bases 1 and -1. */
MD_OUTLINE int64_t md_pow_si(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}
#define MD_LANES2(name, vec, s)                                                                                        \
    MD_OUTLINE vec md_##name##_##s(vec a, vec b)                                                                       \
    {                                                                                                                  \
        vec r = a;                                                                                                     \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_##name##_s##s(a[l], b[l]);                                                                       \
        return r;                                                                                                      \
    }
MD_LANES2(floordiv, md_f, f)
MD_LANES2(floordiv, md_d, d)
MD_LANES2(floordiv, md_i, i)
MD_LANES2(mod, md_f, f)
MD_LANES2(mod, md_d, d)
MD_LANES2(mod, md_i, i)
MD_LANES2(pow, md_i, i)
/* clang-format on */

/* ---- An index out of range: the first one is kept. The layout is md_kn_report's. */
typedef struct md_report_slot {
    uint32_t is_set;
    int32_t tensor, axis;
    int64_t value;
} md_report_slot;
__attribute__((cold)) MD_OUTLINE void md_report(void *report, int tensor, int axis, int64_t value)
{
    md_report_slot *slot = report;
    uint32_t expected = 0;
    if (!__atomic_compare_exchange_n(&slot->is_set, &expected, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    slot->tensor = tensor;
    slot->axis = axis;
    slot->value = value;
}
__attribute__((cold)) MD_OUTLINE void md_report_lanes(void *report, int tensor, int axis, md_i value, md_b bad)
{
    for (int l = 0; l < MD_VL; l++)
        if (bad[l]) {
            md_report(report, tensor, axis, value[l]);
            return;
        }
}

#include "memory.h"
#include "math.h"
#include "math_hyperbolic.h"
#include "math_inverse.h"
#include "math_special.h"

#endif
