/* The vocabulary of generated host kernels: lanes, scalars, and the elementary operations on both. The list is in
 * src/codegen/codegen.h. It uses only those of GCC's vector extensions that GCC 12 and Clang 14 both take in C. There
 * is no intrinsics header, because parsing it takes longer than most kernels. Scalar and lane forms give the same bits.
 */
#ifndef MD_HOST_PRELUDE_H
#define MD_HOST_PRELUDE_H

#ifdef MD_CONTRACT
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#endif

#include <stdint.h>

#ifndef MD_VL
#define MD_VL 16
#endif

#define MD_INLINE static inline __attribute__((always_inline, unused))
#define MD_OUTLINE static __attribute__((noinline, unused))
#define MD_EXPORT __attribute__((visibility("default")))
#define MD_VECTOR(bytes) __attribute__((vector_size(bytes)))
#define MD_LIKELY(x) __builtin_expect(!!(x), 1)
/* Unrolled loops, which keep arrays of vectors in registers, and a loop that is not unrolled. */
#ifdef __clang__
#define MD_UNROLL _Pragma("clang loop unroll(full)")
#define MD_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define MD_UNROLL _Pragma("GCC unroll 32")
#define MD_ROLLED _Pragma("GCC unroll 1")
#endif
#define MD_FOR(i, n) MD_UNROLL for (int i = 0; i < (n); i++)
#define MD_FOR_STEP(i, n, step) MD_UNROLL for (int i = 0; i < (n); i += (step))

typedef float md_f MD_VECTOR(MD_VL * 4);
typedef double md_d MD_VECTOR(MD_VL * 8);
typedef int64_t md_m MD_VECTOR(MD_VL * 8);
typedef int32_t md_b MD_VECTOR(MD_VL * 4);
typedef uint32_t md_u MD_VECTOR(MD_VL * 4);
typedef uint64_t md_w MD_VECTOR(MD_VL * 8);
/* Integers: 64 bits a lane, or, where the stage's values need no more (MD_NARROW), 32: one register. md_m, what
 * comparisons of wide lanes give, has 64 always. */
#ifdef MD_NARROW
typedef md_b md_i;
typedef int32_t md_one_i;
#else
typedef md_m md_i;
typedef int64_t md_one_i;
#endif
/* Halves of the wide types: one register. GCC makes no vector code for comparisons and permutations of anything wider.
 */
typedef double md_dh MD_VECTOR(MD_VL * 4);
typedef int64_t md_ih MD_VECTOR(MD_VL * 4);
typedef uint64_t md_wh MD_VECTOR(MD_VL * 4);

typedef union md_d2 {
    md_d v;
    md_dh h[2];
} md_d2;
typedef union md_m2 {
    md_m v;
    md_ih h[2];
} md_m2;

/* clang-format off */
MD_INLINE md_dh md_low_d(md_d a) { return ((md_d2){a}).h[0]; }
MD_INLINE md_dh md_high_d(md_d a) { return ((md_d2){a}).h[1]; }
MD_INLINE md_d md_join_d(md_dh a, md_dh b) { md_d2 r; r.h[0] = a; r.h[1] = b; return r.v; }
MD_INLINE md_ih md_low_i(md_m a) { return ((md_m2){a}).h[0]; }
MD_INLINE md_ih md_high_i(md_m a) { return ((md_m2){a}).h[1]; }
MD_INLINE md_m md_join_i(md_ih a, md_ih b) { md_m2 r; r.h[0] = a; r.h[1] = b; return r.v; }

/* clang-format on */
#include "widths.h"
/* clang-format off */

/* ---- The same value in all lanes; positions. GCC fills what is wider than a register by elements, in memory. */
MD_INLINE md_f md_splat_f(float a) { return a - (md_f){0}; } /* minus zero: keeps the sign of a zero */
MD_INLINE md_d md_splat_d(double a) { const md_dh h = a - (md_dh){0}; return md_join_d(h, h); }
MD_INLINE md_m md_splat_m(int64_t a) { const md_ih h = a + (md_ih){0}; return md_join_i(h, h); }
#ifdef MD_NARROW
MD_INLINE md_i md_splat_i(int64_t a) { return (md_one_i)a + (md_i){0}; }
#else
MD_INLINE md_i md_splat_i(int64_t a) { return md_splat_m(a); }
#endif
MD_INLINE md_b md_splat_b(int a) { return -(int32_t)(a != 0) + (md_b){0}; }
MD_INLINE md_u md_splat_u(uint32_t a) { return a + (md_u){0}; }

