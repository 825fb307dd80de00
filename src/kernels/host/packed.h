/* i4 and u4: two elements to a byte, the first in its low half. Offsets are in elements. Included by memory_types.h.
 *
 * A store sets whole bytes where it has both halves. A half alone is set by atomic operations, since another thread may
 * set the other half. */
#ifndef MD_HOST_PACKED_H
#define MD_HOST_PACKED_H

/* clang-format off */
/* Eight half bytes as eight bytes, and back. */
MD_INLINE uint64_t md_spread(uint32_t w)
{
    uint64_t x = w;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
}
MD_INLINE uint32_t md_squeeze(uint64_t x)
{
    x &= 0x0f0f0f0f0f0f0f0fu;
    x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    return (uint32_t)(x | x >> 16);
}
#define MD_EIGHTS ((MD_VL + 7) / 8) /* words of eight elements */
MD_INLINE md_w8 md_get_halves(const void *t, int64_t o)
{
    uint32_t from[MD_EIGHTS] = {0};
    uint64_t to[MD_EIGHTS];
    md_w8 w;
    __builtin_memcpy(from, (const uint8_t *)t + (o >> 1), MD_VL / 2);
    for (int i = 0; i < MD_EIGHTS; i++)
        to[i] = md_spread(from[i]);
    __builtin_memcpy(&w, to, MD_VL);
    return w;
}
MD_INLINE void md_put_halves(void *t, int64_t o, md_w8 w)
{
    uint64_t from[MD_EIGHTS] = {0};
    uint32_t to[MD_EIGHTS];
    __builtin_memcpy(from, &w, MD_VL);
    for (int i = 0; i < MD_EIGHTS; i++)
        to[i] = md_squeeze(from[i]);
    __builtin_memcpy((uint8_t *)t + (o >> 1), to, MD_VL / 2);
}
MD_INLINE uint8_t md_get_half(const void *t, int64_t o)
    { return (uint8_t)(((const uint8_t *)t)[o >> 1] >> (o & 1) * 4 & 15); }
