/* Functions of f32 that compute in f64: sine, cosine and powers. Included by math.h. */
#ifndef MD_HOST_MATH_F64_H
#define MD_HOST_MATH_F64_H

/* ---- Sine and cosine: x - n * pi/2 in f64, good to |x| = 2^20; libm beyond. */

#ifdef MD_MATH_TRIG
/* The quarter turns in x, of which the low two bits count, and the rest, |*r| <= pi/4. */
MD_INLINE md_b md_m_reduce_trig(md_f x, md_f *r)
{
    md_f k = md_m_fma(x, md_splat_f(0.636619772f), md_splat_f(MD_M_MAGIC));
    md_b n = (md_b)k;
    md_d turns = __builtin_convertvector(k - MD_M_MAGIC, md_d);
    /* 33 bits of pi/2: the product is exact */
    md_d rest = __builtin_convertvector(x, md_d) - turns * 1.5707963267341256;
    *r = __builtin_convertvector(rest - turns * 6.0771005065061922e-11, md_f);
    return n;
}

/* cos(r) where n is odd, sin(r) elsewhere, negated where n & 2. */
MD_INLINE md_f md_m_trig(md_b n, md_f r)
{
    md_f s = r * r;
    md_f sine = md_m_fma(MD_M_POLY(s, -0.166666672f, 0.00833332911f, -0.000198392736f, 2.71774616e-06f) * s, r, r);
    md_f cosine = md_m_fma(MD_M_POLY(s, 0.0416666642f, -0.0013888292f, 2.45455194e-05f), s * s,
                           md_m_fma(s, md_splat_f(-0.5f), md_splat_f(1.0f)));
    md_f y = md_where_f((n & 1) != 0, cosine, sine);
    return (md_f)((md_b)y ^ ((n & 2) << 30));
}

MD_INLINE int md_m_has_huge(md_f x) { return !md_all_b(md_lt_f(md_abs_f(x), md_splat_f(1048576.0f))); }
#endif

#ifdef MD_USE_SIN
/* 1.5 ulp */
MD_OUTLINE md_f md_sin_f(md_f x)
{
    md_f r;
    md_b n = md_m_reduce_trig(x, &r);
    md_f y = md_m_trig(n, r);
    if (md_m_has_huge(x))
        for (int l = 0; l < MD_VL; l++)
            y[l] = __builtin_fabsf(x[l]) < 1048576.0f ? y[l] : (float)__builtin_sin(x[l]);
    return md_where_f(x == 0.0f, x, y); /* the sign of a zero */
}
#endif

#ifdef MD_USE_COS
/* 1.5 ulp */
MD_OUTLINE md_f md_cos_f(md_f x)
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
MD_INLINE md_d md_m_log2_f64(md_d x) /* x normal, > 0 */
{
    md_m e = ((md_m)x - 0x3fe6a09e667f3bcdLL) >> 52;
    md_d m = (md_d)((md_m)x - (e << 52));
    md_d s = (m - 1.0) / (m + 1.0), z = s * s; /* ln m = 2 atanh(s) */
    md_d p = z * 0.2829655087964 + 0.31990129598453015;
    p = p * z + 0.4122093551942252;
    p = p * z + 0.5770779413949544;
    p = p * z + 0.9617966941165021;
    p = p * z + 2.885390081777848;
    return p * s + __builtin_convertvector(e, md_d);
}

MD_INLINE md_d md_m_exp2_f64(md_d x) /* |x| < 1000 */
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
    return p * (md_d)(((md_m)shifted + 1023) << 52); /* the low bits of the sum are the integer */
}

MD_OUTLINE md_f md_pow_f(md_f x, md_f y)
{
    md_f a = md_abs_f(x);
    md_d wide = __builtin_convertvector(y, md_d) * md_m_log2_f64(__builtin_convertvector(a, md_d));
    wide = md_max_d(md_splat_d(-200.0), md_min_d(md_splat_d(200.0), wide));
    md_f r = __builtin_convertvector(md_m_exp2_f64(wide), md_f);
    /* IEEE 754-2019, 9.2.1, for what the formula does not give: zeros, infinities, negative bases, NaN. */
    const float inf = __builtin_inff();
    md_f zero = {0}, one = zero + 1.0f, nan = zero + __builtin_nanf("");
    md_f ya = md_abs_f(y);
    md_f whole = (ya + 8388608.0f) - 8388608.0f;
    md_b is_integer = (ya >= 8388608.0f) | (whole == ya);
    /* from 2^24 on all are even */
    md_b magnitude = __builtin_convertvector(md_where_f(ya < 16777216.0f, ya, zero), md_b);
    md_b is_odd = is_integer & ((magnitude & 1) != 0);
    r = md_where_f(a == 0.0f, md_where_f(y < 0.0f, zero + inf, zero), r);
    r = md_where_f(a == inf, md_where_f(y < 0.0f, zero, zero + inf), r);
    r = md_where_f(ya == inf, md_where_f((a > 1.0f) == (y > 0.0f), zero + inf, zero), r);
    r = (md_f)((md_b)r ^ ((md_b)x & is_odd & INT32_MIN));
    r = md_where_f((x < 0.0f) & ~is_integer & (a < inf), nan, r);
    r = md_where_f((x != x) | (y != y), nan, r);
    r = md_where_f((ya == inf) & (a == 1.0f), one, r);
    return md_where_f((y == 0.0f) | (x == 1.0f), one, r);
}
#endif

#endif
