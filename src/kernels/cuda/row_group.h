/* The layout of rows on threads, and exchanges inside a group. MD_GROUP threads own a row; MD_BLOCK_ROWS groups are a
 * block. Whole vectors of MD_VL elements start at the row's first boundary, thread after thread. The two ends, each
 * shorter than a vector, go to the first two threads. So vectors are aligned in rows of any length, and only the ends
 * need masks. If weights have to be shifted (MD_SHIFTS), the first and the last whole vector count as ends too, of the
 * next two threads: then the memory around all other vectors may be read. */
#ifndef MD_CUDA_ROW_GROUP_H
#define MD_CUDA_ROW_GROUP_H

#ifndef MD_BLOCK_ROWS
#define MD_BLOCK_ROWS 1
#endif
#ifndef MD_MIN_BLOCKS
#define MD_MIN_BLOCKS 1
#endif
#define MD_BLOCK_THREADS (MD_GROUP * MD_BLOCK_ROWS)
enum { MD_GROUP_WARPS = MD_GROUP / 32, MD_STEP = MD_GROUP * MD_VL };

/* Keeps earlier loads in front: the assembler would move each to its only use, and wait for one after the other. All
 * lanes of a warp must reach it. */
#define MD_LOADS_FIRST __syncwarp()

/* Vectors of a thread that its row may not have. All are computed, without branches, so that later passes need not
 * compute them again; loads, stores and sums are skipped. This does not pay for single elements (strided access).
 * MD_HAS_ENDS 0: rows are whole vectors. */
#ifndef MD_GUARDED
#define MD_GUARDED 0
#endif
#ifndef MD_HAS_ENDS
#define MD_HAS_ENDS 1
#endif
#if MD_GUARDED
#define MD_WHERE(i)
#define MD_ALL(i) md_when((i) < md_sure || (i)*MD_GROUP < at.left, md_full())
#else
#define MD_WHERE(i) if ((i)*MD_GROUP < at.left)
#define MD_ALL(i) md_full()
#endif

/* Rows of single elements go to code for as many of a thread as their length needs, of which the last MD_UNSURE alone
 * are asked for. A predicate for each, in each pass, would be a third of the instructions, and there are seven, so that
 * with more the assembler waits for one load before it starts the next. Other rows, and those of a warp whose lengths
 * differ, go to code for all lengths.
 *   md_own    elements or vectors of a thread, in templates over it; elsewhere all
 *   md_sure   as many of them are there */
enum { md_own = MD_VECTORS, md_sure = 0 };
enum {
    MD_UNSURE = MD_VECTORS > 16 ? 4 : 2,
    MD_LEAST_OWN = !MD_GUARDED || MD_VL > 1     ? MD_VECTORS
                   : MD_VECTORS > 4 * MD_UNSURE ? MD_VECTORS - 4 * MD_UNSURE
                                                : MD_UNSURE
};
/* True if all rows of the warp need `own` elements, of which all but the last MD_UNSURE are sure: rows of `least` to
 * `most` elements. */
MD_INLINE bool md_are_sure(md_pos least, md_pos most, int own)
{
    const bool are = least >= (own - MD_UNSURE) * MD_GROUP && most <= own * MD_GROUP;
    return MD_GROUP < 32 ? __all_sync(MD_ALL_LANES, are) : are;
}

/* What rows' own stores compute of sizes alone, while elements are on their way (templates with MD_CALLS_EARLY). */
#ifdef MD_HAS_EARLY
#define MD_DERIVE_EARLY(row) md_derive_early(MD_X p, row);
#else
#define MD_DERIVE_EARLY(row)
#endif

/* Forgets unpacked values between passes, if they would take too many registers. */
#define MD_FORGET                                                                                                      \
    MD_FOR (i, MD_UNPACK_ONCE ? 0 : md_own)                                                                            \
        md_forget(&elem[i]);

