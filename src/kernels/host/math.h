/* Elementary functions over lanes, in vector extensions: no libm in the f32 functions but for huge arguments of sin and cos.
 *
 * Included by prelude.h, which defines md_f (float lanes), md_b (int32 lanes, 0 or -1), md_d (double lanes) and MD_VL. A function
 * exists where MD_USE_<OP> is defined. Correct for infinities, NaN and results below the normal range; errors are measured by
 * tests/family/test_math.c and stand beside each function in units in the last place of the f32 result.
 *
 * Polynomials are minimax fits (Remez exchange) made for this file. Methods: Cody and Waite, Software Manual for the Elementary
 * Functions, 1980 (argument reduction); Muller et al., Handbook of Floating-Point Arithmetic, chapter 10 (exp, log, error-free steps);
 * Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1 (log1p); a * b + c is fused where the processor can. */

#if defined MD_USE_GELU
#define MD_MATH_ERFC
#endif
#if defined MD_USE_ERF
#define MD_MATH_ERFC
#define MD_MATH_ERF_SMALL
#endif
#if defined MD_USE_GELU && !defined MD_MATH_ERF_SMALL
#define MD_MATH_ERF_SMALL
#endif
#if defined MD_USE_SOFTPLUS && !defined MD_USE_LOG1P
#define MD_USE_LOG1P
#endif
#if (defined MD_USE_SIGMOID || defined MD_USE_SILU || defined MD_USE_GELU_TANH || defined MD_USE_SOFTPLUS) && !defined MD_USE_EXP
#define MD_USE_EXP
#endif
#if (defined MD_USE_SIN || defined MD_USE_COS) && !defined MD_MATH_TRIG
#define MD_MATH_TRIG
#endif

#define MD_MATH static inline __attribute__((always_inline, unused))
#define MD_MATH_CALL static __attribute__((noinline, unused)) /* long ones: not worth a copy at each use */

/* ---- Tools */

#define MD_M_SIGN (-0x7fffffff - 1) /* the bit of a float's sign */

MD_MATH md_f md_m_splat(float x)
{
    return (md_f){0} + x;
}

MD_MATH md_f md_m_pick(md_b take, md_f a, md_f b)
{
    return (md_f)((take & (md_b)a) | (~take & (md_b)b));
}

MD_MATH md_f md_m_abs(md_f x)
{
    return (md_f)((md_b)x & 0x7fffffff);
}

MD_MATH md_f md_m_copysign(md_f magnitude, md_f sign)
{
    return (md_f)(((md_b)magnitude & 0x7fffffff) | ((md_b)sign & MD_M_SIGN));
}

