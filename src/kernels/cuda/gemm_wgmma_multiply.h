#ifdef MD_SPANS
/* Puts zeros in the place of the steps of K behind a span, which are lines of 128 bytes in both operands. All that
 * multiply the stage wait for each other. */
MD_INLINE void md_clear_behind(unsigned stage, int left)
{
    enum { TOGETHER = MD_PINGPONG || MD_CONSUMERS == 1 ? 128 : 256, LINE = 8 /* pieces */ };
    const int thread = threadIdx.x - 128;
    MD_ROLLED for (int i = thread % TOGETHER; i < STAGE_BYTES / 16; i += TOGETHER)
    {
        if (i / LINE % BK + i / (SLICE_BYTES / 16) * BK >= left)
            asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(stage + i * 16), "r"(0) : "memory");
    }
    md_proxy_fence();
    md_meet(4 + thread / TOGETHER, TOGETHER);
}
#endif

/* Computes the sums of one tile, stage by stage. A stage is released when the next one's products have been issued. A
 * part of gemm_wgmma.cu and gemm_wgmma8.cu. */
MD_INLINE void md_multiply(md_tile &acc, md_ring &r, int steps, unsigned tiles, unsigned full, unsigned empty,
                           int depth = 0)
{
    unsigned before = empty;
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (b, BLOCKS)
            MD_FOR (i, MD_BN / 2)
                acc[q][b][i] = 0;
    MD_ROLLED for (int i = 0; i < steps; i++)
    {
        const unsigned stage = tiles + r.stage * STAGE_BYTES;
        const unsigned first = MD_PINGPONG ? 0 : (threadIdx.x / 128 - 1) * (WG_ROWS * 128);
        md_bar_wait(full + r.stage * 8, r.phase);
#ifdef MD_GATHERS
        md_proxy_fence();
#endif
#ifdef MD_SPANS
        if ((i + 1) * MD_DEEP * BK > depth)
            md_clear_behind(stage, depth - i * MD_DEEP * BK);
#endif
        md_wgmma_fence();
        MD_FOR (k, 4 * MD_DEEP) { /* of 32 bytes */
            const unsigned slice = stage + k / 4 * SLICE_BYTES,
                           down = slice + first + k % 4 * (MD_DOWN(MD_ALONG_) == 2 ? 2048 : 32);
            const unsigned across = slice + DOWN_BYTES + k % 4 * (MD_ACROSS(MD_ALONG_) == 2 ? 2048 : 32);
            MD_FOR (q, MD_PRODUCTS) {
                const unsigned long long right = md_wgmma_matrix(across + (MD_SWAPPED ? 0 : q * ACROSS_ONE), 8192);
                MD_FOR (m, BLOCKS)
                    md_wgmma(acc[q][m], md_wgmma_matrix(down + (MD_SWAPPED ? q * DOWN_ONE : 0) + m * 8192, 8192),
                             right);
            }
        }
        md_wgmma_commit();
        md_wgmma_wait<1>();
        if (i > 0)
            md_release(before);
        before = empty + r.stage * 8;
        md_ring_next(r);
    }
    md_wgmma_wait<0>();
#if MD_SWAPPED /* otherwise the compiler would choose between sums while they are added up */
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (b, BLOCKS)
            MD_FOR (i, MD_BN / 2)
                asm volatile("" : "+f"(acc[q][b][i])::"memory");
#endif
    if (steps > 0)
        md_release(before);
}
