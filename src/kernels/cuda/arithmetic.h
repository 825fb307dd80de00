/* Conversions between value types, rounding, signs, roots and division. A part of prelude.h. */
#ifndef MD_CUDA_ARITHMETIC_H
#define MD_CUDA_ARITHMETIC_H

/* clang-format off */
/* ---- Conversions between value types. Reals to integers truncate, saturate, and NaN gives 0. */
MD_INLINE double md_cast_sf_sd(float a) { return (double)a; }
MD_INLINE float md_cast_sd_sf(double a) { return (float)a; }
MD_INLINE float md_cast_si_sf(int64_t a) { return (float)a; }
MD_INLINE double md_cast_si_sd(int64_t a) { return (double)a; }
MD_INLINE float md_cast_sb_sf(int a) { return a ? 1.0f : 0.0f; }
MD_INLINE double md_cast_sb_sd(int a) { return a ? 1.0 : 0.0; }
MD_INLINE int64_t md_cast_sb_si(int a) { return a; }
MD_INLINE int md_cast_sf_sb(float a) { return a != 0.0f; }
MD_INLINE int md_cast_sd_sb(double a) { return a != 0.0; }
MD_INLINE int md_cast_si_sb(int64_t a) { return a != 0; }
/* cvt saturates, but gives 0 for NaN only if the result has 32 bits. */
MD_INLINE int64_t md_cast_sd_si(double a)
    { int64_t r; asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(r) : "d"(a)); return a == a ? r : 0; }
MD_INLINE int64_t md_cast_sf_si(float a)
    { int64_t r; asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(r) : "f"(a)); return a == a ? r : 0; }
#define MD_CAST(from, to, F, T) MD_INLINE T md_cast_##from##_##to(F a) \
    { T r; MD_LANES(md_cast_s##from##_s##to(a.v[l])) }
MD_CAST(f, d, md_f, md_d) MD_CAST(d, f, md_d, md_f) MD_CAST(i, f, md_i, md_f) MD_CAST(i, d, md_i, md_d)
MD_CAST(f, i, md_f, md_i) MD_CAST(d, i, md_d, md_i) MD_CAST(b, f, md_b, md_f) MD_CAST(b, d, md_b, md_d)
#undef MD_CAST
MD_INLINE md_i md_cast_b_i(md_b a) { md_i r; MD_LANES((int64_t)-a.v[l]) }
MD_INLINE md_b md_cast_f_b(md_f a) { md_b r; MD_LANES(a.v[l] != 0.0f ? -1 : 0) }
MD_INLINE md_b md_cast_d_b(md_d a) { md_b r; MD_LANES(a.v[l] != 0.0 ? -1 : 0) }
MD_INLINE md_b md_cast_i_b(md_i a) { md_b r; MD_LANES(a.v[l] != 0 ? -1 : 0) }

/* ---- Rounding to odd: toward zero, the last bit set where inexact, so that a second rounding to a narrower type
 * gives what a single one would (Boldo and Melquiond, 2008). */
MD_INLINE float md_odd_sd_sf(double a)
{
    float f;
    asm("cvt.rz.f32.f64 %0, %1;" : "=f"(f) : "d"(a));
    return (double)f == a || a != a ? f : md_f32(md_u32(f) | 1);
}
MD_INLINE float md_odd_si_sf(int64_t a)
{
    float f;
    asm("cvt.rz.f32.s64 %0, %1;" : "=f"(f) : "l"(a));
    return md_cast_sf_si(f) == a ? f : md_f32(md_u32(f) | 1);
}
MD_INLINE md_f md_odd_d_f(md_d a) { md_f r; MD_LANES(md_odd_sd_sf(a.v[l])) }
MD_INLINE md_f md_odd_i_f(md_i a) { md_f r; MD_LANES(md_odd_si_sf(a.v[l])) }

/* Values after a store to and a load from i32 and u8. */
MD_INLINE int64_t md_round_i32_sd(double a)
    { int r; asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(r) : "d"(a)); return a == a ? r : 0; }
MD_INLINE int64_t md_round_i32_sf(float a)
    { int r; asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(a)); return a == a ? r : 0; }
MD_INLINE int64_t md_round_i32_si(int64_t a) { return (int32_t)a; }
MD_INLINE int64_t md_round_u8_sd(double a) { int64_t r = md_round_i32_sd(a); return r < 0 ? 0 : r > 255 ? 255 : r; }
MD_INLINE int64_t md_round_u8_sf(float a) { int64_t r = md_round_i32_sf(a); return r < 0 ? 0 : r > 255 ? 255 : r; }
MD_INLINE int64_t md_round_u8_si(int64_t a) { return (uint8_t)a; }
#define MD_ROUND_INTEGER(T, LOW, HIGH) \
    MD_INLINE int64_t md_round_##T##_sd(double a) \
        { int64_t r = md_cast_sd_si(a); return r < LOW ? LOW : r > HIGH ? HIGH : r; } \
    MD_INLINE int64_t md_round_##T##_sf(float a) \
        { int64_t r = md_cast_sf_si(a); return r < LOW ? LOW : r > HIGH ? HIGH : r; }
