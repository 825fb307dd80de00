/* How the blocks of a cluster meet, and send each other parts of a row. A block alone is no cluster: there the
 * compiler's barriers of clusters cannot be divided. A part of row_cluster.cu. */
#ifndef MD_CUDA_ROW_CLUSTER_MEET_H
#define MD_CUDA_ROW_CLUSTER_MEET_H

enum { MD_WARPS = MD_GROUP / 32, MD_PARTS = MD_CLUSTER * MD_WARPS };

#if MD_CLUSTER > 1
MD_INLINE int md_rank() { return (int)md_cluster_rank(); }
MD_INLINE void md_arrive_all() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
MD_INLINE void md_wait_all() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
enum { MD_MEETING = 1 }; /* arrivals at an exchange's barrier, besides the words that are sent */
/* Stores 8 bytes at the same place in another block, and counts them at the same barrier there. */
MD_INLINE void md_send_word(unsigned to, unsigned bar, uint64_t w, int rank)
{
    asm volatile("{\n.reg .b32 to, bar;\nmapa.shared::cluster.u32 to, %0, %3;\nmapa.shared::cluster.u32 bar, %1, %3;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [to], %2, [bar];\n}" ::"r"(to),
                 "r"(bar), "l"(w), "r"(rank)
                 : "memory");
}
/* Called by all lanes, which have the part: sends it to all blocks. */
template <int N> MD_INLINE void md_send_part(const uint64_t (&w)[N], uint64_t *to, unsigned bar)
{
    if (threadIdx.x == 0)
        md_bar_expect(bar, MD_PARTS * N * 8);
    if (md_lane_id() < MD_CLUSTER)
        MD_FOR (i, N)
            md_send_word(md_shared_address(to + i), bar, w[i], md_lane_id());
}
#else
MD_INLINE int md_rank() { return 0; }
MD_INLINE void md_arrive_all() { __syncthreads(); }
MD_INLINE void md_wait_all() {}
enum { MD_MEETING = MD_WARPS };
template <int N> MD_INLINE void md_send_part(const uint64_t (&w)[N], uint64_t *to, unsigned bar)
{
    if (md_lane_id() == 0) {
        MD_FOR (i, N)
            to[i] = w[i];
        md_bar_arrive(bar);
    }
}
#endif

#endif
