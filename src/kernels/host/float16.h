/* bfloat16 and binary16, lane by lane and one by one; both round to nearest even. A part of memory.h. */
#ifndef MD_HOST_FLOAT16_H
#define MD_HOST_FLOAT16_H

/* clang-format off */
/* ---- bfloat16 is the upper half of binary32. */
MD_INLINE md_f md_up_bf16(md_w16 w) { return (md_f)((md_u)md_widen_w16(w) << 16); }
MD_INLINE md_w16 md_down_bf16(md_f v)
{
    md_u u = (md_u)v, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return md_thin_w16((md_b)md_where_b((md_b)(v != v), (md_b)(u >> 16 | 0x40), (md_b)rounded));
}
MD_INLINE float md_up1_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
}
MD_INLINE uint16_t md_down1_bf16(float f)
{
    uint32_t u;
    __builtin_memcpy(&u, &f, 4);
    return (uint16_t)(f != f ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}
MD_INLINE md_f md_round_bf16_f(md_f v) { return md_up_bf16(md_down_bf16(v)); }
MD_INLINE md_f md_round_bf16_d(md_d v) { return md_round_bf16_f(md_odd_d_f(v)); }
MD_INLINE md_f md_round_bf16_i(md_i v) { return md_round_bf16_f(md_odd_i_f(v)); }
MD_INLINE float md_round_bf16_sf(float v) { return md_up1_bf16(md_down1_bf16(v)); }
MD_INLINE float md_round_bf16_sd(double v) { return md_round_bf16_sf(md_odd_sd_sf(v)); }
MD_INLINE float md_round_bf16_si(int64_t v) { return md_round_bf16_sf(md_odd_si_sf(v)); }

/* ---- binary16, by integer and float arithmetic; subnormals by adding 1/2, whose last place is binary16's smallest
 * step (after F. Giesen, "float->half variants"). With F16C the processor does it. */
#if (defined(__AVX512F__) && MD_VL == 16) || (defined(__F16C__) && MD_VL == 8)
#define MD_HAS_F16 1
#endif
MD_INLINE md_f md_up_f16(md_w16 w)
{
#ifdef MD_HAS_F16
#if MD_VL == 16
    md_f v = (md_f)__builtin_ia32_vcvtph2ps512_mask((short MD_VECTOR(32))w, (float MD_VECTOR(64)){0},
        (unsigned short)0xffff, 4);
#else
    md_f v = (md_f)__builtin_ia32_vcvtph2ps256((short MD_VECTOR(16))w);
#endif
#ifdef __clang__ /* it would compare what was converted as binary16, which it does one by one */
    __asm__("" : "+v"(v));
#endif
    return v;
#else
    md_u u = (md_u)md_widen_w16(w), sign = (u & 0x8000) << 16, magnitude = u & 0x7fff;
    md_u normal = (magnitude << 13) + 0x38000000;
    md_u special = (magnitude << 13) | 0x7f800000 | ((md_u)(magnitude > 0x7c00) & 0x400000);
    md_f subnormal = __builtin_convertvector((md_b)magnitude, md_f) * 0x1p-24f;
    md_b r = md_where_b((md_b)(magnitude < 0x400), (md_b)subnormal, (md_b)normal);
    return (md_f)((md_u)md_where_b((md_b)(magnitude >= 0x7c00), (md_b)special, r) | sign);
#endif
}
#if MD_VL == 16
#define MD_TO_F16(v, rounding) ((md_w16)__builtin_ia32_vcvtps2ph512_mask((float MD_VECTOR(64))(v), rounding,           \
        (short MD_VECTOR(32)){0}, (unsigned short)0xffff))
#else
#define MD_TO_F16(v, rounding) ((md_w16)__builtin_ia32_vcvtps2ph256((float MD_VECTOR(32))(v), rounding))
#endif
MD_INLINE md_w16 md_down_f16(md_f v)
{
#ifdef MD_HAS_F16
    return MD_TO_F16(v, 0);
#else
    md_u u = (md_u)v, sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    md_u normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    md_u subnormal = (md_u)((md_f)magnitude + 0.5f) - 0x3f000000;
    md_u special = 0x7c00 | ((md_u)(magnitude > 0x7f800000) & (0x200 | (magnitude >> 13 & 0x3ff)));
    md_b r = md_where_b((md_b)(magnitude < 0x38800000), (md_b)subnormal, (md_b)normal);
    r = md_where_b((md_b)(magnitude >= 0x477ff000), (md_b)special, r); /* 65520 rounds to infinity */
    return md_thin_w16((md_b)r | sign);
#endif
}
MD_INLINE float md_up1_f16(uint16_t h) { return md_up_f16((md_w16){h})[0]; }
MD_INLINE uint16_t md_down1_f16(float f) { return md_down_f16(md_splat_f(f))[0]; }
MD_INLINE md_f md_round_f16_f(md_f v) { return md_up_f16(md_down_f16(v)); }
MD_INLINE md_f md_round_f16_d(md_d v) { return md_round_f16_f(md_odd_d_f(v)); }
MD_INLINE md_f md_round_f16_i(md_i v) { return md_round_f16_f(md_odd_i_f(v)); }
MD_INLINE float md_round_f16_sf(float v) { return md_up1_f16(md_down1_f16(v)); }
MD_INLINE float md_round_f16_sd(double v) { return md_round_f16_sf(md_odd_sd_sf(v)); }
MD_INLINE float md_round_f16_si(int64_t v) { return md_round_f16_sf(md_odd_si_sf(v)); }
/* clang-format on */

#endif
