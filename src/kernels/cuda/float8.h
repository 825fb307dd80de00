/* The two 8-bit reals: f8e4m3 has bias 7 and no infinities, f8e5m2 is binary16 without its last 8 bits. A store rounds
 * to nearest even and stops at the largest finite value; NaN becomes 0x7f. From sm_89 on the processor does it, two
 * values at a time. Included by memory.h. */
#ifndef MD_CUDA_FLOAT8_H
#define MD_CUDA_FLOAT8_H

/* clang-format off */
template <bool is_e5m2> MD_INLINE float md_up1_f8(uint32_t h)
{
    const uint32_t m = h & 0x7f, sign = (h & 0x80) << 24;
    if constexpr (is_e5m2) /* binary16 without its last bits */
        return md_up1_f16((uint16_t)(h << 8));
    const float v = m == 0x7f ? md_f32(0x7fc00000u) : m < 8 ? (float)m * 0x1p-9f : md_f32((m << 20) + (120u << 23));
    return md_f32(md_u32(v) | sign);
}
template <bool is_e5m2> MD_INLINE uint32_t md_down1_f8(float v)
{
    const uint32_t BITS = is_e5m2 ? 2 : 3, BIAS = is_e5m2 ? 112 : 120, LARGEST = is_e5m2 ? 0x7b : 0x7e;
    const float rounder = is_e5m2 ? 0x1p7f : 0x1p14f; /* its last place is the smallest value */
    const uint32_t u = md_u32(v), m = u & 0x7fffffffu;
    const uint32_t normal = (m - (BIAS << 23) + ((1u << (22 - BITS)) - 1) + (m >> (23 - BITS) & 1)) >> (23 - BITS);
    const uint32_t small = md_u32(__fadd_rn(md_f32(m), rounder)) - md_u32(rounder);
    const uint32_t r = m < (BIAS + 1) << 23 ? small : normal;
    return v != v ? 0x7fu : (r > LARGEST ? LARGEST : r) | (u >> 24 & 0x80);
}
template <bool is_e5m2> MD_INLINE void md_unpack_f8(float &a, float &b, uint32_t two)
{
#if __CUDA_ARCH__ >= 890
    uint32_t h;
    if constexpr (is_e5m2)
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(h) : "h"((uint16_t)two));
    else
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"((uint16_t)two));
    a = md_up1_f16((uint16_t)h);
    b = md_up1_f16((uint16_t)(h >> 16));
#else
    a = md_up1_f8<is_e5m2>(two & 0xff);
    b = md_up1_f8<is_e5m2>(two >> 8);
#endif
}
template <bool is_e5m2> MD_INLINE uint32_t md_pack_f8(float a, float b)
{
#if __CUDA_ARCH__ >= 890
    uint16_t r;
    if constexpr (is_e5m2)
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(b), "f"(a));
    else
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(b), "f"(a));
    return r;
#else
    return md_down1_f8<is_e5m2>(a) | md_down1_f8<is_e5m2>(b) << 8;
#endif
}
MD_INLINE float md_up1_f8e4m3(uint8_t h) { return md_up1_f8<false>(h); }
MD_INLINE float md_up1_f8e5m2(uint8_t h) { return md_up1_f8<true>(h); }
MD_INLINE uint8_t md_down1_f8e4m3(float v) { return (uint8_t)md_down1_f8<false>(v); }
MD_INLINE uint8_t md_down1_f8e5m2(float v) { return (uint8_t)md_down1_f8<true>(v); }
/* clang-format on */

#endif
