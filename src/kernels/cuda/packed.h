/* i4 and u4: two elements to a byte, the first in its low half. Offsets are in elements; a vector in registers has a
 * byte for each. Included by memory.h.
 *
 * A store sets whole bytes where it has both halves. A half alone is set by atomic operations, since another thread may
 * set the other half. */
#ifndef MD_CUDA_PACKED_H
#define MD_CUDA_PACKED_H

/* clang-format off */
MD_INLINE uint8_t md_get_half(const void *t, int64_t o)
    { return (uint8_t)(((const uint8_t *)t)[o >> 1] >> (int)(o & 1) * 4 & 15); }
MD_INLINE void md_put_half(void *t, int64_t o, uint8_t v)
{
    const uintptr_t at = (uintptr_t)((uint8_t *)t + (o >> 1));
    uint32_t *word = (uint32_t *)(at & ~(uintptr_t)3);
    const int shift = (int)(at & 3) * 8 + (int)(o & 1) * 4;
    atomicAnd(word, ~(15u << shift));
    atomicOr(word, (uint32_t)(v & 15) << shift);
}
/* Eight half bytes as eight bytes, and back. */
MD_INLINE void md_spread(uint32_t &a, uint32_t &b, uint32_t w)
{
    const uint32_t even = w & 0x0f0f0f0fu, odd = w >> 4 & 0x0f0f0f0fu;
    a = __byte_perm(even, odd, 0x5140), b = __byte_perm(even, odd, 0x7362);
}
MD_INLINE uint32_t md_squeeze(uint32_t a, uint32_t b)
    { return __byte_perm(a, b, 0x6420) | __byte_perm(a, b, 0x7531) << 4; }
template <class S, class N> MD_INLINE bool md_is_whole_halves(const void *t, int64_t o, N n, bool promised)
{
    const int bytes = MD_VL >= 2 ? MD_VL / 2 : 1;
    return md_has_all(n) &&
        ((promised && MD_ALIGNED) || ((o & 1) == 0 && ((uintptr_t)t + (uintptr_t)(o >> 1)) % bytes == 0));
}
template <class S, class N> MD_INLINE md_raw<S> md_get_halves_each(const void *t, int64_t o, int64_t s, N n)
{
    md_raw<S> r = md_zero_raw<S>();
    MD_FOR (l, MD_VL) {
        uint8_t e = 0;
        if (md_has(n, l))
            e = md_get_half(t, o + l * s);
        md_put(r, l, e);
    }
    return r;
}
template <class S, class N> MD_INLINE void md_put_halves_each(void *t, int64_t o, int64_t s, const md_raw<S> &r, N n)
{
    MD_FOR (l, MD_VL)
        if (md_has(n, l))
            md_put_half(t, o + l * s, md_get(r, l));
}
template <class S, class N> MD_INLINE md_raw<S> md_fetch_halves(const void *t, int64_t o, N n, bool promised)
{
    static_assert(sizeof(typename S::E) != 1 || MD_VL <= 16, "the envelope promises multiples of 8 bytes");
    if constexpr (MD_VL >= 2)
        if (md_is_whole_halves<S>(t, o, n, promised)) {
            const char *p = (const char *)t + (o >> 1);
            uint32_t w[2] = {0, 0};
            md_raw<S> r;
            if constexpr (MD_VL == 2)
                w[0] = *(const uint8_t *)p;
            else
                md_get_piece(w, p, MD_VL / 2);
            MD_FOR_STEP (i, MD_VL, 8) {
                uint32_t a, b;
                md_spread(a, b, w[i / 8]);
                r.w[i / 4] = a;
                if constexpr (MD_VL >= 8)
                    r.w[i / 4 + 1] = b;
            }
            return r;
        }
    return md_get_halves_each<S>(t, o, 1, n);
}
/* Pairs of lanes that are one byte as bytes, other lanes alone. */
template <class S, class N> MD_INLINE void md_put_pairs(void *t, int64_t o, const md_raw<S> &r, N n)
{
    const int odd = (int)(o & 1);
    MD_FOR (l, MD_VL) {
        const bool is_first = (l + odd) % 2 == 0;
        if (!md_has(n, l))
            continue;
        if (is_first && l + 1 < MD_VL && md_has(n, l + 1))
            ((uint8_t *)t)[(o + l) >> 1] = (uint8_t)(md_get(r, l) | md_get(r, l + 1 < MD_VL ? l + 1 : l) << 4);
        else if (is_first || l == 0 || !md_has(n, l - 1))
            md_put_half(t, o + l, md_get(r, l));
    }
}
template <class S, class N> MD_INLINE void md_store_halves(void *t, int64_t o, const md_raw<S> &r, N n, bool promised)
{
    if constexpr (MD_VL >= 2)
        if (md_is_whole_halves<S>(t, o, n, promised)) {
            char *p = (char *)t + (o >> 1);
            uint32_t w[2] = {0, 0};
            MD_FOR_STEP (i, MD_VL, 8)
                w[i / 8] = md_squeeze(r.w[i / 4], MD_VL >= 8 ? r.w[i / 4 + (MD_VL >= 8)] : 0);
            if constexpr (MD_VL == 2)
                *(uint8_t *)p = (uint8_t)w[0];
            else
                md_put_piece(p, w, MD_VL / 2, false);
            return;
        }
    md_put_pairs<S>(t, o, r, n);
}
/* clang-format on */

#endif
