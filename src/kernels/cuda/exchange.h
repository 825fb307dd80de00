/* Combines the parts of the threads of a block, the blocks of a cluster, or the blocks of a grid to one value. A part
 * is any plain struct P of whole words for which the template defines `void md_mix(P &into, const P &from)` and `void
 * md_nothing(P &p)` (the identity). The order of mixing depends only on the numbers of lanes, warps and blocks: equal
 * parts give equal bits.
 *
 * The blocks of a grid use no fence, no barrier and no atomic operation. A block posts its part in words of 8 bytes,
 * which memory writes at once; half of each word is a stamp. The others poll them until all stamps are right. This
 * costs one write to the L2 and one read. Stamps count from an epoch in the stream's counters. A launch reads the epoch
 * at its start and advances it when all its blocks have posted, so what earlier launches left is never taken for a part
 * (unless a slot is not written for exactly 2^32 exchanges). */
#ifndef MD_CUDA_EXCHANGE_H
#define MD_CUDA_EXCHANGE_H

/* ---- Parts as words of 8 bytes, the last one padded. */
template <class P> struct md_parcel {
    enum { N = (int)(sizeof(P) + 7) / 8 };
    union {
        P p;
        uint64_t w[N];
    };
};
template <class P> MD_INLINE md_parcel<P> md_wrap(const P &p)
{
    md_parcel<P> r;
    r.w[md_parcel<P>::N - 1] = 0;
    r.p = p;
    return r;
}

/* ---- A warp: combines the parts of `width` lanes (a power of 2) as a tree; all lanes get the result. */
template <class P> MD_INLINE P md_mix_warp(P p, int width)
{
    MD_UNROLL
    for (int o = 16; o > 0; o /= 2)
        if (o < width)
            md_mix(p, md_shfl_xor(p, o));
    return p;
}

/* Greatest and least values of 32 lanes in one instruction, on integers of the same order; NaN beats all else. */
MD_INLINE int32_t md_order(float x)
{
    const int32_t b = (int32_t)md_u32(x + 0.0f);
    return b ^ (b >> 31 & 0x7fffffff);
}
MD_INLINE float md_of_order(int32_t k) { return md_f32((uint32_t)(k ^ (k >> 31 & 0x7fffffff))); }
MD_INLINE int32_t md_redux(int32_t k)
{
    int32_t r;
    asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(k));
    return r;
}
#define MD_REDUX(name, key)                                                                                            \
    MD_INLINE int32_t md_key_##name(float x) { return x != x ? 0x7fffffff : key(md_order(x)); }                        \
    MD_INLINE void md_redux_##name(float &x) { x = md_of_order(key(md_redux(md_key_##name(x)))); }                     \
    MD_INLINE void md_redux_arg##name(float &x, int32_t &i)                                                            \
    {                                                                                                                  \
        const int32_t k = md_key_##name(x), best = md_redux(k);                                                        \
        i = ~md_redux(k == best ? ~i : INT32_MIN);                                                                     \
        x = md_of_order(key(best));                                                                                    \
    }
MD_REDUX(max, )
MD_REDUX(min, ~)
#undef MD_REDUX

/* ---- A block: the first warp gets the result. What is in `room` is read before the block's next barrier. */
enum { MD_WARPS = MD_THREADS / 32 };
template <class P> struct md_block_room {
    md_parcel<P> part[MD_WARPS], all;
};
template <class P> MD_INLINE P md_mix_block(P p, md_block_room<P> &room, int t)
{
    const int lane = t & 31, warp = t >> 5;
    p = md_mix_warp(p, 32);
    if (MD_WARPS == 1)
        return p;
    if (lane == 0)
        room.part[warp] = md_wrap(p);
    __syncthreads();
    if (warp == 0) {
        p = room.part[lane % MD_WARPS].p;
        p = md_mix_warp(p, MD_WARPS);
    }
    return p;
}
/* Gives the first warp's value to all threads. */
template <class P> MD_INLINE P md_tell_block(P p, md_block_room<P> &room, int t)
{
    if (t == 0)
        room.all = md_wrap(p);
    __syncthreads();
    return room.all.p;
}

/* ---- A cluster (sm_90): every block writes its part into the others' shared memory. Two buffers alternate, so a block
 * may be one exchange ahead. */
enum { MD_MOST_CLUSTER = 16 };
template <class P> struct md_cluster_room {
    md_parcel<P> part[2][MD_MOST_CLUSTER];
};
#ifdef MD_CUDA_CLUSTER_H
/* `p` is in the first warp; afterwards md_from_cluster gives all blocks' parts to all threads. */
template <class P> MD_INLINE void md_to_cluster(P p, md_cluster_room<P> &room, int block, int blocks, int turn)
{
    const int t = (int)threadIdx.x;
    if (t < blocks) {
        const md_parcel<P> a = md_wrap(p);
        MD_FOR (i, 2 * md_parcel<P>::N)
            md_cluster_store(
                md_cluster_map(md_shared_address((uint32_t *)room.part[turn & 1][block].w + i), (uint32_t)t),
                (uint32_t)(a.w[i / 2] >> i % 2 * 32));
    }
    md_cluster_sync();
}
#endif

