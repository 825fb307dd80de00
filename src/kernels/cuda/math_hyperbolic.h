/* Hyperbolic functions, beside math.h. Errors stand beside each function in units in the last place of the f32 result;
 * f64 functions are the compiler's. A part of prelude.h. */
#ifndef MD_CUDA_MATH_HYPERBOLIC_H
#define MD_CUDA_MATH_HYPERBOLIC_H

#if !defined(MD_CONFIGURED)
#define MD_USE_SINH 1
#endif

/* clang-format off */
#ifdef MD_USE_SINH
MD_MATH1(sinh, sinhf(x), sinh(x)) /* 3 ulp */
#endif
/* clang-format on */

#endif
