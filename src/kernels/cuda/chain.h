/* Softmax of scores in pieces: what all chains (product, softmax, product) on GPUs share. Powers are of 2: scores are
 * scaled by log2(e) before. A part of chain_*.cu. */
#ifndef MD_CUDA_CHAIN_H
#define MD_CUDA_CHAIN_H

/* Scores are only scaled: by the multiplication that subtracts the maximum. */
#define MD_FOLDS (MD_CHAIN_SCALE == 2 && (!MD_CHAIN_GUARDS || MD_CHAIN_BOUNDED))

/* By what scores are multiplied where their powers of 2 are taken. */
MD_INLINE float md_chain_power_scale(const md_params *p)
{
    const float LOG2_E = 1.44269504088896f;
#if MD_FOLDS
    return md_chain_scale(p) * LOG2_E;
#else
    (void)p;
    return LOG2_E;
#endif
}

MD_INLINE float md_power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* A maximum of -inf (nothing but masked scores so far) is not subtracted: -inf minus itself would be NaN. */
MD_INLINE float md_chain_base(float maximum) { return maximum == -MD_INF_F ? 0.f : maximum; }

#endif
