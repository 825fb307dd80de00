/* The vocabulary of generated GPU kernels: lanes, scalars, and the elementary operations on both. The list is in
 * src/codegen/codegen.h. C++ for NVRTC without any header, since every kernel pays for what is parsed here. A lane
 * value is a struct of MD_VL values in the registers of one thread; each loop over lanes is unrolled. Scalar and lane
 * forms give the same bits. */
#ifndef MD_CUDA_PRELUDE_H
#define MD_CUDA_PRELUDE_H

#pragma nv_diag_suppress 177 /* a vocabulary: not all of it is used */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define INT64_C(x) x##LL
#define UINT64_C(x) x##ULL
#define INT32_MAX 0x7fffffff
#define INT32_MIN (-0x7fffffff - 1)
#define INT64_MAX 0x7fffffffffffffffLL
#define INT64_MIN (-0x7fffffffffffffffLL - 1)

#ifndef MD_VL
#define MD_VL 4
#endif
/* Type of positions along the lanes inside a row. */
#ifndef MD_WIDE
#define MD_WIDE 1
#endif
#if MD_WIDE
typedef int64_t md_pos;
#else
typedef int32_t md_pos;
#endif

#define MD_INLINE static __device__ __forceinline__
#define MD_OUTLINE static __device__ __noinline__
#define MD_EXPORT extern "C" __global__
/* The first statement of every kernel. To get a kernel ready, the device launches it once with one thread a block: then
 * there is no work, whatever the parameters (sizes may be constants). */
#define MD_IF_EMPTY_RETURN                                                                                             \
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;                                                                                 \
    md_wait_for_launches()
/* The same for kernels that work in shared memory before they wait. */
#define MD_IF_EMPTY_RETURN_BEFORE_WAITING                                                                              \
    if (blockDim.x == 1)                                                                                               \
    return
#define MD_LIKELY(x) __builtin_expect(!!(x), 1)
#define MD_UNROLL _Pragma("unroll")
#define MD_ROLLED _Pragma("unroll 1")
#define MD_FOR(i, n) MD_UNROLL for (int i = 0; i < (n); i++)
#define MD_FOR_STEP(i, n, step) MD_UNROLL for (int i = 0; i < (n); i += (step))
/* From Hopper on, a launch may begin when all blocks of the launch before it in the stream have begun
 * (md_kn_geometry.overlaps). So its blocks exist and have prepared themselves when that one ends. Every thread of every
 * kernel waits for the end of earlier launches before it touches global memory, and lets the next launch begin. */
MD_INLINE void md_wait_for_launches(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}
/* Reinterprets bits as another type. */
MD_INLINE uint32_t md_u32(float a) { return __float_as_uint(a); }
MD_INLINE float md_f32(uint32_t a) { return __uint_as_float(a); }
MD_INLINE uint64_t md_u64(double a) { return (uint64_t)__double_as_longlong(a); }
MD_INLINE double md_f64(uint64_t a) { return __longlong_as_double((int64_t)a); }
#define MD_INF_F __int_as_float(0x7f800000)
#define MD_INF_D __longlong_as_double(0x7ff0000000000000LL)

#define __builtin_inff() MD_INF_F
#define __builtin_inf() MD_INF_D
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)

/* ---- Lanes */
template <class T> struct md_vec {
    T v[MD_VL];
    __device__ __forceinline__ T &operator[](int i) { return v[i]; }
    __device__ __forceinline__ const T &operator[](int i) const { return v[i]; }
};
typedef md_vec<float> md_f;
typedef md_vec<double> md_d;
typedef md_vec<int64_t> md_i;
typedef md_vec<int32_t> md_b;
typedef md_vec<uint32_t> md_u;

/* clang-format off */
#define MD_LANES(expression) { MD_FOR (l, MD_VL) r.v[l] = expression; return r; }
#define MD_SIGN(sign)                                                                                                  \
    template <class T> MD_INLINE md_vec<T> operator sign(md_vec<T> a, md_vec<T> b) \
        { md_vec<T> r; MD_LANES(a.v[l] sign b.v[l]) } \
    template <class T> MD_INLINE md_vec<T> &operator sign##=(md_vec<T> &a, md_vec<T> b) { a = a sign b; return a; }
