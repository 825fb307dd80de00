/* Reals in lanes as memory holds them: bf16 and f16 in words, f8 in bytes. For stages that only select values, compare
 * them or change their sign, and for sums, maxima and minima of rows: nothing is widened before it is added up. Results
 * have the bits that a store from lanes of f32 gives, those of a NaN as well. A part of bytes.h. */
#ifndef MD_HOST_BYTE_REALS_H
#define MD_HOST_BYTE_REALS_H

/* clang-format off */
/* MD_INF_Y: the greatest magnitude that is no NaN. */
#if defined(MD_BITS_BF16)
#define MD_BITS(name) name##_bf16
#define MD_INF_Y 0x7f80
#define MD_QUIET_Y 0x40 /* what a store sets in a NaN */
#elif defined(MD_BITS_F16)
#define MD_BITS(name) name##_f16
#define MD_INF_Y 0x7c00
#define MD_QUIET_Y 0x200
#elif defined(MD_BITS_F8E4M3)
#define MD_BITS(name) name##_f8e4m3
#define MD_INF_Y 0x7e /* the type has no infinity */
#else
#define MD_BITS(name) name##_f8e5m2
#define MD_INF_Y 0x7c
#define MD_LARGEST_Y 0x7b /* what a store of infinity leaves */
#endif
#define MD_FARTHEST_Y (MD_TOP_Y | MD_INF_Y) /* below 0 */

MD_INLINE md_y md_splat_y(float a)
{
#ifdef MD_LARGEST_Y
    if (__builtin_isinf(a))
        return (md_one_y)(a > 0 ? MD_INF_Y : MD_FARTHEST_Y) + (md_y){0};
#endif
    return (md_one_y)MD_BITS(md_down1)(a) + (md_y){0};
}
MD_INLINE float md_one_of_y(int64_t a) { return MD_BITS(md_up1)((md_one_wy)a); }
MD_INLINE md_y md_only_y(md_y v, float identity, int n)
    { return n == MD_YL ? v : md_where_y(md_head_z(n), v, md_splat_y(identity)); }

/* ---- Comparisons. A value is a sign and a magnitude; md_order_y is an integer with the order of the values, and 0 for
 * both zeros. */
MD_INLINE md_y md_abs_y(md_y a) { return a & MD_HIGHEST_Y; }
MD_INLINE md_y md_neg_y(md_y a) { return a ^ MD_LOWEST_Y; }
MD_INLINE md_z md_isnan_y(md_y a) { return (md_z)(md_abs_y(a) > (md_one_y)MD_INF_Y + (md_y){0}); }
MD_INLINE md_z md_isinf_y(md_y a)
{
#ifdef MD_BITS_F8E4M3
    return (md_z)(a ^ a);
#else
    return (md_z)(md_abs_y(a) == (md_one_y)MD_INF_Y + (md_y){0});
#endif
}
MD_INLINE md_y md_order_y(md_y a)
{
#ifdef MD_WORDS
    const md_y below = a >> 15;
#else
    const md_y below = (md_y)(a < (md_y){0});
#endif
    return (md_abs_y(a) ^ below) - below;
}
MD_INLINE md_z md_ordered_y(md_y a, md_y b) { return ~(md_isnan_y(a) | md_isnan_y(b)); }
#define MD_COMPARE_Y(name, sign) \
    MD_INLINE md_z md_##name##_y(md_y a, md_y b) \
        { return (md_z)(md_order_y(a) sign md_order_y(b)) & md_ordered_y(a, b); }
MD_COMPARE_Y(lt, <)
MD_COMPARE_Y(le, <=)
MD_COMPARE_Y(gt, >)
MD_COMPARE_Y(ge, >=)
MD_INLINE md_z md_eq_y(md_y a, md_y b) { return (md_z)(md_order_y(a) == md_order_y(b)) & ~md_isnan_y(a); }
MD_INLINE md_z md_ne_y(md_y a, md_y b) { return ~md_eq_y(a, b); }