MD_ROUND_INTEGER(i4, -8, 7)
MD_ROUND_INTEGER(u4, 0, 15)
MD_ROUND_INTEGER(i8, -128, 127)
MD_ROUND_INTEGER(i16, -32768, 32767)
MD_ROUND_INTEGER(u16, 0, 65535)
MD_ROUND_INTEGER(u32, 0, 4294967295LL)
#undef MD_ROUND_INTEGER
MD_INLINE int64_t md_round_i4_si(int64_t a) { return (int64_t)((uint64_t)a << 60) >> 60; }
MD_INLINE int64_t md_round_u4_si(int64_t a) { return a & 15; }
MD_INLINE int64_t md_round_i8_si(int64_t a) { return (int8_t)a; }
MD_INLINE int64_t md_round_i16_si(int64_t a) { return (int16_t)a; }
MD_INLINE int64_t md_round_u16_si(int64_t a) { return (uint16_t)a; }
MD_INLINE int64_t md_round_u32_si(int64_t a) { return (uint32_t)a; }
/* Of u64 the bits. */
MD_INLINE int64_t md_round_u64_sd(double a)
    { int64_t r; asm("cvt.rzi.u64.f64 %0, %1;" : "=l"(r) : "d"(a)); return a == a ? r : 0; }
MD_INLINE int64_t md_round_u64_sf(float a) { return md_round_u64_sd((double)a); }
MD_INLINE int64_t md_round_u64_si(int64_t a) { return a; }
#define MD_ROUND(T)                                                                                                    \
    MD_INLINE md_i md_round_##T##_f(md_f a) { md_i r; MD_LANES(md_round_##T##_sf(a.v[l])) }                            \
    MD_INLINE md_i md_round_##T##_d(md_d a) { md_i r; MD_LANES(md_round_##T##_sd(a.v[l])) }                            \
    MD_INLINE md_i md_round_##T##_i(md_i a) { md_i r; MD_LANES(md_round_##T##_si(a.v[l])) }
MD_ROUND(i4) MD_ROUND(u4) MD_ROUND(i8) MD_ROUND(i16) MD_ROUND(u16) MD_ROUND(u32) MD_ROUND(u64)
MD_ROUND(i32)
MD_ROUND(u8)
#undef MD_ROUND

/* ---- Signs and magnitudes */
MD_INLINE float md_abs_sf(float a) { return fabsf(a); }
MD_INLINE double md_abs_sd(double a) { return fabs(a); }
MD_INLINE int64_t md_abs_si(int64_t a) { return a < 0 ? (int64_t)-(uint64_t)a : a; }
MD_LIFT_FD1(abs) MD_LIFT1(abs, md_i, i)
MD_INLINE float md_copysign_sf(float a, float b)
    { return md_f32((md_u32(a) & 0x7fffffffu) | (md_u32(b) & 0x80000000u)); }
MD_INLINE double md_copysign_sd(double a, double b)
    { return md_f64((md_u64(a) & ~(1ULL << 63)) | (md_u64(b) & 1ULL << 63)); }
