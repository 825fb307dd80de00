/* Hopper's copies and barriers in PTX: mbarriers, tensor copies (TMA), clusters. Addresses of shared memory have 32
 * bits. One thread of a warp calls each function unless it says otherwise. */
#include "races.h"

typedef struct alignas(64) md_tensor_map {
    unsigned long long word[16];
} md_tensor_map;

MD_INLINE void md_bar_init(unsigned bar, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

MD_INLINE void md_bar_init_fence(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

MD_INLINE void md_bar_expect(unsigned bar, unsigned bytes)
{
    MD_TEST_PAUSE(bar);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

MD_INLINE void md_bar_arrive(unsigned bar)
{
    MD_TEST_PAUSE(bar);
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

/* Arrives at the same barrier of another block of the cluster. */
MD_INLINE void md_bar_arrive_at(unsigned bar, unsigned rank)
{
    MD_TEST_PAUSE(bar + rank);
    asm volatile("{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [at];\n}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

/* Called by all threads that need what the barrier guards. */
MD_INLINE void md_bar_wait(unsigned bar, unsigned parity)
{
    MD_TEST_PAUSE(bar + parity);
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra END;\nbra AGAIN;\nEND:\n}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* The same; whoever waits with md_bar_wait_cluster sees what this thread, and those it had met at a barrier, wrote
 * before. */
MD_INLINE void md_bar_tell(unsigned bar, unsigned rank)
{
    MD_TEST_PAUSE(bar + rank);
    asm volatile("{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [at];\n}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

MD_INLINE void md_bar_wait_cluster(unsigned bar, unsigned parity)
{
    MD_TEST_PAUSE(bar + parity);
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra END;\nbra AGAIN;\nEND:\n}" ::"r"(bar),
        "r"(parity)
        : "memory");
}

/* Stores 16 bytes at the same place in the shared memory of another block of the cluster. */
MD_INLINE float4 md_load_at(unsigned address, unsigned rank)
{
    float4 v;
    asm volatile(
        "{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %4, %5;\nld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [at];\n}"
        : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
        : "r"(address), "r"(rank)
        : "memory");
    return v;
}

/* A barrier of all threads of the cluster. It does not order earlier stores (that would wait for all of them). */
MD_INLINE void md_cluster_meet(void)
{
    MD_TEST_PAUSE(1);
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/* md_cluster_meet in two parts: a thread says that it has arrived, does other work, and then waits for the others. */
MD_INLINE void md_cluster_tell(void)
{
    MD_TEST_PAUSE(2);
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
MD_INLINE void md_cluster_hear(void)
{
    MD_TEST_PAUSE(3);
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

/* Writes into the shared memory of block `rank` of the cluster, at the place of `to` there; its barrier counts 16 and 8
 * bytes. */
MD_INLINE void md_send4(unsigned to, unsigned bar, unsigned rank, float a, float b, float c, float d)
{
    MD_TEST_PAUSE(to + rank);
    asm volatile("{\n.reg .b32 at, there;\nmapa.shared::cluster.u32 at, %0, %2;\nmapa.shared::cluster.u32 there, %1, "
                 "%2;\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [at], {%3, %4, %5, %6}, "
                 "[there];\n}" ::"r"(to),
                 "r"(bar), "r"(rank), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
}
MD_INLINE void md_send2(unsigned to, unsigned bar, unsigned rank, float a, float b)
{
    MD_TEST_PAUSE(to + rank);
    asm volatile(
        "{\n.reg .b32 at, there;\nmapa.shared::cluster.u32 at, %0, %2;\nmapa.shared::cluster.u32 there, %1, "
        "%2;\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [at], {%3, %4}, [there];\n}" ::"r"(to),
        "r"(bar), "r"(rank), "f"(a), "f"(b)
        : "memory");
}

MD_INLINE unsigned md_cluster_rank(void)
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

MD_INLINE void md_tma_prefetch(const md_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Copies a box at x (along memory), y, z. Elements outside of the tensor arrive as zeros. */
MD_INLINE void md_tma_load(unsigned to, const md_tensor_map *map, int x, int y, int z, unsigned bar)
{
    MD_TEST_PAUSE(to);
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
            "r"(to),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar)
        : "memory");
}

/* The same of tensors with two, four and five dims. */
MD_INLINE void md_tma_load2(unsigned to, const md_tensor_map *map, int x, int y, unsigned bar)
{
    MD_TEST_PAUSE(to);
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(map), "r"(x), "r"(y), "r"(bar)
        : "memory");
}

MD_INLINE void md_tma_load4(unsigned to, const md_tensor_map *map, int x, int y, int z, int w, unsigned bar)
{
    MD_TEST_PAUSE(to);
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%5}], [%6];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(bar)
                 : "memory");
}

MD_INLINE void md_tma_load5(unsigned to, const md_tensor_map *map, int x, int y, int z, int w, int u, unsigned bar)
{
    MD_TEST_PAUSE(to);
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%5, %6}], [%7];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(u), "r"(bar)
                 : "memory");
}

/* Asks for a box to be brought into the L2. Nothing is read yet, so a launch may ask before it waits for earlier ones,
 * even for what they write: all reads and writes of the device meet in the L2. */
MD_INLINE void md_tma_ask(const md_tensor_map *map, int x, int y, int z)
{
    MD_TEST_PAUSE(x);
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y),
                 "r"(z)
                 : "memory");
}

