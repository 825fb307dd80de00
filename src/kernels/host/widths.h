/* Lanes made wider and narrower. Clang makes vector code of any conversion. GCC 12 makes scalar code where a vector is
 * smaller than a register (8 bytes and less) or larger, so its builtins are named here. A part of prelude.h.
 *   md_widen_T(lanes of T)   to 32 bits: s8, w8 (unsigned), s16, w16; to 64 bits: b, u
 *   md_thin_T(lanes)         the low bits: w8, w16 of 32 bits, b of 64
 *   md_widen_w8_w16, md_widen_s8_s16, md_thin_w16_w8
 *   md_under_f(a, high), md_over_f(a, low): a, or the bound where a is beyond it; a NaN stays
 *   md_least_b, md_most_b: the smaller and the greater of two, in which GCC sees no single instruction */
#ifndef MD_HOST_WIDTHS_H
#define MD_HOST_WIDTHS_H

typedef uint16_t md_w16 MD_VECTOR(MD_VL * 2);
typedef uint8_t md_w8 MD_VECTOR(MD_VL);
typedef int16_t md_s16 MD_VECTOR(MD_VL * 2);
typedef int8_t md_s8 MD_VECTOR(MD_VL);

#if !defined(__clang__) && MD_VL == 16 && defined(__AVX512BW__) && defined(__AVX512VL__)
#define MD_WIDTHS_512
#elif !defined(__clang__) && MD_VL == 8 && defined(__AVX2__)
#define MD_WIDTHS_256
#elif !defined(__clang__) && MD_VL == 4 && defined(__SSE2__)
#define MD_WIDTHS_128
#endif

/* clang-format off */
#if defined(MD_WIDTHS_512) || defined(MD_WIDTHS_256) || defined(MD_WIDTHS_128)
typedef char md_v16qi MD_VECTOR(16);
typedef short md_v8hi MD_VECTOR(16);
typedef int md_v4si MD_VECTOR(16);
typedef long long md_v2di MD_VECTOR(16);
typedef long long md_v4di MD_VECTOR(32);
typedef int md_v8si MD_VECTOR(32);
typedef short md_v16hi MD_VECTOR(32);

/* The first bytes of a register, and back. */
#define MD_FILL(w)                                                                                                     \
    (__extension__({                                                                                                   \
        const __typeof__(w) md_from = (w);                                                                             \
        md_v2di md_to = {0};                                                                                           \
        if (sizeof md_from == 16) {                                                                                    \
            __builtin_memcpy(&md_to, &md_from, sizeof md_from);                                                        \
        } else if (sizeof md_from == 8) {                                                                              \
            long long md_bits;                                                                                         \
            __builtin_memcpy(&md_bits, &md_from, 8);                                                                   \
            md_to = (md_v2di){md_bits, 0};                                                                             \
        } else {                                                                                                       \
            int md_bits;                                                                                               \
            __builtin_memcpy(&md_bits, &md_from, 4);                                                                   \
            md_to = (md_v2di)(md_v4si){md_bits, 0, 0, 0};                                                              \
        }                                                                                                              \
        md_to;                                                                                                         \
    }))
#endif

#if defined(MD_WIDTHS_512)
typedef long long md_v8di MD_VECTOR(64);
typedef int md_v16si MD_VECTOR(64);
#define MD_ALL16 ((unsigned short)-1)
#define MD_ALL8 ((unsigned char)-1)
MD_INLINE md_b md_widen_s8(md_s8 w)
    { return (md_b)__builtin_ia32_pmovsxbd512_mask((md_v16qi)w, (md_v16si){0}, MD_ALL16); }
MD_INLINE md_b md_widen_w8(md_w8 w)
    { return (md_b)__builtin_ia32_pmovzxbd512_mask((md_v16qi)w, (md_v16si){0}, MD_ALL16); }
MD_INLINE md_b md_widen_s16(md_s16 w)
    { return (md_b)__builtin_ia32_pmovsxwd512_mask((md_v16hi)w, (md_v16si){0}, MD_ALL16); }
MD_INLINE md_b md_widen_w16(md_w16 w)
    { return (md_b)__builtin_ia32_pmovzxwd512_mask((md_v16hi)w, (md_v16si){0}, MD_ALL16); }
MD_INLINE md_w8 md_thin_w8(md_b v)
    { return (md_w8)__builtin_ia32_pmovdb512_mask((md_v16si)v, (md_v16qi){0}, MD_ALL16); }
