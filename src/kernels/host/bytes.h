/* Lanes of one byte, for stages whose values all fit into one: MD_YL of them, four times as many as of 32 bits. Or
 * lanes of two bytes (MD_WORDS), twice as many. A part of prelude.h, with the same names but other suffixes:
 *   integers   md_y, suffix y: signed, or not (MD_BYTES_UNSIGNED), as the stage's values need it
 *   bool       md_z, suffix z: 0 or -1
 *   memory     md_load_T_bytes(t, o, n), md_store_T_bytes(t, o, v, n), _nt, md_lead_T_bytes: i4 u4 i8 u8 bool, or i16
 *              u16
 *   md_total   sums of integers: 64 bits for every eight bytes of lanes, which one instruction adds up */
#ifndef MD_HOST_BYTES_H
#define MD_HOST_BYTES_H

#ifdef MD_WORDS
#define MD_YL (2 * MD_VL)
typedef int16_t md_one_z;
typedef uint16_t md_one_wy;
#else
#define MD_YL (4 * MD_VL)
typedef int8_t md_one_z;
typedef uint8_t md_one_wy;
#endif
#define MD_Y_BYTES (4 * MD_VL) /* of a vector */
#define MD_Y_ITEM ((int)sizeof(md_one_y))
#ifdef MD_BYTES_UNSIGNED
typedef md_one_wy md_one_y;
#define MD_LOWEST_Y 0
#define MD_HIGHEST_Y ((md_one_wy)-1)
#else
typedef md_one_z md_one_y;
#define MD_LOWEST_Y (-MD_HIGHEST_Y - 1)
#define MD_HIGHEST_Y (((md_one_wy)-1) / 2)
#endif
typedef md_one_y md_y MD_VECTOR(MD_Y_BYTES);
typedef md_one_z md_z MD_VECTOR(MD_Y_BYTES);
typedef md_one_wy md_wy MD_VECTOR(MD_Y_BYTES);

/* clang-format off */
#define MD_IOTA_16(n) \
    n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, n + 11, n + 12, n + 13, n + 14, n + 15
#if MD_YL == 64
#define MD_IOTA_Y {MD_IOTA_16(0), MD_IOTA_16(16), MD_IOTA_16(32), MD_IOTA_16(48)}
#elif MD_YL == 32
#define MD_IOTA_Y {MD_IOTA_16(0), MD_IOTA_16(16)}
#elif MD_YL == 16
#define MD_IOTA_Y {MD_IOTA_16(0)}
#elif MD_YL == 8
#define MD_IOTA_Y {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define MD_IOTA_Y {0, 1, 2, 3}
#endif
MD_INLINE md_y md_splat_y(int64_t a) { return (md_one_y)a + (md_y){0}; }
MD_INLINE md_z md_splat_z(int a) { return (md_one_z)-(a != 0) + (md_z){0}; }
MD_INLINE md_z md_head_z(int n) { return (md_z)((md_z)MD_IOTA_Y < (md_one_z)n + (md_z){0}); }

/* ---- Comparisons, logic, selection */
#define MD_COMPARE_Y(name, sign)                                                                                       \
    MD_INLINE md_z md_##name##_y(md_y a, md_y b) { return (md_z)(a sign b); }                                          \
    MD_INLINE md_z md_##name##_z(md_z a, md_z b) { return (md_z)(-a sign -b); }
MD_COMPARE_Y(lt, <)
MD_COMPARE_Y(le, <=)
MD_COMPARE_Y(gt, >)
MD_COMPARE_Y(ge, >=)
MD_COMPARE_Y(eq, ==)
MD_COMPARE_Y(ne, !=)
MD_INLINE md_z md_and_z(md_z a, md_z b) { return a & b; }
MD_INLINE md_z md_or_z(md_z a, md_z b) { return a | b; }
MD_INLINE md_z md_not_z(md_z a) { return ~a; }
MD_INLINE md_z md_where_z(md_z c, md_z a, md_z b) { return (a & c) | (b & ~c); }
MD_INLINE md_y md_where_y(md_z c, md_y a, md_y b) { return (md_y)md_where_z(c, (md_z)a, (md_z)b); }
MD_INLINE md_z md_max_z(md_z a, md_z b) { return a | b; }
MD_INLINE md_z md_min_z(md_z a, md_z b) { return a & b; }

