/* Loads, stores and updates of every storage type. A part of prelude.h. Only what MD_USE_<DTYPE> asks for is
 * compiled; without a configuration, all.
 *
 * A vector of a type is MD_VL elements; where its address allows, it moves in accesses of 16 bytes (or of its size,
 * if that is less). */
#ifndef MD_CUDA_MEMORY_H
#define MD_CUDA_MEMORY_H

#if !defined(MD_CONFIGURED)
#define MD_USE_F32 1
#define MD_USE_F64 1
#define MD_USE_F16 1
#define MD_USE_BF16 1
#define MD_USE_I32 1
#define MD_USE_I64 1
#define MD_USE_U8 1
#define MD_USE_BOOL 1
#define MD_USE_F8E4M3 1
#define MD_USE_F8E5M2 1
#define MD_USE_I8 1
#define MD_USE_I16 1
#define MD_USE_U16 1
#define MD_USE_U32 1
#define MD_USE_U64 1
#define MD_USE_I4 1
#define MD_USE_U4 1
#endif
/* 1: the envelope promises aligned vectors; 0: tested at run time. */
#ifndef MD_ALIGNED
#define MD_ALIGNED 0
#endif
/* 1: loads bypass L1, and stores are evicted from L2 first. */
#ifndef MD_STREAM_LOADS
#define MD_STREAM_LOADS 0
#endif
#ifndef MD_STREAM_STORES
#define MD_STREAM_STORES 0
#endif
/* 1: the compiler cannot split the store of a vector, as it does if it does not see what the parts of its address have
 * in common; nor move loads across it. */
#ifndef MD_WHOLE_STORES
#define MD_WHOLE_STORES 0
#endif
/* 1: no two points write one element, so that updates need no atomic operations. */
#ifndef MD_UPDATE_PLAIN
#define MD_UPDATE_PLAIN 0
#endif

/* Products of compute types; int is the one of bool. */
MD_INLINE float md_times(float a, float b) { return a * b; }
MD_INLINE double md_times(double a, double b) { return a * b; }
MD_INLINE int64_t md_times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
MD_INLINE int md_times(int a, int b) { return a & b; }

/* clang-format off */
/* ---- Storage types: E the bits in memory, C the compute type, V its lanes, up and down convert between them. KIND
 * selects instructions. */
enum { MD_KIND_F32, MD_KIND_F64, MD_KIND_F16, MD_KIND_BF16, MD_KIND_I32, MD_KIND_I64, MD_KIND_SHORT, MD_KIND_BOOL,
    MD_KIND_F8E4M3, MD_KIND_F8E5M2, MD_KIND_HALF };