/* a * b + c with one rounding where there is an instruction for it. */
#if defined __AVX512F__ && MD_VL == 16
MD_MATH md_f md_m_fma(md_f a, md_f b, md_f c)
{
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
}
#elif defined __FMA__ && MD_VL == 8
MD_MATH md_f md_m_fma(md_f a, md_f b, md_f c)
{
    return __builtin_ia32_vfmaddps256(a, b, c);
}
#elif defined __FMA__ && MD_VL == 4
MD_MATH md_f md_m_fma(md_f a, md_f b, md_f c)
{
    return __builtin_ia32_vfmaddps(a, b, c);
}
#elif defined __aarch64__
MD_MATH md_f md_m_fma(md_f a, md_f b, md_f c)
{
    md_f r;
    for (int l = 0; l < MD_VL; l++)
        r[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return r;
}
#else
MD_MATH md_f md_m_fma(md_f a, md_f b, md_f c)
{
    return a * b + c;
}
#endif

/* limit < x ? limit : x, and with >; NaN stays. GCC makes three operations of a pick where one instruction does it. */
#if defined __AVX512F__ && MD_VL == 16 && !defined __clang__
MD_MATH md_f md_m_at_most(float limit, md_f x)
{
    return __builtin_ia32_minps512_mask(md_m_splat(limit), x, x, (unsigned short)-1, 4);
}
MD_MATH md_f md_m_at_least(float limit, md_f x)
{
    return __builtin_ia32_maxps512_mask(md_m_splat(limit), x, x, (unsigned short)-1, 4);
}
#else
MD_MATH md_f md_m_at_most(float limit, md_f x)
{
    return md_m_pick(md_m_splat(limit) < x, md_m_splat(limit), x);
}
MD_MATH md_f md_m_at_least(float limit, md_f x)
{
    return md_m_pick(md_m_splat(limit) > x, md_m_splat(limit), x);
}
#endif

/* The nearest integer, ties to even, for |x| < 2^22: the sum with 1.5 * 2^23 has no bits for a fraction. */
#define MD_M_MAGIC 12582912.0f

/* p * 2^k for integral k in [-300, 300], rounded once even below the normal range. */
#if defined __AVX512F__ && MD_VL == 16
MD_MATH md_f md_m_scale(md_f p, md_f k)
{
    return __builtin_ia32_scalefps512_mask(p, k, p, (unsigned short)-1, 4);
}
#else
MD_MATH md_f md_m_scale(md_f p, md_f k)
{
    md_b n = (md_b)(k + MD_M_MAGIC) - 0x4b400000; /* the bits of the magic number */
    md_b half = n >> 1;
    return p * (md_f)((half + 127) << 23) * (md_f)((n - half + 127) << 23);
}
#endif

/* A polynomial of x by Horner's rule; coefficients from the lowest power. */
MD_MATH md_f md_m_poly(md_f x, const float *c, int n)
{
    md_f y = md_m_splat(c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        y = md_m_fma(y, x, md_m_splat(c[i]));
    return y;
}

#define MD_M_POLY(x, ...)                                                                                              \
    md_m_poly(x, (const float[]){__VA_ARGS__}, (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

/* x = k * ln 2 + r with |r| <= ln 2 / 2. */
MD_MATH md_f md_m_reduce_exp(md_f x, md_f *r)
{
    md_f k = md_m_fma(x, md_m_splat(1.44269504f), md_m_splat(MD_M_MAGIC)) - MD_M_MAGIC;
    *r = md_m_fma(k, md_m_splat(2.12194440e-4f), md_m_fma(k, md_m_splat(-0.693359375f), x)); /* 355/512: k times it is exact */
    return k;
}

/* e^x for -150 <= x <= 89 or NaN. */
MD_MATH md_f md_m_exp(md_f x)
{
    md_f r, k = md_m_reduce_exp(x, &r);
    md_f p = MD_M_POLY(r, 1.0f, 0.50000006f, 0.166663527f, 0.0416646972f, 0.0083799744f, 0.00140648906f);
    return md_m_scale(md_m_fma(p, r, md_m_splat(1.0f)), k);
}

/* ---- Exponentials */

#ifdef MD_USE_EXP
/* 1.2 ulp; 1.4 without fma, here and below */
MD_MATH md_f md_exp_f(md_f x)
{
    return md_m_exp(md_m_at_least(-105.0f, md_m_at_most(89.0f, x)));
}
#endif

#ifdef MD_USE_EXP2
/* 1.0 ulp */
MD_MATH md_f md_exp2_f(md_f x)
{
    x = md_m_at_least(-151.0f, md_m_at_most(129.0f, x));
    md_f k = (x + MD_M_MAGIC) - MD_M_MAGIC;
    md_f r = x - k;
    md_f p = MD_M_POLY(r, 0.693147242f, 0.240226522f, 0.0555030629f, 0.00961767416f, 0.00134081848f, 0.000155987262f);
    return md_m_scale(md_m_fma(p, r, md_m_splat(1.0f)), k);
}
#endif

#if defined MD_USE_EXPM1 || defined MD_USE_TANH
/* e^x - 1 for -30 <= x <= 89 or NaN: 2^k * (e^r - 1) + (2^k - 1), both halved so that 2^k stays finite. */
MD_MATH md_f md_m_expm1(md_f x)
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
MD_MATH md_f md_expm1_f(md_f x)
{
    return md_m_expm1(md_m_at_least(-30.0f, md_m_at_most(89.0f, x)));
}
#endif

/* ---- Logarithms */

#if defined MD_USE_LOG || defined MD_USE_LOG1P || defined MD_USE_LOG2
/* x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): ln(1 + f) = f + *tail. For normal and subnormal x > 0. */
MD_MATH md_f md_m_reduce_log(md_f x, md_f *f, md_f *tail)
{
    md_b is_small = x < 1.17549435e-38f;
    x = md_m_pick(is_small, x * 8388608.0f, x);
    md_b e = ((md_b)x - 0x3f3504f3) >> 23;
    *f = (md_f)((md_b)x - (e << 23)) - 1.0f;
    md_f p = MD_M_POLY(*f, 0.333333135f, -0.250000089f, 0.200021192f, -0.166679963f, 0.142195523f, -0.1240559f, 0.118881628f,
                       -0.116756506f, 0.0674663782f);
    md_f square = *f * *f;
    *tail = md_m_fma(p * *f, square, square * -0.5f);
    return __builtin_convertvector(e - (is_small & 23), md_f);
}

/* ln of 0, of negative numbers, of infinity and NaN; y elsewhere. */
MD_MATH md_f md_m_log_edges(md_f x, md_f y)
{
    y = md_m_pick(x < __builtin_inff(), y, x); /* infinity, NaN */
    y = md_m_pick(x == 0.0f, md_m_splat(-__builtin_inff()), y);
    return md_m_pick(x < 0.0f, md_m_splat(__builtin_nanf("")), y);
}
#endif

#if defined MD_USE_LOG || defined MD_USE_LOG1P
/* For x > 0. */
MD_MATH md_f md_m_log(md_f x)
{
    md_f f, tail, e = md_m_reduce_log(x, &f, &tail);
    tail = md_m_fma(e, md_m_splat(-2.12194440e-4f), tail);
    return md_m_fma(e, md_m_splat(0.693359375f), f + tail);
}
#endif

#ifdef MD_USE_LOG
/* 0.9 ulp */
MD_MATH md_f md_log_f(md_f x)
{
    return md_m_log_edges(x, md_m_log(x));
}
#endif

#ifdef MD_USE_LOG2
/* 0.9 ulp; 1.8 without fma */
MD_MATH md_f md_log2_f(md_f x)
{
    md_f f, tail, e = md_m_reduce_log(x, &f, &tail);
    /* (f + tail) * log2(e), f * log2(e) in two parts */
    const float high = 1.44269502f, low = 1.92596303e-8f;
    md_f y = md_m_fma(tail, md_m_splat(high), md_m_fma(f, md_m_splat(low), tail * low));
    return md_m_log_edges(x, e + md_m_fma(f, md_m_splat(high), y));
}
#endif

#ifdef MD_USE_LOG1P
/* 1.0 ulp */
MD_MATH md_f md_log1p_f(md_f x)
{
    md_f u = x + 1.0f;
    md_f lost = md_m_pick(x < 1.0f, x - (u - 1.0f), 1.0f - (u - x)); /* exactly 1 + x - u */
    md_f y = md_m_log(u) + lost / u;
    y = md_m_pick(md_m_abs(x) < 1e-20f, x, y);
    return md_m_log_edges(u, y);
}
#endif

/* ---- The error function: a polynomial around 0, and 1 - exp(-P(|x|)) beyond 0.92, where P fits -ln erfc. */

#ifdef MD_MATH_ERF_SMALL
/* erf(x) for |x| <= 0.928 */
MD_MATH md_f md_m_erf_small(md_f x)
{
    md_f p = MD_M_POLY(x * x, 0.128379151f, -0.376124829f, 0.112817161f, -0.0267629381f, 0.00498773204f, -0.000596286671f);
    return md_m_fma(p, x, x);
}
#endif

#ifdef MD_MATH_ERFC
/* erfc(t) for 0.92 <= t <= 10: absolute error as erf needs it, relative error 1e-4. */
MD_MATH md_f md_m_erfc_large(md_f t)
{
    md_f p = MD_M_POLY(t, 0.000436781294f, 1.1270901f, 0.637196064f, 0.105185881f, -0.023836555f, 0.00395565992f, -0.000455019879f,
                       3.39306716e-05f, -1.46392006e-06f, 2.76077863e-08f);
    return md_m_exp(-p);
}
#endif

#ifdef MD_USE_ERF
/* 1.5 ulp */
MD_MATH md_f md_erf_f(md_f x)
{
    md_f t = md_m_at_most(10.0f, md_m_abs(x));
    md_f large = md_m_copysign(1.0f - md_m_erfc_large(t), x);
    return md_m_pick(t < 0.92f, md_m_erf_small(x), large); /* NaN comes out of either */
}
#endif

#ifdef MD_USE_GELU
/* x * Phi(x), in the left tail from erfc itself, so that nothing cancels. */
MD_MATH md_f md_gelu_f(md_f x)
{
    md_f z = x * 0.707106781f;
    md_f t = md_m_at_most(10.0f, md_m_abs(z));
    md_f tail = 0.5f * md_m_erfc_large(t);
    tail = md_m_pick(t < 10.0f, tail, t - t); /* 0, NaN for NaN */
    md_f large = md_m_pick(z < 0.0f, tail, 1.0f - tail);
    md_f phi = md_m_pick(t < 0.92f, md_m_fma(md_m_erf_small(z), md_m_splat(0.5f), md_m_splat(0.5f)), large);
    return x * phi;
}
#endif

/* ---- Activations */

#ifdef MD_USE_TANH
/* 2 ulp */
MD_MATH md_f md_tanh_f(md_f x)
{
    md_f t = md_m_at_most(9.1f, md_m_abs(x));
    md_f e = md_m_expm1(t + t);
    return md_m_copysign(e / (e + 2.0f), x);
}
#endif

#ifdef MD_USE_SIGMOID
MD_MATH md_f md_sigmoid_f(md_f x)
{
    return 1.0f / (1.0f + md_exp_f(-x));
}
#endif

#ifdef MD_USE_SILU
MD_MATH md_f md_silu_f(md_f x)
{
    return x / (1.0f + md_exp_f(-x));
}
#endif

#ifdef MD_USE_GELU_TANH
/* x/2 * (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3) */
MD_MATH md_f md_gelu_tanh_f(md_f x)
{
    md_f u = x * md_m_fma(x * x, md_m_splat(-0.0713548163f), md_m_splat(-1.59576912f));
    return x / (1.0f + md_exp_f(u));
}
#endif

#ifdef MD_USE_SOFTPLUS
MD_MATH md_f md_softplus_f(md_f x)
{
    return md_m_at_least(0.0f, x) + md_log1p_f(md_exp_f(-md_m_abs(x)));
}
#endif

/* ---- Sine and cosine: x - n * pi/2 in f64, good to |x| = 2^20; libm beyond. */

#ifdef MD_MATH_TRIG
/* The quarter turns in x, of which the low two bits count, and the rest, |*r| <= pi/4. */
MD_MATH md_b md_m_reduce_trig(md_f x, md_f *r)
{
    md_f k = md_m_fma(x, md_m_splat(0.636619772f), md_m_splat(MD_M_MAGIC));
    md_b n = (md_b)k;
    md_d turns = __builtin_convertvector(k - MD_M_MAGIC, md_d);
    md_d rest = __builtin_convertvector(x, md_d) - turns * 1.5707963267341256; /* 33 bits of pi/2: the product is exact */
    *r = __builtin_convertvector(rest - turns * 6.0771005065061922e-11, md_f);
    return n;
}

/* cos(r) where n is odd, sin(r) elsewhere, negated where n & 2. */
MD_MATH md_f md_m_trig(md_b n, md_f r)
{
    md_f s = r * r;
    md_f sine = md_m_fma(MD_M_POLY(s, -0.166666672f, 0.00833332911f, -0.000198392736f, 2.71774616e-06f) * s, r, r);
    md_f cosine = md_m_fma(MD_M_POLY(s, 0.0416666642f, -0.0013888292f, 2.45455194e-05f), s * s, md_m_fma(s, md_m_splat(-0.5f), md_m_splat(1.0f)));
    md_f y = md_m_pick((n & 1) != 0, cosine, sine);
    return (md_f)((md_b)y ^ ((n & 2) << 30));
}

MD_MATH int md_m_has_huge(md_f x)
{
    md_b huge = ~(md_m_abs(x) < 1048576.0f);
    int any = 0;
    for (int l = 0; l < MD_VL; l++)
        any |= huge[l];
    return any;
}
#endif

#ifdef MD_USE_SIN
/* 1.5 ulp */
MD_MATH_CALL md_f md_sin_f(md_f x)
{
    md_f r;
    md_b n = md_m_reduce_trig(x, &r);
    md_f y = md_m_trig(n, r);
    if (md_m_has_huge(x))
        for (int l = 0; l < MD_VL; l++)
            y[l] = __builtin_fabsf(x[l]) < 1048576.0f ? y[l] : (float)__builtin_sin(x[l]);
    return y;
}
#endif

#ifdef MD_USE_COS
/* 1.5 ulp */
MD_MATH_CALL md_f md_cos_f(md_f x)
{
    md_f r;
    md_b n = md_m_reduce_trig(x, &r);
    md_f y = md_m_trig(n + 1, r);
    if (md_m_has_huge(x))
        for (int l = 0; l < MD_VL; l++)
            y[l] = __builtin_fabsf(x[l]) < 1048576.0f ? y[l] : (float)__builtin_cos(x[l]);
    return y;
}
#endif

/* ---- Powers: 2^(y log2 |x|) in f64, where 24 bits of the result are certain; 0.51 ulp. */

#ifdef MD_USE_POW
typedef int64_t md_m_long __attribute__((vector_size(8 * MD_VL)));

MD_MATH md_d md_m_log2_f64(md_d x) /* x normal, > 0 */
{
    md_m_long e = ((md_m_long)x - 0x3fe6a09e667f3bcdLL) >> 52;
    md_d m = (md_d)((md_m_long)x - (e << 52));
    md_d s = (m - 1.0) / (m + 1.0), z = s * s; /* ln m = 2 atanh(s) */
    md_d p = z * 0.2829655087964 + 0.31990129598453015;
    p = p * z + 0.4122093551942252;
    p = p * z + 0.5770779413949544;
    p = p * z + 0.9617966941165021;
    p = p * z + 2.885390081777848;
    return p * s + __builtin_convertvector(e, md_d);
}

MD_MATH md_d md_m_exp2_f64(md_d x) /* |x| < 1000 */
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    md_d shifted = x + magic;
    md_d r = x - (shifted - magic);
    md_d p = r * 1.3344701497158622e-06 + 1.5314463525866927e-05;
    p = p * r + 0.00015403094769041666;
    p = p * r + 0.0013333433129355731;
    p = p * r + 0.00961812956438116;
    p = p * r + 0.055504109603852526;
    p = p * r + 0.24022650694723433;
    p = p * r + 0.6931471805409207;
    p = p * r + 1.0;
    return p * (md_d)(((md_m_long)shifted + 1023) << 52); /* the low bits of the sum are the integer */
}

MD_MATH_CALL md_f md_pow_f(md_f x, md_f y)
{
    md_f a = md_m_abs(x);
    md_d wide = __builtin_convertvector(y, md_d) * md_m_log2_f64(__builtin_convertvector(a, md_d));
    md_d low = {0}, high = {0};
    low = low - 200.0, high = high + 200.0;
    md_m_long below = wide < low, above = wide > high;
    wide = (md_d)((below & (md_m_long)low) | (~below & (md_m_long)wide));
    wide = (md_d)((above & (md_m_long)high) | (~above & (md_m_long)wide));
    md_f r = __builtin_convertvector(md_m_exp2_f64(wide), md_f);
    /* IEEE 754-2019, 9.2.1, for what the formula does not give: zeros, infinities, negative bases, NaN. */
    const float inf = __builtin_inff();
    md_f zero = {0}, one = zero + 1.0f, nan = zero + __builtin_nanf("");
    md_f ya = md_m_abs(y);
    md_f whole = (ya + 8388608.0f) - 8388608.0f;
    md_b is_integer = (ya >= 8388608.0f) | (whole == ya);
    md_b magnitude = __builtin_convertvector(md_m_pick(ya < 16777216.0f, ya, zero), md_b); /* from 2^24 on all are even */
    md_b is_odd = is_integer & ((magnitude & 1) != 0);
    r = md_m_pick(a == 0.0f, md_m_pick(y < 0.0f, zero + inf, zero), r);
    r = md_m_pick(a == inf, md_m_pick(y < 0.0f, zero, zero + inf), r);
    r = md_m_pick(ya == inf, md_m_pick((a > 1.0f) == (y > 0.0f), zero + inf, zero), r);
    r = (md_f)((md_b)r ^ ((md_b)x & is_odd & MD_M_SIGN));
    r = md_m_pick((x < 0.0f) & ~is_integer & (a < inf), nan, r);
    r = md_m_pick((x != x) | (y != y), nan, r);
    r = md_m_pick((ya == inf) & (a == 1.0f), one, r);
    return md_m_pick((y == 0.0f) | (x == 1.0f), one, r);
}
#endif
