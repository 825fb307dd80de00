/* Packed weights of 4 and 8 bits (gemm_widen_pack.cu): how many there are. */
#ifndef MD_CUDA_WIDENED_H
#define MD_CUDA_WIDENED_H

enum {
    WIDE = md_kind<MD_KIND_1>::BITS / 4, /* pieces of 16 bytes that a thread has of 64 of K */
    CHUNK = 2048 * WIDE, /* bytes of 64 columns by 64 of K */
    /* the bytes of a register are two apart in a word, so that masks find them */
    IS_SPREAD = MD_KIND_1 == MD_OF_I8 && MD_IS_BF16_OF(MD_MULTIPLY)
};

/* K in pieces of 64, padded to whole units. */
MD_INLINE int64_t md_chunks_of(int64_t depth) { return (depth + 64 * MD_CHUNKS - 1) / (64 * MD_CHUNKS) * MD_CHUNKS; }

#endif