#if MD_VL == 16
#define MD_IOTA {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif MD_VL == 8
#define MD_IOTA {0, 1, 2, 3, 4, 5, 6, 7}
#elif MD_VL == 4
#define MD_IOTA {0, 1, 2, 3}
#else
#define MD_IOTA {0, 1}
#endif
MD_INLINE md_i md_iota_i(int64_t first) { return md_splat_i(first) + (md_i)MD_IOTA; }
MD_INLINE md_b md_head_b(int n) { return (md_b)((md_b)MD_IOTA < n + (md_b){0}); }

/* ---- Comparisons. Wide ones give 64-bit masks first. */
#ifdef MD_NARROW
#define MD_COMPARE_I(name, sign) MD_INLINE md_b md_##name##_i(md_i a, md_i b) { return (md_b)(a sign b); }
#else
#define MD_COMPARE_I(name, sign) \
    MD_INLINE md_b md_##name##_i(md_i a, md_i b) { return md_thin_b(md_wide_##name##_i(a, b)); }
#endif
#define MD_COMPARE(name, sign)                                                                                         \
    MD_INLINE md_b md_##name##_f(md_f a, md_f b) { return (md_b)(a sign b); }                                          \
    MD_INLINE md_m md_wide_##name##_d(md_d a, md_d b)                                                                  \
    {                                                                                                                  \
        return md_join_i((md_ih)(md_low_d(a) sign md_low_d(b)), (md_ih)(md_high_d(a) sign md_high_d(b)));              \
    }                                                                                                                  \
    MD_INLINE md_m md_wide_##name##_i(md_m a, md_m b)                                                                  \
    {                                                                                                                  \
        return md_join_i((md_ih)(md_low_i(a) sign md_low_i(b)), (md_ih)(md_high_i(a) sign md_high_i(b)));              \
    }                                                                                                                  \
    MD_INLINE md_b md_##name##_d(md_d a, md_d b) { return md_thin_b(md_wide_##name##_d(a, b)); }   \
    MD_COMPARE_I(name, sign)                                                                                           \
    MD_INLINE md_b md_##name##_b(md_b a, md_b b) { return (md_b)(-a sign -b); }                                        \
    MD_INLINE int md_##name##_sf(float a, float b) { return a sign b; }                                                \
    MD_INLINE int md_##name##_sd(double a, double b) { return a sign b; }                                              \
    MD_INLINE int md_##name##_si(int64_t a, int64_t b) { return a sign b; }                                            \
    MD_INLINE int md_##name##_sb(int a, int b) { return a sign b; }
MD_COMPARE(lt, <)
MD_COMPARE(le, <=)
MD_COMPARE(gt, >)
MD_COMPARE(ge, >=)
MD_COMPARE(eq, ==)
MD_COMPARE(ne, !=)

MD_INLINE md_b md_and_b(md_b a, md_b b) { return a & b; }
MD_INLINE md_b md_or_b(md_b a, md_b b) { return a | b; }
MD_INLINE md_b md_not_b(md_b a) { return ~a; }
MD_INLINE int md_and_sb(int a, int b) { return a & b; }
MD_INLINE int md_or_sb(int a, int b) { return a | b; }
MD_INLINE int md_not_sb(int a) { return !a; }

/* One bit a lane. */
MD_INLINE unsigned md_bits_b(md_b a)
{
#if MD_VL == 16 && defined(__AVX512DQ__)
    return (uint16_t)__builtin_ia32_cvtd2mask512((int MD_VECTOR(64))a);
#elif MD_VL == 8 && defined(__AVX__)
    return (unsigned)__builtin_ia32_movmskps256((float MD_VECTOR(32))a);
#elif MD_VL == 4 && defined(__SSE__)
    return (unsigned)__builtin_ia32_movmskps((float MD_VECTOR(16))a);
#else
    unsigned r = 0;
    for (int l = 0; l < MD_VL; l++)
        r |= (unsigned)(a[l] & 1) << l;
    return r;
#endif
}
MD_INLINE int md_any_b(md_b a) { return md_bits_b(a) != 0; }
MD_INLINE int md_all_b(md_b a) { return md_bits_b(a) == (unsigned)((UINT64_C(1) << MD_VL) - 1); }

