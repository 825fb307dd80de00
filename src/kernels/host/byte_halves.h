/* Integers of four bits, two in each byte of a vector as in memory: MD_YL lanes, eight times as many as of 32 bits. For
 * stages whose values all fit into four bits. Operations treat both halves of a byte at once where no bit goes from one
 * to the other, and apart where it would. Truth values are 0 or 15. A part of bytes.h. */
#ifndef MD_HOST_BYTE_HALVES_H
#define MD_HOST_BYTE_HALVES_H

/* clang-format off */
#define MD_ALL_OF(c) ((md_one_wy)(c) + (md_wy){0})
/* Whole vectors moved by bits: those of a neighbour come in. */
#define MD_LEFT_4(v) ((md_wy)((md_words)(v) << 4))
#define MD_RIGHT(v, n) ((md_wy)((md_words)(v) >> (n)))
/* Both halves of each byte, from where they are high halves. */
MD_INLINE md_wy md_of_halves(md_wy high, md_wy low) { return (high & 0xf0) | (MD_RIGHT(low, 4) & 0x0f); }
/* 15 where the highest bit of a half is set: `top` has no other bits. */
MD_INLINE md_z md_fill_halves(md_wy top) { return (md_z)((top - MD_RIGHT(top, 3)) | top); }

MD_INLINE md_y md_splat_y(int64_t a) { return (md_y)MD_ALL_OF((a & 15) * 0x11); }
MD_INLINE md_y md_only_y(md_y v, int64_t identity, int n)
    { return n == MD_YL ? v : md_where_y(md_head_z(n), v, md_splat_y(identity)); }

/* ---- Arithmetic, the highest bit of each half apart: no carry leaves it */
MD_INLINE md_y md_add_y(md_y x, md_y y)
{
    const md_wy a = (md_wy)x, b = (md_wy)y;
    return (md_y)(((a & 0x77) + (b & 0x77)) ^ ((a ^ b) & 0x88));
}
MD_INLINE md_y md_sub_y(md_y x, md_y y)
{
    const md_wy a = (md_wy)x, b = (md_wy)y;
    return (md_y)(((a | 0x88) - (b & 0x77)) ^ ((a ^ ~b) & 0x88));
}
MD_INLINE md_y md_neg_y(md_y a) { return md_sub_y((md_y){0}, a); }
MD_INLINE md_y md_bit_and_y(md_y a, md_y b) { return a & b; }
MD_INLINE md_y md_bit_or_y(md_y a, md_y b) { return a | b; }
MD_INLINE md_y md_bit_xor_y(md_y a, md_y b) { return a ^ b; }
MD_INLINE md_y md_bit_not_y(md_y a) { return ~a; }
MD_INLINE md_y md_round_i4_y(md_y a) { return a; }
MD_INLINE md_y md_round_u4_y(md_y a) { return a; }
MD_INLINE md_y md_round_i8_y(md_y a) { return a; }
MD_INLINE md_y md_round_u8_y(md_y a) { return a; }
MD_INLINE md_y md_round_i16_y(md_y a) { return a; }
MD_INLINE md_y md_round_u16_y(md_y a) { return a; }
MD_INLINE md_y md_round_i32_y(md_y a) { return a; }
MD_INLINE md_y md_cast_z_y(md_z a) { return (md_y)((md_wy)a & 0x11); }

/* ---- Comparisons. A high half decides what a whole byte is compared to, unless both are equal. */
MD_INLINE md_z md_ne_y(md_y x, md_y y)
{
    const md_wy differs = (md_wy)x ^ (md_wy)y;
    return md_fill_halves((((differs & 0x77) + 0x77) | differs) & 0x88);
}
MD_INLINE md_z md_eq_y(md_y a, md_y b) { return ~md_ne_y(a, b); }
MD_INLINE md_z md_cast_y_z(md_y a) { return md_ne_y(a, (md_y){0}); }
MD_INLINE md_z md_lt_y(md_y x, md_y y)
{
    const md_wy a = (md_wy)x, b = (md_wy)y;
    const md_wy high = (md_wy)((md_y)(a & 0xf0) < (md_y)(b & 0xf0)),
                low = (md_wy)((md_y)(MD_LEFT_4(a) & 0xf0) < (md_y)(MD_LEFT_4(b) & 0xf0));
    return (md_z)((high & 0xf0) | (low & 0x0f));
}
MD_INLINE md_z md_gt_y(md_y a, md_y b) { return md_lt_y(b, a); }
MD_INLINE md_z md_le_y(md_y a, md_y b) { return ~md_lt_y(b, a); }
MD_INLINE md_z md_ge_y(md_y a, md_y b) { return ~md_lt_y(a, b); }
#ifdef MD_BYTES_UNSIGNED
#define MD_BYTE_EXTREME(name, x, y) md_##name##_wy(x, y)
MD_INLINE md_y md_relu_y(md_y a) { return a; }
#else
#define MD_BYTE_EXTREME(name, x, y) ((md_wy)md_##name##_z((md_z)(x), (md_z)(y)))
MD_INLINE md_y md_relu_y(md_y a) { return a & ~(md_y)md_fill_halves((md_wy)a & 0x88); }
#endif
#define MD_EXTREME_HALVES(name, extreme) \
    MD_INLINE md_y md_##name##_y(md_y x, md_y y) \
    { \
        const md_wy a = (md_wy)x, b = (md_wy)y; \
        const md_wy high = MD_BYTE_EXTREME(extreme, a, b), low = MD_BYTE_EXTREME(extreme, MD_LEFT_4(a), MD_LEFT_4(b)); \
        return (md_y)md_of_halves(high, low); \
    }
