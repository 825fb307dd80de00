/* Conversions of 16-bit and 8-bit reals. */
#ifndef MD_BASE_NUMBER_NARROW_H
#define MD_BASE_NUMBER_NARROW_H
#include <md/md.h>
float md_f16_to_f32(uint16_t h);
uint16_t md_f32_to_f16(float f);
float md_bf16_to_f32(uint16_t h);
uint16_t md_f32_to_bf16(float f);
/** t is MD_F8E4M3 or MD_F8E5M2. Too large values become the largest finite one, NaN 0x7f. */
float md_f8_to_f32(md_dtype t, uint8_t h);
uint8_t md_f32_to_f8(md_dtype t, float f);
#endif
