/* Integers in lanes of one byte or two. A part of bytes.h. Sums have 64 bits for every eight bytes of lanes, which one
 * instruction adds up. */
#ifndef MD_HOST_BYTE_INTEGERS_H
#define MD_HOST_BYTE_INTEGERS_H

/* clang-format off */
MD_INLINE md_y md_splat_y(int64_t a) { return (md_one_y)a + (md_y){0}; }
MD_INLINE md_y md_only_y(md_y v, int64_t identity, int n)
    { return n == MD_YL ? v : md_where_y(md_head_z(n), v, md_splat_y(identity)); }
#define MD_COMPARE_Y(name, sign) MD_INLINE md_z md_##name##_y(md_y a, md_y b) { return (md_z)(a sign b); }
MD_COMPARE_Y(lt, <)
MD_COMPARE_Y(le, <=)
MD_COMPARE_Y(gt, >)
MD_COMPARE_Y(ge, >=)
MD_COMPARE_Y(eq, ==)
MD_COMPARE_Y(ne, !=)
#ifdef MD_BYTES_UNSIGNED
MD_INLINE md_y md_max_y(md_y a, md_y b) { return md_most_wy(a, b); }
MD_INLINE md_y md_min_y(md_y a, md_y b) { return md_least_wy(a, b); }
MD_INLINE int64_t md_fold_max_y(md_y v) { return md_fold_most_wy(v); }
MD_INLINE int64_t md_fold_min_y(md_y v) { return md_fold_least_wy(v); }
#else
MD_INLINE md_y md_max_y(md_y a, md_y b) { return md_most_z(a, b); }
MD_INLINE md_y md_min_y(md_y a, md_y b) { return md_least_z(a, b); }
MD_INLINE int64_t md_fold_max_y(md_y v) { return md_fold_most_z(v); }
MD_INLINE int64_t md_fold_min_y(md_y v) { return md_fold_least_z(v); }
#endif

/* ---- Conversions and arithmetic. Lanes wrap: they serve where all values fit, or only the low bits matter. */
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

/* ---- Sums */
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
/* Bytes with a sign are raised to numbers without one. */
typedef struct md_total {
    md_ih sum;
    int64_t n; /* vectors that are in it */
} md_total;
#ifdef MD_BYTES_UNSIGNED
#define MD_RAISED 0
#else
#define MD_RAISED 128
#endif
MD_INLINE md_total md_splat_total(int64_t a) { return (md_total){a + (md_ih){0}, 0}; }
MD_INLINE md_total md_join_total(md_total a, md_total b) { return (md_total){a.sum + b.sum, a.n + b.n}; }
MD_INLINE md_total md_gain_total(md_total a, md_y v)
    { return (md_total){a.sum + md_eights((md_wy)v ^ MD_RAISED), a.n + 1}; }
MD_INLINE int64_t md_fold_sum_total(md_total a) { return md_fold_plus_ih(a.sum) - a.n * MD_YL * MD_RAISED; }
#endif

/* ---- Memory */
#ifdef MD_WORDS
MD_BYTE_TYPE(i16, md_y, MD_AS_Y, MD_AS_W)
MD_BYTE_TYPE(u16, md_y, MD_AS_Y, MD_AS_W)
#else
MD_BYTE_TYPE(i8, md_y, MD_AS_Y, MD_AS_W)
MD_BYTE_TYPE(u8, md_y, MD_AS_Y, MD_AS_W)

/* Half bytes as bytes, and back: each byte becomes a word of 16 bits first. */
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
#define MD_HALF_TYPE(T, UP) \
    MD_INLINE md_y md_load_##T##_bytes(const void *t, int64_t o, int n) { return UP(md_get_halves_bytes(t, o, n)); } \
    MD_INLINE void md_store_##T##_bytes(void *t, int64_t o, md_y v, int n) \
        { md_put_halves_bytes(t, o, (md_wy)v, n); } \
    MD_INLINE void md_store_##T##_bytes_nt(void *t, int64_t o, md_y v, int n) { md_store_##T##_bytes(t, o, v, n); } \
    MD_INLINE int64_t md_lead_##T##_bytes(const void *t, int64_t o) { (void)t; (void)o; return 0; }
#define MD_SIGNED_HALF(w) ((md_y)(((w) ^ 8) - 8))
#ifdef MD_USE_I4
MD_HALF_TYPE(i4, MD_SIGNED_HALF)
#endif
#ifdef MD_USE_U4
MD_HALF_TYPE(u4, MD_AS_Y)
#endif
#endif
/* clang-format on */

#endif