/* ---- Selection */
#define MD_EXTREME_REAL(name, sign) \
    MD_INLINE md_y md_##name##_y(md_y a, md_y b) \
    { \
        const md_z beyond = (md_z)(md_order_y(a) sign md_order_y(b)) & ~md_isnan_y(b); \
        return md_where_y(beyond | md_isnan_y(a), a, b); \
    }
MD_EXTREME_REAL(max, >)
MD_EXTREME_REAL(min, <)
MD_INLINE md_y md_clamp_y(md_y a, md_y low, md_y high) { return md_min_y(md_max_y(a, low), high); }
/* Drops what lies from minus zero to minus infinity: as integers the lowest values. */
MD_INLINE md_y md_relu_y(md_y a) { return a & ~(md_y)(a <= (md_one_y)MD_FARTHEST_Y + (md_y){0}); }

/* ---- Rows: maximum and minimum. As integers with a sign, values above zero are in order, and as integers without one
 * those below zero are, from the greatest on: three extremes tell all, and where a NaN was. */
typedef struct md_extent {
    md_z most, least;
    md_wy far; /* the greatest without a sign */
} md_extent;
MD_INLINE md_extent md_splat_extent(float a)
    { const md_y v = md_splat_y(a); return (md_extent){(md_z)v, (md_z)v, (md_wy)v}; }
MD_INLINE md_extent md_join_extent(md_extent a, md_extent b)
    { return (md_extent){md_most_z(a.most, b.most), md_least_z(a.least, b.least), md_most_wy(a.far, b.far)}; }
MD_INLINE md_extent md_gain_extent(md_extent a, md_y v)
    { return md_join_extent(a, (md_extent){(md_z)v, (md_z)v, (md_wy)v}); }
MD_INLINE float md_fold_max_extent(md_extent a)
{
    const int64_t most = md_fold_most_z(a.most), far = md_fold_most_wy(a.far);
    if (most > MD_INF_Y || far > MD_FARTHEST_Y)
        return __builtin_nanf("");
    return md_one_of_y(most >= 0 ? most : md_fold_least_z(a.least));
}
MD_INLINE float md_fold_min_extent(md_extent a)
{
    const int64_t most = md_fold_most_z(a.most), far = md_fold_most_wy(a.far);
    if (most > MD_INF_Y || far > MD_FARTHEST_Y)
        return __builtin_nanf("");
    return md_one_of_y(far >= MD_TOP_Y ? far : md_fold_least_z(a.least));
}

/* ---- Rows: sums, in as many vectors of f32 as a lane has parts of 32 bits. */
#if MD_VL == 16
#define MD_LANES_FROM(n) MD_IOTA_16(n)
#elif MD_VL == 8
#define MD_LANES_FROM(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
#else
#define MD_LANES_FROM(n) n, n + 1, n + 2, n + 3
#endif
typedef struct md_f_pair {
    md_f low, high;
} md_f_pair;
MD_INLINE md_f_pair md_add_pair(md_f_pair a, md_f_pair b) { return (md_f_pair){a.low + b.low, a.high + b.high}; }
MD_INLINE md_f md_both_of(md_f_pair a) { return a.low + a.high; }
MD_INLINE float md_fold_lanes_f(md_f v)
{
#define MD_STEP_PLUS_F(v, ...) v = v + MD_SWAPPED(v, __VA_ARGS__);
    MD_HALVES(MD_STEP_PLUS_F, v)
    return v[0];
}
#ifdef MD_BITS_BF16
typedef md_f_pair md_total;
MD_INLINE md_total md_splat_total(float a) { return (md_total){md_splat_f(a), md_splat_f(a)}; }
MD_INLINE md_total md_join_total(md_total a, md_total b) { return md_add_pair(a, b); }
MD_INLINE float md_fold_sum_total(md_total a) { return md_fold_lanes_f(md_both_of(a)); }
MD_INLINE md_total md_gain_total(md_total a, md_y v)
{
    return md_add_pair(a, (md_total){(md_f)((md_u)v << 16), (md_f)((md_u)v & 0xffff0000u)});
}
#elif !defined(MD_WORDS)
typedef struct md_total {
    md_f_pair even, odd;
    md_z nan; /* lanes that had a NaN which the sums do not show */
} md_total;
MD_INLINE md_total md_splat_total(float a)
{
    const md_f_pair pair = {md_splat_f(a), md_splat_f(a)};
    return (md_total){pair, pair, {0}};
}
MD_INLINE md_total md_join_total(md_total a, md_total b)
    { return (md_total){md_add_pair(a.even, b.even), md_add_pair(a.odd, b.odd), a.nan | b.nan}; }
