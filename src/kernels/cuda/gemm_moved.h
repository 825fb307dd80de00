/* Whole pieces of 16 bytes from any even address. */
#ifndef MD_CUDA_GEMM_MOVED_H
#define MD_CUDA_GEMM_MOVED_H

/* 16 bytes from byte `past` (even, below 16) of two pieces on. */
MD_INLINE uint4 md_moved(uint4 a, uint4 b, unsigned past)
{
    const bool eight = past & 8, four = past & 4;
    const uint32_t w0 = eight ? a.z : a.x, w1 = eight ? a.w : a.y, w2 = eight ? b.x : a.z, w3 = eight ? b.y : a.w, w4 = eight ? b.z : b.x, w5 = eight ? b.w : b.y;
    const uint32_t v0 = four ? w1 : w0, v1 = four ? w2 : w1, v2 = four ? w3 : w2, v3 = four ? w4 : w3, v4 = four ? w5 : w4;
    const unsigned bits = past * 8; /* modulo 32 */
    return make_uint4(__funnelshift_r(v0, v1, bits), __funnelshift_r(v1, v2, bits), __funnelshift_r(v2, v3, bits), __funnelshift_r(v3, v4, bits));
}

#endif
