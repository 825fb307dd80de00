/* One step of K of products without tensor cores. */
#ifndef MD_CUDA_GEMM_STEP_H
#define MD_CUDA_GEMM_STEP_H

/* a * b + c in the accumulators' type, rounded once. */
MD_INLINE md_acc md_step(md_acc a, md_acc b, md_acc c)
{
#if defined(MD_ACC_F32)
    return md_fma_sf(a, b, c);
#elif defined(MD_ACC_F64)
    return md_fma_sd(a, b, c);
#else
    return md_fma_si(a, b, c);
#endif
}

#endif
