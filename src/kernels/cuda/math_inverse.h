/* Inverse sine, cosine and tangent, beside math.h: the compiler's. Errors stand beside each function in units in the
 * last place of the f32 result. A part of prelude.h. */
#ifndef MD_CUDA_MATH_INVERSE_H
#define MD_CUDA_MATH_INVERSE_H

#if !defined(MD_CONFIGURED)
#define MD_USE_ASIN 1
#define MD_USE_ACOS 1
#define MD_USE_ATAN 1
#define MD_USE_ATAN2 1
#endif

/* clang-format off */
#ifdef MD_USE_ASIN
MD_MATH1(asin, asinf(x), asin(x)) /* 2 ulp */
#endif
#ifdef MD_USE_ACOS
MD_MATH1(acos, acosf(x), acos(x)) /* 2 ulp */
#endif
#ifdef MD_USE_ATAN
MD_MATH1(atan, atanf(x), atan(x)) /* 2 ulp */
#endif
#ifdef MD_USE_ATAN2
MD_OUTLINE float md_atan2_sf(float y, float x) { return atan2f(y, x); } /* 3 ulp */
MD_OUTLINE double md_atan2_sd(double y, double x) { return atan2(y, x); }
MD_LIFT_FD2(atan2)
#endif
/* clang-format on */

#endif