/* `bytes` in a row, a multiple of 16; both sides at multiples of 16. */
MD_INLINE void md_bulk_load(unsigned to, const void *from, unsigned bytes, unsigned bar)
{
    MD_TEST_PAUSE(to);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar)
                 : "memory");
}

/* Copies a box to all blocks of the mask, each to its own `to` and `bar`. */
MD_INLINE void md_tma_load_all(unsigned to, const md_tensor_map *map, int x, int y, int z, unsigned bar, unsigned mask)
{
    MD_TEST_PAUSE(to);
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar), "h"((unsigned short)mask)
                 : "memory");
}

MD_INLINE void md_tma_store(const md_tensor_map *map, unsigned from, int x, int y, int z)
{
    MD_TEST_PAUSE(from);
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* Waits until all but `pending` groups of stores have read their shared memory. */
template <int pending> MD_INLINE void md_tma_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

/* Waits until all but `pending` groups of stores have been done. */
template <int pending> MD_INLINE void md_tma_wait(void)
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

MD_INLINE void md_tma_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/* Stores `bytes` in a row, a multiple of 16, both sides at multiples of 16, or adds them to floats. One group. */
MD_INLINE void md_bulk_send(float *to, unsigned from, unsigned bytes, bool adds)
{
    MD_TEST_PAUSE(from);
    if (adds)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                         __cvta_generic_to_global(to)),
                     "r"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
                     "r"(from), "r"(bytes)
                     : "memory");
    md_tma_commit();
}

/* Orders what TMA does in all memory with what threads do. */
MD_INLINE void md_proxy_fence_all(void) { asm volatile("fence.proxy.async;" ::: "memory"); }

/* A word that blocks hand on what they wrote by. */
MD_INLINE int md_load_acquire(const int *from)
{
    int v;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(from)) : "memory");
    return v;
}
MD_INLINE void md_add_release(int *to, int v)
{
    MD_TEST_PAUSE(v);
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(v) : "memory");
}

/* Makes what was written to shared memory visible to TMA and wgmma. */
MD_INLINE void md_proxy_fence(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* A barrier of `threads` threads; `id` is its number in the block. */
MD_INLINE void md_meet(int id, int threads)
{
    MD_TEST_PAUSE(id);
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

MD_INLINE void md_meet_arrive(int id, int threads)
{
    MD_TEST_PAUSE(id);
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