MD_SIGN(+) MD_SIGN(-) MD_SIGN(*) MD_SIGN(/) MD_SIGN(&) MD_SIGN(|) MD_SIGN(^)
#undef MD_SIGN
template <class T> MD_INLINE md_vec<T> operator-(md_vec<T> a) { md_vec<T> r; MD_LANES(-a.v[l]) }
template <class T> MD_INLINE md_vec<T> operator~(md_vec<T> a) { md_vec<T> r; MD_LANES(~a.v[l]) }
template <class T> MD_INLINE md_vec<T> md_splat(T a) { md_vec<T> r; MD_LANES(a) }
/* Signed integers wrap. */
#define MD_WRAP(sign)                                                                                                  \
    MD_INLINE md_i operator sign(md_i a, md_i b) { md_i r; MD_LANES((int64_t)((uint64_t)a.v[l] sign (uint64_t)b.v[l])) }
MD_WRAP(+) MD_WRAP(-) MD_WRAP(*)
#undef MD_WRAP

/* The same value in all lanes; positions. */
MD_INLINE md_f md_splat_f(float a) { return md_splat<float>(a); }
MD_INLINE md_d md_splat_d(double a) { return md_splat<double>(a); }
MD_INLINE md_i md_splat_i(int64_t a) { return md_splat<int64_t>(a); }
MD_INLINE md_b md_splat_b(int a) { return md_splat<int32_t>(a ? -1 : 0); }
MD_INLINE md_i md_iota_i(int64_t first) { md_i r; MD_LANES(first + l) }
MD_INLINE md_b md_iota_b() { md_b r; MD_LANES(l) } /* plain int32 */

/* ---- Which lanes of a vector exist: all, a compile-time fact; all, and vectors are aligned; or lo .. hi-1. Generated
 * text passes them on as md_n. */
struct md_full {};
struct md_whole {};
struct md_span {
    int lo, hi;
    /* the vectors before and after belong to the row as well, so that all of the 16 aligned bytes may be read */
    int is_inner;
};
/* Precedes functions that take `md_n_t md_n`. */
#define MD_N_DECL template <class md_n_t>
MD_INLINE constexpr bool md_has(md_full, int) { return true; }
MD_INLINE constexpr bool md_has(md_whole, int) { return true; }
MD_INLINE constexpr bool md_is_sure(md_full) { return false; }
MD_INLINE constexpr bool md_is_sure(md_whole) { return true; }
MD_INLINE constexpr bool md_is_sure(md_span) { return false; }
MD_INLINE constexpr bool md_is_inner(md_full) { return false; }
MD_INLINE constexpr bool md_is_inner(md_whole) { return false; }
MD_INLINE bool md_is_inner(md_span n) { return n.is_inner != 0; }
MD_INLINE bool md_has(md_span n, int l) { return l >= n.lo && l < n.hi; }
MD_INLINE constexpr bool md_has_all(md_full) { return true; }
MD_INLINE constexpr bool md_has_all(md_whole) { return true; }
MD_INLINE bool md_has_all(md_span n) { return n.lo <= 0 && n.hi >= MD_VL; }
MD_INLINE md_span md_when(int c, md_whole) { md_span r = {0, c ? MD_VL : 0, 0}; return r; }
/* A vector of which either all lanes count or none, known at run time only. The compiler sees that in the second case
 * there is nothing to do. */
struct md_maybe { int all; };
template <class N> struct md_is_maybe { enum { V = 0 }; };
template <> struct md_is_maybe<md_maybe> { enum { V = 1 }; };
template <class N> struct md_is_span { enum { V = 0 }; };
template <> struct md_is_span<md_span> { enum { V = 1 }; };
MD_INLINE constexpr bool md_is_sure(md_maybe) { return false; }
MD_INLINE constexpr bool md_is_inner(md_maybe) { return false; }
MD_INLINE bool md_has(md_maybe n, int) { return n.all != 0; }
MD_INLINE bool md_has_all(md_maybe n) { return n.all != 0; }
MD_INLINE md_maybe md_when(int c, md_full) { md_maybe r = {c}; return r; }
MD_INLINE md_maybe md_when(int c, md_maybe n) { md_maybe r = {c ? n.all : 0}; return r; }
MD_INLINE md_span md_when(int c, md_span n) { md_span r = {n.lo, c ? n.hi : 0, c ? n.is_inner : 0}; return r; }
MD_N_DECL MD_INLINE md_b md_head_b(md_n_t n) { md_b r; MD_LANES(md_has(n, l) ? -1 : 0) }
/* The part of a vector at x that lies in 0 .. count-1. */
template <class P> MD_INLINE md_span md_clip(P x, P count)
{
    const int n = x < 0 && x <= -MD_VL ? 0 : count - x < 2 * MD_VL ? (count - x < 0 ? 0 : (int)(count - x)) : 2 * MD_VL;
    md_span r = {x < 0 ? (int)-x : 0, n < MD_VL ? n : MD_VL, x >= MD_VL && n == 2 * MD_VL};
    return r;
}