/* GCC sees no maximum in a comparison and a selection. SSE2 has those of bytes without a sign and of words with one. */
#if defined(MD_WORDS) && defined(MD_BYTES_UNSIGNED)
#define MD_BUILTIN_Y(name, bits) __builtin_ia32_p##name##uw##bits
#elif defined(MD_WORDS)
#define MD_BUILTIN_Y(name, bits) __builtin_ia32_p##name##sw##bits
#elif defined(MD_BYTES_UNSIGNED)
#define MD_BUILTIN_Y(name, bits) __builtin_ia32_p##name##ub##bits
#else
#define MD_BUILTIN_Y(name, bits) __builtin_ia32_p##name##sb##bits
#endif
#ifdef MD_WORDS
typedef short md_qi MD_VECTOR(MD_Y_BYTES);
#define MD_ALL_Y (~0u)
#else
typedef char md_qi MD_VECTOR(MD_Y_BYTES);
#define MD_ALL_Y (~0ull)
#endif
#if defined(MD_WORDS) != defined(MD_BYTES_UNSIGNED) || defined(__SSE4_1__)
#define MD_128_HAS_EXTREMES
#endif
#if defined(__clang__)
#define MD_EXTREME_Y(name, sign) \
    MD_INLINE md_y md_##name##_y(md_y a, md_y b) { return __builtin_elementwise_##name(a, b); }
#elif defined(MD_WIDTHS_512)
#define MD_EXTREME_Y(name, sign) \
    MD_INLINE md_y md_##name##_y(md_y a, md_y b) \
        { return (md_y)MD_BUILTIN_Y(name, 512_mask)((md_qi)a, (md_qi)b, (md_qi){0}, MD_ALL_Y); }
#elif defined(MD_WIDTHS_256)
#define MD_EXTREME_Y(name, sign) \
    MD_INLINE md_y md_##name##_y(md_y a, md_y b) { return (md_y)MD_BUILTIN_Y(name, 256)((md_qi)a, (md_qi)b); }
#elif defined(MD_WIDTHS_128) && defined(MD_128_HAS_EXTREMES)
#define MD_EXTREME_Y(name, sign) \
    MD_INLINE md_y md_##name##_y(md_y a, md_y b) { return (md_y)MD_BUILTIN_Y(name, 128)((md_qi)a, (md_qi)b); }
#else
#define MD_EXTREME_Y(name, sign) \
    MD_INLINE md_y md_##name##_y(md_y a, md_y b) { return md_where_y((md_z)(a sign b), a, b); }
#endif
MD_EXTREME_Y(max, >)
MD_EXTREME_Y(min, <)

/* ---- Conversions and arithmetic. Where only the low bits matter, whatever fits into none wraps. */
MD_INLINE md_y md_cast_z_y(md_z a) { return (md_y)-a; }
MD_INLINE md_z md_cast_y_z(md_y a) { return (md_z)(a != (md_y){0}); }
MD_INLINE md_y md_clamp_y(md_y a, md_y low, md_y high) { return md_min_y(md_max_y(a, low), high); }
MD_INLINE md_y md_relu_y(md_y a) { return md_max_y(a, (md_y){0}); }
MD_INLINE md_y md_abs_y(md_y a) { const md_y below = (md_y)(a < (md_y){0}); return (a ^ below) - below; }
MD_INLINE md_y md_sign_y(md_y a) { return (md_y)(a < (md_y){0}) - (md_y)(a > (md_y){0}); }
MD_INLINE md_y md_fma_y(md_y a, md_y b, md_y c) { return a * b + c; }
MD_INLINE md_y md_round_i4_y(md_y a) { return ((a & 15) ^ 8) - 8; }
MD_INLINE md_y md_round_u4_y(md_y a) { return a & 15; }
#ifdef MD_WORDS
MD_INLINE md_y md_round_i8_y(md_y a) { return (md_y)((md_z)a << 8 >> 8); }
MD_INLINE md_y md_round_u8_y(md_y a) { return a & 255; }
#else
MD_INLINE md_y md_round_i8_y(md_y a) { return a; }
MD_INLINE md_y md_round_u8_y(md_y a) { return a; }
#endif
MD_INLINE md_y md_round_i16_y(md_y a) { return a; }
MD_INLINE md_y md_round_u16_y(md_y a) { return a; }
MD_INLINE md_y md_round_i32_y(md_y a) { return a; }

/* ---- Reductions */
MD_INLINE md_y md_only_y(md_y v, int64_t identity, int n)
    { return n == MD_YL ? v : md_where_y(md_head_z(n), v, md_splat_y(identity)); }
MD_INLINE md_z md_only_z(md_z v, int identity, int n)
    { return n == MD_YL ? v : md_where_z(md_head_z(n), v, md_splat_z(identity)); }
