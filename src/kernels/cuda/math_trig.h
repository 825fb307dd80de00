/* Sine, cosine and tangent, beside math.h, in f32 and f64: x - n * pi/2 by a few products where x is small, else
 * from as many bits of 2/pi as count (Payne and Hanek, SIGNUM Newsletter 18, 1983). No arrays and no pointers
 * between functions: they would lie in local memory, and the compiler's own functions for f64 have such a stack.
 * Polynomials of f64 are those of fdlibm (Sun Microsystems, 1993). Errors stand beside each function in units in the
 * last place. A part of prelude.h. */
#ifndef MD_CUDA_MATH_TRIG_H
#define MD_CUDA_MATH_TRIG_H

#if !defined(MD_CONFIGURED)
#define MD_USE_SIN 1
#define MD_USE_COS 1
#define MD_USE_TAN 1
#endif

/* clang-format off */
#if defined(MD_USE_SIN) || defined(MD_USE_COS) || defined(MD_USE_TAN)
/* 64 zeros, then the bits of 2/pi / 4. */
static __device__ __constant__ const uint64_t md_two_over_pi[20] = {
    0, 0x28be60db9391054aULL, 0x7f09d5f47d4d3770ULL, 0x36d8a5664f10e410ULL, 0x7f9458eaf7aef158ULL,
    0x6dc91b8e909374b8ULL, 0x01924bba82746487ULL, 0x3f877ac72c4a69cfULL, 0xba208d7d4baed121ULL,
    0x3a671c09ad17df90ULL, 0x4e64758e60d4ce7dULL, 0x272117e2ef7e4a0eULL, 0xc7fe25fff7816603ULL,
    0xfbcbc462d6829b47ULL, 0xdb4d9fb3c9f2c26dULL, 0xd3d18fd9a797fa8bULL, 0x5d49eeb1faf97c5eULL,
    0xcf41ce7de294a4baULL, 0x9afed7ec47e35742ULL, 0x1580cc11bf1edaeaULL};

/* n quarter turns and the rest r, |r| <= pi/4. */
typedef struct md_turns_f { float r; int n; } md_turns_f;
typedef struct md_turns_d { double r; int n; } md_turns_d;

/* 64 bits of the table from bit `at` on; at >= -64. */
MD_INLINE uint64_t md_m_turn_bits(int at)
{
    const uint64_t high = md_two_over_pi[(at >> 6) + 1], low = md_two_over_pi[(at >> 6) + 2];
    return at & 63 ? high << (at & 63) | low >> (64 - (at & 63)) : high;
}
/* For 2^20 <= |x| < infinity: n in the high half, r in the low one. x is m * 2^e with whole m. */
MD_OUTLINE uint64_t md_m_reduce_huge_f(float x)
{
    const uint32_t u = md_u32(x);
    const uint64_t m = (u & 0x7fffffu) | 0x800000u;
    const int e = (int)(u >> 23 & 0xff) - 150;
    /* 2 bits of quarter turns, 62 of the fraction */
    uint64_t p = m * md_m_turn_bits(e) + __umul64hi(m, md_m_turn_bits(e + 64));
    int q = (int)(p >> 62);
    p &= 0x3fffffffffffffffULL;
    if (p & 0x2000000000000000ULL) {
        p -= 0x4000000000000000ULL;
        q++;
    }
    const float r = (float)((double)(int64_t)p * 3.4061215800865545e-19); /* pi/2 * 2^-62 */
    return (uint64_t)(uint32_t)((int)u < 0 ? -q : q) << 32 | md_u32((int)u < 0 ? -r : r);
}
MD_INLINE md_turns_f md_m_reduce_f(float x)
{
    if (md_abs_sf(x) < 1048576.0f) {
        float k = rintf(x * 0.636619772f);
        double rest = __fma_rn((double)k, -1.5707963267341256, (double)x); /* 33 bits of pi/2 */
        return {(float)__fma_rn((double)k, -6.0771005065061922e-11, rest), (int)k};
    }
    if (!(md_abs_sf(x) < MD_INF_F))
        return {x - x, 0};
    const uint64_t packed = md_m_reduce_huge_f(x);
    return {md_f32((uint32_t)packed), (int)(packed >> 32)};
}
MD_INLINE float md_m_sine_f(float r)
{
    const float s = r * r, a = __fmaf_rn(2.71774616e-06f, s, -0.000198392736f),
                y = __fmaf_rn(__fmaf_rn(a, s, 0.00833332911f), s, -0.166666672f);
    return __fmaf_rn(y * s, r, r);
}
MD_INLINE float md_m_cosine_f(float r)
{
    const float s = r * r, y = __fmaf_rn(__fmaf_rn(2.45455194e-05f, s, -0.0013888292f), s, 0.0416666642f);
    return __fmaf_rn(y, s * s, __fmaf_rn(s, -0.5f, 1.0f));
}
/* Where n is odd cos(r), else sin(r); negated where n & 2. 1.5 ulp */
MD_INLINE float md_m_trig_f(float x, int turn)
{
    const md_turns_f t = md_m_reduce_f(x);
    const int n = t.n + turn;
    const float y = n & 1 ? md_m_cosine_f(t.r) : md_m_sine_f(t.r);
    return md_f32(md_u32(y) ^ ((uint32_t)n & 2) << 30);
}

