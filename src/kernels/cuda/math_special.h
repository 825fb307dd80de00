/* Complementary error function, cube root and the remainder with the dividend's sign, beside math.h: the compiler's;
 * random bits.
 * Errors stand beside each function in units in the last place of the f32 result. A part of prelude.h. */
#ifndef MD_CUDA_MATH_SPECIAL_H
#define MD_CUDA_MATH_SPECIAL_H

#if !defined(MD_CONFIGURED)
#define MD_USE_ERFC 1
#define MD_USE_CBRT 1
#define MD_USE_FMOD 1
#define MD_USE_PHILOX 1
#endif

/* clang-format off */
#ifdef MD_USE_ERFC
MD_MATH1(erfc, erfcf(x), erfc(x)) /* 4 ulp */
#endif
#ifdef MD_USE_CBRT
MD_MATH1(cbrt, cbrtf(x), cbrt(x)) /* 1 ulp */
#endif
#ifdef MD_USE_FMOD
MD_OUTLINE float md_fmod_sf(float a, float b) { return fmodf(a, b); } /* exact */
MD_OUTLINE double md_fmod_sd(double a, double b) { return fmod(a, b); }
MD_LIFT_FD2(fmod)
#endif
/* Of integers by zero 0. */
MD_INLINE int64_t md_fmod_si(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
MD_LIFT2(fmod, md_i, i)
#ifdef MD_USE_PHILOX
/* The first half of a block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
 * SC 2011): all bits as expr/scalar.c. */
MD_INLINE int64_t md_philox_si(int64_t key, int64_t low, int64_t high)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)((uint64_t)key >> 32);
    uint32_t c0 = (uint32_t)low, c1 = (uint32_t)((uint64_t)low >> 32);
    uint32_t c2 = (uint32_t)high, c3 = (uint32_t)((uint64_t)high >> 32);
    MD_FOR (round, 10) {
        uint64_t a = (uint64_t)c0 * 0xd2511f53u, b = (uint64_t)c2 * 0xcd9e8d57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return (int64_t)((uint64_t)c1 << 32 | c0);
}
MD_INLINE md_i md_philox_i(md_i key, md_i low, md_i high)
    { md_i r; MD_LANES(md_philox_si(key.v[l], low.v[l], high.v[l])) }
#endif
/* clang-format on */

#endif