#define MD_TYPE(T, K, element, compute, lanes, s, ADD, UP, DOWN)                                                       \
    struct md_t_##T {                                                                                                  \
        typedef element E;                                                                                             \
        typedef compute C;                                                                                             \
        typedef lanes V;                                                                                               \
        enum { KIND = MD_KIND_##K };                                                                                   \
        static __device__ __forceinline__ C up(E w) { return UP; }                                                     \
        static __device__ __forceinline__ E down(C v) { return DOWN; }                                                 \
        static __device__ __forceinline__ C add(C a, C b) { return ADD; }                                              \
        static __device__ __forceinline__ C mul(C a, C b) { return md_times(a, b); }                                   \
        static __device__ __forceinline__ C max(C a, C b) { return md_max_##s(a, b); }                                 \
        static __device__ __forceinline__ C min(C a, C b) { return md_min_##s(a, b); }                                 \
    };

MD_INLINE float md_up1_bf16(uint16_t h) { return md_f32((uint32_t)h << 16); }
MD_INLINE uint16_t md_down1_bf16(float f) { uint16_t h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
MD_INLINE float md_up1_f16(uint16_t h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
MD_INLINE uint16_t md_down1_f16(float f) { uint16_t h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
/* Two values in a register, the first in the low half. */
MD_INLINE uint32_t md_pack_bf16(float a, float b)
    { uint32_t r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
MD_INLINE uint32_t md_pack_f16(float a, float b)
    { uint32_t r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
#define MD_HALF(T)                                                                                                     \
    MD_INLINE float md_round_##T##_sf(float v) { return md_up1_##T(md_down1_##T(v)); }                                 \
    MD_INLINE float md_round_##T##_sd(double v) { return md_round_##T##_sf(md_odd_sd_sf(v)); }                         \
    MD_INLINE float md_round_##T##_si(int64_t v) { return md_round_##T##_sf(md_odd_si_sf(v)); }                        \
    MD_INLINE md_f md_round_##T##_f(md_f a) { md_f r; MD_LANES(md_round_##T##_sf(a.v[l])) }                            \
    MD_INLINE md_f md_round_##T##_d(md_d a) { md_f r; MD_LANES(md_round_##T##_sd(a.v[l])) }                            \
    MD_INLINE md_f md_round_##T##_i(md_i a) { md_f r; MD_LANES(md_round_##T##_si(a.v[l])) }
MD_HALF(bf16)
MD_HALF(f16)
#include "float8.h"
MD_HALF(f8e4m3)
MD_HALF(f8e5m2)
#undef MD_HALF

/* ---- A vector as it is in memory: 32-bit registers, of which a shorter vector fills the low bytes. */
template <int bytes> struct md_words {
    enum { N = (bytes + 3) / 4 };
    alignas(bytes >= 16 ? 16 : bytes >= 8 ? 8 : 4) uint32_t w[N];
};
template <class S> struct md_raw : md_words<MD_VL * (int)sizeof(typename S::E)> {
    enum { BYTES = MD_VL * (int)sizeof(typename S::E), PIECE = BYTES < 16 ? BYTES : 16 };
};
/* Element l of a vector. */
template <class S> MD_INLINE typename S::E md_get(const md_raw<S> &r, int l)
{
    typedef typename S::E E;
    if constexpr (sizeof(E) == 4)
        return (E)r.w[l];
    else if constexpr (sizeof(E) == 8)
        return (E)((uint64_t)r.w[2 * l + 1] << 32 | r.w[2 * l]);
    else
        return (E)(r.w[l * (int)sizeof(E) / 4] >> l * (int)sizeof(E) % 4 * 8);
}
template <class S> MD_INLINE void md_put(md_raw<S> &r, int l, typename S::E e)
{
    typedef typename S::E E;
    const int s = (int)sizeof(E);
    if constexpr (s == 4) {
        r.w[l] = (uint32_t)e;
    } else if constexpr (s == 8) {
        r.w[2 * l] = (uint32_t)(uint64_t)e;
        r.w[2 * l + 1] = (uint32_t)((uint64_t)e >> 32);
    } else if (l * s % 4 == 0) {
        r.w[l * s / 4] = (uint32_t)e;
    } else {
        r.w[l * s / 4] |= (uint32_t)e << l * s % 4 * 8;
    }
}

/* ---- Accesses of 16, 8, 4, 2, 1 bytes; `p` is a multiple of the size. */
MD_INLINE void md_get_piece(uint32_t *w, const void *p, int bytes)
{
    if (bytes == 1) {
        w[0] = *(const uint8_t *)p;
    } else if (bytes == 16) {
#if MD_STREAM_LOADS
        asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(__cvta_generic_to_global(p)) : "memory");
#else
        uint4 v = *(const uint4 *)p;
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
#endif
    } else if (bytes == 8) {
        uint2 v = *(const uint2 *)p;
        w[0] = v.x, w[1] = v.y;
    } else {
        w[0] = bytes == 4 ? *(const uint32_t *)p : *(const uint16_t *)p;
    }
}
MD_INLINE void md_put_piece(void *p, const uint32_t *w, int bytes, bool streams)
{
    if (bytes == 1) {
        *(uint8_t *)p = (uint8_t)w[0];
    } else if (bytes == 16 && streams) {
        asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};"
                     :: "l"(__cvta_generic_to_global(p)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    } else if (bytes == 16 && MD_WHOLE_STORES) {
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                     :: "l"(__cvta_generic_to_global(p)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    } else if (bytes == 16) {
        *(uint4 *)p = make_uint4(w[0], w[1], w[2], w[3]);
    } else if (bytes == 8) {
        *(uint2 *)p = make_uint2(w[0], w[1]);
    } else if (bytes == 4) {
        *(uint32_t *)p = w[0];
    } else {
        *(uint16_t *)p = (uint16_t)w[0];
    }
}
template <class S, class N> MD_INLINE bool md_is_aligned(const void *p, N n, bool promised)
{
    return (promised && (MD_ALIGNED || md_is_sure(n))) || (uintptr_t)p % md_raw<S>::PIECE == 0;
}
template <class S> MD_INLINE md_raw<S> md_get_whole(const void *p)
{
    md_raw<S> r;
    MD_FOR_STEP (i, md_raw<S>::BYTES, md_raw<S>::PIECE)
        md_get_piece(r.w + i / 4, (const char *)p + i, md_raw<S>::PIECE);
    return r;
}
template <class S> MD_INLINE md_raw<S> md_zero_raw()
{
    md_raw<S> r;
    MD_FOR (i, md_raw<S>::N)
        r.w[i] = 0;
    return r;
}
/* The lanes of the span one by one; no memory outside is touched. */
template <class S, class N> MD_INLINE md_raw<S> md_get_each(const typename S::E *p, int64_t step, N n)
{
    md_raw<S> r = md_zero_raw<S>();
    MD_FOR (l, MD_VL) {
        typename S::E e = 0;
        if (md_has(n, l))
            e = p[l * step];
        md_put(r, l, e);
    }
    return r;
}
#include "packed.h"
/* The element at an offset, where offsets count elements: of i4 and u4 half bytes. */
template <class S> MD_INLINE typename S::E md_element(const void *t, int64_t o)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        return md_get_half(t, o);
    else
        return ((const typename S::E *)t)[o];
}
template <class S> MD_INLINE void md_element_set(void *t, int64_t o, typename S::E e)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        md_put_half(t, o, e);
    else
        ((typename S::E *)t)[o] = e;
}
/* A vector inside a row at any address: the aligned 16-byte words around it, shifted. */
template <class S> MD_INLINE md_raw<S> md_get_unaligned(const void *p)
{
    enum { N = md_raw<S>::N };
    const int s = (int)((uintptr_t)p & 15), k = s / 4;
    const char *from = (const char *)((uintptr_t)p & ~(uintptr_t)15);
    uint32_t w[N + 4];
    md_raw<S> r;
    MD_FOR_STEP (i, N + 4, 4)
        md_get_piece(w + i, from + 4 * i, 16);
    MD_FOR (i, N + 2)
        w[i] = k & 2 ? w[i + 2] : w[i];
    MD_FOR (i, N + 1)
        w[i] = k & 1 ? w[i + 1] : w[i];
    MD_FOR (i, N)
        r.w[i] = __funnelshift_r(w[i], w[i + 1], s % 4 * 8);
    return r;
}
/* Promised: the envelope's alignment holds for this address; it is not shifted along the last axis. */
template <class S, class N> MD_INLINE md_raw<S> md_fetch_unit(const void *t, int64_t o, N n, bool promised)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        return md_fetch_halves<S>(t, o, n, promised);
    const typename S::E *p = (const typename S::E *)t + o;
    if (md_has_all(n) && md_is_aligned<S>(p, n, promised))
        return md_get_whole<S>(p);
    if constexpr (md_raw<S>::BYTES >= 16)
        if (md_is_inner(n) && (uintptr_t)p % sizeof(typename S::E) == 0)
            return md_get_unaligned<S>(p);
    return md_get_each<S>(p, 1, n);
}
template <class S, class N> MD_INLINE md_raw<S> md_fetch_masked(const void *t, int64_t o, int64_t s, N n, md_b m)
{
    md_raw<S> r = md_zero_raw<S>();
    MD_FOR (l, MD_VL) {
        typename S::E e = 0;
        if (md_has(n, l) && m.v[l])
            e = md_element<S>(t, o + l * s);
        md_put(r, l, e);
    }
    return r;
}
template <class S, class N> MD_INLINE md_raw<S> md_fetch_gather(const void *t, md_i o, N n, md_b m)
{
    md_raw<S> r = md_zero_raw<S>();
    MD_FOR (l, MD_VL) {
        typename S::E e = 0;
        if (md_has(n, l) && m.v[l])
            e = md_element<S>(t, o.v[l]);
        md_put(r, l, e);
    }
    return r;
}
template <class S> MD_INLINE typename S::V md_unpack(const md_raw<S> &r)
{
    typename S::V v;
    MD_FOR (l, MD_VL) {
        if constexpr (S::KIND == MD_KIND_BF16)
            v.v[l] = md_f32(l & 1 ? r.w[l / 2] & 0xffff0000u : r.w[l / 2] << 16);
        else if constexpr (S::KIND == MD_KIND_BOOL)
            v.v[l] = md_get(r, l) ? -1 : 0;
        else if constexpr (MD_VL > 1 && (S::KIND == MD_KIND_F8E4M3 || S::KIND == MD_KIND_F8E5M2)) {
            if (l % 2 == 0)
                md_unpack_f8<S::KIND == MD_KIND_F8E5M2>(v.v[l], v.v[l + 1], r.w[l / 4] >> l % 4 * 8 & 0xffffu);
        }
        else
            v.v[l] = S::up(md_get(r, l));
    }
    return v;
}
template <class S> MD_INLINE md_raw<S> md_pack(typename S::V v)
{
    md_raw<S> r = md_zero_raw<S>();
    MD_FOR (l, MD_VL) {
        if constexpr (MD_VL == 1) {
            md_put(r, l, S::down(v.v[l]));
        } else if constexpr (S::KIND == MD_KIND_BF16) {
            if (l % 2 == 0)
                r.w[l / 2] = md_pack_bf16(v.v[l], v.v[l + 1]);
        } else if constexpr (S::KIND == MD_KIND_F16) {
            if (l % 2 == 0)
                r.w[l / 2] = md_pack_f16(v.v[l], v.v[l + 1]);
        } else if constexpr (S::KIND == MD_KIND_F8E4M3 || S::KIND == MD_KIND_F8E5M2) {
            if (l % 2 == 0)
                r.w[l / 4] |= md_pack_f8<S::KIND == MD_KIND_F8E5M2>(v.v[l], v.v[l + 1]) << l % 4 * 8;
        } else {
            md_put(r, l, S::down(v.v[l]));
        }
    }
    return r;
}

template <class S> MD_INLINE void md_put_whole(void *p, const md_raw<S> &r, bool streams)
{
    MD_FOR_STEP (i, md_raw<S>::BYTES, md_raw<S>::PIECE)
        md_put_piece((char *)p + i, r.w + i / 4, md_raw<S>::PIECE, streams);
}
/* If the vector exists. Under a predicate, so that there is no branch. */
template <class S> MD_INLINE void md_put_maybe(void *p, const md_raw<S> &r, md_maybe n)
{
    MD_FOR_STEP (i, md_raw<S>::N, 4)
        asm volatile("{\n.reg .pred q;\nsetp.ne.s32 q, %5, 0;\n@q st.global.v4.b32 [%4], {%0, %1, %2, %3};\n}"
                     :: "r"(r.w[i]), "r"(r.w[i + 1]), "r"(r.w[i + 2]), "r"(r.w[i + 3]),
                         "l"(__cvta_generic_to_global((char *)p + 4 * i)), "r"(n.all) : "memory");
}
template <class S, class N> MD_INLINE void md_put_each(typename S::E *p, int64_t step, const md_raw<S> &r, N n)
{
    MD_FOR (l, MD_VL)
        if (md_has(n, l))
            p[l * step] = md_get(r, l);
}
template <class S, class N> MD_INLINE md_raw<S> md_get_steps(const void *t, int64_t o, int64_t s, N n)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        return md_get_halves_each<S>(t, o, s, n);
    else
        return md_get_each<S>((const typename S::E *)t + o, s, n);
}
template <class S, class N> MD_INLINE void md_put_steps(void *t, int64_t o, int64_t s, const md_raw<S> &r, N n)
{
    if constexpr (S::KIND == MD_KIND_HALF)
        md_put_halves_each<S>(t, o, s, r, n);
    else
        md_put_each<S>((typename S::E *)t + o, s, r, n);
}
/* 16-bit elements at any even address: words, and a half word at either end. */
template <class S> MD_INLINE void md_put_halves(char *p, const md_raw<S> &r)
{
    enum { N = md_raw<S>::N };
    if ((uintptr_t)p % 4 == 0) {
        MD_FOR (i, N)
            *(uint32_t *)(p + 4 * i) = r.w[i];
        return;
    }
    *(uint16_t *)p = (uint16_t)r.w[0];
    MD_FOR (i, N - 1)
        *(uint32_t *)(p + 2 + 4 * i) = __funnelshift_r(r.w[i], r.w[i + 1], 16);
    *(uint16_t *)(p + 4 * N - 2) = (uint16_t)(r.w[N - 1] >> 16);
}
template <class S, class N> MD_INLINE void md_store_unit(void *t, int64_t o, typename S::V v, N n, bool promised,
    bool streams)
{
    typename S::E *p = (typename S::E *)t + o;
    const md_raw<S> r = md_pack<S>(v);
    if constexpr (S::KIND == MD_KIND_HALF) {
        md_store_halves<S>(t, o, r, n, promised);
        return;
    }
    if constexpr (md_is_maybe<N>::V) {
        if constexpr (md_raw<S>::BYTES % 16 == 0 && !MD_STREAM_STORES) {
            const md_maybe fits = {n.all && md_is_aligned<S>(p, n, promised)};
            md_put_maybe<S>(p, r, fits);
            if (fits.all || !n.all || (MD_ALIGNED && promised))
                return;
        } else if (!n.all) {
            return;
        }
    }
    if (md_has_all(n) && md_is_aligned<S>(p, n, promised))
        md_put_whole<S>(p, r, streams);
    else if constexpr (sizeof(typename S::E) == 2 && !md_is_span<N>::V)
        md_put_halves<S>((char *)p, r);
    else
        md_put_each<S>(p, 1, r, n);
}

#include "update.h"

#include "memory_types.h"

/* clang-format on */

#endif
