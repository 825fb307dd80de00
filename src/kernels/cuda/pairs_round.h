/* Rounding by the packing instruction, which leaves the unit of exponentials alone. A part of pairs_*.cu, before
 * md_expr.h. */
#ifndef MD_CUDA_PAIRS_ROUND_H
#define MD_CUDA_PAIRS_ROUND_H

MD_INLINE float md_pairs_round_bf16(float a) { return md_f32(md_pack_bf16(0.f, a) & 0xffff0000u); }
MD_INLINE float md_pairs_round_f16(float a) { return md_up1_f16((uint16_t)md_pack_f16(a, 0.f)); }
#define md_round_bf16_sf md_pairs_round_bf16
#define md_round_f16_sf md_pairs_round_f16

#endif
