/* What a block has of a row that is cut (row_split.cu): a slice. It is whole vectors; what is in front of the first
 * and behind the last is a vector with a span, which the first block's first thread and the last block's last thread
 * have. Where weights have to be shifted (MD_SHIFTS), a row's first and last whole vectors are such as well, of the
 * next and the last but one thread: those of the others may be read with what stands beside them. */
#ifndef MD_CUDA_SLICE_H
#define MD_CUDA_SLICE_H

/* What a thread has of a row: every MD_THREADSth whole vector of the block's slice, at distances that the compiler
 * knows. Little arithmetic, since nothing can be loaded before. */
struct md_slice {
    int t, block, blocks; /* threadIdx.x, blockIdx.x, gridDim.x */
    int64_t number; /* of the row */
    md_pos n; /* elements of a row */
    md_pos at; /* position of its first vector */
    md_pos left; /* whole vectors of the slice from that one on */
    md_pos edge_at;
    md_span edge;
    md_pos head; /* elements of the row in front of the first boundary */
    uint32_t turn; /* exchanges so far */
    bool wait; /* for the others in any case: their slots are used again for the next row */
    bool has_row; /* in the first warp, where only one block gets the row's results: this one */
    uint32_t epoch; /* in the first warp */
    char *slots; /* of the first exchange, of the group's first block */
};
/* Loads in front of it stay there: the assembler would move each to its first use. All lanes of a warp come here. */
#define MD_LOADS_FIRST __syncwarp()
/* Hides a value from the compiler: what is wanted late shall not be computed in front of the loop over rows, where
 * loads would wait for it. */
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
/* The same for all lanes of a warp. */
MD_INLINE bool md_warp_has_vector(const md_slice &s, md_pos i) { return i * MD_THREADS < s.left + (s.t & 31); }
MD_INLINE md_pos md_vector_at(const md_slice &s, md_pos i) { return s.at + i * (MD_THREADS * MD_VL); }
MD_INLINE bool md_has_edge(const md_slice &s) { return s.edge.hi > 0; }
MD_INLINE md_pos md_whole(md_pos n, md_pos lead)
{
    const md_pos whole = (md_pos)((uint32_t)(n - lead) / MD_VL) - MD_SHIFTS;
    return whole < 0 ? 0 : whole;
}
/* Vectors of a slice; slices begin where lines of memory do. */
MD_INLINE md_pos md_per_block(md_pos whole, int blocks)
{
    const int shift = 31 - __clz(blocks); /* a power of 2 */
    return (((whole + blocks - 1) >> shift) + 7) & ~(md_pos)7;
}

/* `lead` elements stand in front of the first whole vector of a slice. */
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
/* Elements of a block's slice; of what a warp has of its block's. */
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
