/* Conversions between value types, rounding, signs, roots and division. A part of prelude.h. */
#ifndef MD_HOST_ARITHMETIC_H
#define MD_HOST_ARITHMETIC_H

/* clang-format off */
/* ---- Conversions between value types. Reals to integers truncate, saturate, and NaN gives 0. */
MD_INLINE md_d md_cast_f_d(md_f a) { return __builtin_convertvector(a, md_d); }
MD_INLINE md_f md_cast_d_f(md_d a) { return __builtin_convertvector(a, md_f); }
MD_INLINE md_f md_cast_i_f(md_i a) { return __builtin_convertvector(a, md_f); }
MD_INLINE md_d md_cast_i_d(md_i a) { return __builtin_convertvector(a, md_d); }
MD_INLINE md_f md_cast_b_f(md_b a) { return (md_f)(a & (md_b)md_splat_f(1.0f)); }
MD_INLINE md_d md_cast_b_d(md_b a) { return __builtin_convertvector(-a, md_d); }
MD_INLINE md_i md_cast_b_i(md_b a) { return -md_from_b(a); }
MD_INLINE md_b md_cast_f_b(md_f a) { return (md_b)(a != (md_f){0}); }
MD_INLINE md_b md_cast_d_b(md_d a) { return md_ne_d(a, (md_d){0}); }
MD_INLINE md_b md_cast_i_b(md_i a) { return md_ne_i(a, (md_i){0}); }
#ifndef MD_NARROW
MD_INLINE md_i md_cast_d_i(md_d a)
{
    md_i r = __builtin_convertvector(a, md_i);
    r = md_wide_where_i(md_wide_ge_d(a, md_splat_d(0x1p63)), md_splat_i(INT64_MAX), r);
    r = md_wide_where_i(md_wide_le_d(a, md_splat_d(-0x1p63)), md_splat_i(INT64_MIN), r);
    return r & md_wide_eq_d(a, a);
}
MD_INLINE md_i md_cast_f_i(md_f a) { return md_cast_d_i(md_cast_f_d(a)); }
#endif

MD_INLINE double md_cast_sf_sd(float a) { return (double)a; }
MD_INLINE float md_cast_sd_sf(double a) { return (float)a; }
MD_INLINE float md_cast_si_sf(int64_t a) { return (float)a; }
MD_INLINE double md_cast_si_sd(int64_t a) { return (double)a; }
MD_INLINE float md_cast_sb_sf(int a) { return (float)a; }
MD_INLINE double md_cast_sb_sd(int a) { return (double)a; }
MD_INLINE int64_t md_cast_sb_si(int a) { return a; }
MD_INLINE int md_cast_sf_sb(float a) { return a != 0.0f; }
MD_INLINE int md_cast_sd_sb(double a) { return a != 0.0; }
MD_INLINE int md_cast_si_sb(int64_t a) { return a != 0; }
MD_INLINE int64_t md_saturate(double a, double low, double high, int64_t lowest, int64_t highest)
{
    return a != a ? 0 : a <= low ? lowest : a >= high ? highest : (int64_t)a;
}
MD_INLINE int64_t md_cast_sd_si(double a) { return md_saturate(a, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX); }
MD_INLINE int64_t md_cast_sf_si(float a) { return md_cast_sd_si((double)a); }

/* ---- Rounding to odd: toward zero, the last bit set where inexact, so that a second rounding to a narrower type
 * gives what a single one would (Boldo and Melquiond, 2008). */
