/* The two 8-bit reals: f8e4m3 has bias 7 and no infinities, f8e5m2 is binary16 without its last 8 bits. A store rounds
 * to nearest even and stops at the largest finite value; NaN becomes 0x7f. A part of memory.h. */
#ifndef MD_HOST_FLOAT8_H
#define MD_HOST_FLOAT8_H

/* clang-format off */
/* M: bits of the mantissa; BIAS: 127 - bias; STEP: the smallest value; NORMAL: how many patterns lie below the first
 * normal one; LARGEST: the largest finite one, and LARGEST_BITS its value's bits as f32; SPECIAL: those of a pattern m
 * above it. */
#ifdef MD_HAS_F16
/* By way of binary16, which the processor converts: 10 - M bits more in the mantissa, another bias. */
#define MD_FLOAT8_UP(T, M, BIAS, STEP, NORMAL, LARGEST, SPECIAL)                                                       \
    MD_INLINE md_f md_up_##T(md_w8 w)                                                                                  \
    {                                                                                                                  \
        if (M == 2) /* the upper half */                                                                               \
            return md_up_f16(md_widen_w8_w16(w) << 8);                                                                 \
        md_s16 h = md_widen_s8_s16((md_s8)w) << 7 & (short)0xbf80;                                                     \
        h += (md_s16)(h << 1 == 0x7f00) & 0x3e80; /* the pattern of NaN is finite so far */                            \
        return md_up_f16((md_w16)h) * (float)(1 << (BIAS - 112));                                                      \
    }
#else
#define MD_FLOAT8_UP(T, M, BIAS, STEP, NORMAL, LARGEST, SPECIAL)                                                       \
    MD_INLINE md_f md_up_lanes_##T(md_b u)                                                                             \
    {                                                                                                                  \
        const md_b m = u & 0x7f;                                                                                       \
        md_b r = md_where_b((md_b)(m < NORMAL), (md_b)(__builtin_convertvector(m, md_f) * STEP),                       \
            (m << (23 - M)) + (BIAS << 23));                                                                           \
        r = md_where_b((md_b)(m > LARGEST), SPECIAL, r);                                                               \
        return (md_f)(r | (md_b)((md_u)(u & 0x80) << 24));                                                             \
    }                                                                                                                  \
    MD_INLINE md_f md_up_##T(md_w8 w) { return md_up_lanes_##T(md_widen_w8(w)); }
#endif
#define MD_FLOAT8(T, M, BIAS, STEP, NORMAL, LARGEST, SPECIAL, LARGEST_BITS)                                            \
    MD_FLOAT8_UP(T, M, BIAS, STEP, NORMAL, LARGEST, SPECIAL)                                                           \
    MD_INLINE md_w8 md_down_##T(md_f v)                                                                                \
    {                                                                                                                  \
        const md_b u = (md_b)v, top = md_splat_b(1) & (int)LARGEST_BITS, m = md_least_b(u & INT32_MAX, top);           \
        const md_b power = md_most_b(m & 0x7f800000, md_splat_b(1) & (BIAS + 1) << 23);                                \
        /* what is added to it is rounded to M bits, or to STEP; its low bits make the exponent's bias */              \
        const md_b big = power + (((23 - M) << 23) | (-((BIAS + 1) << M) & 0xff));                                     \
        md_b r = (md_b)((md_f)big + (md_f)m) + (power >> (23 - M));                                                    \
        r = (r & 0x7f) | ((md_b)((md_u)u >> 24) & 0x80);                                                               \
        r = md_where_b((md_b)(v != v), md_splat_b(1) & 0x7f, r);                                                       \
        return md_thin_w8(r);                                                                                          \
    }                                                                                                                  \
    MD_INLINE float md_up1_##T(uint8_t h) { return md_up_##T((md_w8){h})[0]; }                                         \
    MD_INLINE uint8_t md_down1_##T(float f) { return md_down_##T(md_splat_f(f))[0]; }                                  \
    MD_INLINE md_f md_round_##T##_f(md_f v) { return md_up_##T(md_down_##T(v)); }                                      \
    MD_INLINE md_f md_round_##T##_d(md_d v) { return md_round_##T##_f(md_odd_d_f(v)); }                                \
    MD_INLINE md_f md_round_##T##_i(md_i v) { return md_round_##T##_f(md_odd_i_f(v)); }                                \
    MD_INLINE float md_round_##T##_sf(float v) { return md_up1_##T(md_down1_##T(v)); }                                 \
    MD_INLINE float md_round_##T##_sd(double v) { return md_round_##T##_sf(md_odd_sd_sf(v)); }                         \
    MD_INLINE float md_round_##T##_si(int64_t v) { return md_round_##T##_sf(md_odd_si_sf(v)); }
MD_FLOAT8(f8e4m3, 3, 120, 0x1p-9f, 8, 0x7e, md_splat_b(1) & 0x7fc00000, 0x43e00000)
MD_FLOAT8(f8e5m2, 2, 112, 0x1p-16f, 4, 0x7b, (m << 21 | 0x7f800000 | ((md_b)(m > 0x7c) & 0x400000)), 0x47600000)
#undef MD_FLOAT8
#undef MD_FLOAT8_UP
/* clang-format on */

#endif