/* ---- Comparisons */
#define MD_COMPARE(name, sign)                                                                                         \
    template <class T> MD_INLINE md_b md_##name(md_vec<T> a, md_vec<T> b) \
        { md_b r; MD_LANES(a.v[l] sign b.v[l] ? -1 : 0) } \
    MD_INLINE md_b md_##name##_f(md_f a, md_f b) { return md_##name(a, b); }                                           \
    MD_INLINE md_b md_##name##_d(md_d a, md_d b) { return md_##name(a, b); }                                           \
    MD_INLINE md_b md_##name##_i(md_i a, md_i b) { return md_##name(a, b); }                                           \
    MD_INLINE md_b md_##name##_b(md_b a, md_b b) { return md_##name(-a, -b); }                                         \
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
#undef MD_COMPARE

MD_INLINE md_b md_and_b(md_b a, md_b b) { return a & b; }
MD_INLINE md_b md_or_b(md_b a, md_b b) { return a | b; }
MD_INLINE md_b md_not_b(md_b a) { return ~a; }
MD_INLINE int md_and_sb(int a, int b) { return a & b; }
MD_INLINE int md_or_sb(int a, int b) { return a | b; }
MD_INLINE int md_not_sb(int a) { return !a; }
MD_INLINE int md_any_b(md_b a) { int r = 0; MD_FOR (l, MD_VL) r |= a.v[l]; return r != 0; }
MD_INLINE int md_all_b(md_b a) { int r = -1; MD_FOR (l, MD_VL) r &= a.v[l]; return r != 0; }

/* ---- Selection */
template <class T> MD_INLINE md_vec<T> md_where(md_b c, md_vec<T> a, md_vec<T> b)
    { md_vec<T> r; MD_LANES(c.v[l] ? a.v[l] : b.v[l]) }
MD_INLINE md_f md_where_f(md_b c, md_f a, md_f b) { return md_where(c, a, b); }
MD_INLINE md_d md_where_d(md_b c, md_d a, md_d b) { return md_where(c, a, b); }
MD_INLINE md_i md_where_i(md_b c, md_i a, md_i b) { return md_where(c, a, b); }
MD_INLINE md_b md_where_b(md_b c, md_b a, md_b b) { return md_where(c, a, b); }
MD_INLINE float md_where_sf(int c, float a, float b) { return c ? a : b; }
MD_INLINE double md_where_sd(int c, double a, double b) { return c ? a : b; }
MD_INLINE int64_t md_where_si(int c, int64_t a, int64_t b) { return c ? a : b; }
MD_INLINE int md_where_sb(int c, int a, int b) { return c ? a : b; }

/* ---- A scalar function in lanes. */
#define MD_LIFT1(name, vec, s)                                                                                         \
    MD_INLINE vec md_##name##_##s(vec a) { vec r; MD_LANES(md_##name##_s##s(a.v[l])) }
#define MD_LIFT2(name, vec, s)                                                                                         \
    MD_INLINE vec md_##name##_##s(vec a, vec b) { vec r; MD_LANES(md_##name##_s##s(a.v[l], b.v[l])) }
#define MD_LIFT_FD1(name) MD_LIFT1(name, md_f, f) MD_LIFT1(name, md_d, d)
#define MD_LIFT_FD2(name) MD_LIFT2(name, md_f, f) MD_LIFT2(name, md_d, d)
#define MD_LIFT_TO(name, to, from)                                                                                     \
    MD_INLINE to md_##name(from a) { to r; MD_LANES(md_##name##_lane(a.v[l])) }

