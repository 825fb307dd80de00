/* Tangent, and inverse sine, cosine and tangent over lanes, beside math.h: polynomials in f32, libm in f64. Errors
 * stand beside each function in units in the last place of the f32 result, for processors with fma. The coefficients
 * are minimax fits made for this file. A part of prelude.h. */
#ifndef MD_HOST_MATH_INVERSE_H
#define MD_HOST_MATH_INVERSE_H

#if !defined(MD_CONFIGURED)
#define MD_USE_TAN 1
#define MD_USE_ASIN 1
#define MD_USE_ACOS 1
#define MD_USE_ATAN 1
#define MD_USE_ATAN2 1
#endif

#ifdef MD_USE_TAN
/* sin(r) / cos(r), or -cos(r) / sin(r) after an odd number of quarter turns. 3 ulp */
MD_OUTLINE md_f md_tan_f(md_f x)
{
    md_f r;
    md_b n = md_m_reduce_trig(x, &r);
    md_b zero = {0};
    md_f s = md_m_trig(zero, r), c = md_m_trig(zero + 1, r);
    md_f y = md_where_f((n & 1) != 0, -c, s) / md_where_f((n & 1) != 0, s, c);
    if (md_m_has_huge(x))
        for (int l = 0; l < MD_VL; l++)
            y[l] = __builtin_fabsf(x[l]) < 1048576.0f ? y[l] : (float)__builtin_tan(x[l]);
    return md_where_f(x == 0.0f, x, y); /* the sign of a zero */
}
MD_MATH_FORMS(tan, __builtin_tan(x))
#endif

/* pi/2 as a sum of two f32. */
#define MD_M_HALF_PI 1.57079637f
#define MD_M_HALF_PI_LOW -4.37113883e-8f

#if defined(MD_USE_ASIN) || defined(MD_USE_ACOS)
/* asin(a) for 0 <= a <= 1/2; asin(sqrt((1 - a) / 2)) above, which is (pi/2 - asin(a)) / 2. NaN for a > 1. */
MD_INLINE md_f md_m_asin(md_f a)
{
    md_b is_large = a > 0.5f;
    md_f z = md_where_f(is_large, (1.0f - a) * 0.5f, a * a), s = md_where_f(is_large, md_sqrt_f(z), a);
    md_f p = MD_M_POLY(z, 0.166667521f, 0.0749529749f, 0.0454703756f, 0.0241795145f, 0.0421663076f);
    return md_m_fma(p * z, s, s);
}
#endif

#ifdef MD_USE_ASIN
/* 1.5 ulp */
MD_INLINE md_f md_asin_f(md_f x)
{
    md_f a = md_abs_f(x), r = md_m_asin(a);
    md_f large = (MD_M_HALF_PI - 2.0f * r) + MD_M_HALF_PI_LOW;
    return md_copysign_f(md_where_f(a > 0.5f, large, r), x);
}
MD_MATH_FORMS(asin, __builtin_asin(x))
#endif

#ifdef MD_USE_ACOS
/* 1.5 ulp */
MD_INLINE md_f md_acos_f(md_f x)
{
    md_f a = md_abs_f(x), r = md_m_asin(a);
    md_f large = md_where_f(x < 0.0f, (2.0f * MD_M_HALF_PI - 2.0f * r) + 2.0f * MD_M_HALF_PI_LOW, 2.0f * r);
    return md_where_f(a > 0.5f, large, MD_M_HALF_PI - (md_copysign_f(r, x) - MD_M_HALF_PI_LOW));
}
MD_MATH_FORMS(acos, __builtin_acos(x))
#endif

#if defined(MD_USE_ATAN) || defined(MD_USE_ATAN2)
/* atan(n / d) for 0 <= n <= d, d > 0: above tan(pi/8), pi/4 + atan((n - d) / (n + d)). */
MD_INLINE md_f md_m_atan(md_f n, md_f d)
{
    md_b is_large = n > d * 0.414213568f;
    md_f r = md_where_f(is_large, n - d, n) / md_where_f(is_large, n + d, d), z = r * r;
    md_f p = MD_M_POLY(z, -0.333333164f, 0.19998461f, -0.142433107f, 0.105920792f, -0.0607361235f);
    md_f y = md_m_fma(p * z, r, r);
    return md_where_f(is_large, 0.5f * MD_M_HALF_PI + (y + 0.5f * MD_M_HALF_PI_LOW), y);
}
#endif

#ifdef MD_USE_ATAN
/* 2 ulp */
MD_INLINE md_f md_atan_f(md_f x)
{
    md_f a = md_abs_f(x), one = md_splat_f(1.0f);
    md_b is_large = a > 1.0f;
    md_f y = md_m_atan(md_where_f(is_large, one, a), md_where_f(is_large, a, one));
    return md_copysign_f(md_where_f(is_large, (MD_M_HALF_PI - y) + MD_M_HALF_PI_LOW, y), x);
}
MD_MATH_FORMS(atan, __builtin_atan(x))
#endif

#ifdef MD_USE_ATAN2
/* The angle of the point (x, y); as IEEE 754-2019, 9.2.1, for zeros and infinities. 3 ulp */
MD_OUTLINE md_f md_atan2_f(md_f y, md_f x)
{
    md_f a = md_abs_f(x), b = md_abs_f(y), one = md_splat_f(1.0f);
    md_b is_steep = b > a;
    md_f n = md_where_f(is_steep, a, b), d = md_where_f(is_steep, b, a);
    md_b is_huge = d > 1e38f; /* n + d would overflow */
    n = md_where_f(is_huge, n * 0.25f, n);
    d = md_where_f(is_huge, d * 0.25f, d);
    md_b are_infinite = n == __builtin_inff();
    n = md_where_f(are_infinite, one, n);
    d = md_where_f((d == 0.0f) | are_infinite, one, d);
    md_f t = md_m_atan(n, d);
    t = md_where_f(is_steep, (MD_M_HALF_PI - t) + MD_M_HALF_PI_LOW, t);
    t = md_where_f((md_b)x < 0, (2.0f * MD_M_HALF_PI - t) + 2.0f * MD_M_HALF_PI_LOW, t);
    return md_where_f((x != x) | (y != y), x + y, md_copysign_f(t, y));
}
MD_OUTLINE float md_atan2_sf(float y, float x) { return md_atan2_f(md_splat_f(y), md_splat_f(x))[0]; }
MD_OUTLINE double md_atan2_sd(double y, double x) { return __builtin_atan2(y, x); }
MD_LANES2(atan2, md_d, d)
#endif

#endif