MD_EXTREME_HALVES(max, most)
MD_EXTREME_HALVES(min, least)
MD_INLINE md_y md_clamp_y(md_y a, md_y low, md_y high) { return md_min_y(md_max_y(a, low), high); }

/* ---- Rows */
MD_INLINE int64_t md_half_value(int half)
{
#ifdef MD_BYTES_UNSIGNED
    return half & 15;
#else
    return ((half & 15) ^ 8) - 8;
#endif
}
#define MD_FOLD_HALVES(name) \
    MD_INLINE int64_t md_fold_##name##_y(md_y v) \
    { \
        MD_HALVES(MD_STEP_##name##_Y, v) \
        uint32_t rest = (uint32_t)((md_b)v)[0]; \
        int64_t r = md_half_value((int)(rest & 15)); \
        for (int l = 1; l < 8; l++) \
            r = md_##name##_si(r, md_half_value((int)(rest >> 4 * l & 15))); \
        return r; \
    }
#define MD_STEP_max_Y(v, ...) v = md_max_y(v, (md_y)MD_SWAPPED((md_b)v, __VA_ARGS__));
#define MD_STEP_min_Y(v, ...) v = md_min_y(v, (md_y)MD_SWAPPED((md_b)v, __VA_ARGS__));
MD_FOLD_HALVES(max)
MD_FOLD_HALVES(min)

#ifdef MD_BYTES_UNSIGNED
#define MD_RAISED_HALF 0
#else
#define MD_RAISED_HALF 8 /* numbers with a sign are raised to some without */
#endif
typedef struct md_total {
    md_ih sum;
    int64_t n; /* vectors that are in it */
} md_total;
MD_INLINE md_total md_splat_total(int64_t a) { return (md_total){a + (md_ih){0}, 0}; }
MD_INLINE md_total md_join_total(md_total a, md_total b) { return (md_total){a.sum + b.sum, a.n + b.n}; }
MD_INLINE md_total md_gain_total(md_total a, md_y v)
{
    const md_wy raised = (md_wy)v ^ (MD_RAISED_HALF * 0x11);
    return (md_total){a.sum + md_eights((raised & 15) + (MD_RIGHT(raised, 4) & 15)), a.n + 1};
}
MD_INLINE int64_t md_fold_sum_total(md_total a) { return md_fold_plus_ih(a.sum) - a.n * MD_YL * MD_RAISED_HALF; }

/* ---- Memory */
#define MD_BYTES_OF(n) (((n) + 1) / 2)
MD_INLINE md_wy md_get_halves_bytes(const void *t, int64_t o, int n)
{
    const void *at = (const char *)t + (o >> 1);
    if (!(o & 1))
        return md_get_bytes(at, 0, n == MD_YL ? MD_Y_BYTES : MD_BYTES_OF(n));
    /* from the high half of a byte on */
    const md_wy first = md_get_bytes(at, 0, n == MD_YL ? MD_Y_BYTES : MD_BYTES_OF(n)),
                second = md_get_bytes(at, 1, n == MD_YL ? MD_Y_BYTES : n / 2);
    return (MD_RIGHT(first, 4) & 0x0f) | (MD_LEFT_4(second) & 0xf0);
}
MD_OUTLINE void md_put_some_halves(void *t, int64_t o, md_wy v, int n)
{
    uint8_t w[MD_Y_BYTES];
    int l = 0;
    __builtin_memcpy(w, &v, sizeof v);
    if (!(o & 1)) {
        __builtin_memcpy((char *)t + (o >> 1), w, (unsigned long)(n / 2));
        l = n / 2 * 2;
    } else if (n > 0) {
        md_put_half(t, o, w[0] & 15);
        for (l = 1; l + 1 < n; l += 2)
            ((uint8_t *)t)[(o + l) / 2] = (uint8_t)(w[l / 2] >> 4 | w[(l + 1) / 2] << 4);
    }
    if (l < n)
        md_put_half(t, o + l, w[l / 2] >> l % 2 * 4 & 15);
}
MD_INLINE void md_put_halves_bytes(void *t, int64_t o, md_wy v, int n)
{
    if (n == MD_YL && !(o & 1))
        __builtin_memcpy((char *)t + (o >> 1), &v, sizeof v);
    else
        md_put_some_halves(t, o, v, n);
}
MD_INLINE void md_put_halves_bytes_nt(void *t, int64_t o, md_wy v, int n)
{
    if (n == MD_YL && !(o & 1))
        md_put_bytes_nt((char *)t + (o >> 1), 0, v, MD_Y_BYTES);
    else
        md_put_some_halves(t, o, v, n);
}
MD_INLINE int64_t md_lead_halves(const void *t, int64_t o)
    { return o & 1 ? 0 : 2 * md_lead_bytes((const char *)t + (o >> 1), 0); }
#define MD_HALF_TYPE(T) \
    MD_INLINE md_y md_load_##T##_bytes(const void *t, int64_t o, int n) { return (md_y)md_get_halves_bytes(t, o, n); } \
    MD_INLINE void md_store_##T##_bytes(void *t, int64_t o, md_y v, int n) \
        { md_put_halves_bytes(t, o, (md_wy)v, n); } \
    MD_INLINE void md_store_##T##_bytes_nt(void *t, int64_t o, md_y v, int n) \
        { md_put_halves_bytes_nt(t, o, (md_wy)v, n); } \
    MD_INLINE int64_t md_lead_##T##_bytes(const void *t, int64_t o) { return md_lead_halves(t, o); }
#ifdef MD_USE_I4
MD_HALF_TYPE(i4)
#endif
#ifdef MD_USE_U4
MD_HALF_TYPE(u4)
#endif
/* clang-format on */

#endif
