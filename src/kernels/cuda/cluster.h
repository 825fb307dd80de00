/* Clusters of blocks, memory barriers of the block, bulk copies: sm_90 and later. Included by the templates that need it, after prelude.h. */
#ifndef MD_CUDA_CLUSTER_H
#define MD_CUDA_CLUSTER_H

/* clang-format off */
MD_INLINE uint32_t md_cluster_rank() { uint32_t r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
MD_INLINE uint32_t md_cluster_size() { uint32_t r; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
MD_INLINE uint32_t md_cluster_id() { uint32_t r; asm("mov.u32 %0, %%clusterid.x;" : "=r"(r)); return r; }
MD_INLINE void md_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
/* Arrives without publishing anything: before the end, so that nobody writes to a block that has left. */
MD_INLINE void md_cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
MD_INLINE void md_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
MD_INLINE void md_cluster_sync() { md_cluster_arrive(); md_cluster_wait(); }
/* The same place in the shared memory of block `rank` of the cluster. */
MD_INLINE uint32_t md_cluster_map(uint32_t shared_address, uint32_t rank)
{
    uint32_t r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared_address), "r"(rank));
    return r;
}
MD_INLINE uint32_t md_cluster_load(uint32_t at) { uint32_t v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory"); return v; }
MD_INLINE void md_cluster_store(uint32_t at, uint32_t v) { asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(at), "r"(v) : "memory"); }
/* Writes, and counts the bytes at a barrier of the receiving block: addresses of md_cluster_map, one rank. */
MD_INLINE void md_cluster_send(uint32_t at, uint32_t v, uint32_t barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" :: "r"(at), "r"(v), "r"(barrier) : "memory");
}
MD_INLINE void md_cluster_send8(uint32_t at, uint64_t v, uint32_t barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" :: "r"(at), "l"(v), "r"(barrier) : "memory");
}
/* Any plain type of whole words, word by word. */
template <class T> MD_INLINE void md_cluster_put(uint32_t at, T value)
{
    union { T t; uint32_t w[sizeof(T) / 4]; } a = {value};
    MD_FOR (i, (int)(sizeof(T) / 4)) md_cluster_store(at + 4 * i, a.w[i]);
}
template <class T> MD_INLINE T md_cluster_get(uint32_t at)
{
    union { uint32_t w[sizeof(T) / 4]; T t; } a;
    MD_FOR (i, (int)(sizeof(T) / 4)) a.w[i] = md_cluster_load(at + 4 * i);
    return a.t;
}
template <class T> MD_INLINE void md_cluster_send_all(uint32_t at, T value, uint32_t barrier)
{
    union { T t; uint32_t w[sizeof(T) / 4]; } a = {value};
    MD_FOR (i, (int)(sizeof(T) / 4)) md_cluster_send(at + 4 * i, a.w[i], barrier);
}

/* ---- Barriers in shared memory that count arrivals and bytes. */
MD_INLINE void md_barrier_init(uint64_t *b, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(md_shared_address(b)), "r"(arrivals) : "memory");
}
MD_INLINE void md_barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
MD_INLINE void md_barrier_expect(uint64_t *b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(md_shared_address(b)), "r"(bytes) : "memory");
}
MD_INLINE void md_barrier_arrive(uint64_t *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(md_shared_address(b)) : "memory"); }
MD_INLINE void md_barrier_wait(uint64_t *b, int parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}"
                 :: "r"(md_shared_address(b)), "r"(parity) : "memory");
}
/* `bytes` (a multiple of 16, both sides aligned to 16) from global to shared memory, counted at the barrier. One thread asks. */
MD_INLINE void md_bulk_load(void *to, const void *from, int bytes, uint64_t *b)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(md_shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(md_shared_address(b)) : "memory");
}
/* Ends of kernels that overlap with the next one in the stream. */
MD_INLINE void md_grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
MD_INLINE void md_grid_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
/* clang-format on */

#endif