/* A NaN on either side gives NaN. */
#define MD_EXTREME(name, sign)                                                                                         \
    MD_INLINE float md_##name##_sf(float a, float b) \
        { float r; asm(#name ".NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; } \
    MD_INLINE double md_##name##_sd(double a, double b) { return a sign b || a != a ? a : b; }                         \
    MD_INLINE int64_t md_##name##_si(int64_t a, int64_t b) { return a sign b ? a : b; }                                \
    MD_LIFT_FD2(name) MD_LIFT2(name, md_i, i)
MD_EXTREME(max, >)
MD_EXTREME(min, <)
#undef MD_EXTREME
MD_INLINE md_b md_max_b(md_b a, md_b b) { return a | b; }
MD_INLINE md_b md_min_b(md_b a, md_b b) { return a & b; }
MD_INLINE int md_max_sb(int a, int b) { return a | b; }
MD_INLINE int md_min_sb(int a, int b) { return a & b; }

/* True if the candidate replaces the best so far: a NaN where that is none, or a better value. */
#define MD_BEYOND(name, sign, within) \
    MD_INLINE int md_beyond_##name##_sf(float a, float b) { return !(a within b) && b == b; } \
    MD_INLINE int md_beyond_##name##_sd(double a, double b) { return !(a within b) && b == b; } \
    MD_INLINE int md_beyond_##name##_si(int64_t a, int64_t b) { return a sign b; }                                     \
    MD_INLINE int md_beyond_##name##_sb(int a, int b) { return a sign b; }                                             \
    MD_INLINE md_b md_beyond_##name##_f(md_f a, md_f b) { md_b r; MD_LANES(-md_beyond_##name##_sf(a.v[l], b.v[l])) }   \
    MD_INLINE md_b md_beyond_##name##_d(md_d a, md_d b) { md_b r; MD_LANES(-md_beyond_##name##_sd(a.v[l], b.v[l])) }   \
    MD_INLINE md_b md_beyond_##name##_i(md_i a, md_i b) { md_b r; MD_LANES(-md_beyond_##name##_si(a.v[l], b.v[l])) }   \
    MD_INLINE md_b md_beyond_##name##_b(md_b a, md_b b) { md_b r; MD_LANES(-md_beyond_##name##_sb(-a.v[l], -b.v[l])) }
MD_BEYOND(max, >, <=)
MD_BEYOND(min, <, >=)
#undef MD_BEYOND

/* True if the index is in 0 .. n-1. */
MD_INLINE int md_inside_si(int64_t a, int64_t n) { return (uint64_t)a < (uint64_t)n; }
MD_INLINE md_b md_inside_i(md_i a, int64_t n) { md_b r; MD_LANES(-md_inside_si(a.v[l], n)) }

/* The start of part `block` of `blocks` equal parts, without overflow. */
MD_INLINE int64_t md_share(int64_t points, int64_t block, int64_t blocks)
    { return points / blocks * block + points % blocks * block / blocks; }

#include "arithmetic.h"

/* ---- An index out of range: the first one is kept. The layout is md_dev_cuda_report's: the flag is in the GPU's
 * memory, the rest is written where the host reads it. */
struct md_report_slot { uint32_t is_set; int32_t tensor, axis, unused; int64_t value; md_report_slot *host; };
#ifndef MD_REPORTING /* a kernel that gives registers away may have no calls: ptxas gives it a stack */
#define MD_REPORTING MD_OUTLINE
#endif
MD_REPORTING void md_report(void *report, int tensor, int axis, int64_t value)
{
    md_report_slot *slot = (md_report_slot *)report;
    if (*(volatile uint32_t *)&slot->is_set || atomicExch(&slot->is_set, 1u) != 0)
        return;
    volatile md_report_slot *host = slot->host;
    host->tensor = tensor;
    host->axis = axis;
    host->value = value;
    __threadfence_system();
    host->is_set = 1;
}
MD_INLINE void md_report_lanes(void *report, int tensor, int axis, md_i value, md_b bad)
{
    MD_FOR (l, MD_VL)
        if (bad.v[l])
            md_report(report, tensor, axis, value.v[l]);
}
/* clang-format on */

#include "memory.h"
#include "math.h"
#include "math_hyperbolic.h"
#include "math_inverse.h"
#include "math_special.h"
#include "math_trig.h"
#include "warp.h"

#endif
