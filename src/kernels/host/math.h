/* Elementary functions over lanes, in vector extensions: no libm in the f32 functions but for huge arguments of sin
 * and cos. The f64 functions are libm's, lane by lane. A part of prelude.h. A function exists where MD_USE_<OP> asks
 * for it; without a configuration, all.
 *
 * Correct for infinities, NaN and results below the normal range; errors are checked by tests/family/test_math.c and
 * stand beside each function in units in the last place of the f32 result, for processors with fma.
 *
 * Polynomials are minimax fits (Remez exchange) made for this file. Methods: Cody and Waite, Software Manual for the
 * Elementary Functions, 1980 (argument reduction); Muller et al., Handbook of Floating-Point Arithmetic, chapter 10
 * (exp, log, error-free steps); Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1 (log1p); a * b + c is
 * fused where the processor can. */

#ifndef MD_HOST_MATH_H
#define MD_HOST_MATH_H

#if !defined(MD_CONFIGURED)
#define MD_USE_EXP 1
#define MD_USE_EXPM1 1
#define MD_USE_LOG 1
#define MD_USE_LOG1P 1
#define MD_USE_LOG2 1
#define MD_USE_EXP2 1
#define MD_USE_SIN 1
#define MD_USE_COS 1
#define MD_USE_TANH 1
#define MD_USE_ERF 1
#define MD_USE_SIGMOID 1
#define MD_USE_SILU 1
#define MD_USE_GELU 1
#define MD_USE_GELU_TANH 1
#define MD_USE_SOFTPLUS 1
#define MD_USE_POW 1
#endif

/* Functions that other functions use. */
#if (defined(MD_USE_ASINH) || defined(MD_USE_ACOSH)) && !defined(MD_USE_LOG)
#define MD_USE_LOG 1
#endif
#if (defined(MD_USE_SOFTPLUS) || defined(MD_USE_ASINH) || defined(MD_USE_ACOSH) || defined(MD_USE_ATANH)) &&           \
    !defined(MD_USE_LOG1P)
#define MD_USE_LOG1P 1
#endif
#if (defined(MD_USE_SIGMOID) || defined(MD_USE_SILU) || defined(MD_USE_GELU_TANH) || defined(MD_USE_SOFTPLUS)) &&      \
    !defined(MD_USE_EXP)
#define MD_USE_EXP 1
#endif
#if defined(MD_USE_ERF) || defined(MD_USE_GELU) || defined(MD_USE_ERFC)
#define MD_MATH_ERF 1
#endif
#if defined(MD_USE_SIN) || defined(MD_USE_COS) || defined(MD_USE_TAN)
#define MD_MATH_TRIG 1
#endif

/* ---- Tools */

/* limit < x ? limit : x, and with >; NaN stays. GCC makes three operations of a pick where one instruction does it. */
#if defined(__AVX512F__) && MD_VL == 16 && !defined(__clang__)
MD_INLINE md_f md_m_at_most(float limit, md_f x)
{
    return __builtin_ia32_minps512_mask(md_splat_f(limit), x, x, (unsigned short)-1, 4);
}
MD_INLINE md_f md_m_at_least(float limit, md_f x)
{
    return __builtin_ia32_maxps512_mask(md_splat_f(limit), x, x, (unsigned short)-1, 4);
}
#else
MD_INLINE md_f md_m_at_most(float limit, md_f x) { return md_where_f(md_splat_f(limit) < x, md_splat_f(limit), x); }
MD_INLINE md_f md_m_at_least(float limit, md_f x) { return md_where_f(md_splat_f(limit) > x, md_splat_f(limit), x); }
#endif

/* The nearest integer, ties to even, for |x| < 2^22: the sum with 1.5 * 2^23 has no bits for a fraction. */
#define MD_M_MAGIC 12582912.0f

/* p * 2^k for integral k in [-300, 300], rounded once even below the normal range. */
#if defined(__AVX512F__) && MD_VL == 16
MD_INLINE md_f md_m_scale(md_f p, md_f k) { return __builtin_ia32_scalefps512_mask(p, k, p, (unsigned short)-1, 4); }
#else
MD_INLINE md_f md_m_scale(md_f p, md_f k)
{
    md_b n = (md_b)(k + MD_M_MAGIC) - 0x4b400000; /* the bits of the magic number */
    md_b half = n >> 1;
    return p * (md_f)((half + 127) << 23) * (md_f)((n - half + 127) << 23);
}
#endif