MD_INLINE void md_put_half(void *t, int64_t o, int64_t v)
{
    uint8_t *byte = (uint8_t *)t + (o >> 1);
    const int shift = (int)(o & 1) * 4;
    uint8_t seen = __atomic_load_n(byte, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(byte, &seen, (uint8_t)((seen & ~(15 << shift)) | (int)(v & 15) << shift), 1,
        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}
MD_OUTLINE md_w8 md_part_halves(const void *t, int64_t o, int64_t s, int n)
{
    md_w8 w = {0};
    for (int l = 0; l < n; l++)
        w[l] = md_get_half(t, o + l * s);
    return w;
}
MD_OUTLINE md_w8 md_part_halves_m(const void *t, int64_t o, int64_t s, int n, md_b m)
{
    md_w8 w = {0};
    for (int l = 0; l < n; l++)
        if (m[l])
            w[l] = md_get_half(t, o + l * s);
    return w;
}
MD_OUTLINE md_w8 md_part_halves_g(const void *t, md_i o, int n, md_b m)
{
    md_w8 w = {0};
    for (int l = 0; l < n; l++)
        if (m[l])
            w[l] = md_get_half(t, o[l]);
    return w;
}
MD_OUTLINE void md_put_part_halves(void *t, int64_t o, md_w8 w, int n)
{
    int l = 0;
    if ((o & 1) && n > 0)
        md_put_half(t, o, w[l++]);
    for (; l + 1 < n; l += 2)
        ((uint8_t *)t)[(o + l) / 2] = (uint8_t)((w[l] & 15) | w[l + 1] << 4);
    if (l < n)
        md_put_half(t, o + l, w[l]);
}
MD_OUTLINE void md_put_halves_g(void *t, md_i o, md_w8 w, int n, md_b m)
{
    for (int l = 0; l < n; l++)
        if (m[l])
            md_put_half(t, o[l], w[l]);
}
MD_OUTLINE void md_put_halves_s(void *t, int64_t o, int64_t s, md_w8 w, int n)
{
    for (int l = 0; l < n; l++)
        md_put_half(t, o + l * s, w[l]);
}
MD_INLINE md_i md_up_u4(md_w8 w) { return MD_UP_U8(w); }
MD_INLINE md_i md_up_i4(md_w8 w) { return MD_UP_I8((md_s8)((w ^ 8) - 8)); }
/* From an even offset: each lane's half byte in its highest bits. */
MD_INLINE md_b md_top_halves(const void *t, int64_t o)
{
#if MD_VL == 16 && defined(__AVX512F__)
    int64_t both;
    __builtin_memcpy(&both, (const uint8_t *)t + (o >> 1), 8);
    const md_b w = (md_b)(both + (md_ih){0});
    return __builtin_shufflevector(w, w, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
        << (md_b){28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0};
#elif MD_VL == 8 && defined(__AVX2__)
    int32_t w;
    __builtin_memcpy(&w, (const uint8_t *)t + (o >> 1), 4);
    return (w + (md_b){0}) << (md_b){28, 24, 20, 16, 12, 8, 4, 0};
#else
    return md_widen_w8(md_get_halves(t, o)) << 28;
#endif
}
MD_INLINE md_b md_whole_u4(const void *t, int64_t o) { return (md_b)((md_u)md_top_halves(t, o) >> 28); }
MD_INLINE md_b md_whole_i4(const void *t, int64_t o) { return md_top_halves(t, o) >> 28; }
MD_INLINE md_b md_near_u4(const void *t, int64_t o, int n)
    { return n == MD_VL && !(o & 1) ? md_whole_u4(t, o) : md_widen_w8(md_part_halves(t, o, 1, n)); }
MD_INLINE md_b md_near_i4(const void *t, int64_t o, int n)
    { return n == MD_VL && !(o & 1) ? md_whole_i4(t, o) : (md_widen_w8(md_part_halves(t, o, 1, n)) ^ 8) - 8; }

#define MD_PACKED(T, UP1)                                                                                              \
    MD_INLINE md_i md_load_##T##_unit(const void *t, int64_t o, int n)                                                 \
        { return n == MD_VL && !(o & 1) ? md_from_b(md_whole_##T(t, o)) : md_up_##T(md_part_halves(t, o, 1, n)); }     \
    MD_INLINE md_i md_load_##T##_unit_m(const void *t, int64_t o, int n, md_b m)                                       \
        { return md_up_##T(md_part_halves_m(t, o, 1, n, m)); }                                                         \
    MD_INLINE md_i md_load_##T##_strided(const void *t, int64_t o, int64_t s, int n)                                   \
        { return md_up_##T(md_part_halves(t, o, s, n)); }                                                              \
    MD_INLINE md_i md_load_##T##_strided_m(const void *t, int64_t o, int64_t s, int n, md_b m)                         \
        { return md_up_##T(md_part_halves_m(t, o, s, n, m)); }                                                         \
    MD_INLINE md_i md_load_##T##_gather(const void *t, md_i o, int n)                                                  \
        { return md_up_##T(md_part_halves_g(t, o, n, ~(md_b){0})); }                                                   \
    MD_INLINE md_i md_load_##T##_gather_m(const void *t, md_i o, int n, md_b m)                                        \
        { return md_up_##T(md_part_halves_g(t, o, n, m)); }                                                            \
    MD_INLINE int64_t md_load_##T##_s(const void *t, int64_t o) { const int w = md_get_half(t, o); return UP1; }       \
    MD_INLINE void md_store_##T##_unit(void *t, int64_t o, md_i v, int n)                                              \
    {                                                                                                                  \
        if (n == MD_VL && !(o & 1))                                                                                  \
            md_put_halves(t, o, MD_DOWN_U8(v));                                                                        \
        else                                                                                                           \
            md_put_part_halves(t, o, MD_DOWN_U8(v), n);                                                                \
    }                                                                                                                  \
    MD_INLINE void md_store_##T##_unit_nt(void *t, int64_t o, md_i v, int n) { md_store_##T##_unit(t, o, v, n); }      \
    MD_INLINE void md_store_##T##_strided(void *t, int64_t o, int64_t s, md_i v, int n)                                \
        { md_put_halves_s(t, o, s, MD_DOWN_U8(v), n); }                                                                \
    MD_INLINE void md_store_##T##_scatter(void *t, md_i o, md_i v, int n, md_b m)                                      \
        { md_put_halves_g(t, o, MD_DOWN_U8(v), n, m); }                                                                \
    MD_INLINE void md_store_##T##_s(void *t, int64_t o, int64_t v) { md_put_half(t, o, v); }                           \
    MD_INLINE int64_t md_lead_##T(const void *t, int64_t o) { (void)t; (void)o; return 0; }

/* Every value, in lanes of which four bits are the number. */
MD_INLINE md_i md_every_u4(void) { return (md_i)MD_IOTA; }
MD_INLINE md_i md_every_i4(void) { return ((md_i)MD_IOTA ^ 8) - 8; }
#ifdef MD_USE_I4
MD_PACKED(i4, (w ^ 8) - 8)
#endif
#ifdef MD_USE_U4
MD_PACKED(u4, w)
#endif
/* clang-format on */

#endif
