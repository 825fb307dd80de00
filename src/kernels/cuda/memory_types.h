/* Loads, stores and updates of each storage type, by the names that generated text uses. Included by memory.h. */
#ifndef MD_CUDA_MEMORY_TYPES_H
#define MD_CUDA_MEMORY_TYPES_H

/* clang-format off */
/* ---- The names of the vocabulary. _any: the offset along the last axis need not be a multiple of MD_VL, whatever the
 * envelope promises. */
#define MD_UPDATE(T, name, DO)                                                                                         \
    MD_INLINE void md_update_##name##_##T##_s(void *t, int64_t o, md_t_##T::C v) { md_update<md_t_##T, DO>(t, o, v); } \
    MD_N_DECL MD_INLINE void md_update_##name##_##T##_unit(void *t, int64_t o, md_t_##T::V v, md_n_t n) \
        { md_update_unit<md_t_##T, DO>(t, o, v, n); } \
    MD_N_DECL MD_INLINE void md_update_##name##_##T##_strided(void *t, int64_t o, int64_t s, md_t_##T::V v, md_n_t n) \
        { md_update_steps<md_t_##T, DO>(t, o, s, v, n); } \
    MD_N_DECL MD_INLINE void md_update_##name##_##T##_scatter(void *t, md_i o, md_t_##T::V v, md_n_t n, md_b m) \
        { md_update_scatter<md_t_##T, DO>(t, o, v, n, m); }
#define MD_STORAGE(T)                                                                                                  \
    typedef md_t_##T::V md_v_##T;                                                                                      \
    typedef md_raw<md_t_##T> md_raw_##T;                                                                               \
    MD_N_DECL MD_INLINE md_raw_##T md_fetch_##T##_unit(const void *t, int64_t o, md_n_t n) \
        { return md_fetch_unit<md_t_##T>(t, o, n, true); } \
    MD_N_DECL MD_INLINE md_raw_##T md_fetch_##T##_unit_any(const void *t, int64_t o, md_n_t n) \
        { return md_fetch_unit<md_t_##T>(t, o, n, false); } \
    MD_N_DECL MD_INLINE md_raw_##T md_fetch_##T##_strided(const void *t, int64_t o, int64_t s, md_n_t n) \
        { return md_get_steps<md_t_##T>(t, o, s, n); } \
    MD_INLINE md_v_##T md_unpack_##T(const md_raw_##T &r) { return md_unpack<md_t_##T>(r); }                           \
    MD_INLINE md_raw_##T md_pack_##T##_v(md_v_##T v) { return md_pack<md_t_##T>(v); }                                  \
    MD_N_DECL MD_INLINE md_v_##T md_load_##T##_unit(const void *t, int64_t o, md_n_t n) \
        { return md_unpack_##T(md_fetch_##T##_unit(t, o, n)); } \
    MD_N_DECL MD_INLINE md_v_##T md_load_##T##_unit_any(const void *t, int64_t o, md_n_t n) \
        { return md_unpack_##T(md_fetch_##T##_unit_any(t, o, n)); } \
    MD_N_DECL MD_INLINE md_v_##T md_load_##T##_unit_m(const void *t, int64_t o, md_n_t n, md_b m) \
        { return md_unpack_##T(md_fetch_masked<md_t_##T>(t, o, 1, n, m)); } \
    MD_N_DECL MD_INLINE md_v_##T md_load_##T##_strided(const void *t, int64_t o, int64_t s, md_n_t n) \
        { return md_unpack_##T(md_fetch_##T##_strided(t, o, s, n)); } \
    MD_N_DECL MD_INLINE md_v_##T md_load_##T##_strided_m(const void *t, int64_t o, int64_t s, md_n_t n, md_b m) \
        { return md_unpack_##T(md_fetch_masked<md_t_##T>(t, o, s, n, m)); } \
    MD_N_DECL MD_INLINE md_v_##T md_load_##T##_gather(const void *t, md_i o, md_n_t n) \
        { return md_unpack_##T(md_fetch_gather<md_t_##T>(t, o, n, md_splat_b(1))); } \
    MD_N_DECL MD_INLINE md_v_##T md_load_##T##_gather_m(const void *t, md_i o, md_n_t n, md_b m) \
        { return md_unpack_##T(md_fetch_gather<md_t_##T>(t, o, n, m)); } \
    MD_INLINE md_t_##T::C md_load_##T##_s(const void *t, int64_t o) \
        { return md_t_##T::up(md_element<md_t_##T>(t, o)); } \
    MD_N_DECL MD_INLINE void md_store_##T##_unit(void *t, int64_t o, md_v_##T v, md_n_t n) \
        { md_store_unit<md_t_##T>(t, o, v, n, true, MD_STREAM_STORES); } \
    MD_N_DECL MD_INLINE void md_store_##T##_unit_any(void *t, int64_t o, md_v_##T v, md_n_t n) \
        { md_store_unit<md_t_##T>(t, o, v, n, false, MD_STREAM_STORES); } \
    MD_N_DECL MD_INLINE void md_store_##T##_unit_nt(void *t, int64_t o, md_v_##T v, md_n_t n) \
        { md_store_unit<md_t_##T>(t, o, v, n, true, true); } \
    MD_N_DECL MD_INLINE void md_store_##T##_strided(void *t, int64_t o, int64_t s, md_v_##T v, md_n_t n) \
        { md_put_steps<md_t_##T>(t, o, s, md_pack<md_t_##T>(v), n); } \
    MD_N_DECL MD_INLINE void md_store_##T##_scatter(void *t, md_i o, md_v_##T v, md_n_t n, md_b m)                     \
    {                                                                                                                  \
        const md_raw_##T r = md_pack<md_t_##T>(v);                                                                     \
        MD_FOR (l, MD_VL)                                                                                              \
            if (md_has(n, l) && m.v[l])                                                                                \
                md_element_set<md_t_##T>(t, o.v[l], md_get(r, l));                                                     \
    }                                                                                                                  \
    MD_INLINE void md_store_##T##_s(void *t, int64_t o, md_t_##T::C v)                                                 \
        { md_element_set<md_t_##T>(t, o, md_t_##T::down(v)); }                                                         \
    MD_INLINE int64_t md_lead_##T(const void *t, int64_t o)                                                            \
    {                                                                                                                  \
        if (md_t_##T::KIND == MD_KIND_HALF)                                                                            \
            return 0;                                                                                                  \
        const int past = (int)((uintptr_t)((const md_t_##T::E *)t + o) % md_raw_##T::PIECE), \
            size = (int)sizeof(md_t_##T::E); \
        return past == 0 || past % size != 0 ? 0 : (md_raw_##T::PIECE - past) / size;                                  \
    }                                                                                                                  \
    MD_UPDATE(T, add, MD_DO_ADD)                                                                                       \
    MD_UPDATE(T, mul, MD_DO_MUL)                                                                                       \
    MD_UPDATE(T, max, MD_DO_MAX)                                                                                       \
    MD_UPDATE(T, min, MD_DO_MIN)

#ifdef MD_USE_F32
MD_TYPE(f32, F32, uint32_t, float, md_f, sf, a + b, md_f32(w), md_u32(v))
MD_STORAGE(f32)
#endif
#ifdef MD_USE_F64
MD_TYPE(f64, F64, uint64_t, double, md_d, sd, a + b, md_f64(w), md_u64(v))
MD_STORAGE(f64)
#endif
#ifdef MD_USE_F16
MD_TYPE(f16, F16, uint16_t, float, md_f, sf, a + b, md_up1_f16(w), md_down1_f16(v))
MD_STORAGE(f16)
#endif
#ifdef MD_USE_BF16
MD_TYPE(bf16, BF16, uint16_t, float, md_f, sf, a + b, md_up1_bf16(w), md_down1_bf16(v))
MD_STORAGE(bf16)
#endif
#ifdef MD_USE_I32
MD_TYPE(i32, I32, uint32_t, int64_t, md_i, si, (int64_t)((uint64_t)a + (uint64_t)b), (int32_t)w, (uint32_t)(uint64_t)v)
MD_STORAGE(i32)
#endif
#ifdef MD_USE_I64
MD_TYPE(i64, I64, uint64_t, int64_t, md_i, si, (int64_t)((uint64_t)a + (uint64_t)b), (int64_t)w, (uint64_t)v)
MD_STORAGE(i64)
#endif
#ifdef MD_USE_U8
MD_TYPE(u8, SHORT, uint8_t, int64_t, md_i, si, (int64_t)((uint64_t)a + (uint64_t)b), w, (uint8_t)v)
MD_STORAGE(u8)
#endif
#define MD_SHORT(T, E, S) \
    MD_TYPE(T, SHORT, E, int64_t, md_i, si, (int64_t)((uint64_t)a + (uint64_t)b), (S)w, (E)(S)v) MD_STORAGE(T)
#ifdef MD_USE_I8
MD_SHORT(i8, uint8_t, int8_t)
#endif
#ifdef MD_USE_I16
MD_SHORT(i16, uint16_t, int16_t)
#endif
#ifdef MD_USE_U16
MD_SHORT(u16, uint16_t, uint16_t)
#endif
#ifdef MD_USE_U32
MD_TYPE(u32, I32, uint32_t, int64_t, md_i, si, (int64_t)((uint64_t)a + (uint64_t)b), w, (uint32_t)(uint64_t)v)
MD_STORAGE(u32)
#endif
#ifdef MD_USE_I4
MD_TYPE(i4, HALF, uint8_t, int64_t, md_i, si, (int64_t)((uint64_t)a + (uint64_t)b), (int)(w ^ 8) - 8, (uint8_t)(v & 15))
MD_STORAGE(i4)
#endif
#ifdef MD_USE_U4
MD_TYPE(u4, HALF, uint8_t, int64_t, md_i, si, (int64_t)((uint64_t)a + (uint64_t)b), w, (uint8_t)(v & 15))
MD_STORAGE(u4)
#endif
#ifdef MD_USE_U64
MD_INLINE int64_t md_max_su(int64_t a, int64_t b) { return (uint64_t)a > (uint64_t)b ? a : b; }
MD_INLINE int64_t md_min_su(int64_t a, int64_t b) { return (uint64_t)a < (uint64_t)b ? a : b; }
MD_TYPE(u64, I64, uint64_t, int64_t, md_i, su, (int64_t)((uint64_t)a + (uint64_t)b), (int64_t)w, (uint64_t)v)
MD_STORAGE(u64)
#endif
#ifdef MD_USE_F8E4M3
MD_TYPE(f8e4m3, F8E4M3, uint8_t, float, md_f, sf, a + b, md_up1_f8e4m3(w), md_down1_f8e4m3(v))
MD_STORAGE(f8e4m3)
#endif
#ifdef MD_USE_F8E5M2
MD_TYPE(f8e5m2, F8E5M2, uint8_t, float, md_f, sf, a + b, md_up1_f8e5m2(w), md_down1_f8e5m2(v))
MD_STORAGE(f8e5m2)
#endif
#ifdef MD_USE_BOOL
MD_TYPE(bool, BOOL, uint8_t, int, md_b, sb, a | b, w != 0, (uint8_t)(v != 0))
MD_STORAGE(bool)
#endif
MD_INLINE void md_stream_end(void) {}
/* clang-format on */

#endif
