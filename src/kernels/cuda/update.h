/* Elements that are changed in place. Included by memory.h, whose types it uses. */
#ifndef MD_CUDA_UPDATE_H
#define MD_CUDA_UPDATE_H

/* ---- memory = op(memory, v), safe against other threads. The order of several is unspecified. */
enum { MD_DO_ADD, MD_DO_MUL, MD_DO_MAX, MD_DO_MIN };
template <class S, int op> MD_INLINE typename S::E md_updated(typename S::E old, typename S::C v)
{
    typename S::C a = S::up(old);
    return S::down(op == MD_DO_ADD   ? S::add(a, v)
                   : op == MD_DO_MUL ? S::mul(a, v)
                   : op == MD_DO_MAX ? S::max(a, v)
                                     : S::min(a, v));
}
MD_INLINE uint32_t md_cas(uint32_t *p, uint32_t old, uint32_t to) { return atomicCAS(p, old, to); }
MD_INLINE uint64_t md_cas(uint64_t *p, uint64_t old, uint64_t to)
{
    return atomicCAS((unsigned long long *)p, old, to);
}
MD_INLINE uint16_t md_cas(uint16_t *p, uint16_t old, uint16_t to)
{
    uint16_t r;
    asm volatile("atom.global.cas.b16 %0, [%1], %2, %3;"
                 : "=h"(r)
                 : "l"(__cvta_generic_to_global(p)), "h"(old), "h"(to)
                 : "memory");
    return r;
}
/* A byte in its 32-bit word. */
MD_INLINE uint8_t md_cas(uint8_t *p, uint8_t old, uint8_t to)
{
    const int shift = (int)((uintptr_t)p & 3) * 8;
    uint32_t *word = (uint32_t *)((uintptr_t)p & ~(uintptr_t)3), seen = *(volatile uint32_t *)word;
    while ((uint8_t)(seen >> shift) == old) {
        const uint32_t next = (seen & ~(0xffu << shift)) | (uint32_t)to << shift, was = atomicCAS(word, seen, next);
        if (was == seen)
            return old;
        seen = was;
    }
    return (uint8_t)(seen >> shift);
}
template <class S, int op> MD_INLINE void md_update(void *t, int64_t o, typename S::C v)
{
    typedef typename S::E E;
    E *p = (E *)t + o;
#if MD_UPDATE_PLAIN
    *p = md_updated<S, op>(*p, v);
#else
    const uint64_t at = __cvta_generic_to_global(p);
    if constexpr (S::KIND == MD_KIND_F32 && op == MD_DO_ADD) {
        asm volatile("red.global.add.f32 [%0], %1;" ::"l"(at), "f"(v) : "memory");
    } else if constexpr (S::KIND == MD_KIND_F64 && op == MD_DO_ADD) {
        asm volatile("red.global.add.f64 [%0], %1;" ::"l"(at), "d"(v) : "memory");
    } else if constexpr (S::KIND == MD_KIND_I32 && op == MD_DO_ADD) {
        asm volatile("red.global.add.u32 [%0], %1;" ::"l"(at), "r"((uint32_t)v) : "memory");
    } else if constexpr (S::KIND == MD_KIND_I64 && op == MD_DO_ADD) {
        asm volatile("red.global.add.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
    } else {
        E old = *(volatile E *)p;
        for (;;) {
            const E to = md_updated<S, op>(old, v), was = to == old ? old : md_cas(p, old, to);
            if (was == old)
                return;
            old = was;
        }
    }
#endif
}
template <class S, int op, class N> MD_INLINE void md_update_steps(void *t, int64_t o, int64_t s, typename S::V v, N n)
{
    MD_FOR (l, MD_VL)
        if (md_has(n, l))
            md_update<S, op>(t, o + l * s,
                             S::KIND == MD_KIND_BOOL ? (typename S::C)(v.v[l] != 0) : (typename S::C)v.v[l]);
}
/* 16 bytes of additions in one instruction, each element by itself. */
template <class S> MD_INLINE void md_red_piece(void *p, const uint32_t *w)
{
    const uint64_t at = __cvta_generic_to_global(p);
    if constexpr (S::KIND == MD_KIND_F32)
        asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(md_f32(w[0])), "f"(md_f32(w[1])),
                     "f"(md_f32(w[2])), "f"(md_f32(w[3]))
                     : "memory");
    else if constexpr (S::KIND == MD_KIND_BF16)
        asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(w[0]), "r"(w[1]),
                     "r"(w[2]), "r"(w[3])
                     : "memory");
    else
        asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(w[0]), "r"(w[1]), "r"(w[2]),
                     "r"(w[3])
                     : "memory");
}
template <class S, int op, class N> MD_INLINE void md_update_unit(void *t, int64_t o, typename S::V v, N n)
{
#if MD_UPDATE_PLAIN
    md_raw<S> r = md_fetch_unit<S>(t, o, n, false);
    const typename S::V old = md_unpack<S>(r);
    MD_FOR (l, MD_VL)
        v.v[l] = op == MD_DO_ADD   ? S::add(old.v[l], v.v[l])
                 : op == MD_DO_MUL ? S::mul(old.v[l], v.v[l])
                 : op == MD_DO_MAX ? S::max(old.v[l], v.v[l])
                                   : S::min(old.v[l], v.v[l]);
    md_store_unit<S>(t, o, v, n, false, false);
#else
#if __CUDA_ARCH__ >= 900
    if constexpr (op == MD_DO_ADD && (S::KIND == MD_KIND_F32 || S::KIND == MD_KIND_BF16 || S::KIND == MD_KIND_F16) &&
                  md_raw<S>::BYTES % 16 == 0) {
        typename S::E *p = (typename S::E *)t + o;
        if (md_has_all(n) && (uintptr_t)p % 16 == 0) {
            const md_raw<S> r = md_pack<S>(v);
            MD_FOR_STEP (i, md_raw<S>::BYTES, 16)
                md_red_piece<S>((char *)p + i, r.w + i / 4);
            return;
        }
    }
#endif
    md_update_steps<S, op>(t, o, 1, v, n);
#endif
}
template <class S, int op, class N> MD_INLINE void md_update_scatter(void *t, md_i o, typename S::V v, N n, md_b m)
{
    MD_FOR (l, MD_VL)
        if (md_has(n, l) && m.v[l])
            md_update<S, op>(t, o.v[l], S::KIND == MD_KIND_BOOL ? (typename S::C)(v.v[l] != 0) : (typename S::C)v.v[l]);
}

#endif