/* For 1e5 <= |x| < infinity, with 126 bits of the fraction. */
MD_INLINE md_turns_d md_m_reduce_huge_d(double x)
{
    const uint64_t u = (uint64_t)__double_as_longlong(x), m = (u & 0xfffffffffffffULL) << 11 | 0x8000000000000000ULL;
    const int e = (int)(u >> 52 & 0x7ff) - 1086;
    const uint64_t middle = md_m_turn_bits(e + 64), rest = __umul64hi(m, md_m_turn_bits(e + 128));
    uint64_t low = m * middle + rest, high = m * md_m_turn_bits(e) + __umul64hi(m, middle) + (low < rest);
    int q = (int)(high >> 62);
    high &= 0x3fffffffffffffffULL;
    const bool is_below = high & 0x2000000000000000ULL; /* the nearest multiple of pi/2 lies above */
    if (is_below) {
        high = 0x4000000000000000ULL - high - (low != 0);
        low = 0 - low;
        q++;
    }
    double scale = 3.4061215800865545e-19; /* pi/2 * 2^-62 */
    if (high == 0) {
        high = low;
        low = 0;
        scale *= 5.4210108624275222e-20; /* 2^-64 */
    }
    const int z = __clzll((long long)high);
    const uint64_t top = z ? high << z | low >> (64 - z) : high;
    const double r = (double)top * (scale * __longlong_as_double((long long)(1023 - z) << 52));
    const bool is_negative = (int64_t)u < 0;
    return {is_negative != is_below ? -r : r, is_negative ? -q : q};
}
MD_INLINE md_turns_d md_m_reduce_d(double x)
{
    if (md_abs_sd(x) < 1e5) {
        const double k = rint(x * 0.63661977236758138);
        double r = __fma_rn(k, -1.5707963267948966, x); /* exact */
        r = __fma_rn(k, -6.123233995736766e-17, r);
        return {__fma_rn(k, 1.4973849048591698e-33, r), (int)k};
    }
    if (!(md_abs_sd(x) < MD_INF_D))
        return {x - x, 0};
    return md_m_reduce_huge_d(x);
}
MD_INLINE double md_m_sine_d(double r)
{
    const double z = r * r;
    double y = __fma_rn(1.58969099521155010221e-10, z, -2.50507602534068634195e-08);
    y = __fma_rn(y, z, 2.75573137070700676789e-06);
    y = __fma_rn(y, z, -1.98412698298579493134e-04);
    y = __fma_rn(y, z, 8.33333333332248946124e-03);
    y = __fma_rn(y, z, -1.66666666666666324348e-01);
    return __fma_rn(y * z, r, r);
}
MD_INLINE double md_m_cosine_d(double r)
{
    const double z = r * r, half = 0.5 * z, w = 1.0 - half;
    double y = __fma_rn(-1.13596475577881948265e-11, z, 2.08757232129817482790e-09);
    y = __fma_rn(y, z, -2.75573143513906633035e-07);
    y = __fma_rn(y, z, 2.48015872894767294178e-05);
    y = __fma_rn(y, z, -1.38888888888741095749e-03);
    y = __fma_rn(y, z, 4.16666666666666019037e-02);
    return w + __fma_rn(y, z * z, (1.0 - w) - half);
}
/* As md_m_trig_f. 2.5 ulp */
MD_OUTLINE double md_m_trig_d(double x, int turn)
{
    const md_turns_d t = md_m_reduce_d(x);
    const int n = t.n + turn;
    const double y = n & 1 ? md_m_cosine_d(t.r) : md_m_sine_d(t.r);
    return n & 2 ? -y : y;
}
#endif

#ifdef MD_USE_SIN
MD_MATH1(sin, x == 0.0f ? x : md_m_trig_f(x, 0), x == 0.0 ? x : md_m_trig_d(x, 0))
#endif
#ifdef MD_USE_COS
MD_MATH1(cos, md_m_trig_f(x, 1), md_m_trig_d(x, 1))
#endif
#ifdef MD_USE_TAN
/* 3.5 ulp */
MD_INLINE float md_m_tan_f(float x)
{
    const md_turns_f t = md_m_reduce_f(x);
    const float s = md_m_sine_f(t.r), c = md_m_cosine_f(t.r);
    return t.n & 1 ? -c / s : s / c;
}
MD_OUTLINE double md_m_tan_d(double x)
{
    const md_turns_d t = md_m_reduce_d(x);
    const double s = md_m_sine_d(t.r), c = md_m_cosine_d(t.r);
    return t.n & 1 ? -c / s : s / c;
}
MD_MATH1(tan, x == 0.0f ? x : md_m_tan_f(x), x == 0.0 ? x : md_m_tan_d(x))
#endif
/* clang-format on */

#endif