MD_INLINE float md_odd_sd_sf(double a)
{
    float f = (float)a;
    uint32_t u;
    __builtin_memcpy(&u, &f, 4);
    if ((double)f == a || a != a)
        return f;
    u = (u - (__builtin_fabs((double)f) > __builtin_fabs(a))) | 1;
    __builtin_memcpy(&f, &u, 4);
    return f;
}
MD_INLINE double md_odd_integer(int64_t a)
{
    if (a > -(INT64_C(1) << 53) && a < INT64_C(1) << 53)
        return (double)a;
    return (double)((a & ~INT64_C(0x7ff)) | (a & 0x7ff ? 0x800 : 0));
}
MD_INLINE float md_odd_si_sf(int64_t a) { return md_odd_sd_sf(md_odd_integer(a)); }
MD_INLINE md_f md_odd_d_f(md_d a)
{
    md_f f = md_cast_d_f(a);
    md_d back = md_cast_f_d(f), distance = (md_d)((md_m)a & INT64_MAX), reached = (md_d)((md_m)back & INT64_MAX);
    md_b u = (md_b)f + md_gt_d(reached, distance); /* -1 where it went too far */
    return (md_f)md_where_b(md_eq_d(back, a) | md_ne_d(a, a), (md_b)f, u | 1);
}
MD_OUTLINE md_f md_odd_i_f(md_i a)
{
    md_f r;
    for (int l = 0; l < MD_VL; l++)
        r[l] = md_odd_si_sf(a[l]);
    return r;
}

/* The low bits of an integer, with their sign. */
#define MD_LOW_BITS(a, bits) ((a) << (8 * (int)sizeof(md_one_i) - (bits)) >> (8 * (int)sizeof(md_one_i) - (bits)))
/* Values after a store to and a load from i32 and u8. */
MD_INLINE int64_t md_round_i32_sd(double a) { return md_saturate(a, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX); }
MD_INLINE int64_t md_round_i32_sf(float a) { return md_round_i32_sd((double)a); }
MD_INLINE int64_t md_round_i32_si(int64_t a) { return (int32_t)a; }
MD_INLINE int64_t md_round_u8_sd(double a) { return md_saturate(a, 0.0, 255.0, 0, 255); }
MD_INLINE int64_t md_round_u8_sf(float a) { return md_round_u8_sd((double)a); }
MD_INLINE int64_t md_round_u8_si(int64_t a) { return (uint8_t)a; }
MD_INLINE md_i md_round_i32_d(md_d a)
{
    a = md_wide_where_d(md_wide_gt_d(a, md_splat_d(0x1p31 - 1)), md_splat_d(0x1p31 - 1), a);
    a = md_wide_where_d(md_wide_lt_d(a, md_splat_d(-0x1p31)), md_splat_d(-0x1p31), a);
    a = (md_d)((md_m)a & md_wide_eq_d(a, a));
    return md_from_b(__builtin_convertvector(a, md_b));
}
MD_INLINE md_i md_round_i32_f(md_f a) { return md_round_i32_d(md_cast_f_d(a)); }
MD_INLINE md_i md_round_i32_i(md_i a) { return MD_LOW_BITS(a, 32); }
MD_INLINE md_i md_round_u8_f(md_f a)
{
    a = md_under_f(a, 255.0f);
    a = md_where_f(md_gt_f(a, (md_f){0}), a, (md_f){0});
    return md_from_b(__builtin_convertvector(a, md_b));
}
MD_INLINE md_i md_round_u8_d(md_d a)
{
    a = md_wide_where_d(md_wide_gt_d(a, md_splat_d(255.0)), md_splat_d(255.0), a);
    a = md_wide_where_d(md_wide_gt_d(a, (md_d){0}), a, (md_d){0});
    return md_from_b(__builtin_convertvector(a, md_b));
}
MD_INLINE md_i md_round_u8_i(md_i a) { return a & 255; }