/* ---- A group of blocks of one grid. src/family/cuda/row/row_split.c knows this layout of the counters too: for every
 * power of 2 as the size of a group, and every group of that size, a head (the epoch, and a count of blocks that is
 * zero between launches) and two alternating sets of slots. */
enum { MD_KIND_BYTES = 131072, MD_SLOT_BYTES = 128, MD_HEAD_BYTES = 64, MD_HEADS = 256, MD_SLOTS_AT = 131072 };
MD_INLINE int md_kind(int blocks) { return 30 - __clz(blocks); }
/* 16 bytes: the epoch, the count. */
MD_INLINE uint32_t *md_head_of(void *counters, int group, int blocks)
{
    return (uint32_t *)((char *)counters + (md_kind(blocks) * MD_HEADS + group) * MD_HEAD_BYTES);
}
MD_INLINE char *md_slots_of(void *counters, int group, int blocks, uint32_t turn)
{
    return (char *)counters + MD_SLOTS_AT + md_kind(blocks) * MD_KIND_BYTES +
           (group * 2 + (int)(turn & 1)) * blocks * MD_SLOT_BYTES;
}
MD_INLINE uint32_t md_read_epoch(const uint32_t *head)
{
    uint32_t epoch;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(epoch) : "l"(head) : "memory");
    return epoch;
}
/* Slots hold copies of small parts: readers spread over the copies, else they would delay the posts. */
template <class P> MD_INLINE int md_copies() { return MD_COPIES ? MD_SLOT_BYTES / 16 / md_parcel<P>::N : 1; }
MD_INLINE void md_post_pair(char *slot, uint64_t w, uint32_t stamp)
{
    const uint64_t s = (uint64_t)stamp << 32, low = s | (uint32_t)w, high = s | w >> 32;
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(slot), "l"(low), "l"(high) : "memory");
}
/* 0 if the word was posted with that stamp. */
MD_INLINE uint32_t md_read_pair(uint64_t &w, const char *slot, uint32_t stamp)
{
    uint64_t low, high;
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(slot) : "memory");
    w = (low & 0xffffffffu) | high << 32;
    return ((uint32_t)(low >> 32) ^ stamp) | ((uint32_t)(high >> 32) ^ stamp);
}
/* Called by the first warp of block `block`; all its lanes have the part. */
template <class P> MD_INLINE void md_post(const P &p, char *slots, int lane, int block, int blocks, uint32_t stamp)
{
    static_assert(md_parcel<P>::N * 16 <= MD_SLOT_BYTES, "too much for a slot");
    const md_parcel<P> a = md_wrap(p);
    if (lane < md_copies<P>())
        MD_FOR (i, md_parcel<P>::N)
            md_post_pair(slots + ((lane * md_parcel<P>::N + i) * blocks + block) * 16, a.w[i], stamp);
}
/* Waits for the parts of blocks `lane`, lane + 32, ...; for blocks that do not exist it takes another block's. Called
 * by a warp. MD_BLOCKS: most blocks of a group. */
enum { MD_LOTS = (MD_BLOCKS + 31) / 32 };
template <class P> struct md_lot {
    P own[MD_LOTS];
};
template <class P>
MD_INLINE void md_collect(md_lot<P> &lot, const char *slots, int lane, int block, int blocks, uint32_t stamp)
{
    md_parcel<P> a[MD_LOTS];
    uint32_t wrong;
    slots += (block & (md_copies<P>() - 1)) * md_parcel<P>::N * blocks * 16;
    do { /* all lanes read all words at once; if one is missing, all are read again */
        wrong = 0;
        MD_FOR (k, MD_LOTS)
            MD_FOR (i, md_parcel<P>::N)
                wrong |= md_read_pair(a[k].w[i], slots + (i * blocks + ((lane + 32 * k) & (blocks - 1))) * 16, stamp);
    } while (wrong != 0);
    MD_FOR (k, MD_LOTS)
        lot.own[k] = a[k].p;
}
/* By ticket: the block that draws the last ticket finds all parts posted, or on their way. Called by a warp, after its
 * first thread posted. The count wraps to 0 by itself. */
MD_INLINE bool md_is_last(uint32_t *head, int blocks)
{
    uint32_t before = 0;
    if (md_lane_id() == 0)
        asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(head + 1), "r"(blocks - 1)
                     : "memory");
    return __shfl_sync(MD_ALL_LANES, before, 0) == (uint32_t)blocks - 1;
}

#endif
