/* Multiply-add for products: one rounding where the processor has an fma, and only here, so that the epilogue of a
 * product gives the same bits as a pass of its own. Written with builtins, since GCC 12 moves accumulators to memory if
 * it contracts by itself. */
#ifndef MD_HOST_MAC_H
#define MD_HOST_MAC_H

/* A register of accumulators: MD_VL of f32, half as many of f64 and i64. */
typedef md_acc md_t MD_VECTOR(MD_VL * 4);
#define MD_TL (MD_VL * 4 / (int)sizeof(md_acc))
/* What sums of spans of K are added in (split.h). */
#if defined(MD_ACC_F32)
typedef double md_total;
#elif defined(MD_ACC_PAIRS)
typedef int64_t md_total;
#else
typedef md_acc md_total;
#endif
/* An unrolled loop, and one that is not. */
#ifdef __clang__
#define MD_UNROLL _Pragma("clang loop unroll(full)")
#define MD_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define MD_UNROLL _Pragma("GCC unroll 32")
#define MD_ROLLED _Pragma("GCC unroll 1")
#endif
#define MD_FOR(i, n) MD_UNROLL for (int i = 0; i < (n); i++)
#define MD_FOR_STEP(i, n, step) MD_UNROLL for (int i = 0; i < (n); i += (step))

MD_INLINE int64_t md_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* a * b + c. */
MD_INLINE md_t md_mac_t(md_t a, md_t b, md_t c)
{
#if defined(MD_ACC_PAIRS)
    return (md_t)md_dot_pairs((md_b)a, (md_b)b, (md_b)c);
#elif defined(MD_PAIRED)
    return md_dot_pairs((md_b)a, (md_b)b, c);
#elif defined(MD_ACC_F32) && MD_VL == 16 && defined(__AVX512F__)
    return (md_t)__builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#elif defined(MD_ACC_F32) && MD_VL == 8 && defined(__FMA__)
    return (md_t)__builtin_ia32_vfmaddps256(a, b, c);
#elif defined(MD_ACC_F32) && MD_VL == 4 && defined(__FMA__)
    return (md_t)__builtin_ia32_vfmaddps(a, b, c);
#elif defined(MD_ACC_F64) && MD_VL == 16 && defined(__AVX512F__)
    return (md_t)__builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4);
#elif defined(MD_ACC_F64) && MD_VL == 8 && defined(__FMA__)
    return (md_t)__builtin_ia32_vfmaddpd256(a, b, c);
#elif defined(MD_ACC_F64) && MD_VL == 4 && defined(__FMA__)
    return (md_t)__builtin_ia32_vfmaddpd(a, b, c);
#else
    return a * b + c;
#endif
}

/* The same value in all lanes; minus zero keeps the sign of a zero. */
#if defined(MD_PAIRED) && defined(MD_ACC_F32)
MD_INLINE md_t md_splat_t(md_acc a) { return (md_t)md_splat_pair(a); }
#else
MD_INLINE md_t md_splat_t(md_acc a) { return a - (md_t){0}; }
#endif

#endif