MD_LIFT_FD2(copysign)
MD_INLINE float md_sign_sf(float a) { return a != a ? a : (float)((a > 0) - (a < 0)); }
MD_INLINE double md_sign_sd(double a) { return a != a ? a : (double)((a > 0) - (a < 0)); }
MD_INLINE int64_t md_sign_si(int64_t a) { return (a > 0) - (a < 0); }
MD_LIFT_FD1(sign) MD_LIFT1(sign, md_i, i)
MD_INLINE int md_isnan_sf(float a) { return a != a; }
MD_INLINE int md_isnan_sd(double a) { return a != a; }
MD_INLINE int md_isinf_sf(float a) { return md_abs_sf(a) == MD_INF_F; }
MD_INLINE int md_isinf_sd(double a) { return md_abs_sd(a) == MD_INF_D; }
MD_INLINE md_b md_isnan_f(md_f a) { return md_ne(a, a); }
MD_INLINE md_b md_isnan_d(md_d a) { return md_ne(a, a); }
MD_INLINE md_b md_isinf_f(md_f a) { return md_eq(md_abs_f(a), md_splat_f(MD_INF_F)); }
MD_INLINE md_b md_isinf_d(md_d a) { return md_eq(md_abs_d(a), md_splat_d(MD_INF_D)); }
#define MD_RELU_CLAMP(type, s)                                                                                         \
    MD_INLINE type md_relu_s##s(type a) { return md_max_s##s(a, 0); }                                                  \
    MD_INLINE type md_clamp_s##s(type a, type low, type high) { return md_min_s##s(md_max_s##s(a, low), high); }       \
    MD_LIFT1(relu, md_##s, s)                                                                                          \
    MD_INLINE md_##s md_clamp_##s(md_##s a, md_##s low, md_##s high) { return md_min_##s(md_max_##s(a, low), high); }
MD_RELU_CLAMP(float, f)
MD_RELU_CLAMP(double, d)
MD_RELU_CLAMP(int64_t, i)
#undef MD_RELU_CLAMP

/* Shifts: a count outside 0 .. 63 moves all bits out. */
MD_INLINE int64_t md_shl_si(int64_t a, int64_t n) { return (uint64_t)n < 64 ? (int64_t)((uint64_t)a << n) : 0; }
MD_INLINE int64_t md_shr_si(int64_t a, int64_t n) { return a >> ((uint64_t)n < 64 ? n : 63); }
MD_LIFT2(shl, md_i, i)
MD_LIFT2(shr, md_i, i)

/* ---- Whole numbers (ties to even), roots, fma. */
#define MD_PTX1(name, text)                                                                                            \
    MD_INLINE float md_##name##_sf(float a) { float r; asm(text ".f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }        \
    MD_INLINE double md_##name##_sd(double a) { double r; asm(text ".f64 %0, %1;" : "=d"(r) : "d"(a)); return r; }     \
    MD_LIFT_FD1(name)
#define MD_PTX1C(name, mode)                                                                                           \
    MD_INLINE float md_##name##_sf(float a) \
        { float r; asm("cvt." mode ".f32.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; } \
    MD_INLINE double md_##name##_sd(double a) \
        { double r; asm("cvt." mode ".f64.f64 %0, %1;" : "=d"(r) : "d"(a)); return r; } \
    MD_LIFT_FD1(name)
MD_PTX1C(round, "rni")
MD_PTX1C(floor, "rmi")
MD_PTX1C(ceil, "rpi")
MD_PTX1C(trunc, "rzi")
MD_PTX1(sqrt, "sqrt.rn")
#undef MD_PTX1
#undef MD_PTX1C
/* 2 ulp */
MD_INLINE float md_rsqrt_sf(float a) { float r; asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
MD_INLINE double md_rsqrt_sd(double a) { return 1.0 / md_sqrt_sd(a); }
MD_LIFT_FD1(rsqrt)
MD_INLINE float md_fma_sf(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MD_INLINE double md_fma_sd(double a, double b, double c) { return __fma_rn(a, b, c); }
MD_INLINE int64_t md_fma_si(int64_t a, int64_t b, int64_t c)
    { return (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c); }
#define MD_FMA(vec, s) MD_INLINE vec md_fma_##s(vec a, vec b, vec c) \
    { vec r; MD_LANES(md_fma_s##s(a.v[l], b.v[l], c.v[l])) }
MD_FMA(md_f, f) MD_FMA(md_d, d) MD_FMA(md_i, i)
#undef MD_FMA
/* Divides values by one that they share and that is rounded itself (a sum): multiplies by its reciprocal, 1.5 ulp. Very
 * large and very small divisors are scaled. */
MD_INLINE float md_by_sf(float a, float b)
{
    const float m = md_abs_sf(b), s = m > 0x1p100f ? 0x1p-64f : m < 0x1p-100f ? 0x1p64f : 1.0f, c = __frcp_rn(b * s);
    return a * s * c;
}
MD_INLINE md_f md_by_f(md_f a, float b)
{
    md_f r;
    MD_LANES(md_by_sf(a.v[l], b))
}
/* Divides lanes by one shared value, with the bits of a division: multiplies by the reciprocal and corrects (Markstein,
 * IBM Journal of Research and Development 34, 1990). Very large and very small divisors are scaled, with the dividends.
 * For infinities and zeros the correction is left out. */
MD_INLINE md_f md_over_f(md_f a, float b)
{
    const float m = md_abs_sf(b), s = m > 0x1p100f ? 0x1p-64f : m < 0x1p-100f ? 0x1p64f : 1.0f,
        d = b * s, c = __frcp_rn(d);
    md_f r;
    MD_FOR (l, MD_VL) {
        const float x = a.v[l] * s, q = x * c, e = __fmaf_rn(-q, d, x);
        r.v[l] = e == e ? __fmaf_rn(e, c, q) : q;
    }
    return r;
}
/* clang-format on */

#endif
