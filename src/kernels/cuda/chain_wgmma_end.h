/* Parts of a tile meet. A part of chain_wgmma.cu. */
#ifndef MD_CUDA_CHAIN_WGMMA_END_H
#define MD_CUDA_CHAIN_WGMMA_END_H

#if MD_SPLIT > 1
/* Leaves the warpgroup's part of a tile in the workspace. True for the last one of the tile, which then has the sums of
 * all parts, added in their order. */
MD_INLINE bool md_meet_parts(md_sums &o, md_rows &r, const md_mine &m, const md_params &p, const md_places &s)
{
    const int own = threadIdx.x & 127;
    float *parts = md_chain_parts(&p) + (long long)(m.item * MD_GROUPS + m.group) * MD_SPLIT * PART;
    unsigned *ticket = md_chain_counter(&p) + 16 + m.item * MD_GROUPS + m.group;
    const unsigned drawn = s.drawn + threadIdx.x / 128 * 16;
    md_leave_part<128>(parts + m.split * PART, o, r, own);
    __threadfence();
    md_meet(MEET + 2 * MD_GROUPS + m.group, 128);
    if (own == 0)
        md_store_word(drawn, atomicAdd(ticket, 1u));
    md_meet(MEET + 2 * MD_GROUPS + m.group, 128);
    if (md_load_word(drawn) != MD_SPLIT - 1)
        return false;
    __threadfence();
    if (own == 0)
        *(volatile unsigned *)ticket = 0;
    md_take_parts<128>(o, r, parts, PART, own, m.scale);
    return true;
}
#endif

#endif