#ifdef MD_HAS_F16
MD_INLINE md_f_pair md_up_words_f16(md_words w)
{
    return (md_f_pair){md_up_f16(__builtin_shufflevector(w, w, MD_LANES_FROM(0))),
        md_up_f16(__builtin_shufflevector(w, w, MD_LANES_FROM(MD_VL)))};
}
/* Every other byte, in the upper half of a word, as binary16. f8e4m3 has a bit less in the exponent, so that its values
 * come out as the 256th part and NaN as a number. */
#ifdef MD_BITS_F8E4M3
#define MD_TOTAL_SCALE 256.0f
#define MD_UNSEEN_NAN(v) md_isnan_y(v)
MD_INLINE md_words md_binary16_of(md_words upper)
    { return (md_words)((int16_t MD_VECTOR(MD_Y_BYTES))upper >> 1) & 0xbf80; }
#else
#define MD_TOTAL_SCALE 1.0f
#define MD_UNSEEN_NAN(v) ((md_z){0})
MD_INLINE md_words md_binary16_of(md_words upper) { return upper; }
#endif
MD_INLINE md_total md_gain_total(md_total a, md_y v)
{
    const md_words w = (md_words)v;
    return md_join_total(a, (md_total){md_up_words_f16(md_binary16_of(w << 8)),
        md_up_words_f16(md_binary16_of(w & 0xff00)), MD_UNSEEN_NAN(v)});
}
#else
#define MD_TOTAL_SCALE 1.0f
#define MD_BYTE_OF(n) MD_BITS(md_up_lanes)((md_b)((md_u)v >> n & 0xff))
MD_INLINE md_total md_gain_total(md_total a, md_y v)
{
    return md_join_total(a, (md_total){{MD_BYTE_OF(0), MD_BYTE_OF(8)}, {MD_BYTE_OF(16), MD_BYTE_OF(24)}, {0}});
}
#endif
MD_INLINE float md_fold_sum_total(md_total a)
{
    const float sum = md_fold_lanes_f(md_both_of(a.even) + md_both_of(a.odd)) * MD_TOTAL_SCALE;
    return md_fold_max_z(a.nan) ? __builtin_nanf("") : sum;
}
#endif

/* ---- Memory. A NaN is stored as it would be from lanes of f32. */
MD_INLINE md_wy md_settle_y(md_y v)
{
#ifdef MD_QUIET_Y
    return (md_wy)(v | ((md_y)md_isnan_y(v) & MD_QUIET_Y));
#else
    md_wy stored = (md_wy)v;
#ifdef MD_LARGEST_Y
    stored = md_least_wy((md_wy)md_abs_y(v), MD_LARGEST_Y + (md_wy){0}) | (stored & MD_TOP_Y);
#endif
    return (md_wy)md_where_y(md_isnan_y(v), MD_HIGHEST_Y + (md_y){0}, (md_y)stored);
#endif
}
#define MD_REAL_BYTE_TYPE(T) \
    MD_BYTE_TYPE(T, md_y, MD_AS_Y, md_settle_y) \
    MD_INLINE md_y md_round_##T##_y(md_y v) { return v; }
#if defined(MD_BITS_BF16)
MD_REAL_BYTE_TYPE(bf16)
#elif defined(MD_BITS_F16)
MD_REAL_BYTE_TYPE(f16)
#elif defined(MD_BITS_F8E4M3)
MD_REAL_BYTE_TYPE(f8e4m3)
#else
MD_REAL_BYTE_TYPE(f8e5m2)
#endif
/* clang-format on */

#endif
