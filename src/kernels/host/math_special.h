/* Complementary error function, cube root and the remainder with the dividend's sign, beside math.h: f32 in lanes, f64
 * from libm. Errors stand beside each function in units in the last place of the f32 result, for processors with fma.
 * A part of prelude.h. */
#ifndef MD_HOST_MATH_SPECIAL_H
#define MD_HOST_MATH_SPECIAL_H

#if !defined(MD_CONFIGURED)
#define MD_USE_ERFC 1
#define MD_USE_CBRT 1
#define MD_USE_FMOD 1
#endif

#ifdef MD_USE_ERFC
/* 1 - erf(x) near 0. Elsewhere, with t = |x|: e^(-t^2) P(q) / (1 + 2t), q = (t - 3) / (t + 3), the form of Shepherd
 * and Laframboise, Mathematics of Computation 36, 1981. t^2 is split so that its first part is exact. 4 ulp */
MD_OUTLINE md_f md_erfc_f(md_f x)
{
    md_f t = md_m_at_most(10.2f, md_abs_f(x)), high = (md_f)((md_b)t & ~0xfff), d = (high - t) * (high + t);
    md_f p = MD_M_POLY((t - 3.0f) / (t + 3.0f), 1.25300801f, -0.135621145f, -0.0475624092f, 0.129646435f, -0.119270794f,
                       0.068295747f, -0.0237985384f, 0.00256655947f, 0.00200335286f, -0.000775115856f, -0.00026717849f);
    md_f low = MD_M_POLY(d, 1.0f, 0.5f, 0.166666672f, 0.0416666679f, 0.00833333377f);
    md_f y = p / (1.0f + 2.0f * t);
    y = md_m_fma(y * d, low, y) * md_m_exp(-high * high);
    y = md_where_f(x < 0.0f, 2.0f - y, y);
    return md_where_f(t < 0.5f, 1.0f - md_m_erf_small(x), y);
}
MD_MATH_FORMS(erfc, __builtin_erfc(x))
#endif

#ifdef MD_USE_CBRT
/* A third of the exponent, then Halley's iteration twice. 1.5 ulp */
MD_INLINE md_f md_cbrt_f(md_f x)
{
    md_f a = md_abs_f(x), one = md_splat_f(1.0f);
    md_b is_small = a<1e-37f, is_large = a> 1e37f;
    md_f s = a * md_where_f(is_small, one * 16777216.0f, md_where_f(is_large, one * 5.96046448e-8f, one));
    md_f third = __builtin_convertvector((md_b)s, md_f) * 0.333333343f;
    md_f y = (md_f)(__builtin_convertvector(third, md_b) + 709958130);
    for (int i = 0; i < 2; i++) {
        md_f cube = y * y * y;
        y = y - y * ((cube - s) / (2.0f * cube + s));
    }
    y = y * md_where_f(is_small, one * 0.00390625f, md_where_f(is_large, one * 256.0f, one));
    return md_where_f((a > 0.0f) & (a < __builtin_inff()), md_copysign_f(y, x), x);
}
MD_MATH_FORMS(cbrt, __builtin_cbrt(x))
#endif

#ifdef MD_USE_FMOD
/* Exact; of integers by zero 0. */
MD_INLINE float md_fmod_sf(float a, float b) { return __builtin_fmodf(a, b); }
MD_INLINE double md_fmod_sd(double a, double b) { return __builtin_fmod(a, b); }
MD_LANES2(fmod, md_f, f)
MD_LANES2(fmod, md_d, d)
#endif
MD_INLINE int64_t md_fmod_si(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
MD_LANES2(fmod, md_i, i)

#endif
