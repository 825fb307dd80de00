/* Tensor cores by warps (sm_80 on): fragments from shared memory, products of 16 x 8. */
#ifndef MD_CUDA_MMA_H
#define MD_CUDA_MMA_H

/* Four 8x8 matrices of 16-bit elements; lanes give the addresses of their lines, 8 lanes a matrix. */
MD_INLINE void md_ldmatrix(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* Loads four 8x8 matrices as md_ldmatrix does, each of them transposed. */
MD_INLINE void md_ldmatrix_across(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* Transposes an 8x8 matrix that a warp holds in registers. */
MD_INLINE unsigned md_transpose(unsigned a)
{
    unsigned r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(a));
    return r;
}

/* d[16 x 8] += a[16 x 16] * b[16 x 8], of operands of MD_MMA_TYPE (bf16, f16): 4 words of d and a */
#define MD_AS_TEXT_(x) #x
#define MD_AS_TEXT(x) MD_AS_TEXT_(x)
MD_INLINE void md_mma(float *d, const unsigned *a, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MD_AS_TEXT(MD_MMA_TYPE) "." MD_AS_TEXT(
                     MD_MMA_TYPE) ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
