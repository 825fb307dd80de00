/* Hyperbolic functions over lanes, beside math.h: f32 from its exponential, f64 from libm. Errors stand beside each
 * function in units in the last place of the f32 result, for processors with fma. A part of prelude.h. */
#ifndef MD_HOST_MATH_HYPERBOLIC_H
#define MD_HOST_MATH_HYPERBOLIC_H

#if !defined(MD_CONFIGURED)
#define MD_USE_SINH 1
#endif

#if defined(MD_USE_SINH)
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

#endif
