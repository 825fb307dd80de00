/* Softmax of scores in pieces: what all chains (product, softmax, product) on GPUs share. Powers are of 2: scores are
 * scaled by log2(e) before. A part of chain_*.cu. */
#ifndef MD_CUDA_CHAIN_H
#define MD_CUDA_CHAIN_H

#include "chain_check.h"
#include "chain_lines.h"

/* Scores are only scaled: by the multiplication that subtracts the maximum. */
#define MD_FOLDS (MD_CHAIN_SCALE == 2 && (!MD_CHAIN_GUARDS || MD_CHAIN_BOUNDED))

/* By what scores are multiplied where their powers of 2 are taken. */
MD_INLINE float md_chain_power_scale(const md_params *p)
{
    const float LOG2_E = 1.44269504088896f;
#if MD_FOLDS
    return md_chain_scale(p) * LOG2_E;
#else
    (void)p;
    return LOG2_E;
#endif
}

MD_INLINE float md_power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Rounds two powers. One conversion of two takes no turn of the unit that computes powers, as one of each does. */
#define MD_ROUND_TWO(T)                                                                                                \
    MD_INLINE void md_round_two_##T(float &a, float &b)                                                                \
    {                                                                                                                  \
        const uint32_t two = md_pack_##T(a, b);                                                                        \
        a = md_up1_##T((uint16_t)two);                                                                                 \
        b = md_up1_##T((uint16_t)(two >> 16));                                                                         \
    }
MD_ROUND_TWO(bf16)
MD_ROUND_TWO(f16)
#undef MD_ROUND_TWO
#define md_round_two_f8e4m3(a, b) ((a) = md_round_f8e4m3_sf(a), (b) = md_round_f8e4m3_sf(b))
#define md_round_two_f8e5m2(a, b) ((a) = md_round_f8e5m2_sf(a), (b) = md_round_f8e5m2_sf(b))

/* What is left of two powers when they are rounded to elements, as a word of elements. */
#if MD_HALVES == 2
MD_INLINE unsigned md_pack_rest(float a, float b)
{
    float x = a, y = b;
    md_chain_short_two(x, y);
    return md_chain_pack(a - x, b - y);
}
#else
MD_INLINE unsigned md_pack_rest(float, float) { return 0; }
#endif

/* A maximum of -inf (nothing but masked scores so far) is not subtracted: -inf minus itself would be NaN. */
MD_INLINE float md_chain_base(float maximum) { return maximum == -MD_INF_F ? 0.f : maximum; }

/* By what the scores of a row are multiplied as their maximum is subtracted. The product is exact there, that of the
 * maximum is rounded: by 2^4 and more beyond 2^28, and masks that add the least finite number would overflow. There it
 * is 1, so that equal scores give 1; others are 32 apart at least, and nothing is left of the smaller one. */
MD_INLINE float md_chain_scale_of(float maximum, float scale)
{
    return MD_FOLDS || !(fabsf(maximum) > 0x1p28f) ? scale : 1.f;
}

/* Evenly spaced keys and values: where those of a batch begin, and how far the next one is. Else unused. */
typedef struct md_even {
    const uint16_t *k, *v;
    long long k_stride, v_stride;
} md_even;

MD_INLINE md_even md_even_of(const md_params *p, const md_chain_batch *b)
{
    md_even e = {nullptr, nullptr, 0, 0};
    (void)b;
#if MD_STEADY_KEYS
    e.k = md_chain_k_data(p) + md_chain_k(p, b, 0);
    e.k_stride = md_chain_k_stride(p);
#endif
#if MD_STEADY_VALUES
    e.v = md_chain_v_data(p) + md_chain_v(p, b, 0);
    e.v_stride = md_chain_v_stride(p);
#endif
    return e;
}

/* 1: a warp copies keys (values) as evenly spaced lines, and needs no places of them. */
#define MD_HAS_EVEN_KEYS(lines) (MD_STEADY_KEYS && md_has_even<MD_DEPTH, lines>::V)
#define MD_HAS_EVEN_VALUES(lines) (MD_STEADY_VALUES && md_has_even<MD_WIDTH, lines>::V)

/* Where the key and the value of a lane lie, which may take look-ups: of lines key .. key + lines - 1, those from `end`
 * on nowhere. */
typedef struct md_lines {
    long long k, v;
} md_lines;

template <int lines> MD_INLINE md_lines md_find_lines(const md_params *p, const md_chain_batch *b, int key, int end)
{
    const int own = key + (threadIdx.x & (lines - 1));
    md_lines at = {-1, -1};
    if (!MD_HAS_EVEN_KEYS(lines) && own < end)
        at.k = md_chain_k(p, b, own);
    if (!MD_HAS_EVEN_VALUES(lines) && own < end)
        at.v = md_chain_v(p, b, own);
    return at;
}

/* Copies these keys (values), those from `end` on as zeros. A warp. */
template <int lines, int pitch>
MD_INLINE void md_copy_some_keys(unsigned to, int first, const md_params *p, const md_even &even, const md_lines &at,
                                 int key, int end)
{
    if constexpr (MD_HAS_EVEN_KEYS(lines))
        md_copy_even_lines<MD_DEPTH, lines, pitch>(to, first, even.k + key * even.k_stride, even.k_stride, end - key);
    else
        md_copy_lines<MD_DEPTH, lines, pitch>(to, first, md_chain_k_data(p), at.k);
}
template <int lines, int pitch>
MD_INLINE void md_copy_some_values(unsigned to, int first, const md_params *p, const md_even &even, const md_lines &at,
                                   int key, int end)
{
    if constexpr (MD_HAS_EVEN_VALUES(lines))
        md_copy_even_lines<MD_WIDTH, lines, pitch>(to, first, even.v + key * even.v_stride, even.v_stride, end - key);
    else
        md_copy_lines<MD_WIDTH, lines, pitch>(to, first, md_chain_v_data(p), at.v);
}

#endif
