/* Complementary error function, cube root and the remainder with the dividend's sign, beside math.h: f32 in lanes, f64
 * from libm; random bits. Errors stand beside each function in units in the last place of the f32 result, for
 * processors with fma. A part of prelude.h. */
#ifndef MD_HOST_MATH_SPECIAL_H
#define MD_HOST_MATH_SPECIAL_H

#if !defined(MD_CONFIGURED)
#define MD_USE_ERFC 1
#define MD_USE_CBRT 1
#define MD_USE_FMOD 1
#define MD_USE_PHILOX 1
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

#if defined(MD_USE_PHILOX) && !defined(MD_NARROW)
/* The product of the low halves of 64-bit lanes. */
MD_INLINE md_wh md_m_times(md_wh a, md_wh b)
{
#ifdef MD_WIDTHS_512
    return (md_wh)__builtin_ia32_pmuludq512_mask((md_v16si)a, (md_v16si)b, (md_v8di){0}, MD_ALL8);
#elif defined(MD_WIDTHS_256)
    return (md_wh)__builtin_ia32_pmuludq256((md_v8si)a, (md_v8si)b);
#elif defined(MD_WIDTHS_128)
    return (md_wh)__builtin_ia32_pmuludq128((md_v4si)a, (md_v4si)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}
/* The first half of a block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
 * SC 2011): all bits as expr/scalar.c. Only the low halves of the words count. */
#define MD_PHILOX(type, times)                                                                                         \
    type k0 = (type)key, k1 = (type)key >> 32, c0 = (type)low, c1 = (type)low >> 32;                                   \
    type c2 = (type)high, c3 = (type)high >> 32;                                                                       \
    MD_FOR (round, 10) {                                                                                               \
        const type a = times(c0, 0xd2511f53u - (type){0}), b = times(c2, 0xcd9e8d57u - (type){0});                     \
        c0 = b >> 32 ^ c1 ^ k0;                                                                                        \
        c1 = b;                                                                                                        \
        c2 = a >> 32 ^ c3 ^ k1;                                                                                        \
        c3 = a;                                                                                                        \
        k0 += 0x9e3779b9u;                                                                                             \
        k1 += 0xbb67ae85u;                                                                                             \
    }                                                                                                                  \
    return (__typeof__(key))(c1 << 32 | (c0 & (0xffffffffu - (type){0})))
#define MD_M_PRODUCT(a, b) ((uint64_t)(uint32_t)(a) * (b))
MD_OUTLINE int64_t md_philox_si(int64_t key, int64_t low, int64_t high) { MD_PHILOX(uint64_t, MD_M_PRODUCT); }
MD_INLINE md_ih md_philox_ih(md_ih key, md_ih low, md_ih high) { MD_PHILOX(md_wh, md_m_times); }
MD_OUTLINE md_i md_philox_i(md_i key, md_i low, md_i high)
{
    return md_join_i(md_philox_ih(md_low_i(key), md_low_i(low), md_low_i(high)),
                     md_philox_ih(md_high_i(key), md_high_i(low), md_high_i(high)));
}
#undef MD_PHILOX
#undef MD_M_PRODUCT
#endif

#endif