/* ---- Selection */
MD_INLINE md_b md_where_b(md_b c, md_b a, md_b b) { return (a & c) | (b & ~c); }
MD_INLINE md_f md_where_f(md_b c, md_f a, md_f b) { return (md_f)(((md_b)a & c) | ((md_b)b & ~c)); }
MD_INLINE md_m md_wide_where_i(md_m c, md_m a, md_m b) { return (a & c) | (b & ~c); }
MD_INLINE md_d md_wide_where_d(md_m c, md_d a, md_d b) { return (md_d)md_wide_where_i(c, (md_m)a, (md_m)b); }
MD_INLINE md_i md_where_i(md_b c, md_i a, md_i b) { const md_i k = md_from_b(c); return (a & k) | (b & ~k); }
MD_INLINE md_d md_where_d(md_b c, md_d a, md_d b) { return md_wide_where_d(md_widen_b(c), a, b); }
MD_INLINE float md_where_sf(int c, float a, float b) { return c ? a : b; }
MD_INLINE double md_where_sd(int c, double a, double b) { return c ? a : b; }
MD_INLINE int64_t md_where_si(int c, int64_t a, int64_t b) { return c ? a : b; }
MD_INLINE int md_where_sb(int c, int a, int b) { return c ? a : b; }

/* A NaN in a is selected by the second test, a NaN in b because no comparison with it holds. */
#define MD_EXTREME(name, sign)                                                                                         \
    MD_INLINE md_f md_##name##_f(md_f a, md_f b) { return md_where_f((md_b)(a sign b) | (md_b)(a != a), a, b); }       \
    MD_INLINE md_d md_##name##_d(md_d a, md_d b)                                                                       \
    {                                                                                                                  \
        md_m2 c;                                                                                                       \
        c.h[0] = (md_ih)(md_low_d(a) sign md_low_d(b)) | (md_ih)(md_low_d(a) != md_low_d(a));                          \
        c.h[1] = (md_ih)(md_high_d(a) sign md_high_d(b)) | (md_ih)(md_high_d(a) != md_high_d(a));                      \
        return md_wide_where_d(c.v, a, b);                                                                             \
    }                                                                                                                  \
    MD_INLINE float md_##name##_sf(float a, float b) { return a sign b || a != a ? a : b; }                            \
    MD_INLINE double md_##name##_sd(double a, double b) { return a sign b || a != a ? a : b; }                         \
    MD_INLINE int64_t md_##name##_si(int64_t a, int64_t b) { return a sign b ? a : b; }
MD_EXTREME(max, >)
MD_EXTREME(min, <)
#ifdef MD_NARROW
MD_INLINE md_i md_max_i(md_i a, md_i b) { return md_most_b(a, b); }
MD_INLINE md_i md_min_i(md_i a, md_i b) { return md_least_b(a, b); }
#else
MD_INLINE md_i md_max_i(md_i a, md_i b) { return md_wide_where_i(md_wide_gt_i(a, b), a, b); }
MD_INLINE md_i md_min_i(md_i a, md_i b) { return md_wide_where_i(md_wide_lt_i(a, b), a, b); }
#endif
MD_INLINE md_b md_max_b(md_b a, md_b b) { return a | b; }
MD_INLINE md_b md_min_b(md_b a, md_b b) { return a & b; }
MD_INLINE int md_max_sb(int a, int b) { return a | b; }
MD_INLINE int md_min_sb(int a, int b) { return a & b; }