/* A polynomial of x by Horner's rule; coefficients from the lowest power. */
MD_INLINE md_f md_m_poly(md_f x, const float *c, int n)
{
    md_f y = md_splat_f(c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        y = md_m_fma(y, x, md_splat_f(c[i]));
    return y;
}

#define MD_M_POLY(x, ...)                                                                                              \
    md_m_poly(x, (const float[]){__VA_ARGS__}, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

/* x = k * ln 2 + r with |r| <= ln 2 / 2. */
MD_INLINE md_f md_m_reduce_exp(md_f x, md_f *r)
{
    md_f k = md_m_fma(x, md_splat_f(1.44269504f), md_splat_f(MD_M_MAGIC)) - MD_M_MAGIC;
    /* 355/512: k times it is exact */
    *r = md_m_fma(k, md_splat_f(2.12194440e-4f), md_m_fma(k, md_splat_f(-0.693359375f), x));
    return k;
}

/* e^x for -150 <= x <= 89 or NaN. */
MD_INLINE md_f md_m_exp(md_f x)
{
    md_f r, k = md_m_reduce_exp(x, &r);
    md_f p = MD_M_POLY(r, 1.0f, 0.50000006f, 0.166663527f, 0.0416646972f, 0.0083799744f, 0.00140648906f);
    return md_m_scale(md_m_fma(p, r, md_splat_f(1.0f)), k);
}

/* ---- Exponentials */

#ifdef MD_USE_EXP
/* 1.2 ulp; 1.4 without fma, here and below */
MD_INLINE md_f md_exp_f(md_f x) { return md_m_exp(md_m_at_least(-105.0f, md_m_at_most(89.0f, x))); }
#endif

#ifdef MD_USE_EXP2
/* 1.0 ulp */
MD_INLINE md_f md_exp2_f(md_f x)
{
    x = md_m_at_least(-151.0f, md_m_at_most(129.0f, x));
    md_f k = (x + MD_M_MAGIC) - MD_M_MAGIC;
    md_f r = x - k;
    md_f p = MD_M_POLY(r, 0.693147242f, 0.240226522f, 0.0555030629f, 0.00961767416f, 0.00134081848f, 0.000155987262f);
    return md_m_scale(md_m_fma(p, r, md_splat_f(1.0f)), k);
}
#endif

#if defined(MD_USE_EXPM1) || defined(MD_USE_TANH)
/* e^x - 1 for -30 <= x <= 89 or NaN: 2^k * (e^r - 1) + (2^k - 1), both halved so that 2^k stays finite. */
MD_INLINE md_f md_m_expm1(md_f x)
{
    md_f r, k = md_m_reduce_exp(x, &r);
    md_f p = MD_M_POLY(r, 0.5f, 0.166666672f, 0.0416663326f, 0.008333317f, 0.00139427395f, 0.000198839873f);
    md_f q = md_m_fma(p, r * r, r);
    md_b n = (md_b)(k + MD_M_MAGIC) - 0x4b400000;
    md_f half = (md_f)((n + 126) << 23);
    md_f y = md_m_fma(half, q, half - 0.5f);
    return y + y;
}
#endif

#ifdef MD_USE_EXPM1
/* 1.5 ulp */
MD_INLINE md_f md_expm1_f(md_f x)
{
    md_f y = md_m_expm1(md_m_at_least(-30.0f, md_m_at_most(89.0f, x)));
    return md_where_f(x == 0.0f, x, y); /* the sign of a zero */
}
#endif

/* ---- Logarithms */

#if defined(MD_USE_LOG) || defined(MD_USE_LOG1P) || defined(MD_USE_LOG2)
/* x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): ln(1 + f) = f + *tail. For normal and subnormal x > 0. */
MD_INLINE md_f md_m_reduce_log(md_f x, md_f *f, md_f *tail)
{
    md_b is_small = x < 1.17549435e-38f;
    x = md_where_f(is_small, x * 8388608.0f, x);
    md_b e = ((md_b)x - 0x3f3504f3) >> 23;
    *f = (md_f)((md_b)x - (e << 23)) - 1.0f;
    md_f p = MD_M_POLY(*f, 0.333333135f, -0.250000089f, 0.200021192f, -0.166679963f, 0.142195523f, -0.1240559f,
                       0.118881628f, -0.116756506f, 0.0674663782f);
    md_f square = *f * *f;
    *tail = md_m_fma(p * *f, square, square * -0.5f);
    return __builtin_convertvector(e - (is_small & 23), md_f);
}

/* ln of 0, of negative numbers, of infinity and NaN; y elsewhere. */
MD_INLINE md_f md_m_log_edges(md_f x, md_f y)
{
    y = md_where_f(x < __builtin_inff(), y, x); /* infinity, NaN */
    y = md_where_f(x == 0.0f, md_splat_f(-__builtin_inff()), y);
    return md_where_f(x < 0.0f, md_splat_f(__builtin_nanf("")), y);
}
#endif

#if defined(MD_USE_LOG) || defined(MD_USE_LOG1P)
/* For x > 0. */
MD_INLINE md_f md_m_log(md_f x)
{
    md_f f, tail, e = md_m_reduce_log(x, &f, &tail);
    tail = md_m_fma(e, md_splat_f(-2.12194440e-4f), tail);
    return md_m_fma(e, md_splat_f(0.693359375f), f + tail);
}
#endif

#ifdef MD_USE_LOG
/* 0.9 ulp */
MD_INLINE md_f md_log_f(md_f x) { return md_m_log_edges(x, md_m_log(x)); }
#endif

#ifdef MD_USE_LOG2
/* 0.9 ulp; 1.8 without fma */
MD_INLINE md_f md_log2_f(md_f x)
{
    md_f f, tail, e = md_m_reduce_log(x, &f, &tail);
    /* (f + tail) * log2(e), f * log2(e) in two parts */
    const float high = 1.44269502f, low = 1.92596303e-8f;
    md_f y = md_m_fma(tail, md_splat_f(high), md_m_fma(f, md_splat_f(low), tail * low));
    return md_m_log_edges(x, e + md_m_fma(f, md_splat_f(high), y));
}
#endif

#ifdef MD_USE_LOG1P
/* 1.0 ulp */
MD_INLINE md_f md_log1p_f(md_f x)
{
    md_f u = x + 1.0f;
    md_f lost = md_where_f(x < 1.0f, x - (u - 1.0f), 1.0f - (u - x)); /* exactly 1 + x - u */
    md_f y = md_m_log(u) + lost / u;
    y = md_where_f(md_abs_f(x) < 1e-20f, x, y);
    return md_m_log_edges(u, y);
}
#endif

/* ---- The error function: a polynomial around 0, and 1 - exp(-P(|x|)) beyond 0.92, where P fits -ln erfc. */

#ifdef MD_MATH_ERF
/* erf(x) for |x| <= 0.928 */
MD_INLINE md_f md_m_erf_small(md_f x)
{
    md_f p =
        MD_M_POLY(x * x, 0.128379151f, -0.376124829f, 0.112817161f, -0.0267629381f, 0.00498773204f, -0.000596286671f);
    return md_m_fma(p, x, x);
}

/* erfc(t) for 0.92 <= t <= 10: absolute error as erf needs it, relative error 1e-4. */
MD_INLINE md_f md_m_erfc_large(md_f t)
{
    md_f p = MD_M_POLY(t, 0.000436781294f, 1.1270901f, 0.637196064f, 0.105185881f, -0.023836555f, 0.00395565992f,
                       -0.000455019879f, 3.39306716e-05f, -1.46392006e-06f, 2.76077863e-08f);
    return md_m_exp(-p);
}
#endif

#ifdef MD_USE_ERF
/* 1.5 ulp */
MD_INLINE md_f md_erf_f(md_f x)
{
    md_f t = md_m_at_most(10.0f, md_abs_f(x));
    md_f large = md_copysign_f(1.0f - md_m_erfc_large(t), x);
    return md_where_f(t < 0.92f, md_m_erf_small(x), large); /* NaN comes out of either */
}
#endif

#ifdef MD_USE_GELU
/* x * Phi(x), in the left tail from erfc itself, so that nothing cancels. */
MD_INLINE md_f md_gelu_f(md_f x)
{
    md_f z = x * 0.707106781f;
    md_f t = md_m_at_most(10.0f, md_abs_f(z));
    md_f tail = 0.5f * md_m_erfc_large(t);
    tail = md_where_f(t < 10.0f, tail, t - t); /* 0, NaN for NaN */
    md_f large = md_where_f(z < 0.0f, tail, 1.0f - tail);
    md_f phi = md_where_f(t < 0.92f, md_m_fma(md_m_erf_small(z), md_splat_f(0.5f), md_splat_f(0.5f)), large);
    return x * phi;
}
#endif

/* ---- Activations */

#ifdef MD_USE_TANH
/* 2 ulp */
MD_INLINE md_f md_tanh_f(md_f x)
{
    md_f t = md_m_at_most(9.1f, md_abs_f(x));
    md_f e = md_m_expm1(t + t);
    return md_copysign_f(e / (e + 2.0f), x);
}
#endif

#ifdef MD_USE_SIGMOID
MD_INLINE md_f md_sigmoid_f(md_f x) { return 1.0f / (1.0f + md_exp_f(-x)); }
#endif

#ifdef MD_USE_SILU
MD_INLINE md_f md_silu_f(md_f x) { return x / (1.0f + md_exp_f(-x)); }
#endif

#ifdef MD_USE_GELU_TANH
/* x/2 * (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3) */
MD_INLINE md_f md_gelu_tanh_f(md_f x)
{
    md_f u = x * md_m_fma(x * x, md_splat_f(-0.0713548163f), md_splat_f(-1.59576912f));
    return x / (1.0f + md_exp_f(u));
}
#endif

#ifdef MD_USE_SOFTPLUS
MD_INLINE md_f md_softplus_f(md_f x) { return md_m_at_least(0.0f, x) + md_log1p_f(md_exp_f(-md_abs_f(x))); }
#endif

#include "math_f64.h"

/* ---- One f32 value: lane 0 of the same code. f64: libm. */
#define MD_MATH_FORMS(name, call_d)                                                                                    \
    MD_OUTLINE float md_##name##_sf(float x) { return md_##name##_f(md_splat_f(x))[0]; }                               \
    MD_OUTLINE double md_##name##_sd(double x) { return call_d; }                                                      \
    MD_OUTLINE md_d md_##name##_d(md_d x)                                                                              \
    {                                                                                                                  \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            x[l] = md_##name##_sd(x[l]);                                                                               \
        return x;                                                                                                      \
    }

#ifdef MD_USE_EXP
MD_MATH_FORMS(exp, __builtin_exp(x))
#endif
#ifdef MD_USE_EXP2
MD_MATH_FORMS(exp2, __builtin_exp2(x))
#endif
#ifdef MD_USE_EXPM1
MD_MATH_FORMS(expm1, __builtin_expm1(x))
#endif
#ifdef MD_USE_LOG
MD_MATH_FORMS(log, __builtin_log(x))
#endif
#ifdef MD_USE_LOG2
MD_MATH_FORMS(log2, __builtin_log2(x))
#endif
#ifdef MD_USE_LOG1P
MD_MATH_FORMS(log1p, __builtin_log1p(x))
#endif
#ifdef MD_USE_SIN
MD_MATH_FORMS(sin, __builtin_sin(x))
#endif
#ifdef MD_USE_COS
MD_MATH_FORMS(cos, __builtin_cos(x))
#endif
#ifdef MD_USE_TANH
MD_MATH_FORMS(tanh, __builtin_tanh(x))
#endif
#ifdef MD_USE_ERF
MD_MATH_FORMS(erf, __builtin_erf(x))
#endif
#ifdef MD_USE_SIGMOID
MD_MATH_FORMS(sigmoid, 1.0 / (1.0 + __builtin_exp(-x)))
#endif
#ifdef MD_USE_SILU
MD_MATH_FORMS(silu, x / (1.0 + __builtin_exp(-x)))
#endif
#ifdef MD_USE_GELU
MD_MATH_FORMS(gelu, 0.5 * x * __builtin_erfc(-0.70710678118654752 * x))
#endif
#ifdef MD_USE_GELU_TANH
MD_MATH_FORMS(gelu_tanh, x / (1.0 + __builtin_exp(x * (-0.0713548162726002 * x * x - 1.5957691216057307))))
#endif
#ifdef MD_USE_SOFTPLUS
MD_MATH_FORMS(softplus, (x < 0.0 ? 0.0 : x) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x))))
#endif
#ifdef MD_USE_POW
MD_OUTLINE float md_pow_sf(float x, float y) { return md_pow_f(md_splat_f(x), md_splat_f(y))[0]; }
MD_OUTLINE double md_pow_sd(double x, double y) { return __builtin_pow(x, y); }
MD_OUTLINE md_d md_pow_d(md_d x, md_d y)
{
    for (int l = 0; l < MD_VL; l++)
        x[l] = __builtin_pow(x[l], y[l]);
    return x;
}
#endif

#endif
