/* Clusters of blocks: sm_90 and later. Included by the templates that need it, after prelude.h. */
#ifndef MD_CUDA_CLUSTER_H
#define MD_CUDA_CLUSTER_H

/* clang-format off */
MD_INLINE uint32_t md_cluster_rank() { uint32_t r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
MD_INLINE void md_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
MD_INLINE void md_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
MD_INLINE void md_cluster_sync() { md_cluster_arrive(); md_cluster_wait(); }
/* The same offset in the shared memory of block `rank` of the cluster. */
MD_INLINE uint32_t md_cluster_map(uint32_t shared_address, uint32_t rank)
{
    uint32_t r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared_address), "r"(rank));
    return r;
}
MD_INLINE void md_cluster_store(uint32_t at, uint32_t v)
    { asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(at), "r"(v) : "memory"); }
/* clang-format on */

#endif
