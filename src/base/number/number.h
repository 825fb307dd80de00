/* Numbers: bits, and types of 16 bits and fewer. */
#ifndef MD_BASE_NUMBER_NUMBER_H
#define MD_BASE_NUMBER_NUMBER_H

#include <md/md.h>
#include <stdint.h>
#include <string.h>

/* ---- bits.c */

/* The bits of a float, and the float of bits. */

static inline uint32_t md_bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float md_float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* ---- narrow.c */

/* Conversions of 16-bit and 8-bit reals. */

float md_f16_to_f32(uint16_t h);
uint16_t md_f32_to_f16(float f);
float md_bf16_to_f32(uint16_t h);
uint16_t md_f32_to_bf16(float f);
/** t is MD_F8E4M3 or MD_F8E5M2. Too large values become the largest finite one, NaN 0x7f. */
float md_f8_to_f32(md_dtype t, uint8_t h);
uint8_t md_f32_to_f8(md_dtype t, float f);

#endif
