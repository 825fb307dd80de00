/* Products of integers of at most 8 bits: a lane of 32 bits has two steps of K as words, of which one instruction adds
 * both products to a sum of 32 bits. A span of K (split.h) stays below 2^31: 2 * 255 * 255 * MD_SPAN.
 *   md_load_T_pairs(t, o, n)    n values, at most 2 * MD_VL, from consecutive elements: value 2l and 2l + 1 in lane l
 *   md_load_T_words(t, o, n)    n values, at most MD_VL, one in each lane */
#ifndef MD_HOST_PAIRS_H
#define MD_HOST_PAIRS_H

/* clang-format off */
/* c + the sum of the products of both words of a lane. */
MD_INLINE md_b md_dot_pairs(md_b a, md_b b, md_b c)
{
    typedef short words MD_VECTOR(MD_VL * 4);
#if MD_VL == 16 && defined(__AVX512VNNI__) && defined(__clang__)
    return (md_b)__builtin_ia32_vpdpwssd512((md_b)c, (md_b)a, (md_b)b);
#elif MD_VL == 16 && defined(__AVX512VNNI__)
    return (md_b)__builtin_ia32_vpdpwssd_v16si((md_v16si)c, (md_v16si)a, (md_v16si)b);
#elif MD_VL == 16 && defined(__AVX512BW__) && defined(__clang__)
    return (md_b)__builtin_ia32_pmaddwd512((words)a, (words)b) + c;
#elif MD_VL == 16 && defined(__AVX512BW__)
    return (md_b)__builtin_ia32_pmaddwd512_mask((words)a, (words)b, (md_b){0}, (unsigned short)-1) + c;
#elif MD_VL == 8 && defined(__AVX2__)
    return (md_b)__builtin_ia32_pmaddwd256((words)a, (words)b) + c;
#elif MD_VL == 4 && defined(__SSE2__)
    return (md_b)__builtin_ia32_pmaddwd128((words)a, (words)b) + c;
#else
    return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16) + c;
#endif
}

/* Bytes as words, as many as a register holds. */
typedef uint8_t md_pair_bytes MD_VECTOR(MD_VL * 2);
MD_INLINE md_b md_pairs_of_u8(md_pair_bytes w)
{
#if defined(MD_WIDTHS_512)
    return (md_b)__builtin_ia32_pmovzxbw512_mask((char MD_VECTOR(32))w, (short MD_VECTOR(64)){0}, ~0u);
#elif defined(MD_WIDTHS_256)
    return (md_b)__builtin_ia32_pmovzxbw256((md_v16qi)w);
#elif defined(MD_WIDTHS_128)
    return (md_b)__builtin_ia32_punpcklbw128((md_v16qi)MD_FILL(w), (md_v16qi){0});
#else
    typedef uint16_t words MD_VECTOR(MD_VL * 4);
    return (md_b)__builtin_convertvector(w, words);
#endif
}
MD_INLINE md_b md_pairs_of_i8(md_pair_bytes w)
{
#if defined(MD_WIDTHS_512)
    return (md_b)__builtin_ia32_pmovsxbw512_mask((char MD_VECTOR(32))w, (short MD_VECTOR(64)){0}, ~0u);
#elif defined(MD_WIDTHS_256)
    return (md_b)__builtin_ia32_pmovsxbw256((md_v16qi)w);
#elif defined(MD_WIDTHS_128)
    return (md_b)((md_v8hi)__builtin_ia32_punpcklbw128((md_v16qi)MD_FILL(w), (md_v16qi)MD_FILL(w)) >> 8);
#else
    typedef int8_t bytes MD_VECTOR(MD_VL * 2);
    typedef int16_t words MD_VECTOR(MD_VL * 4);
    return (md_b)__builtin_convertvector((bytes)w, words);
#endif
}
MD_OUTLINE md_pair_bytes md_part_of_pairs(const void *t, int64_t o, int n)
{
    md_pair_bytes w = {0};
    for (int l = 0; l < n; l++)
        w[l] = ((const uint8_t *)t)[o + l];
    return w;
}
MD_INLINE md_pair_bytes md_bytes_of_pairs(const void *t, int64_t o, int n)
{
    md_pair_bytes w;
    if (n != 2 * MD_VL)
        return md_part_of_pairs(t, o, n);
    __builtin_memcpy(&w, (const uint8_t *)t + o, sizeof w);
    return w;
}
MD_INLINE md_b md_load_u8_pairs(const void *t, int64_t o, int n) { return md_pairs_of_u8(md_bytes_of_pairs(t, o, n)); }
MD_INLINE md_b md_load_i8_pairs(const void *t, int64_t o, int n) { return md_pairs_of_i8(md_bytes_of_pairs(t, o, n)); }

#if defined(MD_USE_I4) || defined(MD_USE_U4)
MD_OUTLINE md_pair_bytes md_part_of_half_pairs(const void *t, int64_t o, int n)
{
    md_pair_bytes w = {0};
    for (int l = 0; l < n; l++)
        w[l] = md_get_half(t, o + l);
    return w;
}
MD_INLINE md_b md_load_u4_pairs(const void *t, int64_t o, int n)
{
    md_w8 w;
    if (n != 2 * MD_VL || (o & 1))
        return md_pairs_of_u8(md_part_of_half_pairs(t, o, n));
    __builtin_memcpy(&w, (const uint8_t *)t + (o >> 1), sizeof w);
    const md_b both = md_widen_w8(w); /* two values in a byte */
    return (both | both << 12) & 0x000f000f;
}
MD_INLINE md_b md_load_i4_pairs(const void *t, int64_t o, int n)
{
    typedef int16_t words MD_VECTOR(MD_VL * 4);
    return (md_b)(((words)md_load_u4_pairs(t, o, n) ^ 8) - 8);
}
#endif

#ifdef MD_USE_U8
MD_INLINE md_b md_load_u8_words(const void *t, int64_t o, int n) { return md_to_b(md_load_u8_unit(t, o, n)); }
#endif
#ifdef MD_USE_I8
MD_INLINE md_b md_load_i8_words(const void *t, int64_t o, int n) { return md_to_b(md_load_i8_unit(t, o, n)); }
#endif
#ifdef MD_USE_U4
MD_INLINE md_b md_load_u4_words(const void *t, int64_t o, int n) { return md_to_b(md_load_u4_unit(t, o, n)); }
#endif
#ifdef MD_USE_I4
MD_INLINE md_b md_load_i4_words(const void *t, int64_t o, int n) { return md_to_b(md_load_i4_unit(t, o, n)); }
#endif
MD_INLINE int32_t md_pair_of(int32_t first, int32_t second)
{
    return (first & 0xffff) | (int32_t)((uint32_t)second << 16);
}
MD_INLINE void md_put_pairs(int32_t *out, md_b v, int64_t n)
{
    if (n == MD_VL)
        __builtin_memcpy(out, &v, sizeof v);
    else
        for (int64_t l = 0; l < n; l++)
            out[l] = v[l];
}
/* clang-format on */

#endif