/* The same of other integers: of LOW to HIGH, which f32 holds (u32 goes through f64), and WRAP of an integer. */
#define MD_ROUND_INTEGER(T, LOW, HIGH, WRAP, WRAP1, F)                                                                 \
    MD_INLINE int64_t md_round_##T##_sd(double a) { return md_saturate(a, LOW, HIGH, (int64_t)LOW, (int64_t)HIGH); }   \
    MD_INLINE int64_t md_round_##T##_sf(float a) { return md_round_##T##_sd((double)a); }                              \
    MD_INLINE int64_t md_round_##T##_si(int64_t a) { return WRAP1; }                                                   \
    MD_INLINE md_i md_round_##T##_d(md_d a)                                                                            \
    {                                                                                                                  \
        a = md_wide_where_d(md_wide_gt_d(a, md_splat_d(HIGH)), md_splat_d(HIGH), a);                                   \
        a = md_wide_where_d(md_wide_lt_d(a, md_splat_d(LOW)), md_splat_d(LOW), a);                                     \
        return __builtin_convertvector((md_d)((md_m)a & md_wide_eq_d(a, a)), md_i);                                    \
    }                                                                                                                  \
    F(T, LOW, HIGH)                                                                                                    \
    MD_INLINE md_i md_round_##T##_i(md_i a) { return WRAP; }
