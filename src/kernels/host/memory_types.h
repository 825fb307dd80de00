/* Loads, stores and updates of each storage type, by the names that generated text uses. Included by memory.h. */
#ifndef MD_HOST_MEMORY_TYPES_H
#define MD_HOST_MEMORY_TYPES_H

/* clang-format off */
#define MD_STRIDED(l) e[(l) * s]
#define MD_GATHERED(l) e[o[l]]
#define MD_SAME(w) (w)
#define MD_ONE_f32(v) (v)
#define MD_ONE_f64(v) (v)
#define MD_ONE_bf16(v) (v)
#define MD_ONE_f16(v) (v)
#define MD_ONE_i64(v) (v)
#define MD_ONE_i32(v) (v)
#define MD_ONE_u8(v) (v)
#define MD_ONE_bool(v) ((v) != 0)
#define MD_ONE_i8(v) (v)
#define MD_ONE_i16(v) (v)
#define MD_ONE_u16(v) (v)
#define MD_ONE_u32(v) (v)
#define MD_ONE_u64(v) (v)
#define MD_ONE_f8e4m3(v) (v)
#define MD_ONE_f8e5m2(v) (v)

#define MD_UP_I32(w) md_from_b(w)
#define MD_DOWN_I32(v) md_to_b(v)
#define MD_DOWN1_I32(v) ((int32_t)(v))
#define MD_UP_U8(w) md_from_b(md_widen_w8(w))
#define MD_UP_I8(w) md_from_b(md_widen_s8(w))
#define MD_UP_I16(w) md_from_b(md_widen_s16(w))
#define MD_UP_U16(w) md_from_b(md_widen_w16(w))
#define MD_DOWN_U8(v) md_thin_w8(md_to_b(v))
#define MD_DOWN1_U8(v) ((uint8_t)(v))
#define MD_DOWN_I8(v) ((md_s8)md_thin_w8(md_to_b(v)))
#define MD_DOWN1_I8(v) ((int8_t)(v))
#define MD_DOWN_I16(v) ((md_s16)md_thin_w16(md_to_b(v)))
#define MD_DOWN1_I16(v) ((int16_t)(v))
#define MD_DOWN_U16(v) md_thin_w16(md_to_b(v))
#define MD_DOWN1_U16(v) ((uint16_t)(v))
#define MD_UP_U32(w) ((md_i)md_widen_u(w))
#define MD_DOWN_U32(v) ((md_u)md_thin_b(v))
#define MD_DOWN1_U32(v) ((uint32_t)(v))
/* Of u64 the bits; only these two compare. */
MD_INLINE int64_t md_max_su(int64_t a, int64_t b) { return (uint64_t)a > (uint64_t)b ? a : b; }
MD_INLINE int64_t md_min_su(int64_t a, int64_t b) { return (uint64_t)a < (uint64_t)b ? a : b; }
#ifndef MD_NARROW
MD_INLINE md_i md_max_u(md_i a, md_i b) { return md_wide_where_i(md_wide_gt_i(a ^ INT64_MIN, b ^ INT64_MIN), a, b); }
MD_INLINE md_i md_min_u(md_i a, md_i b) { return md_wide_where_i(md_wide_lt_i(a ^ INT64_MIN, b ^ INT64_MIN), a, b); }
#endif
#define MD_UP_BOOL(w) ((md_b)(md_widen_w8(w) != (md_b){0}))
#define MD_DOWN_BOOL(v) md_thin_w8((v) & 1)
#define MD_UP1_BOOL(w) ((w) != 0)
#define MD_DOWN1_BOOL(v) ((uint8_t)((v) != 0))

