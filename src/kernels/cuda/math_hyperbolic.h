/* Hyperbolic functions and their inverses, beside math.h: the compiler's. Errors stand beside each function in units in
 * the last place of the f32 result. A part of prelude.h. */
#ifndef MD_CUDA_MATH_HYPERBOLIC_H
#define MD_CUDA_MATH_HYPERBOLIC_H

#if !defined(MD_CONFIGURED)
#define MD_USE_SINH 1
#define MD_USE_COSH 1
#define MD_USE_ASINH 1
#define MD_USE_ACOSH 1
#define MD_USE_ATANH 1
#endif

/* clang-format off */
#ifdef MD_USE_SINH
MD_MATH1(sinh, sinhf(x), sinh(x)) /* 3 ulp */
#endif
#ifdef MD_USE_COSH
MD_MATH1(cosh, coshf(x), cosh(x)) /* 2 ulp */
#endif
#ifdef MD_USE_ASINH
MD_MATH1(asinh, asinhf(x), asinh(x)) /* 3 ulp */
#endif
#ifdef MD_USE_ACOSH
MD_MATH1(acosh, acoshf(x), acosh(x)) /* 4 ulp */
#endif
#ifdef MD_USE_ATANH
MD_MATH1(atanh, atanhf(x), atanh(x)) /* 3 ulp */
#endif
/* clang-format on */

#endif
