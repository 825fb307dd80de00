/* What generated GPU kernels are written in: lanes, scalars, and the elementary operations on both. The list stands
 * in src/codegen/codegen.h. C++ for NVRTC with no header at all: what is parsed here is paid for by every kernel. A
 * lane value is a struct of MD_VL values in the registers of one thread; each loop over lanes is unrolled. Scalar
 * and lane forms give the same bits. */
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
/* A launch of one thread a block is made once to get a kernel ready: there is no work in it, whatever the parameters
 * (sizes may be constants). The first statement of every kernel. */
#define MD_IF_EMPTY_RETURN                                                                                             \
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;                                                                                 \
    md_wait_for_launches()
/* The same for kernels that do something of their own, in shared memory, before they wait. */
#define MD_IF_EMPTY_RETURN_BEFORE_WAITING                                                                              \
    if (blockDim.x == 1)                                                                                               \
    return
#define MD_LIKELY(x) __builtin_expect(!!(x), 1)
#define MD_UNROLL _Pragma("unroll")
#define MD_ROLLED _Pragma("unroll 1")
#define MD_FOR(i, n) MD_UNROLL for (int i = 0; i < (n); i++)
#define MD_FOR_STEP(i, n, step) MD_UNROLL for (int i = 0; i < (n); i += (step))
/* From Hopper on, a launch may begin when the blocks of the one before it in the stream have all begun
 * (md_kn_geometry.overlaps): so blocks are there, and have prepared themselves, when it ends. Every kernel waits for
 * the end of what is ahead, in each thread, before it touches global memory, and lets the next begin. */
MD_INLINE void md_wait_for_launches(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}
/* The way through registers of another type. */
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

/* ---- Which lanes of a vector are there: all, a compile-time fact; all, and vectors are aligned; or lo .. hi-1.
 * Text hands them on as md_n. */
struct md_full {};
struct md_whole {};
struct md_span {
    int lo, hi;
    /* the vectors before and after belong to the row as well, so that what shares 16 aligned bytes with this one may
     * be read */
    int is_inner;
};
/* In front of functions that take `md_n_t md_n`. */
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
/* All or none, known at run time: the compiler sees that where it is not all there is nothing to do. */
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

/* Whether a candidate takes the place of the best so far: a NaN where that is none, or a better value. */
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

/* Whether an index lies in 0 .. n-1. */
MD_INLINE int md_inside_si(int64_t a, int64_t n) { return (uint64_t)a < (uint64_t)n; }
MD_INLINE md_b md_inside_i(md_i a, int64_t n) { md_b r; MD_LANES(-md_inside_si(a.v[l], n)) }

/* Where part `block` of `blocks` equal ones begins, without overflow. */
MD_INLINE int64_t md_share(int64_t points, int64_t block, int64_t blocks)
    { return points / blocks * block + points % blocks * block / blocks; }

/* ---- Conversions between value types. Reals to integers truncate, saturate, and NaN gives 0. */
MD_INLINE double md_cast_sf_sd(float a) { return (double)a; }
MD_INLINE float md_cast_sd_sf(double a) { return (float)a; }
MD_INLINE float md_cast_si_sf(int64_t a) { return (float)a; }
MD_INLINE double md_cast_si_sd(int64_t a) { return (double)a; }
MD_INLINE float md_cast_sb_sf(int a) { return a ? 1.0f : 0.0f; }
MD_INLINE double md_cast_sb_sd(int a) { return a ? 1.0 : 0.0; }
MD_INLINE int64_t md_cast_sb_si(int a) { return a; }
MD_INLINE int md_cast_sf_sb(float a) { return a != 0.0f; }
MD_INLINE int md_cast_sd_sb(double a) { return a != 0.0; }
MD_INLINE int md_cast_si_sb(int64_t a) { return a != 0; }
/* cvt saturates; of NaN it makes 0 only for 32 bits. */
MD_INLINE int64_t md_cast_sd_si(double a)
    { int64_t r; asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(r) : "d"(a)); return a == a ? r : 0; }
MD_INLINE int64_t md_cast_sf_si(float a)
    { int64_t r; asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(r) : "f"(a)); return a == a ? r : 0; }