/* True if the candidate replaces the best so far: a NaN where that is none, or a better value. */
#define MD_BEYOND(name, compare)                                                                                       \
    MD_INLINE md_b md_beyond_##name##_f(md_f a, md_f b) \
        { return md_##compare##_f(a, b) | (md_ne_f(a, a) & md_eq_f(b, b)); } \
    MD_INLINE md_b md_beyond_##name##_d(md_d a, md_d b) \
        { return md_##compare##_d(a, b) | (md_ne_d(a, a) & md_eq_d(b, b)); } \
    MD_INLINE md_b md_beyond_##name##_i(md_i a, md_i b) { return md_##compare##_i(a, b); }                             \
    MD_INLINE md_b md_beyond_##name##_b(md_b a, md_b b) { return md_##compare##_b(a, b); }                             \
    MD_INLINE int md_beyond_##name##_sf(float a, float b) { return md_##compare##_sf(a, b) | (a != a && b == b); }     \
    MD_INLINE int md_beyond_##name##_sd(double a, double b) { return md_##compare##_sd(a, b) | (a != a && b == b); }   \
    MD_INLINE int md_beyond_##name##_si(int64_t a, int64_t b) { return md_##compare##_si(a, b); }                      \
    MD_INLINE int md_beyond_##name##_sb(int a, int b) { return md_##compare##_sb(a, b); }
MD_BEYOND(max, gt)
MD_BEYOND(min, lt)

/* True if the index is in 0 .. n-1. */
MD_INLINE int md_inside_si(int64_t a, int64_t n) { return (uint64_t)a < (uint64_t)n; }
MD_INLINE md_b md_inside_i(md_i a, int64_t n) { return md_ge_i(a, (md_i){0}) & md_lt_i(a, md_splat_i(n)); }

/* What folds lanes by halves: `step` with lane l beside lane l + MD_VL/2, and so on. */
#if MD_VL == 16
#define MD_HALVES(step, v) \
    step(v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7) \
    step(v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11) \
    step(v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13) \
    step(v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif MD_VL == 8
#define MD_HALVES(step, v) \
    step(v, 4, 5, 6, 7, 0, 1, 2, 3) step(v, 2, 3, 0, 1, 6, 7, 4, 5) step(v, 1, 0, 3, 2, 5, 4, 7, 6)
#elif MD_VL == 4
#define MD_HALVES(step, v) step(v, 2, 3, 0, 1) step(v, 1, 0, 3, 2)
#else
#define MD_HALVES(step, v) step(v, 1, 0)
#endif
#define MD_SWAPPED(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)

/* The start of part `block` of `blocks` equal parts, without overflow. */
MD_INLINE int64_t md_share(int64_t points, int64_t block, int64_t blocks)
    { return points / blocks * block + points % blocks * block / blocks; }

#include "arithmetic.h"

/* clang-format on */

/* ---- An index out of range: the first one is kept. The layout is md_kn_report's. */
typedef struct md_report_slot {
    uint32_t is_set;
    int32_t tensor, axis;
    int64_t value;
} md_report_slot;
__attribute__((cold)) MD_OUTLINE void md_report(void *report, int tensor, int axis, int64_t value)
{
    md_report_slot *slot = report;
    uint32_t expected = 0;
    if (!__atomic_compare_exchange_n(&slot->is_set, &expected, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    slot->tensor = tensor;
    slot->axis = axis;
    slot->value = value;
}
__attribute__((cold)) MD_OUTLINE void md_report_lanes(void *report, int tensor, int axis, md_i value, md_b bad)
{
    for (int l = 0; l < MD_VL; l++)
        if (bad[l]) {
            md_report(report, tensor, axis, value[l]);
            return;
        }
}

#include "memory.h"
#if defined(MD_ACC_PAIRS)
#include "pairs.h"
#else
#define md_out md_acc /* of products: sums as the epilogue takes them */
#endif
#if defined(MD_PAIRED) && defined(MD_ACC_F32)
#include "bf16_pairs.h"
#endif
#if defined(MD_BYTES) || !defined(MD_CONFIGURED)
#include "bytes.h"
#endif
/* Lanes of a vector of the text. */
#ifdef MD_BYTES
#define MD_VECTOR_LANES MD_YL
#else
#define MD_VECTOR_LANES MD_VL
#endif
#include "math.h"
#include "math_hyperbolic.h"
#include "math_inverse.h"
#include "math_special.h"

#endif
