/* Exchanges inside a warp and a block, and hints to the caches. A part of prelude.h. */
#ifndef MD_CUDA_WARP_H
#define MD_CUDA_WARP_H

/* clang-format off */
#define MD_ALL_LANES 0xffffffffu
/* Shuffles a value of any plain type, word by word. Sizes are multiples of 4 bytes. */
#define MD_SHUFFLE_WORDS(call)                                                                                         \
    static_assert(sizeof(T) % 4 == 0, "words");                                                                        \
    union { T t; uint32_t w[sizeof(T) / 4]; } a = {value};                                                             \
    MD_FOR (i, (int)(sizeof(T) / 4)) a.w[i] = call;                                                                    \
    return a.t;
template <class T> MD_INLINE T md_shfl_xor(T value, int mask)
    { MD_SHUFFLE_WORDS(__shfl_xor_sync(MD_ALL_LANES, a.w[i], mask)) }
template <class T> MD_INLINE T md_shfl(T value, int lane) { MD_SHUFFLE_WORDS(__shfl_sync(MD_ALL_LANES, a.w[i], lane)) }
MD_INLINE uint32_t md_ballot(int c) { return __ballot_sync(MD_ALL_LANES, c); }
MD_INLINE int md_lane_id() { return (int)(threadIdx.x & 31); }
MD_INLINE int md_warp_id() { return (int)(threadIdx.x >> 5); }
/* The address of shared memory as instructions take it. */
MD_INLINE uint32_t md_shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
/* Dynamic shared memory of the block, 16-byte aligned at least. */
extern __shared__ __align__(1024) unsigned char md_shared[];

/* ---- Asynchronous copies of 16 bytes to shared memory; both sides aligned. n: bytes that are read; the rest becomes
 * zeros. */
MD_INLINE void md_copy_or_clear(uint32_t to, const void *from, int n)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(__cvta_generic_to_global(from)),
        "r"(n) : "memory");
}
MD_INLINE void md_copy16(void *to, const void *from, int n) { md_copy_or_clear(md_shared_address(to), from, n); }
MD_INLINE void md_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n> MD_INLINE void md_copy_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory"); }

/* ---- How L2 keeps what is read or written. */
MD_INLINE uint64_t md_policy_first()
    { uint64_t r; asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(r)); return r; }
MD_INLINE uint64_t md_policy_last()
    { uint64_t r; asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(r)); return r; }
MD_INLINE uint4 md_load16(const void *p, uint64_t policy)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(__cvta_generic_to_global(p)), "l"(policy)
                     : "memory");
    return v;
}
MD_INLINE void md_store16(void *p, uint4 v, uint64_t policy)
{
    asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;"
                 :: "l"(__cvta_generic_to_global(p)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "l"(policy) : "memory");
}
/* clang-format on */

#endif