#define MD_CAST(from, to, F, T) MD_INLINE T md_cast_##from##_##to(F a) \
    { T r; MD_LANES(md_cast_s##from##_s##to(a.v[l])) }
MD_CAST(f, d, md_f, md_d) MD_CAST(d, f, md_d, md_f) MD_CAST(i, f, md_i, md_f) MD_CAST(i, d, md_i, md_d)
MD_CAST(f, i, md_f, md_i) MD_CAST(d, i, md_d, md_i) MD_CAST(b, f, md_b, md_f) MD_CAST(b, d, md_b, md_d)
#undef MD_CAST
MD_INLINE md_i md_cast_b_i(md_b a) { md_i r; MD_LANES((int64_t)-a.v[l]) }
MD_INLINE md_b md_cast_f_b(md_f a) { md_b r; MD_LANES(a.v[l] != 0.0f ? -1 : 0) }
MD_INLINE md_b md_cast_d_b(md_d a) { md_b r; MD_LANES(a.v[l] != 0.0 ? -1 : 0) }
MD_INLINE md_b md_cast_i_b(md_i a) { md_b r; MD_LANES(a.v[l] != 0 ? -1 : 0) }

/* ---- Rounding to odd: toward zero, the last bit set where inexact, so that a second rounding to a narrower type
 * gives what a single one would (Boldo and Melquiond, 2008). */
MD_INLINE float md_odd_sd_sf(double a)
{
    float f;
    asm("cvt.rz.f32.f64 %0, %1;" : "=f"(f) : "d"(a));
    return (double)f == a || a != a ? f : md_f32(md_u32(f) | 1);
}
MD_INLINE float md_odd_si_sf(int64_t a)
{
    float f;
    asm("cvt.rz.f32.s64 %0, %1;" : "=f"(f) : "l"(a));
    return md_cast_sf_si(f) == a ? f : md_f32(md_u32(f) | 1);
}
MD_INLINE md_f md_odd_d_f(md_d a) { md_f r; MD_LANES(md_odd_sd_sf(a.v[l])) }
MD_INLINE md_f md_odd_i_f(md_i a) { md_f r; MD_LANES(md_odd_si_sf(a.v[l])) }

/* Values after a store to and a load from i32 and u8. */
MD_INLINE int64_t md_round_i32_sd(double a)
    { int r; asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(r) : "d"(a)); return a == a ? r : 0; }
MD_INLINE int64_t md_round_i32_sf(float a)
    { int r; asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(a)); return a == a ? r : 0; }
MD_INLINE int64_t md_round_i32_si(int64_t a) { return (int32_t)a; }
MD_INLINE int64_t md_round_u8_sd(double a) { int64_t r = md_round_i32_sd(a); return r < 0 ? 0 : r > 255 ? 255 : r; }
MD_INLINE int64_t md_round_u8_sf(float a) { int64_t r = md_round_i32_sf(a); return r < 0 ? 0 : r > 255 ? 255 : r; }
MD_INLINE int64_t md_round_u8_si(int64_t a) { return (uint8_t)a; }
#define MD_ROUND(T)                                                                                                    \
    MD_INLINE md_i md_round_##T##_f(md_f a) { md_i r; MD_LANES(md_round_##T##_sf(a.v[l])) }                            \
    MD_INLINE md_i md_round_##T##_d(md_d a) { md_i r; MD_LANES(md_round_##T##_sd(a.v[l])) }                            \
    MD_INLINE md_i md_round_##T##_i(md_i a) { md_i r; MD_LANES(md_round_##T##_si(a.v[l])) }
MD_ROUND(i32)
MD_ROUND(u8)
#undef MD_ROUND

/* ---- Signs and magnitudes */
MD_INLINE float md_abs_sf(float a) { return fabsf(a); }
MD_INLINE double md_abs_sd(double a) { return fabs(a); }
MD_INLINE int64_t md_abs_si(int64_t a) { return a < 0 ? (int64_t)-(uint64_t)a : a; }
MD_LIFT_FD1(abs) MD_LIFT1(abs, md_i, i)
MD_INLINE float md_copysign_sf(float a, float b)
    { return md_f32((md_u32(a) & 0x7fffffffu) | (md_u32(b) & 0x80000000u)); }
MD_INLINE double md_copysign_sd(double a, double b)
    { return md_f64((md_u64(a) & ~(1ULL << 63)) | (md_u64(b) & 1ULL << 63)); }