MD_INLINE int64_t md_both(int64_t a, int64_t b) { return a & b; }
MD_INLINE int64_t md_either(int64_t a, int64_t b) { return a | b; }
MD_INLINE int64_t md_plus(int64_t a, int64_t b) { return a + b; }
#define MD_FOLD_WORDS(name, vec, join) \
    MD_OUTLINE int64_t md_fold_##name(vec v) \
    { \
        union { vec v; int64_t word[MD_Y_BYTES / 8]; } u = {v}; \
        int64_t r = u.word[0]; \
        for (int i = 1; i < MD_Y_BYTES / 8; i++) \
            r = join(r, u.word[i]); \
        return r; \
    }
MD_FOLD_WORDS(either_z, md_z, md_either)
MD_FOLD_WORDS(both_z, md_z, md_both)
MD_FOLD_WORDS(plus_ih, md_ih, md_plus)
MD_INLINE int md_fold_max_z(md_z v) { return md_fold_either_z(v) != 0; }
MD_INLINE int md_fold_min_z(md_z v) { return md_fold_both_z(v) == -1; }
#define MD_FOLD_LANES(name) \
    MD_OUTLINE int64_t md_fold_##name##_y(md_y v) \
    { \
        md_one_y lane[MD_YL]; \
        __builtin_memcpy(lane, &v, sizeof v); \
        int64_t r = lane[0]; \
        for (int l = 1; l < MD_YL; l++) \
            r = md_##name##_si(r, lane[l]); \
        return r; \
    }
MD_FOLD_LANES(max)
MD_FOLD_LANES(min)

#ifdef MD_WORDS
/* Pairs of words give sums of 32 bits, raised so that they have no sign. Two of them lie in 64 bits: `whole` adds up
 * both at once, `high` the upper ones, so that the difference is the sum of the lower ones. */
enum { MD_RAISED = 1 << 16 };
typedef struct md_total {
    md_ih whole, high;
    int64_t n; /* vectors that are in it */
} md_total;
MD_INLINE md_u md_pair_sums(md_z v)
{
#if MD_VL == 16 && defined(__AVX512BW__) && defined(__clang__)
    return (md_u)__builtin_ia32_pmaddwd512(v, 1 + (md_z){0}) + MD_RAISED;
#elif MD_VL == 16 && defined(__AVX512BW__)
    return (md_u)__builtin_ia32_pmaddwd512_mask(v, 1 + (md_z){0}, (md_b){0}, (unsigned short)-1) + MD_RAISED;
#elif MD_VL == 8 && defined(__AVX2__)
    return (md_u)__builtin_ia32_pmaddwd256(v, 1 + (md_z){0}) + MD_RAISED;
#elif MD_VL == 4 && defined(__SSE2__)
    return (md_u)__builtin_ia32_pmaddwd128(v, 1 + (md_z){0}) + MD_RAISED;
#else
    md_u r = {0};
    for (int l = 0; l < MD_YL; l++)
        r[l / 2] += (uint32_t)(v[l] + MD_RAISED / 2);
    return r;
#endif
}
MD_INLINE md_total md_splat_total(int64_t a) { return (md_total){a + (md_ih){0}, {0}, 0}; }
MD_INLINE md_total md_join_total(md_total a, md_total b)
    { return (md_total){a.whole + b.whole, a.high + b.high, a.n + b.n}; }
MD_INLINE md_total md_gain_total(md_total a, md_y v)
{
    typedef uint64_t part MD_VECTOR(MD_Y_BYTES);
#ifdef MD_BYTES_UNSIGNED
    v ^= 0x8000;
#endif
    const part sums = (part)md_pair_sums((md_z)v);
    return (md_total){a.whole + (md_ih)sums, a.high + (md_ih)(sums >> 32), a.n + 1};
}
MD_INLINE int64_t md_fold_sum_total(md_total a)
{
    const uint64_t high = (uint64_t)md_fold_plus_ih(a.high), low = (uint64_t)md_fold_plus_ih(a.whole) - (high << 32);
#ifdef MD_BYTES_UNSIGNED
    return (int64_t)(low + high);
#else
    return (int64_t)(low + high) - a.n * MD_VL * MD_RAISED;
#endif
}
#else
typedef md_ih md_total;
MD_INLINE int64_t md_fold_sum_total(md_total a) { return md_fold_plus_ih(a); }
MD_INLINE md_total md_splat_total(int64_t a) { return a + (md_total){0}; }
/* The sums of every eight bytes without a sign. */
MD_INLINE md_total md_eights(md_wy v)
{
#ifdef MD_MASKED_BYTES
    return (md_total)__builtin_ia32_psadbw512((char MD_VECTOR(64))v, (char MD_VECTOR(64)){0});
#elif MD_VL == 8 && defined(__AVX2__)
    return (md_total)__builtin_ia32_psadbw256((char MD_VECTOR(32))v, (char MD_VECTOR(32)){0});
#elif MD_VL == 4 && defined(__SSE2__)
    return (md_total)__builtin_ia32_psadbw128((char MD_VECTOR(16))v, (char MD_VECTOR(16)){0});
#else
    md_total r = {0};
    for (int l = 0; l < MD_YL; l++)
        r[l / 8] += v[l];
    return r;
#endif
}
MD_INLINE md_total md_join_total(md_total a, md_total b) { return a + b; }
MD_INLINE md_total md_gain_total(md_total a, md_y v)
{
#ifdef MD_BYTES_UNSIGNED
    return a + md_eights(v);
#else
    return a + (md_eights((md_wy)v ^ 128) - 8 * 128);
#endif
}
#endif

