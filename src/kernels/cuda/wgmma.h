/* Warpgroup matrix products around md_wgmma, which the family prints for its tile (one instruction with all its
 * registers). */
MD_INLINE void md_wgmma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

MD_INLINE void md_wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int pending> MD_INLINE void md_wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/* The descriptor of a matrix in shared memory, in 128-byte swizzle. `leading`: bytes between blocks of 64 rows if it is
 * stored along its rows. In a cluster, addresses of shared memory have the block's rank above their 18 bits. */
MD_INLINE unsigned long long md_wgmma_matrix(unsigned address, unsigned leading)
{
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}

/* The same in two steps: the low word, and a matrix some bytes behind the one of a low word. */
MD_INLINE unsigned md_matrix_low(unsigned address, unsigned leading)
{
    return (address & 0x3ffff) >> 4 | leading >> 4 << 16;
}

MD_INLINE unsigned long long md_matrix_at(unsigned low, unsigned bytes)
{
    return (unsigned long long)(low + bytes / 16) | (unsigned long long)(1024 >> 4) << 32 | 1ull << 62;
}

template <int n> MD_INLINE void md_registers_up(void) { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n)); }

template <int n> MD_INLINE void md_registers_down(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

/* Stores four 8x8 blocks of 16-bit pairs to shared memory. */
MD_INLINE void md_stmatrix(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

/* Stores two of them, at addresses of the first 16 lanes. */
MD_INLINE void md_stmatrix(unsigned to, unsigned a, unsigned b)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

MD_INLINE void md_store_word(unsigned to, unsigned a)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(a) : "memory");
}

MD_INLINE void md_store_four(unsigned to, float a, float b, float c, float d)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

MD_INLINE int md_load_word(unsigned from)
{
    int v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

MD_INLINE uint4 md_load_words(unsigned from)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}
