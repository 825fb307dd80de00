/* Lanes of one byte, for stages whose values all fit into one: MD_YL of them, four times as many as of 32 bits. Or
 * lanes of two bytes (MD_WORDS), twice as many. A part of prelude.h, with the same names but other suffixes:
 *   values     md_y, suffix y: integers with a sign, or without (MD_BYTES_UNSIGNED), as the stage needs them
 *              (byte_integers.h). With MD_BYTE_HALVES two of four bits in a byte (byte_halves.h), with MD_BITS_<TYPE>
 *              reals as memory holds them (byte_reals.h)
 *   bool       md_z, suffix z: 0 or -1
 *   memory     md_load_T_bytes(t, o, n), md_store_T_bytes(t, o, v, n), _nt, md_lead_T_bytes: bool and i4 u4 i8 u8, or
 *              i16 u16, or the real type
 *   md_total   sums of a row, in wider lanes */
#ifndef MD_HOST_BYTES_H
#define MD_HOST_BYTES_H

/* Elements of C's type in a vector, and lanes. */
#ifdef MD_WORDS
#define MD_Y_ITEMS (2 * MD_VL)
typedef int16_t md_one_z;
typedef uint16_t md_one_wy;
#else
#define MD_Y_ITEMS (4 * MD_VL)
typedef int8_t md_one_z;
typedef uint8_t md_one_wy;
#endif
#ifdef MD_BYTE_HALVES
#define MD_YL (2 * MD_Y_ITEMS)
#else
#define MD_YL MD_Y_ITEMS
#endif
#define MD_Y_BYTES (4 * MD_VL) /* of a vector */
#define MD_Y_ITEM ((int)sizeof(md_one_y))
#ifdef MD_BYTE_HALVES
#define MD_UNSIGNED_HIGHEST_Y 15
#else
#define MD_UNSIGNED_HIGHEST_Y ((md_one_wy)-1)
#endif
#ifdef MD_BYTES_UNSIGNED
typedef md_one_wy md_one_y;
#define MD_LOWEST_Y 0
#define MD_HIGHEST_Y MD_UNSIGNED_HIGHEST_Y
#else
typedef md_one_z md_one_y;
#define MD_LOWEST_Y (-MD_HIGHEST_Y - 1)
#define MD_HIGHEST_Y (MD_UNSIGNED_HIGHEST_Y / 2)
#endif
#define MD_TOP_Y (((md_one_wy)-1) / 2 + 1) /* the highest bit of a lane */
typedef md_one_y md_y MD_VECTOR(MD_Y_BYTES);
typedef md_one_z md_z MD_VECTOR(MD_Y_BYTES);
typedef md_one_wy md_wy MD_VECTOR(MD_Y_BYTES);

/* clang-format off */
#define MD_IOTA_16(n) \
    n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9, n + 10, n + 11, n + 12, n + 13, n + 14, n + 15
#if MD_Y_ITEMS == 64
#define MD_IOTA_Y {MD_IOTA_16(0), MD_IOTA_16(16), MD_IOTA_16(32), MD_IOTA_16(48)}
#elif MD_Y_ITEMS == 32
#define MD_IOTA_Y {MD_IOTA_16(0), MD_IOTA_16(16)}
#elif MD_Y_ITEMS == 16
#define MD_IOTA_Y {MD_IOTA_16(0)}
#elif MD_Y_ITEMS == 8
#define MD_IOTA_Y {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define MD_IOTA_Y {0, 1, 2, 3}
#endif

