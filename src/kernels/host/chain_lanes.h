/* Lanes of keys: what chains and pairs are made of. */
#ifndef MD_HOST_CHAIN_LANES_H
#define MD_HOST_CHAIN_LANES_H

MD_INLINE int64_t md_least(int64_t a, int64_t b) { return a < b ? a : b; }
MD_INLINE int64_t md_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* a * b + c. */
MD_INLINE md_f md_mac(md_f a, md_f b, md_f c)
{
#if MD_VL == 16 && defined(__AVX512F__)
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#elif MD_VL == 8 && defined(__FMA__)
    return __builtin_ia32_vfmaddps256(a, b, c);
#elif MD_VL == 4 && defined(__FMA__)
    return __builtin_ia32_vfmaddps(a, b, c);
#else
    return a * b + c;
#endif
}

MD_INLINE md_f md_get(const float *at) { return *(const md_f *)at; }
MD_INLINE void md_put(float *at, md_f v) { *(md_f *)at = v; }

/* Lanes of keys key .. that are in begin .. end. */
MD_INLINE md_b md_between(int64_t key, int64_t begin, int64_t end)
{
    int64_t n = md_most(md_least(end - key, MD_VL), 0), skip = md_most(md_least(begin - key, MD_VL), 0);
    return md_head_b((int)n) & ~md_head_b((int)skip);
}

#endif
