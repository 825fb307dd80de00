/* Conversions of 16-bit and 8-bit reals. */
#include "base/number/number.h"

#include <math.h>

/* ---- Half precision: IEEE 754 binary16, and bfloat16 (the upper half of binary32). */

/* u >> shift, rounded to nearest, ties to even; 1 <= shift <= 31. */
static uint32_t shift_rounded(uint32_t u, int shift)
{
    uint32_t kept = u >> shift;
    uint32_t rest = u & ((1u << shift) - 1), half = 1u << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

float md_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) /* infinity, or NaN, made quiet as the processor does */
        return md_float_of(sign | 0x7f800000u | magnitude << 13 | (magnitude > 0x7c00u ? 0x400000u : 0));
    if (magnitude >= 0x0400u)
        return md_float_of(sign | ((magnitude << 13) + 0x38000000u));
    float f = (float)magnitude * 0x1p-24f; /* subnormal: exact */
    return sign ? -f : f;
}

uint16_t md_f32_to_f16(float f)
{
    uint32_t u = md_bits_of(f), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu, h;
    if (magnitude > 0x7f800000u)
        h = 0x7e00u | (magnitude >> 13 & 0x3ffu); /* NaN: quiet, upper payload kept */
    else if (magnitude >= 0x47800000u)
        h = 0x7c00u; /* 2^16 and above */
    else if (magnitude >= 0x38800000u)
        h = shift_rounded(magnitude - 0x38000000u, 13); /* normal; 65520 and above carry into infinity */
    else if (magnitude >= 0x33000000u)
        h = shift_rounded((magnitude & 0x7fffffu) | 0x800000u, 126 - (int)(magnitude >> 23)); /* subnormal, 2^-25 on */
    else
        h = 0;
    return (uint16_t)(sign | h);
}

float md_bf16_to_f32(uint16_t h)
{
    return md_float_of((uint32_t)h << 16);
}

uint16_t md_f32_to_bf16(float f)
{
    uint32_t u = md_bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u); /* NaN stays NaN */
    return (uint16_t)shift_rounded(u, 16); /* the sign is kept: the magnitude grows at most to infinity */
}

/* ---- 8-bit reals (OCP 8-bit Floating Point Specification, 2023): f8e4m3 has bias 7 and one NaN of either sign, f8e5m2
 * is binary16 without its last 8 bits. */

typedef struct f8_format {
    int mantissa_bits, bias;
    uint32_t largest, infinity; /* infinity: the first pattern that is no number */
} f8_format;

static f8_format f8_of(md_dtype t)
{
    return t == MD_F8E4M3 ? (f8_format){3, 7, 0x7e, 0x7f} : (f8_format){2, 15, 0x7b, 0x7c};
}

float md_f8_to_f32(md_dtype t, uint8_t h)
{
    const f8_format f = f8_of(t);
    const uint32_t sign = (uint32_t)(h & 0x80u) << 24, magnitude = h & 0x7fu;
    if (magnitude >= f.infinity)
        return md_float_of(sign | (t == MD_F8E5M2 && magnitude == f.infinity ? 0x7f800000u : 0x7fc00000u));
    const int exponent = (int)(magnitude >> f.mantissa_bits);
    const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    const uint32_t whole = exponent ? mantissa | 1u << f.mantissa_bits : mantissa;
    const float value = ldexpf((float)whole, (exponent ? exponent : 1) - f.bias - f.mantissa_bits);
    return sign ? -value : value;
}

uint8_t md_f32_to_f8(md_dtype t, float f)
{
    const f8_format to = f8_of(t);
    const uint32_t u = md_bits_of(f), magnitude = u & 0x7fffffffu;
    const int shift = 23 - to.mantissa_bits, exponent = (int)(magnitude >> 23) - 127 + to.bias;
    uint32_t h;
    if (magnitude > 0x7f800000u)
        return 0x7f;
    if (exponent > 0) /* normal; may carry beyond the largest */
        h = shift_rounded(magnitude - ((uint32_t)(127 - to.bias) << 23), shift);
    else if (exponent >= -to.mantissa_bits) /* subnormal */
        h = shift_rounded((magnitude & 0x7fffffu) | 0x800000u, shift + 1 - exponent);
    else
        h = 0;
    return (uint8_t)(u >> 24 & 0x80u) | (uint8_t)(h < to.largest ? h : to.largest);
}