/* ---- Memory */
MD_INLINE md_wy md_get_bytes(const void *t, int64_t o, int n)
{
    md_wy w = {0};
    if (n == MD_YL)
        __builtin_memcpy(&w, (const md_one_y *)t + o, sizeof w);
    else
#ifdef MD_MASKED_BYTES
        w = (md_wy)__builtin_ia32_loaddquqi512_mask((const void *)((const md_one_y *)t + o), (md_bytes){0},
            md_head_bytes(n * MD_Y_ITEM));
#else
        __builtin_memcpy(&w, (const md_one_y *)t + o, (unsigned long)(n * MD_Y_ITEM));
#endif
    return w;
}
MD_INLINE void md_put_bytes(void *t, int64_t o, md_wy w, int n)
{
    if (n == MD_YL)
        __builtin_memcpy((md_one_y *)t + o, &w, sizeof w);
    else
#ifdef MD_MASKED_BYTES
        __builtin_ia32_storedquqi512_mask((void *)((md_one_y *)t + o), (md_bytes)w, md_head_bytes(n * MD_Y_ITEM));
#else
        __builtin_memcpy((md_one_y *)t + o, &w, (unsigned long)(n * MD_Y_ITEM));
#endif
}
MD_INLINE void md_put_bytes_nt(void *t, int64_t o, md_wy w, int n)
{
    if (n == MD_YL && (uintptr_t)((md_one_y *)t + o) % sizeof w == 0)
        md_stream((md_one_y *)t + o, &w, sizeof w);
    else
        md_put_bytes(t, o, w, n);
}
MD_INLINE int64_t md_lead_bytes(const void *t, int64_t o)
{
    const uintptr_t at = (uintptr_t)((const md_one_y *)t + o);
    return at % sizeof(md_one_y) != 0 ? 0 : (int64_t)(-at % MD_Y_BYTES / sizeof(md_one_y));
}

