/* The slice that a block has of a row (row_split.cu). It consists of whole vectors. The elements before the first and
 * after the last one are partial vectors, which the first block's first thread and the last block's last thread have.
 * If weights have to be shifted (MD_SHIFTS), the row's first and last whole vectors are treated likewise, by the next
 * and the last but one thread: then the memory around all other vectors may be read. */
#ifndef MD_CUDA_SLICE_H
#define MD_CUDA_SLICE_H

/* The part of a row that a thread has: every MD_THREADS-th whole vector of the block's slice, at distances that are
 * compile-time constants. It needs little arithmetic, since no load can start before. */
struct md_slice {
    int t, block, blocks; /* threadIdx.x, blockIdx.x, gridDim.x */
    int64_t number; /* of the row */
    md_pos n; /* elements of a row */
    md_pos at; /* position of its first vector */
    md_pos left; /* whole vectors of the slice from that one on */
    md_pos edge_at;
    md_span edge;
    md_pos head; /* elements of the row before the first boundary */
    uint32_t turn; /* exchanges so far */
    bool wait; /* true for all others: their slots are used again for the next row */
    bool has_row; /* in the first warp, if only one block gets the row's results: this one */
    uint32_t epoch; /* known to the first warp only */
    char *slots; /* of the first exchange, of the group's first block */
};
/* Keeps earlier loads in front: the assembler would move each to its first use. All lanes of a warp must reach it. */
#define MD_LOADS_FIRST __syncwarp()
/* Hides a value from the compiler, so that what is used late is not computed before the loop over rows, where loads
 * would wait for it. */
MD_INLINE int md_epilogue_loads(int v)
{
    asm volatile("" : "+r"(v));
    return v;
}
MD_INLINE void md_from_here(md_slice &s)
{
    s.t = md_epilogue_loads(s.t), s.block = md_epilogue_loads(s.block), s.blocks = md_epilogue_loads(s.blocks),
    s.n = md_epilogue_loads(s.n);
}
MD_INLINE bool md_has_vector(const md_slice &s, md_pos i) { return i * MD_THREADS < s.left; }
/* True if some lane of the warp has a vector at i. */
MD_INLINE bool md_warp_has_vector(const md_slice &s, md_pos i) { return i * MD_THREADS < s.left + (s.t & 31); }
MD_INLINE md_pos md_vector_at(const md_slice &s, md_pos i) { return s.at + i * (MD_THREADS * MD_VL); }
MD_INLINE bool md_has_edge(const md_slice &s) { return s.edge.hi > 0; }
MD_INLINE md_pos md_whole(md_pos n, md_pos lead)
{
    const md_pos whole = (md_pos)((uint32_t)(n - lead) / MD_VL) - MD_SHIFTS;
    return whole < 0 ? 0 : whole;
}
/* Vectors of a slice; slices begin at lines of memory. */
MD_INLINE md_pos md_per_block(md_pos whole, int blocks)
{
    const int shift = 31 - __clz(blocks); /* a power of 2 */
    return (((whole + blocks - 1) >> shift) + 7) & ~(md_pos)7;
}

/* `lead` elements precede the first whole vector of a slice. */
MD_INLINE void md_cut(md_slice &s, md_pos n, md_pos lead)
{
    const md_pos whole = md_whole(n, lead), per = md_per_block(whole, s.blocks), from = per * s.block,
                 rest = whole - from, t = (md_pos)s.t;
    s.left = (rest < per ? rest : per) - t;
    s.at = lead + (from + t) * MD_VL;
}
MD_INLINE void md_cut_edge(md_slice &s, md_pos n, md_pos lead)
{
    const md_pos rest = lead + md_whole(n, lead) * MD_VL;
    const int t = s.t;
    const bool is_first = s.block == 0, is_last = s.block == s.blocks - 1, is_head = is_first && t == 0 && s.head > 0;
    s.edge_at = is_head ? s.head - MD_VL : rest;
    s.edge.lo = is_head ? MD_VL - (int)s.head : 0;
    s.edge.hi = is_head ? MD_VL : is_last && t == MD_THREADS - 1 ? (int)(n - rest) : 0;
    if (MD_SHIFTS && is_first && t == 1) {
        s.edge_at = s.head;
        s.edge.hi = (int)(lead - s.head);
    } else if (MD_SHIFTS && is_last && t >= MD_THREADS - 2) {
        const int more = (int)(n - rest) - MD_VL;
        s.edge_at = rest + (t == MD_THREADS - 1 ? MD_VL : 0);
        s.edge.hi = t == MD_THREADS - 1 ? (more < 0 ? 0 : more) : MD_VL + (more < 0 ? more : 0);
    }
}
/* Elements of a block's slice; of a warp's part of it. */
MD_INLINE md_pos md_count_slice(const md_slice &s, md_pos n, md_pos lead, int block)
{
    const md_pos whole = md_whole(n, lead), tail = n - lead - whole * MD_VL, per = md_per_block(whole, s.blocks),
                 rest = whole - per * block;
    const md_pos vectors = rest < 0 ? 0 : rest < per ? rest : per;
    return vectors * MD_VL + (block == 0 ? lead : 0) + (block == s.blocks - 1 ? tail : 0);
}
MD_INLINE md_pos md_count_warp(const md_slice &s, md_pos n, md_pos lead)
{
    const md_pos left = s.left + (s.t & 31), rest = left % MD_THREADS, tail = n - lead - md_whole(n, lead) * MD_VL;
    const md_pos vectors = left <= 0 ? 0 : left / MD_THREADS * 32 + (rest < 32 ? rest : 32);
    const bool is_first = s.block == 0 && s.t < 32, is_last = s.block == s.blocks - 1 && s.t >= MD_THREADS - 32;
    return vectors * MD_VL + (is_first ? lead : 0) + (is_last ? tail : 0);
}

#endif
