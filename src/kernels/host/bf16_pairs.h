/* Products of bf16 by pairs: a lane of 32 bits has two steps of K, of which one instruction (AVX512-BF16) adds both
 * products to a sum of f32. Packed operands are pairs in the memory of accumulators: their bits are moved, never
 * computed with. The instruction takes subnormal operands and sums for zeros.
 *   md_load_bf16_pairs(t, o, n)    n values, at most 2 * MD_VL, from consecutive elements: 2l and 2l + 1 in lane l
 *   md_load_bf16_words(t, o, n)    n values, at most MD_VL, one in each lane */
#ifndef MD_HOST_BF16_PAIRS_H
#define MD_HOST_BF16_PAIRS_H

/* clang-format off */
/* c + the products of both halves of a lane. Compilers disagree on the types of a builtin, so it is assembly. */
MD_INLINE md_f md_dot_pairs(md_b a, md_b b, md_f c)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}

MD_OUTLINE md_b md_part_of_bf16_pairs(const void *t, int64_t o, int n)
{
    md_b w = {0};
    __builtin_memcpy(&w, (const uint16_t *)t + o, 2 * (unsigned)n);
    return w;
}
MD_INLINE md_b md_load_bf16_pairs(const void *t, int64_t o, int n)
{
    md_b w;
    if (n != 2 * MD_VL)
        return md_part_of_bf16_pairs(t, o, n);
    __builtin_memcpy(&w, (const uint16_t *)t + o, sizeof w);
    return w;
}
MD_INLINE md_b md_load_bf16_words(const void *t, int64_t o, int n)
{
    typedef uint16_t words MD_VECTOR(MD_VL * 2);
    words w = {0};
    if (n == MD_VL)
        __builtin_memcpy(&w, (const uint16_t *)t + o, sizeof w);
    else
        for (int l = 0; l < n; l++)
            w[l] = ((const uint16_t *)t)[o + l];
    return (md_b)__builtin_convertvector(w, md_u);
}

/* Two values that are bf16 as the bits of a lane. */
MD_INLINE float md_pair_of(float first, float second)
{
    uint32_t low, high;
    __builtin_memcpy(&low, &first, sizeof low);
    __builtin_memcpy(&high, &second, sizeof high);
    high = (high & 0xffff0000u) | low >> 16;
    __builtin_memcpy(&first, &high, sizeof high);
    return first;
}
MD_INLINE md_b md_splat_pair(float a)
{
    int32_t bits;
    __builtin_memcpy(&bits, &a, sizeof bits);
    return bits + (md_b){0};
}
MD_INLINE void md_put_pairs(float *out, md_b v, int64_t n)
{
    if (n == MD_VL)
        __builtin_memcpy(out, &v, sizeof v);
    else
        for (int64_t l = 0; l < n; l++) {
            const int32_t bits = v[l];
            __builtin_memcpy(out + l, &bits, sizeof bits);
        }
}
/* clang-format on */

#endif
