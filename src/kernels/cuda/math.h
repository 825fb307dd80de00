/* Elementary functions. A part of prelude.h; a function exists if MD_USE_<OP> asks for it; without a configuration,
 * all. f32 functions are the compiler's if those are good to 2 ulp in a few instructions; those built on the
 * processor's approximations are here, each with its error. f64 functions are the compiler's.
 *
 * Methods: Cody and Waite, Software Manual for the Elementary Functions, 1980 (argument reduction); Muller et al.,
 * Handbook of Floating-Point Arithmetic, chapter 10. */
#ifndef MD_CUDA_MATH_H
#define MD_CUDA_MATH_H

#if !defined(MD_CONFIGURED)
#define MD_USE_EXP 1
#define MD_USE_EXPM1 1
#define MD_USE_LOG 1
#define MD_USE_LOG1P 1
#define MD_USE_LOG2 1
#define MD_USE_EXP2 1
#define MD_USE_TANH 1
#define MD_USE_ERF 1
#define MD_USE_SIGMOID 1
#define MD_USE_SILU 1
#define MD_USE_GELU 1
#define MD_USE_GELU_TANH 1
#define MD_USE_SOFTPLUS 1
#define MD_USE_POW 1
#endif

/* clang-format off */
/* ---- Division that rounds down and its remainder, as Python's; by an integer zero both give 0. */
MD_OUTLINE int64_t md_floordiv_si(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return (int64_t)((uint64_t)b * (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
MD_OUTLINE int64_t md_mod_si(int64_t a, int64_t b)
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
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0.0 && (b < 0.0) != (mod < 0.0))
        div -= 1.0;
    if (div == 0.0)
        return md_copysign_sd(0.0, a / b);
    double down = md_floor_sd(div);
    return div - down > 0.5 ? down + 1.0 : down;
}
MD_OUTLINE double md_mod_sd(double a, double b)
{
    double mod = fmod(a, b);
    if (mod == 0.0)
        return md_copysign_sd(0.0, b);
    return (b < 0.0) != (mod < 0.0) && mod == mod ? mod + b : mod;
}
MD_INLINE float md_floordiv_sf(float a, float b) { return (float)md_floordiv_sd((double)a, (double)b); }
MD_INLINE float md_mod_sf(float a, float b) { return (float)md_mod_sd((double)a, (double)b); }
/* A negative exponent gives the power rounded toward zero: 0, but for bases 1 and -1. */
MD_OUTLINE int64_t md_pow_si(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    uint64_t result = 1, b = (uint64_t)base;
    for (; exponent > 0; exponent >>= 1, b *= b)
        if (exponent & 1)
            result *= b;
    return (int64_t)result;
}
MD_LIFT_FD2(floordiv) MD_LIFT2(floordiv, md_i, i)
MD_LIFT_FD2(mod) MD_LIFT2(mod, md_i, i)
MD_LIFT2(pow, md_i, i)

/* ---- The processor's approximations. */
/* 1 ulp */
MD_INLINE float md_m_rcp(float a) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
/* 2 ulp */
MD_INLINE float md_m_ex2(float a) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
/* If a stage stores only 16-bit results (MD_SHORT_RESULTS), an exponential need not be better than 2^-16 where it does
 * not overflow. */
#ifdef MD_SHORT_RESULTS
MD_INLINE float md_m_exp(float a) { return md_m_ex2(a * 1.44269504f); }
#else
MD_INLINE float md_m_exp(float a) { return expf(a); } /* 2 ulp */
#endif

#define MD_MATH1(name, call_f, call_d)                                                                                 \
    MD_INLINE float md_##name##_sf(float x) { return call_f; }                                                         \
    MD_INLINE double md_##name##_sd(double x) { return call_d; }                                                       \
    MD_LIFT_FD1(name)

#ifdef MD_USE_EXP
MD_MATH1(exp, md_m_exp(x), exp(x))
#endif
#ifdef MD_USE_EXP2
MD_MATH1(exp2, exp2f(x), exp2(x))
#endif
#ifdef MD_USE_EXPM1
MD_MATH1(expm1, expm1f(x), expm1(x))
#endif
#ifdef MD_USE_LOG
MD_MATH1(log, logf(x), log(x))
#endif
#ifdef MD_USE_LOG2
MD_MATH1(log2, log2f(x), log2(x))
#endif
#ifdef MD_USE_LOG1P
MD_MATH1(log1p, log1pf(x), log1p(x))
#endif
/* A polynomial of x by Horner's rule; coefficients from the lowest power. */
#define MD_M_POLY(x, ...)                                                                                              \
    {                                                                                                                  \
        const float c[] = {__VA_ARGS__};                                                                               \
        const int n = (int)(sizeof c / sizeof c[0]);                                                                   \
        float y = c[n - 1];                                                                                            \
        MD_UNROLL for (int i = n - 2; i >= 0; i--) y = __fmaf_rn(y, x, c[i]);                                          \
        return y;                                                                                                      \
    }

#ifdef MD_USE_TANH
MD_INLINE float md_m_expm1_poly(float r) MD_M_POLY(r, 0.5f, 0.166666672f, 0.0416663326f, 0.008333317f, 0.00139427395f,
    0.000198839873f)
/* (e^2t - 1) / (e^2t + 1) from e^2t - 1 = 2^k * (e^r - 1) + (2^k - 1), without a branch. 2.5 ulp */
MD_INLINE float md_m_tanh(float x)
{
    float t = md_abs_sf(x);
    t = t > 9.1f ? 18.2f : t + t;
    float k = rintf(t * 1.44269504f), r = __fmaf_rn(k, 2.12194440e-4f, __fmaf_rn(k, -0.693359375f, t));
    float p = md_m_expm1_poly(r);
    float scale = md_f32((uint32_t)((int)k + 127) << 23), e = __fmaf_rn(scale, __fmaf_rn(p, r * r, r), scale - 1.0f);
    return md_copysign_sf(e * md_m_rcp(e + 2.0f), x);
}
MD_MATH1(tanh, md_m_tanh(x), tanh(x))
#endif

/* ---- The error function: a polynomial around 0, and 1 - exp(-P(|x|)) beyond 0.92, where P fits -ln erfc; both are
 * computed, no branch. The coefficients are the host's (src/kernels/host/math.h). */
#if defined(MD_USE_ERF)
MD_INLINE float md_m_erf_poly(float s) MD_M_POLY(s, 0.128379151f, -0.376124829f, 0.112817161f, -0.0267629381f,
    0.00498773204f, -0.000596286671f)
MD_INLINE float md_m_erfc_poly(float t) MD_M_POLY(t, 0.000436781294f, 1.1270901f, 0.637196064f, 0.105185881f,
    -0.023836555f, 0.00395565992f,
                                                  -0.000455019879f, 3.39306716e-05f, -1.46392006e-06f, 2.76077863e-08f)
/* erf(x) for |x| <= 0.928 */
MD_INLINE float md_m_erf_small(float x) { return __fmaf_rn(md_m_erf_poly(x * x), x, x); }
/* erfc(t) for 0.92 <= t <= 10: absolute error as erf needs it, relative error 1e-4. */
MD_INLINE float md_m_erfc_large(float t) { return md_m_exp(-md_m_erfc_poly(t)); }
#endif
#ifdef MD_USE_ERF
/* 1.5 ulp */
MD_INLINE float md_m_erf(float x)
{
    float t = md_abs_sf(x), u = t > 10.0f ? 10.0f : t;
    return t < 0.92f ? md_m_erf_small(x) : md_copysign_sf(1.0f - md_m_erfc_large(u), x);
}
MD_MATH1(erf, md_m_erf(x), erf(x))
#endif

/* ---- Activations */
#ifdef MD_USE_SIGMOID
MD_MATH1(sigmoid, md_m_rcp(1.0f + md_m_exp(-x)), 1.0 / (1.0 + exp(-x))) /* 4 ulp */
#endif
#ifdef MD_USE_SILU
MD_MATH1(silu, x * md_m_rcp(1.0f + md_m_exp(-x)), x / (1.0 + exp(-x))) /* 4.5 ulp */
#endif
#ifdef MD_USE_GELU
/* max(x, 0) - |x| * erfc(|x| / sqrt(2)) / 2. erfc is a polynomial in k = 1 / (1 + p|x|) times exp(-x^2/2), the form
 * of Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26, fitted so that its error is below 1e-7
 * absolute and, in the tail, 1e-4 relative: few operations, as a kernel at the speed of memory has about 30 for a
 * 16-bit element. */
MD_INLINE float md_m_gelu(float x)
{
    float k = md_m_rcp(__fmaf_rn(fabsf(x), 0.21f, 1.0f)), y = 0.50730260f;
    y = __fmaf_rn(y, k, -0.87015580f);
    y = __fmaf_rn(y, k, 0.96737214f);
    y = __fmaf_rn(y, k, -0.38409980f);
    y = __fmaf_rn(y, k, 0.20993676f);
    y = __fmaf_rn(y, k, 0.069644188f) * k;
    float tail = y * md_m_ex2(x * x * -0.72134752f);
    float finite = md_min_sf(x, 1e18f); /* of infinity, infinity comes from the sum */
    return __fmaf_rn(-fabsf(finite), tail, fmaxf(x, 0.0f));
}
MD_MATH1(gelu, md_m_gelu(x), 0.5 * x * erfc(-0.70710678118654752 * x))
#endif
#ifdef MD_USE_GELU_TANH
/* x/2 * (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3) */
MD_MATH1(gelu_tanh, x * md_m_rcp(1.0f + md_m_exp(x * __fmaf_rn(x * x, -0.0713548163f, -1.59576912f))),
         x / (1.0 + exp(x * (-0.0713548162726002 * x * x - 1.5957691216057307))))
#endif
#ifdef MD_USE_SOFTPLUS
MD_MATH1(softplus, (x < 0.0f ? 0.0f : x) + log1pf(md_m_exp(-md_abs_sf(x))),
    (x < 0.0 ? 0.0 : x) + log1p(exp(-md_abs_sd(x))))
#endif

#ifdef MD_USE_POW
MD_OUTLINE float md_pow_sf(float x, float y) { return powf(x, y); }
MD_OUTLINE double md_pow_sd(double x, double y) { return pow(x, y); }
MD_LIFT_FD2(pow)
#endif
/* clang-format on */

#endif
