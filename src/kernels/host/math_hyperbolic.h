/* Hyperbolic functions and their inverses over lanes, beside math.h: f32 from its exponential and logarithm, f64 from
 * libm. Errors stand beside each function in units in the last place of the f32 result, for processors with fma. A part
 * of prelude.h. */
#ifndef MD_HOST_MATH_HYPERBOLIC_H
#define MD_HOST_MATH_HYPERBOLIC_H

#if !defined(MD_CONFIGURED)
#define MD_USE_SINH 1
#define MD_USE_COSH 1
#define MD_USE_ASINH 1
#define MD_USE_ACOSH 1
#define MD_USE_ATANH 1
#endif

#if defined(MD_USE_SINH) || defined(MD_USE_COSH)
/* (e^x - 1) / 4 for 0 <= x <= 89.5 or NaN: a quarter, so that it is finite wherever sinh(x) is. */
MD_INLINE md_f md_m_quarter_expm1(md_f x)
{
    md_f r, k = md_m_reduce_exp(x, &r);
    md_f p = MD_M_POLY(r, 0.5f, 0.166666672f, 0.0416663326f, 0.008333317f, 0.00139427395f, 0.000198839873f);
    md_b n = (md_b)(k + MD_M_MAGIC) - 0x4b400000;
    md_f quarter = (md_f)((n + 125) << 23);
    return md_m_fma(quarter, md_m_fma(p, r * r, r), quarter - 0.25f);
}
#endif

#ifdef MD_USE_SINH
/* (t + t / (t + 1)) / 2 with t = e^|x| - 1. 2 ulp */
MD_INLINE md_f md_sinh_f(md_f x)
{
    md_f a = md_abs_f(x), h = md_m_quarter_expm1(md_m_at_most(89.5f, a));
    md_f y = 2.0f * (h + h / (4.0f * h + 1.0f));
    return md_where_f(a < 0.000244140625f, x, md_copysign_f(y, x));
}
MD_MATH_FORMS(sinh, __builtin_sinh(x))
#endif

#ifdef MD_USE_COSH
/* (e^|x| + e^-|x|) / 2. 1.5 ulp */
MD_INLINE md_f md_cosh_f(md_f x)
{
    md_f e = md_m_quarter_expm1(md_m_at_most(89.5f, md_abs_f(x))) + 0.25f;
    return 2.0f * e + 0.125f / e;
}
MD_MATH_FORMS(cosh, __builtin_cosh(x))
#endif

#ifdef MD_USE_ASINH
/* ln(a + sqrt(a^2 + 1)) with a = |x|, and ln(2a) where that is the same. 2.5 ulp */
MD_INLINE md_f md_asinh_f(md_f x)
{
    md_f a = md_abs_f(x), square = a * a;
    md_f near = md_log1p_f(a + square / (1.0f + md_sqrt_f(square + 1.0f))), far = md_log_f(a) + 0.693147181f;
    md_f y = md_copysign_f(md_where_f(a > 8192.0f, far, near), x);
    return md_where_f(a < 0.000244140625f, x, y);
}
MD_MATH_FORMS(asinh, __builtin_asinh(x))
#endif

#ifdef MD_USE_ACOSH
/* ln(x + sqrt(x^2 - 1)) from t = x - 1, which is exact near 1; ln(2x) where that is the same. 2.5 ulp */
MD_INLINE md_f md_acosh_f(md_f x)
{
    md_f t = x - 1.0f, near = md_log1p_f(t + md_sqrt_f(t * (t + 2.0f))), far = md_log_f(x) + 0.693147181f;
    md_f y = md_where_f(x > 8192.0f, far, near);
    return md_where_f(x < 1.0f, md_splat_f(__builtin_nanf("")), y);
}
MD_MATH_FORMS(acosh, __builtin_acosh(x))
#endif

#ifdef MD_USE_ATANH
/* ln((1 + a) / (1 - a)) / 2 with a = |x|. 2 ulp */
MD_INLINE md_f md_atanh_f(md_f x)
{
    md_f a = md_abs_f(x), y = 0.5f * md_log1p_f(2.0f * a / (1.0f - a));
    return md_where_f(a < 0.000244140625f, x, md_copysign_f(y, x));
}
MD_MATH_FORMS(atanh, __builtin_atanh(x))
#endif

#endif
