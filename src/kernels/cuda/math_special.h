/* Complementary error function, cube root and the remainder with the dividend's sign, beside math.h: the compiler's.
 * Errors stand beside each function in units in the last place of the f32 result. A part of prelude.h. */
#ifndef MD_CUDA_MATH_SPECIAL_H
#define MD_CUDA_MATH_SPECIAL_H

#if !defined(MD_CONFIGURED)
#define MD_USE_ERFC 1
#define MD_USE_CBRT 1
#define MD_USE_FMOD 1
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
/* clang-format on */

#endif