/* ---- Truth values, selection */
MD_INLINE md_z md_splat_z(int a) { return (md_one_z)-(a != 0) + (md_z){0}; }
#ifdef MD_BYTE_HALVES
MD_INLINE md_z md_head_z(int n)
{
    const md_z at = 2 * (md_z)MD_IOTA_Y, end = (md_one_z)n + (md_z){0};
    return ((md_z)(at < end) & 0x0f) | ((md_z)(at + 1 < end) & -0x10);
}
#else
MD_INLINE md_z md_head_z(int n) { return (md_z)((md_z)MD_IOTA_Y < (md_one_z)n + (md_z){0}); }
#endif
MD_INLINE md_z md_lt_z(md_z a, md_z b) { return ~a & b; }
MD_INLINE md_z md_le_z(md_z a, md_z b) { return ~a | b; }
MD_INLINE md_z md_gt_z(md_z a, md_z b) { return a & ~b; }
MD_INLINE md_z md_ge_z(md_z a, md_z b) { return a | ~b; }
MD_INLINE md_z md_eq_z(md_z a, md_z b) { return ~(a ^ b); }
MD_INLINE md_z md_ne_z(md_z a, md_z b) { return a ^ b; }
MD_INLINE md_z md_and_z(md_z a, md_z b) { return a & b; }
MD_INLINE md_z md_or_z(md_z a, md_z b) { return a | b; }
MD_INLINE md_z md_not_z(md_z a) { return ~a; }
MD_INLINE md_z md_where_z(md_z c, md_z a, md_z b) { return (a & c) | (b & ~c); }
MD_INLINE md_y md_where_y(md_z c, md_y a, md_y b) { return (md_y)md_where_z(c, (md_z)a, (md_z)b); }
MD_INLINE md_z md_max_z(md_z a, md_z b) { return a | b; }
MD_INLINE md_z md_min_z(md_z a, md_z b) { return a & b; }

/* ---- The greater and the smaller of two lanes as numbers with a sign (md_most_z) and without (md_most_wy). GCC makes
 * neither of a comparison and a selection. SSE2 has those of bytes without a sign and of words with one: the others are
 * the same with the highest bit turned over. */