#define MD_ROUND_FLOAT(T, LOW, HIGH)                                                                                   \
    MD_INLINE md_i md_round_##T##_f(md_f a)                                                                            \
    {                                                                                                                  \
        a = md_over_f(md_under_f(a, HIGH##f), LOW##f);                                                                 \
        return md_from_b(__builtin_convertvector((md_f)((md_b)a & md_eq_f(a, a)), md_b));          \
    }
#define MD_ROUND_DOUBLE(T, LOW, HIGH) \
    MD_INLINE md_i md_round_##T##_f(md_f a) { return md_round_##T##_d(md_cast_f_d(a)); }
MD_ROUND_INTEGER(i4, -8.0, 7.0, MD_LOW_BITS(a, 4), (int64_t)((uint64_t)a << 60) >> 60, MD_ROUND_FLOAT)
MD_ROUND_INTEGER(u4, 0.0, 15.0, a & 15, a & 15, MD_ROUND_FLOAT)
MD_ROUND_INTEGER(i8, -128.0, 127.0, MD_LOW_BITS(a, 8), (int8_t)a, MD_ROUND_FLOAT)
MD_ROUND_INTEGER(i16, -32768.0, 32767.0, MD_LOW_BITS(a, 16), (int16_t)a, MD_ROUND_FLOAT)
MD_ROUND_INTEGER(u16, 0.0, 65535.0, a & 65535, (uint16_t)a, MD_ROUND_FLOAT)
#ifndef MD_NARROW
MD_ROUND_INTEGER(u32, 0.0, 4294967295.0, a & 0xffffffff, (uint32_t)a, MD_ROUND_DOUBLE)
/* Of u64 the bits. */
MD_INLINE int64_t md_round_u64_sd(double a)
    { return a >= 0x1p64 ? -1 : a >= 0x1p63 ? (int64_t)(uint64_t)a : a > 0.0 ? (int64_t)a : 0; }
MD_INLINE int64_t md_round_u64_sf(float a) { return md_round_u64_sd((double)a); }
MD_OUTLINE md_i md_round_u64_d(md_d a)
{
    md_i r = {0};
    for (int l = 0; l < MD_VL; l++)
        r[l] = md_round_u64_sd(a[l]);
    return r;
}
MD_INLINE md_i md_round_u64_f(md_f a) { return md_round_u64_d(md_cast_f_d(a)); }
#endif

/* ---- Signs and magnitudes */
MD_INLINE md_f md_abs_f(md_f a) { return (md_f)((md_b)a & INT32_MAX); }
MD_INLINE md_d md_abs_d(md_d a) { return (md_d)((md_m)a & INT64_MAX); }
MD_INLINE md_i md_sign_bits_i(md_i a) { return a >> (8 * (int)sizeof(md_one_i) - 1); }
MD_INLINE md_i md_abs_i(md_i a) { return (a ^ md_sign_bits_i(a)) - md_sign_bits_i(a); }
MD_INLINE float md_abs_sf(float a) { return __builtin_fabsf(a); }
MD_INLINE double md_abs_sd(double a) { return __builtin_fabs(a); }
MD_INLINE int64_t md_abs_si(int64_t a) { return a < 0 ? -a : a; }
MD_INLINE md_f md_copysign_f(md_f a, md_f b) { return (md_f)(((md_b)a & INT32_MAX) | ((md_b)b & INT32_MIN)); }
MD_INLINE md_d md_copysign_d(md_d a, md_d b) { return (md_d)(((md_m)a & INT64_MAX) | ((md_m)b & INT64_MIN)); }
MD_INLINE md_f md_sign_f(md_f a)
    { return md_where_f((md_b)(a != a), a, md_cast_b_f(md_gt_f(a, (md_f){0})) - md_cast_b_f(md_lt_f(a, (md_f){0}))); }
MD_INLINE md_d md_sign_d(md_d a)
    { return md_where_d(md_ne_d(a, a), a, md_cast_b_d(md_gt_d(a, (md_d){0})) - md_cast_b_d(md_lt_d(a, (md_d){0}))); }
MD_INLINE md_i md_sign_i(md_i a) { return md_sign_bits_i(a) - md_sign_bits_i(-a & ~a); }
MD_INLINE float md_sign_sf(float a) { return a != a ? a : (float)((a > 0) - (a < 0)); }
MD_INLINE double md_sign_sd(double a) { return a != a ? a : (double)((a > 0) - (a < 0)); }
MD_INLINE int64_t md_sign_si(int64_t a) { return (a > 0) - (a < 0); }
MD_INLINE md_b md_isnan_f(md_f a) { return (md_b)(a != a); }
MD_INLINE md_b md_isnan_d(md_d a) { return md_ne_d(a, a); }
MD_INLINE int md_isnan_sf(float a) { return a != a; }
MD_INLINE int md_isnan_sd(double a) { return a != a; }
MD_INLINE md_b md_isinf_f(md_f a) { return (md_b)(md_abs_f(a) == md_splat_f(__builtin_inff())); }
MD_INLINE md_b md_isinf_d(md_d a) { return md_eq_d(md_abs_d(a), md_splat_d(__builtin_inf())); }
MD_INLINE int md_isinf_sf(float a) { return __builtin_fabsf(a) == __builtin_inff(); }
MD_INLINE int md_isinf_sd(double a) { return __builtin_fabs(a) == __builtin_inf(); }

/* What is above zero or NaN stays; the rest, -0 with it, becomes 0. */
MD_INLINE md_f md_relu_f(md_f a) { return (md_f)((md_b)a & ~(md_b)(a <= 0.0f)); }
#define MD_RELU(vec, s, zero) MD_INLINE vec md_relu_##s(vec a) { return md_max_##s(a, zero); }
MD_RELU(md_d, d, (md_d){0})
MD_RELU(md_i, i, (md_i){0})
MD_RELU(float, sf, 0.0f)
MD_RELU(double, sd, 0.0)
MD_RELU(int64_t, si, 0)
#define MD_CLAMP(vec, s) \
    MD_INLINE vec md_clamp_##s(vec a, vec low, vec high) { return md_min_##s(md_max_##s(a, low), high); }
MD_CLAMP(md_f, f)
MD_CLAMP(md_d, d)
MD_CLAMP(md_i, i)
MD_CLAMP(float, sf)
MD_CLAMP(double, sd)
MD_CLAMP(int64_t, si)

/* ---- Rounding to whole numbers: adding 2^23 (2^52) to a magnitude leaves no bits for a fraction. Signs of zeros
 * are kept. */
#define MD_WHOLE(vec, s, big, one)                                                                                     \
    MD_INLINE vec md_round_##s(vec a)                                                                                  \
    {                                                                                                                  \
        vec m = md_abs_##s(a);                                                                                         \
        return md_where_##s(md_lt_##s(m, md_splat_##s(big)), md_copysign_##s((m + big) - big, a), a);                  \
    }                                                                                                                  \
    MD_INLINE vec md_floor_##s(vec a)                                                                                  \
    {                                                                                                                  \
        vec r = md_round_##s(a);                                                                                       \
        return md_copysign_##s(md_where_##s(md_gt_##s(r, a), r - one, r), a);                                          \
    }                                                                                                                  \
    MD_INLINE vec md_ceil_##s(vec a) { return -md_floor_##s(-a); }                                                     \
    MD_INLINE vec md_trunc_##s(vec a) { return md_copysign_##s(md_floor_##s(md_abs_##s(a)), a); }
MD_WHOLE(md_f, f, 0x1p23f, 1.0f)
MD_WHOLE(md_d, d, 0x1p52, 1.0)
MD_INLINE float md_round_sf(float a) { return __builtin_rintf(a); }
MD_INLINE double md_round_sd(double a) { return __builtin_rint(a); }
#define MD_WHOLE_SCALAR(name)                                                                                          \
    MD_INLINE float md_##name##_sf(float a) { return __builtin_##name##f(a); }                                         \
    MD_INLINE double md_##name##_sd(double a) { return __builtin_##name(a); }
MD_WHOLE_SCALAR(floor)
MD_WHOLE_SCALAR(ceil)
MD_WHOLE_SCALAR(trunc)

/* ---- Lanes of first, first + 1, ... compared with a limit: as 32-bit lanes. Numbers that would wrap are compared as
 * such. */
#define MD_COMPARE_RUN(name, sign)                                                                                     \
    MD_INLINE md_b md_run_##name##_b(int64_t first, int64_t limit)                                                     \
    {                                                                                                                  \
        if (__builtin_expect(first > INT64_MAX - MD_VL, 0))                                                            \
            return md_##name##_i(md_iota_i(first), md_splat_i(limit));                                                 \
        const int64_t low = limit < first ? first - 1 : limit;                                                         \
        const int64_t near = low > first + MD_VL ? first + MD_VL : low;                                                \
        return (md_b)((md_b)MD_IOTA sign (int)(near - first) + (md_b){0});                                             \
    }
MD_COMPARE_RUN(lt, <)
MD_COMPARE_RUN(le, <=)
MD_COMPARE_RUN(ge, >=)
MD_COMPARE_RUN(gt, >)

/* ---- Roots, fma: one lane after the other in the source, vector code after GCC's loop vectoriser. */
#define MD_LANES1(name, call_f, call_d)                                                                                \
    MD_INLINE float md_##name##_sf(float a) { return call_f; }                                                         \
    MD_INLINE double md_##name##_sd(double a) { return call_d; }                                                       \
    MD_INLINE md_f md_##name##_f(md_f v)                                                                               \
    {                                                                                                                  \
        md_f r = v;                                                                                                    \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_##name##_sf(v[l]);                                                                               \
        return r;                                                                                                      \
    }                                                                                                                  \
    MD_INLINE md_d md_##name##_d(md_d v)                                                                               \
    {                                                                                                                  \
        md_d r = v;                                                                                                    \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_##name##_sd(v[l]);                                                                               \
        return r;                                                                                                      \
    }
MD_LANES1(sqrt, __builtin_sqrtf(a), __builtin_sqrt(a))
MD_INLINE float md_rsqrt_sf(float a) { return 1.0f / md_sqrt_sf(a); }
MD_INLINE double md_rsqrt_sd(double a) { return 1.0 / md_sqrt_sd(a); }
MD_INLINE md_f md_rsqrt_f(md_f a) { return 1.0f / md_sqrt_f(a); }
MD_INLINE md_d md_rsqrt_d(md_d a) { return 1.0 / md_sqrt_d(a); }

MD_INLINE float md_fma_sf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MD_INLINE double md_fma_sd(double a, double b, double c) { return __builtin_fma(a, b, c); }
MD_INLINE int64_t md_fma_si(int64_t a, int64_t b, int64_t c) { return a * b + c; }
MD_INLINE md_i md_fma_i(md_i a, md_i b, md_i c) { return a * b + c; }
#define MD_FMA_LANES(vec, s)                                                                                           \
    MD_INLINE vec md_fma_##s(vec a, vec b, vec c)                                                                      \
    {                                                                                                                  \
        vec r = c;                                                                                                     \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_fma_s##s(a[l], b[l], c[l]);                                                                      \
        return r;                                                                                                      \
    }
MD_FMA_LANES(md_f, f)
MD_FMA_LANES(md_d, d)

/* a * b + c with one rounding where there is an instruction for it. */
#if defined(__AVX512F__) && MD_VL == 16
MD_INLINE md_f md_m_fma(md_f a, md_f b, md_f c)
{
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
}
#elif defined(__FMA__) && MD_VL == 8
MD_INLINE md_f md_m_fma(md_f a, md_f b, md_f c) { return __builtin_ia32_vfmaddps256(a, b, c); }
#elif defined(__FMA__) && MD_VL == 4
MD_INLINE md_f md_m_fma(md_f a, md_f b, md_f c) { return __builtin_ia32_vfmaddps(a, b, c); }
#elif defined(__aarch64__)
MD_INLINE md_f md_m_fma(md_f a, md_f b, md_f c)
{
    md_f r;
    for (int l = 0; l < MD_VL; l++)
        r[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return r;
}
#else
MD_INLINE md_f md_m_fma(md_f a, md_f b, md_f c) { return a * b + c; }
#endif

/* ---- Division that rounds down and its remainder, as Python's; by an integer zero both give 0. */
MD_INLINE int64_t md_floordiv_si(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b * a; /* 0, -a: INT64_MIN / -1 traps */
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
MD_INLINE int64_t md_mod_si(int64_t a, int64_t b)
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
    double mod = __builtin_fmod(a, b), div = (a - mod) / b;
    if (mod != 0.0 && (b < 0.0) != (mod < 0.0))
        div -= 1.0;
    if (div == 0.0)
        return __builtin_copysign(0.0, a / b);
    double down = __builtin_floor(div);
    return div - down > 0.5 ? down + 1.0 : down;
}
MD_OUTLINE double md_mod_sd(double a, double b)
{
    double mod = __builtin_fmod(a, b);
    if (mod == 0.0)
        return __builtin_copysign(0.0, b);
    return (b < 0.0) != (mod < 0.0) && mod == mod ? mod + b : mod;
}
MD_INLINE float md_floordiv_sf(float a, float b) { return (float)md_floordiv_sd((double)a, (double)b); }
MD_INLINE float md_mod_sf(float a, float b) { return (float)md_mod_sd((double)a, (double)b); }

/* Shifts: a count outside 0 .. 63 moves all bits out. */
MD_INLINE int64_t md_shl_si(int64_t a, int64_t n) { return (uint64_t)n < 64 ? (int64_t)((uint64_t)a << n) : 0; }
MD_INLINE int64_t md_shr_si(int64_t a, int64_t n) { return a >> ((uint64_t)n < 64 ? n : 63); }
#ifndef MD_NARROW
MD_INLINE md_i md_shl_i(md_i a, md_i n)
    { return (md_i)((md_w)a << (md_w)(n & 63)) & md_wide_eq_i(n & 63, n); }
MD_INLINE md_i md_shr_i(md_i a, md_i n)
    { return a >> md_wide_where_i(md_wide_eq_i(n & 63, n), n, md_splat_i(63)); }
#endif

/* A negative exponent gives the power rounded toward zero: 0, but for bases 1 and -1. */
MD_OUTLINE int64_t md_pow_si(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}
#define MD_LANES2(name, vec, s)                                                                                        \
    MD_OUTLINE vec md_##name##_##s(vec a, vec b)                                                                       \
    {                                                                                                                  \
        vec r = a;                                                                                                     \
        for (int l = 0; l < MD_VL; l++)                                                                                \
            r[l] = md_##name##_s##s(a[l], b[l]);                                                                       \
        return r;                                                                                                      \
    }
MD_LANES2(floordiv, md_f, f)
MD_LANES2(floordiv, md_d, d)
MD_LANES2(floordiv, md_i, i)
MD_LANES2(mod, md_f, f)
MD_LANES2(mod, md_d, d)
MD_LANES2(mod, md_i, i)
MD_LANES2(pow, md_i, i)
/* clang-format on */

#endif