#ifdef MD_USE_F32
MD_STORAGE(f32, float, md_f, md_f, float, MD_SAME, MD_SAME, MD_SAME, MD_SAME, f, sf, MD_OP_ADD)
#endif
#ifdef MD_USE_F64
MD_STORAGE(f64, double, md_d, md_d, double, MD_SAME, MD_SAME, MD_SAME, MD_SAME, d, sd, MD_OP_ADD)
#endif
#ifdef MD_USE_F16
MD_STORAGE(f16, uint16_t, md_w16, md_f, float, md_up_f16, md_down_f16, md_up1_f16, md_down1_f16, f, sf, MD_OP_ADD)
#endif
#ifdef MD_USE_BF16
MD_STORAGE(bf16, uint16_t, md_w16, md_f, float, md_up_bf16, md_down_bf16, md_up1_bf16, md_down1_bf16, f, sf, MD_OP_ADD)
#endif
#ifdef MD_USE_I32
MD_STORAGE(i32, int32_t, md_b, md_i, int64_t, MD_UP_I32, MD_DOWN_I32, MD_SAME, MD_DOWN1_I32, i, si, MD_OP_ADD)
#endif
#ifdef MD_USE_I64
MD_STORAGE(i64, int64_t, md_i, md_i, int64_t, MD_SAME, MD_SAME, MD_SAME, MD_SAME, i, si, MD_OP_ADD)
#endif
#ifdef MD_USE_U8
MD_STORAGE(u8, uint8_t, md_w8, md_i, int64_t, MD_UP_U8, MD_DOWN_U8, MD_SAME, MD_DOWN1_U8, i, si, MD_OP_ADD)
#endif
#ifdef MD_USE_I8
MD_STORAGE(i8, int8_t, md_s8, md_i, int64_t, MD_UP_I8, MD_DOWN_I8, MD_SAME, MD_DOWN1_I8, i, si, MD_OP_ADD)
#endif
#ifdef MD_USE_I16
MD_STORAGE(i16, int16_t, md_s16, md_i, int64_t, MD_UP_I16, MD_DOWN_I16, MD_SAME, MD_DOWN1_I16, i, si, MD_OP_ADD)
#endif
#ifdef MD_USE_U16
MD_STORAGE(u16, uint16_t, md_w16, md_i, int64_t, MD_UP_U16, MD_DOWN_U16, MD_SAME, MD_DOWN1_U16, i, si, MD_OP_ADD)
#endif
#ifdef MD_USE_U32
MD_STORAGE(u32, uint32_t, md_u, md_i, int64_t, MD_UP_U32, MD_DOWN_U32, MD_SAME, MD_DOWN1_U32, i, si, MD_OP_ADD)
#endif
#ifdef MD_USE_U64
MD_STORAGE(u64, int64_t, md_i, md_i, int64_t, MD_SAME, MD_SAME, MD_SAME, MD_SAME, u, su, MD_OP_ADD)
#endif
#ifdef MD_USE_F8E4M3
MD_STORAGE(f8e4m3, uint8_t, md_w8, md_f, float, md_up_f8e4m3, md_down_f8e4m3, md_up1_f8e4m3, md_down1_f8e4m3, f, sf,
    MD_OP_ADD)
#endif
#ifdef MD_USE_F8E5M2
MD_STORAGE(f8e5m2, uint8_t, md_w8, md_f, float, md_up_f8e5m2, md_down_f8e5m2, md_up1_f8e5m2, md_down1_f8e5m2, f, sf,
    MD_OP_ADD)
#endif
#ifdef MD_USE_BOOL
MD_STORAGE(bool, uint8_t, md_w8, md_b, int, MD_UP_BOOL, MD_DOWN_BOOL, MD_UP1_BOOL, MD_DOWN1_BOOL, b, sb, MD_OP_OR)
#endif

/* Integers in lanes of 32 bits, from consecutive elements. */
#define MD_NEAR_TYPE(T, E, W, WIDEN)                                                                                   \
    MD_INLINE md_b md_near_##T(const void *t, int64_t o, int n)                                                        \
    {                                                                                                                  \
        W w;                                                                                                           \
        if (n == MD_VL)                                                                                                \
            __builtin_memcpy(&w, (const E *)t + o, sizeof w);                                                          \
        else                                                                                                           \
            w = md_part_##T(t, o, n);                                                                                  \
        return WIDEN(w);                                                                                               \
    }
#define MD_NEAR_BOOL(w) (-MD_UP_BOOL(w))
#ifdef MD_USE_BOOL
MD_NEAR_TYPE(bool, uint8_t, md_w8, MD_NEAR_BOOL)
#endif
#ifdef MD_USE_U8
MD_NEAR_TYPE(u8, uint8_t, md_w8, md_widen_w8)
#endif
#ifdef MD_USE_I8
MD_NEAR_TYPE(i8, int8_t, md_s8, md_widen_s8)
#endif
#ifdef MD_USE_U16
MD_NEAR_TYPE(u16, uint16_t, md_w16, md_widen_w16)
#endif
#ifdef MD_USE_I16
MD_NEAR_TYPE(i16, int16_t, md_s16, md_widen_s16)
#endif
#if defined(MD_USE_I4) || defined(MD_USE_U4)
#include "packed.h"
#endif
/* clang-format on */

#endif