#ifndef MD_WORDS
/* Half bytes as bytes, and back: each byte becomes a word of 16 bits first. */
typedef uint8_t md_half_y MD_VECTOR(MD_YL / 2);
typedef uint16_t md_words MD_VECTOR(MD_YL);
MD_INLINE md_words md_words_of(md_half_y w)
{
#if defined(MD_WIDTHS_512)
    return (md_words)__builtin_ia32_pmovzxbw512_mask((char MD_VECTOR(32))w, (short MD_VECTOR(64)){0}, ~0u);
#elif defined(MD_WIDTHS_256)
    return (md_words)__builtin_ia32_pmovzxbw256((md_v16qi)w);
#elif defined(MD_WIDTHS_128)
    return (md_words)__builtin_ia32_punpcklbw128((md_v16qi)MD_FILL(w), (md_v16qi){0});
#else
    return __builtin_convertvector(w, md_words);
#endif
}
/* Of words below 256. */
MD_INLINE md_half_y md_bytes_of(md_words w)
{
#if defined(MD_WIDTHS_512)
    return (md_half_y)__builtin_ia32_pmovwb512_mask((short MD_VECTOR(64))w, (char MD_VECTOR(32)){0}, ~0u);
#elif defined(MD_WIDTHS_256)
    union { md_words w; md_v8hi h[2]; } u = {w};
    return (md_half_y)__builtin_ia32_packuswb128(u.h[0], u.h[1]);
#elif defined(MD_WIDTHS_128)
    const md_v16qi packed = __builtin_ia32_packuswb128((md_v8hi)w, (md_v8hi)w);
    md_half_y r;
    __builtin_memcpy(&r, &packed, sizeof r);
    return r;
#else
    return __builtin_convertvector(w, md_half_y);
#endif
}
MD_OUTLINE md_wy md_get_part_halves(const void *t, int64_t o, int n)
{
    uint8_t w[MD_YL] = {0};
    md_wy r;
    for (int l = 0; l < n; l++)
        w[l] = ((const uint8_t *)t)[(o + l) >> 1] >> ((o + l) & 1) * 4 & 15;
    __builtin_memcpy(&r, w, sizeof r);
    return r;
}
MD_INLINE md_wy md_get_halves_bytes(const void *t, int64_t o, int n)
{
    md_half_y both;
    if (n != MD_YL || (o & 1))
        return md_get_part_halves(t, o, n);
    __builtin_memcpy(&both, (const char *)t + (o >> 1), sizeof both);
    const md_words w = md_words_of(both);
    return (md_wy)((w | w << 4) & 0x0f0f);
}
#if defined(MD_USE_I4) || defined(MD_USE_U4)
MD_OUTLINE void md_put_some_halves(void *t, int64_t o, md_wy v, int n)
{
    uint8_t w[MD_YL];
    int l = 0;
    __builtin_memcpy(w, &v, sizeof v);
    if ((o & 1) && n > 0)
        md_put_half(t, o, w[l++]);
    for (; l + 1 < n; l += 2)
        ((uint8_t *)t)[(o + l) / 2] = (uint8_t)((w[l] & 15) | w[l + 1] << 4);
    if (l < n)
        md_put_half(t, o + l, w[l]);
}
MD_INLINE void md_put_halves_bytes(void *t, int64_t o, md_wy v, int n)
{
    if (n != MD_YL || (o & 1)) {
        md_put_some_halves(t, o, v, n);
        return;
    }
    const md_words w = (md_words)v;
    const md_half_y both = md_bytes_of((w & 15) | (w >> 4 & 0xf0));
    __builtin_memcpy((char *)t + (o >> 1), &both, sizeof both);
}
#endif
#endif

#define MD_BYTE_TYPE(T, V, UP, DOWN) \
    MD_INLINE V md_load_##T##_bytes(const void *t, int64_t o, int n) { return UP(md_get_bytes(t, o, n)); } \
    MD_INLINE void md_store_##T##_bytes(void *t, int64_t o, V v, int n) { md_put_bytes(t, o, DOWN(v), n); } \
    MD_INLINE void md_store_##T##_bytes_nt(void *t, int64_t o, V v, int n) { md_put_bytes_nt(t, o, DOWN(v), n); } \
    MD_INLINE int64_t md_lead_##T##_bytes(const void *t, int64_t o) { return md_lead_bytes(t, o); }
#define MD_HALF_TYPE(T, UP) \
    MD_INLINE md_y md_load_##T##_bytes(const void *t, int64_t o, int n) { return UP(md_get_halves_bytes(t, o, n)); } \
    MD_INLINE void md_store_##T##_bytes(void *t, int64_t o, md_y v, int n) \
        { md_put_halves_bytes(t, o, (md_wy)v, n); } \
    MD_INLINE void md_store_##T##_bytes_nt(void *t, int64_t o, md_y v, int n) { md_store_##T##_bytes(t, o, v, n); } \
    MD_INLINE int64_t md_lead_##T##_bytes(const void *t, int64_t o) { (void)t; (void)o; return 0; }
#define MD_AS_Y(w) ((md_y)(w))
#define MD_AS_W(v) ((md_wy)(v))
#define MD_SIGNED_HALF(w) ((md_y)(((w) ^ 8) - 8))
#define MD_TRUTH(w) ((md_z)((w) != (md_wy){0}))
#define MD_OF_TRUTH(v) ((md_wy)((v) & 1))
#ifdef MD_WORDS
MD_BYTE_TYPE(i16, md_y, MD_AS_Y, MD_AS_W)
MD_BYTE_TYPE(u16, md_y, MD_AS_Y, MD_AS_W)
#else
MD_BYTE_TYPE(i8, md_y, MD_AS_Y, MD_AS_W)
MD_BYTE_TYPE(u8, md_y, MD_AS_Y, MD_AS_W)
MD_BYTE_TYPE(bool, md_z, MD_TRUTH, MD_OF_TRUTH)
#ifdef MD_USE_I4
MD_HALF_TYPE(i4, MD_SIGNED_HALF)
#endif
#ifdef MD_USE_U4
MD_HALF_TYPE(u4, MD_AS_Y)
#endif
#endif
/* clang-format on */

#endif