#ifdef MD_WORDS
#define MD_BUILTIN_Y(name, sign, bits) __builtin_ia32_p##name##sign##w##bits
typedef short md_qi MD_VECTOR(MD_Y_BYTES);
#define MD_ALL_Y (~0u)
#else
#define MD_BUILTIN_Y(name, sign, bits) __builtin_ia32_p##name##sign##b##bits
typedef char md_qi MD_VECTOR(MD_Y_BYTES);
#define MD_ALL_Y (~0ull)
#endif
#if defined(__clang__)
#define MD_EXTREME_Y(name, fn, sign, vec, compare) \
    MD_INLINE vec fn(vec a, vec b) { return __builtin_elementwise_##name(a, b); }
#elif defined(MD_WIDTHS_512)
#define MD_EXTREME_Y(name, fn, sign, vec, compare) \
    MD_INLINE vec fn(vec a, vec b) \
        { return (vec)MD_BUILTIN_Y(name, sign, 512_mask)((md_qi)a, (md_qi)b, (md_qi){0}, MD_ALL_Y); }
#elif defined(MD_WIDTHS_256)
#define MD_EXTREME_Y(name, fn, sign, vec, compare) \
    MD_INLINE vec fn(vec a, vec b) { return (vec)MD_BUILTIN_Y(name, sign, 256)((md_qi)a, (md_qi)b); }
#elif defined(MD_WIDTHS_128) && defined(__SSE4_1__)
#define MD_EXTREME_Y(name, fn, sign, vec, compare) \
    MD_INLINE vec fn(vec a, vec b) { return (vec)MD_BUILTIN_Y(name, sign, 128)((md_qi)a, (md_qi)b); }
#elif defined(MD_WIDTHS_128)
#ifdef MD_WORDS
#define MD_SSE2_EXTREME(name) __builtin_ia32_p##name##sw128
#define MD_TURNED_s 0
#define MD_TURNED_u 0x8000
#else
#define MD_SSE2_EXTREME(name) __builtin_ia32_p##name##ub128
#define MD_TURNED_s 0x80
#define MD_TURNED_u 0
#endif
#define MD_EXTREME_Y(name, fn, sign, vec, compare) \
    MD_INLINE vec fn(vec a, vec b) \
    { \
        const md_wy top = (md_one_wy)MD_TURNED_##sign + (md_wy){0}; \
        return (vec)((md_wy)MD_SSE2_EXTREME(name)((md_qi)((md_wy)a ^ top), (md_qi)((md_wy)b ^ top)) ^ top); \
    }
#else
#define MD_EXTREME_Y(name, fn, sign, vec, compare) \
    MD_INLINE vec fn(vec a, vec b) { return (vec)md_where_z((md_z)(a compare b), (md_z)a, (md_z)b); }
#endif
MD_EXTREME_Y(max, md_most_z, s, md_z, >)
MD_EXTREME_Y(min, md_least_z, s, md_z, <)
MD_EXTREME_Y(max, md_most_wy, u, md_wy, >)
MD_EXTREME_Y(min, md_least_wy, u, md_wy, <)

/* ---- Folding lanes: halves of the vector first, in steps of 32 bits, then what one of those holds. */
#define MD_FOLD_LANES(name, vec, one, combine, combine_one) \
    MD_INLINE int64_t name(vec v) \
    { \
        MD_HALVES(combine, v) \
        const uint32_t rest = (uint32_t)((md_b)v)[0]; \
        int64_t r = (one)rest; \
        for (int l = 1; l < 4 / (int)sizeof(one); l++) \
            r = combine_one(r, (one)(rest >> 8 * (int)sizeof(one) * l)); \
        return r; \
    }
#define MD_STEP_MOST_Z(v, ...) v = md_most_z(v, (md_z)MD_SWAPPED((md_b)v, __VA_ARGS__));
#define MD_STEP_LEAST_Z(v, ...) v = md_least_z(v, (md_z)MD_SWAPPED((md_b)v, __VA_ARGS__));
#define MD_STEP_MOST_WY(v, ...) v = md_most_wy(v, (md_wy)MD_SWAPPED((md_b)v, __VA_ARGS__));
#define MD_STEP_LEAST_WY(v, ...) v = md_least_wy(v, (md_wy)MD_SWAPPED((md_b)v, __VA_ARGS__));
MD_FOLD_LANES(md_fold_most_z, md_z, md_one_z, MD_STEP_MOST_Z, md_max_si)
MD_FOLD_LANES(md_fold_least_z, md_z, md_one_z, MD_STEP_LEAST_Z, md_min_si)
MD_FOLD_LANES(md_fold_most_wy, md_wy, md_one_wy, MD_STEP_MOST_WY, md_max_si)
MD_FOLD_LANES(md_fold_least_wy, md_wy, md_one_wy, MD_STEP_LEAST_WY, md_min_si)
MD_INLINE int md_fold_max_z(md_z v) { return md_any_b((md_b)v != (md_b){0}); }
MD_INLINE int md_fold_min_z(md_z v) { return !md_any_b((md_b)~v != (md_b){0}); }
MD_INLINE md_z md_only_z(md_z v, int identity, int n)
    { return n == MD_YL ? v : md_where_z(md_head_z(n), v, md_splat_z(identity)); }

/* ---- Sums of 64 bits */
MD_INLINE int64_t md_fold_plus_ih(md_ih v)
{
    int64_t r = v[0];
    for (int i = 1; i < MD_VL / 2; i++)
        r += v[i];
    return r;
}
#ifndef MD_WORDS
/* The sums of every eight bytes without a sign. */
MD_INLINE md_ih md_eights(md_wy v)
{
#ifdef MD_MASKED_BYTES
    return (md_ih)__builtin_ia32_psadbw512((char MD_VECTOR(64))v, (char MD_VECTOR(64)){0});
#elif MD_VL == 8 && defined(__AVX2__)
    return (md_ih)__builtin_ia32_psadbw256((char MD_VECTOR(32))v, (char MD_VECTOR(32)){0});
#elif MD_VL == 4 && defined(__SSE2__)
    return (md_ih)__builtin_ia32_psadbw128((char MD_VECTOR(16))v, (char MD_VECTOR(16)){0});
#else
    md_ih r = {0};
    for (int l = 0; l < MD_YL; l++)
        r[l / 8] += v[l];
    return r;
#endif
}
#endif

/* ---- Memory */
MD_INLINE md_wy md_get_bytes(const void *t, int64_t o, int n)
{
    md_wy w = {0};
    if (n == MD_Y_ITEMS)
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
    if (n == MD_Y_ITEMS)
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
    if (n == MD_Y_ITEMS && (uintptr_t)((md_one_y *)t + o) % sizeof w == 0)
        md_stream((md_one_y *)t + o, &w, sizeof w);
    else
        md_put_bytes(t, o, w, n);
}
MD_INLINE int64_t md_lead_bytes(const void *t, int64_t o)
{
    const uintptr_t at = (uintptr_t)((const md_one_y *)t + o);
    return at % sizeof(md_one_y) != 0 ? 0 : (int64_t)(-at % MD_Y_BYTES / sizeof(md_one_y));
}

/* Half as many bytes as words of 16 bits, and back. */
typedef uint8_t md_half_y MD_VECTOR(MD_Y_BYTES / 2);
typedef uint16_t md_words MD_VECTOR(MD_Y_BYTES);
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

#ifdef MD_WORDS
/* Truth values beside words: bytes in memory. */
MD_OUTLINE md_half_y md_get_part_truths(const void *t, int64_t o, int n)
{
    md_half_y w = {0};
    __builtin_memcpy(&w, (const char *)t + o, (unsigned long)n);
    return w;
}
MD_INLINE md_z md_load_bool_bytes(const void *t, int64_t o, int n)
{
    md_half_y w;
    if (n == MD_YL)
        __builtin_memcpy(&w, (const char *)t + o, sizeof w);
    else
        w = md_get_part_truths(t, o, n);
    return (md_z)(md_words_of(w) != (md_words){0});
}
MD_INLINE void md_store_bool_bytes(void *t, int64_t o, md_z v, int n)
{
    const md_half_y w = md_bytes_of((md_words)(v & 1));
    if (n == MD_YL)
        __builtin_memcpy((char *)t + o, &w, sizeof w);
    else
        __builtin_memcpy((char *)t + o, &w, (unsigned long)n);
}
MD_INLINE void md_store_bool_bytes_nt(void *t, int64_t o, md_z v, int n) { md_store_bool_bytes(t, o, v, n); }
MD_INLINE int64_t md_lead_bool_bytes(const void *t, int64_t o) { (void)t; (void)o; return 0; }
#endif

#define MD_BYTE_TYPE(T, V, UP, DOWN) \
    MD_INLINE V md_load_##T##_bytes(const void *t, int64_t o, int n) { return UP(md_get_bytes(t, o, n)); } \
    MD_INLINE void md_store_##T##_bytes(void *t, int64_t o, V v, int n) { md_put_bytes(t, o, DOWN(v), n); } \
    MD_INLINE void md_store_##T##_bytes_nt(void *t, int64_t o, V v, int n) { md_put_bytes_nt(t, o, DOWN(v), n); } \
    MD_INLINE int64_t md_lead_##T##_bytes(const void *t, int64_t o) { return md_lead_bytes(t, o); }
#define MD_AS_Y(w) ((md_y)(w))
#define MD_AS_W(v) ((md_wy)(v))
#ifndef MD_WORDS
#define MD_TRUTH(w) ((md_z)((w) != (md_wy){0}))
#define MD_OF_TRUTH(v) ((md_wy)((v) & 1))
MD_BYTE_TYPE(bool, md_z, MD_TRUTH, MD_OF_TRUTH)
#endif

#if defined(MD_BITS_BF16) || defined(MD_BITS_F16) || defined(MD_BITS_F8E4M3) || defined(MD_BITS_F8E5M2)
#include "byte_reals.h"
#elif defined(MD_BYTE_HALVES)
#include "byte_halves.h"
#else
#include "byte_integers.h"
#endif
/* clang-format on */

#endif