MD_LIFT_FD2(copysign)
MD_INLINE float md_sign_sf(float a) { return a != a ? a : (float)((a > 0) - (a < 0)); }
MD_INLINE double md_sign_sd(double a) { return a != a ? a : (double)((a > 0) - (a < 0)); }
MD_INLINE int64_t md_sign_si(int64_t a) { return (a > 0) - (a < 0); }
MD_LIFT_FD1(sign) MD_LIFT1(sign, md_i, i)
MD_INLINE int md_isnan_sf(float a) { return a != a; }
MD_INLINE int md_isnan_sd(double a) { return a != a; }
MD_INLINE int md_isinf_sf(float a) { return md_abs_sf(a) == MD_INF_F; }
MD_INLINE int md_isinf_sd(double a) { return md_abs_sd(a) == MD_INF_D; }
MD_INLINE md_b md_isnan_f(md_f a) { return md_ne(a, a); }
MD_INLINE md_b md_isnan_d(md_d a) { return md_ne(a, a); }
MD_INLINE md_b md_isinf_f(md_f a) { return md_eq(md_abs_f(a), md_splat_f(MD_INF_F)); }
MD_INLINE md_b md_isinf_d(md_d a) { return md_eq(md_abs_d(a), md_splat_d(MD_INF_D)); }
#define MD_RELU_CLAMP(type, s)                                                                                         \
    MD_INLINE type md_relu_s##s(type a) { return md_max_s##s(a, 0); }                                                  \
    MD_INLINE type md_clamp_s##s(type a, type low, type high) { return md_min_s##s(md_max_s##s(a, low), high); }       \
    MD_LIFT1(relu, md_##s, s)                                                                                          \
    MD_INLINE md_##s md_clamp_##s(md_##s a, md_##s low, md_##s high) { return md_min_##s(md_max_##s(a, low), high); }
MD_RELU_CLAMP(float, f)
MD_RELU_CLAMP(double, d)
MD_RELU_CLAMP(int64_t, i)
#undef MD_RELU_CLAMP

/* ---- Whole numbers (ties to even), roots, fma. */
#define MD_PTX1(name, text)                                                                                            \
    MD_INLINE float md_##name##_sf(float a) { float r; asm(text ".f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }        \
    MD_INLINE double md_##name##_sd(double a) { double r; asm(text ".f64 %0, %1;" : "=d"(r) : "d"(a)); return r; }     \
    MD_LIFT_FD1(name)
#define MD_PTX1C(name, mode)                                                                                           \
    MD_INLINE float md_##name##_sf(float a) \
        { float r; asm("cvt." mode ".f32.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; } \
    MD_INLINE double md_##name##_sd(double a) \
        { double r; asm("cvt." mode ".f64.f64 %0, %1;" : "=d"(r) : "d"(a)); return r; } \
    MD_LIFT_FD1(name)
MD_PTX1C(round, "rni")
MD_PTX1C(floor, "rmi")
MD_PTX1C(ceil, "rpi")
MD_PTX1C(trunc, "rzi")
MD_PTX1(sqrt, "sqrt.rn")
#undef MD_PTX1
#undef MD_PTX1C
/* 2 ulp */
MD_INLINE float md_rsqrt_sf(float a) { float r; asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
MD_INLINE double md_rsqrt_sd(double a) { return 1.0 / md_sqrt_sd(a); }
MD_LIFT_FD1(rsqrt)
MD_INLINE float md_fma_sf(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MD_INLINE double md_fma_sd(double a, double b, double c) { return __fma_rn(a, b, c); }
MD_INLINE int64_t md_fma_si(int64_t a, int64_t b, int64_t c)
    { return (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c); }
#define MD_FMA(vec, s) MD_INLINE vec md_fma_##s(vec a, vec b, vec c) \
    { vec r; MD_LANES(md_fma_s##s(a.v[l], b.v[l], c.v[l])) }
MD_FMA(md_f, f) MD_FMA(md_d, d) MD_FMA(md_i, i)
#undef MD_FMA
/* Lanes over a value that they share and that is rounded itself (a sum): times its reciprocal, 1.5 ulp. Very large
 * and very small divisors are scaled. */
MD_INLINE md_f md_by_f(md_f a, float b)
{
    const float m = md_abs_sf(b), s = m > 0x1p100f ? 0x1p-64f : m < 0x1p-100f ? 0x1p64f : 1.0f, c = __frcp_rn(b * s);
    md_f r;
    MD_LANES(a.v[l] * s * c)
}
/* Lanes over a value that they share: its reciprocal, and a step that makes the quotient what a division gives
 * (Markstein, IBM Journal of Research and Development 34, 1990). Very large and very small divisors are scaled, with
 * the dividends; where the step is none (infinities, zeros) it is left out. */
MD_INLINE md_f md_over_f(md_f a, float b)
{
    const float m = md_abs_sf(b), s = m > 0x1p100f ? 0x1p-64f : m < 0x1p-100f ? 0x1p64f : 1.0f,
        d = b * s, c = __frcp_rn(d);
    md_f r;
    MD_FOR (l, MD_VL) {
        const float x = a.v[l] * s, q = x * c, e = __fmaf_rn(-q, d, x);
        r.v[l] = e == e ? __fmaf_rn(e, c, q) : q;
    }
    return r;
}

/* ---- An index out of range: the first one is kept. The layout is md_dev_cuda_report's: the flag lies in the GPU's
 * memory, the rest is written where the host reads it. */
struct md_report_slot { uint32_t is_set; int32_t tensor, axis, unused; int64_t value; md_report_slot *host; };
MD_OUTLINE void md_report(void *report, int tensor, int axis, int64_t value)
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