/* The part of a row that a thread has. Positions count from the row's first element. */
struct md_layout {
    /* position of this thread's first vector, for loads and stores: one address is computed, the others are at fixed
     * distances from it */
    int64_t first;
    md_pos place; /* the same position, from which vectors are counted */
    md_pos left; /* whole vectors from there on, in steps of MD_GROUP; <= 0: none */
    /* of the warp's first thread (MD_GROUP >= 32), so that the lanes of a warp loop together */
    md_pos warp_left;
    md_pos edge_at;
    md_span edge; /* the part of the ends that this thread has; hi 0: none */
};
MD_INLINE md_layout md_lay_out(md_pos n, md_pos lead, int lane)
{
    const md_pos head = MD_ALIGNED ? 0 : lead < n ? lead : n, whole = (n - head) / MD_VL, rest = head + whole * MD_VL;
    const md_pos apart = MD_SHIFTS ? 1 : 0, vectors = whole - 2 * apart;
    md_layout r;
    r.place = head + (lane + apart) * MD_VL;
    r.first = r.place;
    asm("" : "+l"(r.first)); /* otherwise the compiler knows its low bits, and computes each address from scratch */
    r.left = vectors - lane;
    r.warp_left = vectors - lane / 32 * 32;
    r.edge_at = lane == 0 ? 0 : rest;
    r.edge.lo = 0;
    r.edge.hi = lane == 0 ? (int)head : lane == 1 ? (int)(n - rest) : 0;
    if (MD_SHIFTS && (lane & ~1) == 2) {
        r.edge_at = lane == 2 ? head : rest - MD_VL;
        r.edge.hi = whole >= lane - 1 ? MD_VL : 0;
    }
    return r;
}

MD_INLINE void md_group_barrier(int group)
{
    if (MD_BLOCK_ROWS == 1 || MD_BLOCK_ROWS > 15)
        __syncthreads();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(MD_GROUP) : "memory");
}

/* Gives all threads of the group the combined parts, in an order that depends only on the number of threads. One
 * barrier: each exchange of a kernel has slots of its own. With few warps every thread reads all parts; with many there
 * is a second round of shuffles. */
template <class P, class Tree, class Combine, class Clear>
MD_INLINE void md_exchange(P *part, int group, Tree tree, Combine combine, Clear clear, bool is_short)
{
    tree(part, MD_GROUP < 32 ? MD_GROUP : 32);
    if (MD_GROUP <= 32)
        return;
    __shared__ P slots[MD_BLOCK_ROWS][MD_GROUP_WARPS > 0 ? MD_GROUP_WARPS : 1];
    P *slot = slots[group];
    if (md_lane_id() == 0)
        slot[threadIdx.x % MD_GROUP / 32] = *part;
    md_group_barrier(group);
    if (MD_GROUP_WARPS * (int)sizeof(P) <= 64 && MD_GROUP_WARPS <= (is_short ? 2 : 8)) {
        *part = slot[0];
        MD_UNROLL for (int w = 1; w < MD_GROUP_WARPS; w++) combine(part, &slot[w]);
        return;
    }
    const int span = is_short || MD_GROUP_WARPS > 16 ? 32
                     : MD_GROUP_WARPS > 8            ? 16
                     : MD_GROUP_WARPS > 4            ? 8
                     : MD_GROUP_WARPS > 2            ? 4
                                                     : 2;
    const int w = md_lane_id() % span;
    if (w < MD_GROUP_WARPS)
        *part = slot[w];
    else
        clear(part);
    tree(part, span);
}

/* Level l for the whole group: combines the threads' `part`, or their `acc`, to the row's results. */
#define MD_EXCHANGE_PART(l)                                                                                            \
    md_exchange(                                                                                                       \
        &part, group, [](md_part##l *a, int width) { md_tree##l(a, width); },                                          \
        [](md_part##l *a, const md_part##l *b) { md_combine##l(a, b); }, [](md_part##l *a) { md_clear_part##l(a); },   \
        MD_TREE_IS_SHORT##l);                                                                                          \
    md_finish##l(MD_X p, &row, &part);
#define MD_EXCHANGE_LEVEL(l, acc)                                                                                      \
    {                                                                                                                  \
        md_part##l part;                                                                                               \
        md_fold##l(&part, &acc);                                                                                       \
        MD_EXCHANGE_PART(l)                                                                                            \
    }

#endif