MD_INLINE md_w16 md_thin_w16(md_b v)
    { return (md_w16)__builtin_ia32_pmovdw512_mask((md_v16si)v, (md_v16hi){0}, MD_ALL16); }
MD_INLINE md_w16 md_widen_w8_w16(md_w8 w) { return (md_w16)__builtin_ia32_pmovzxbw256((md_v16qi)w); }
MD_INLINE md_s16 md_widen_s8_s16(md_s8 w) { return (md_s16)__builtin_ia32_pmovsxbw256((md_v16qi)w); }
MD_INLINE md_b md_least_b(md_b a, md_b b)
    { return (md_b)__builtin_ia32_pminsd512_mask((md_v16si)a, (md_v16si)b, (md_v16si){0}, MD_ALL16); }
MD_INLINE md_b md_most_b(md_b a, md_b b)
    { return (md_b)__builtin_ia32_pmaxsd512_mask((md_v16si)a, (md_v16si)b, (md_v16si){0}, MD_ALL16); }
MD_INLINE md_w8 md_thin_w16_w8(md_w16 w)
    { return (md_w8)__builtin_ia32_pmovwb256_mask((md_v16hi)w, (md_v16qi){0}, MD_ALL16); }
#define MD_LOW8(v) ((md_v8si)__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7))
#define MD_HIGH8(v) ((md_v8si)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15))
MD_INLINE md_m md_widen_b(md_b v)
{
    return md_join_i((md_ih)__builtin_ia32_pmovsxdq512_mask(MD_LOW8(v), (md_v8di){0}, MD_ALL8),
        (md_ih)__builtin_ia32_pmovsxdq512_mask(MD_HIGH8(v), (md_v8di){0}, MD_ALL8));
}
MD_INLINE md_w md_widen_u(md_u v)
{
    return (md_w)md_join_i((md_ih)__builtin_ia32_pmovzxdq512_mask(MD_LOW8(v), (md_v8di){0}, MD_ALL8),
        (md_ih)__builtin_ia32_pmovzxdq512_mask(MD_HIGH8(v), (md_v8di){0}, MD_ALL8));
}
MD_INLINE md_b md_thin_b(md_m v)
{
    const md_v8si low = __builtin_ia32_pmovqd512_mask((md_v8di)md_low_i(v), (md_v8si){0}, MD_ALL8),
                  high = __builtin_ia32_pmovqd512_mask((md_v8di)md_high_i(v), (md_v8si){0}, MD_ALL8);
    return (md_b)__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#elif defined(MD_WIDTHS_256)
#define MD_LOW4(v) ((md_v4si)__builtin_shufflevector(v, v, 0, 1, 2, 3))
#define MD_HIGH4(v) ((md_v4si)__builtin_shufflevector(v, v, 4, 5, 6, 7))
MD_INLINE md_b md_widen_s8(md_s8 w) { return (md_b)__builtin_ia32_pmovsxbd256((md_v16qi)MD_FILL(w)); }
MD_INLINE md_b md_widen_w8(md_w8 w) { return (md_b)__builtin_ia32_pmovzxbd256((md_v16qi)MD_FILL(w)); }
MD_INLINE md_b md_widen_s16(md_s16 w) { return (md_b)__builtin_ia32_pmovsxwd256((md_v8hi)w); }
MD_INLINE md_b md_widen_w16(md_w16 w) { return (md_b)__builtin_ia32_pmovzxwd256((md_v8hi)w); }
MD_INLINE md_w16 md_widen_w8_w16(md_w8 w) { return (md_w16)__builtin_ia32_pmovzxbw128((md_v16qi)MD_FILL(w)); }
MD_INLINE md_s16 md_widen_s8_s16(md_s8 w) { return (md_s16)__builtin_ia32_pmovsxbw128((md_v16qi)MD_FILL(w)); }
MD_INLINE md_b md_least_b(md_b a, md_b b) { return (md_b)__builtin_ia32_pminsd256((md_v8si)a, (md_v8si)b); }
MD_INLINE md_b md_most_b(md_b a, md_b b) { return (md_b)__builtin_ia32_pmaxsd256((md_v8si)a, (md_v8si)b); }
/* The first 8 bytes of a register. */
MD_INLINE md_w8 md_first_w8(md_v16qi v)
{
    const long long first = ((md_v2di)v)[0];
    md_w8 r;
    __builtin_memcpy(&r, &first, 8);
    return r;
}
MD_INLINE md_w8 md_thin_w16_w8(md_w16 w)
{
    const md_v8hi low = (md_v8hi)(w & 0xff);
    return md_first_w8(__builtin_ia32_packuswb128(low, low));
}
MD_INLINE md_w16 md_thin_w16(md_b v)
{
    const md_b low = v & 0xffff;
    return (md_w16)__builtin_ia32_packusdw128(MD_LOW4(low), MD_HIGH4(low));
}
MD_INLINE md_w8 md_thin_w8(md_b v)
{
    const md_b low = v & 0xff;
    const md_v8hi w = __builtin_ia32_packusdw128(MD_LOW4(low), MD_HIGH4(low));
    return md_first_w8(__builtin_ia32_packuswb128(w, w));
}
MD_INLINE md_m md_widen_b(md_b v)
{
    return md_join_i((md_ih)__builtin_ia32_pmovsxdq256(MD_LOW4(v)), (md_ih)__builtin_ia32_pmovsxdq256(MD_HIGH4(v)));
}
MD_INLINE md_w md_widen_u(md_u v)
{
    return (md_w)md_join_i((md_ih)__builtin_ia32_pmovzxdq256(MD_LOW4(v)),
        (md_ih)__builtin_ia32_pmovzxdq256(MD_HIGH4(v)));
}
MD_INLINE md_b md_thin_b(md_m v)
{
    const md_v4di even = (md_v4di)__builtin_ia32_shufps256((float MD_VECTOR(32))md_low_i(v),
        (float MD_VECTOR(32))md_high_i(v), 0x88);
    return (md_b)__builtin_ia32_permdi256(even, 0xd8);
}
#elif defined(MD_WIDTHS_128)
MD_INLINE md_b md_least_b(md_b a, md_b b) { const md_b c = (md_b)(a < b); return (a & c) | (b & ~c); }
MD_INLINE md_b md_most_b(md_b a, md_b b) { const md_b c = (md_b)(a > b); return (a & c) | (b & ~c); }
MD_INLINE md_b md_widen_w16(md_w16 w)
    { return (md_b)__builtin_ia32_punpcklwd128((md_v8hi)MD_FILL(w), (md_v8hi){0}); }
MD_INLINE md_b md_widen_s16(md_s16 w)
{
    const md_v8hi twice = __builtin_ia32_punpcklwd128((md_v8hi)MD_FILL(w), (md_v8hi)MD_FILL(w));
    return (md_b)twice >> 16;
}
MD_INLINE md_b md_widen_w8(md_w8 w)
{
    const md_v8hi wide = (md_v8hi)__builtin_ia32_punpcklbw128((md_v16qi)MD_FILL(w), (md_v16qi){0});
    return (md_b)__builtin_ia32_punpcklwd128(wide, (md_v8hi){0});
}
MD_INLINE md_b md_widen_s8(md_s8 w)
{
    const md_v8hi twice = (md_v8hi)__builtin_ia32_punpcklbw128((md_v16qi)MD_FILL(w), (md_v16qi)MD_FILL(w));
    return (md_b)__builtin_ia32_punpcklwd128(twice, twice) >> 24;
}
/* Packing saturates signed numbers, so the low bits are sign-extended first. */
MD_INLINE md_w16 md_thin_w16(md_b v)
{
    const md_v4si s = (md_v4si)(v << 16 >> 16);
    const md_v2di words = (md_v2di)__builtin_ia32_packssdw128(s, s);
    md_w16 r;
    const long long low = words[0];
    __builtin_memcpy(&r, &low, 8);
    return r;
}
MD_INLINE md_w8 md_thin_w8(md_b v)
{
    const md_v4si s = (md_v4si)(v << 24 >> 24);
    const md_v8hi words = __builtin_ia32_packssdw128(s, s);
    const md_v4si bytes = (md_v4si)__builtin_ia32_packsswb128(words, words);
    md_w8 r;
    const int low = bytes[0];
    __builtin_memcpy(&r, &low, 4);
    return r;
}
MD_INLINE md_m md_widen_b(md_b v)
{
    const md_b sign = v >> 31;
    return md_join_i((md_ih)__builtin_ia32_punpckldq128((md_v4si)v, (md_v4si)sign),
        (md_ih)__builtin_ia32_punpckhdq128((md_v4si)v, (md_v4si)sign));
}
MD_INLINE md_w md_widen_u(md_u v)
{
    return (md_w)md_join_i((md_ih)__builtin_ia32_punpckldq128((md_v4si)v, (md_v4si){0}),
        (md_ih)__builtin_ia32_punpckhdq128((md_v4si)v, (md_v4si){0}));
}
MD_INLINE md_b md_thin_b(md_m v)
{
    return (md_b)__builtin_ia32_shufps((float MD_VECTOR(16))md_low_i(v), (float MD_VECTOR(16))md_high_i(v), 0x88);
}
#else
#define MD_CONVERT(name, from, to) MD_INLINE to name(from v) { return __builtin_convertvector(v, to); }
MD_CONVERT(md_widen_s8, md_s8, md_b)
MD_CONVERT(md_widen_w8, md_w8, md_b)
MD_CONVERT(md_widen_s16, md_s16, md_b)
MD_CONVERT(md_widen_w16, md_w16, md_b)
MD_CONVERT(md_widen_w8_w16, md_w8, md_w16)
MD_CONVERT(md_widen_s8_s16, md_s8, md_s16)
MD_CONVERT(md_thin_w16_w8, md_w16, md_w8)
MD_CONVERT(md_thin_w8, md_b, md_w8)
MD_CONVERT(md_thin_w16, md_b, md_w16)
MD_CONVERT(md_widen_b, md_b, md_m)
MD_CONVERT(md_widen_u, md_u, md_w)
MD_CONVERT(md_thin_b, md_m, md_b)
#undef MD_CONVERT
#ifdef __clang__
MD_INLINE md_b md_least_b(md_b a, md_b b) { return __builtin_elementwise_min(a, b); }
MD_INLINE md_b md_most_b(md_b a, md_b b) { return __builtin_elementwise_max(a, b); }
#else
MD_INLINE md_b md_least_b(md_b a, md_b b) { const md_b c = (md_b)(a < b); return (a & c) | (b & ~c); }
MD_INLINE md_b md_most_b(md_b a, md_b b) { const md_b c = (md_b)(a > b); return (a & c) | (b & ~c); }
#endif
#endif

#if MD_VL == 16 && defined(__AVX512F__) && defined(__clang__)
MD_INLINE md_f md_under_f(md_f a, float high) { return __builtin_ia32_minps512(high - (md_f){0}, a, 4); }
MD_INLINE md_f md_over_f(md_f a, float low) { return __builtin_ia32_maxps512(low - (md_f){0}, a, 4); }
#elif MD_VL == 16 && defined(__AVX512F__)
MD_INLINE md_f md_under_f(md_f a, float high)
    { return __builtin_ia32_minps512_mask(high - (md_f){0}, a, (md_f){0}, (unsigned short)-1, 4); }
MD_INLINE md_f md_over_f(md_f a, float low)
    { return __builtin_ia32_maxps512_mask(low - (md_f){0}, a, (md_f){0}, (unsigned short)-1, 4); }
#elif MD_VL == 8 && defined(__AVX__)
MD_INLINE md_f md_under_f(md_f a, float high) { return __builtin_ia32_minps256(high - (md_f){0}, a); }
MD_INLINE md_f md_over_f(md_f a, float low) { return __builtin_ia32_maxps256(low - (md_f){0}, a); }
#elif MD_VL == 4 && defined(__SSE__)
MD_INLINE md_f md_under_f(md_f a, float high) { return __builtin_ia32_minps(high - (md_f){0}, a); }
MD_INLINE md_f md_over_f(md_f a, float low) { return __builtin_ia32_maxps(low - (md_f){0}, a); }
#else
MD_INLINE md_f md_under_f(md_f a, float high)
{
    const md_b c = (md_b)(a > high);
    return (md_f)(((md_b)(high - (md_f){0}) & c) | ((md_b)a & ~c));
}
MD_INLINE md_f md_over_f(md_f a, float low)
{
    const md_b c = (md_b)(a < low);
    return (md_f)(((md_b)(low - (md_f){0}) & c) | ((md_b)a & ~c));
}
#endif

/* Integers of the stage from and to 32 bits. */
#ifdef MD_NARROW
MD_INLINE md_i md_from_b(md_b v) { return v; }
MD_INLINE md_b md_to_b(md_i v) { return v; }
#else
MD_INLINE md_i md_from_b(md_b v) { return md_widen_b(v); }
MD_INLINE md_b md_to_b(md_i v) { return md_thin_b(v); }
#endif
/* clang-format on */

#endif
