/* The thread that fills the ring by the copy engine. A part of gemm_wgmma.cu and gemm_wgmma8.cu. */
/* Asks for the first bytes of the operand over the result's columns while earlier launches still run, if each of its
 * bytes is read by one block (or cluster) only: then it is most of what is read, as weights are for a few tokens. A
 * short launch before, or the end of a long one, leaves memory idle. More bytes would gain nothing, because they delay
 * what that launch reads. */
MD_INLINE void md_ask_early(const md_params &p, const md_grid &g, int rank)
{
    enum { BYTES = MD_SWAPPED ? DOWN_BYTES / DOWN_PARTS : ACROSS_BYTES / ACROSS_PARTS };
    const int t = blockIdx.x / MD_CLUSTER;
    if ((MD_SWAPPED ? g.columns : g.rows) > 1 || t >= g.all)
        return;
    const md_tile_at at = md_tile_of(g, t, rank);
    const int first = md_step_of(g, at.slice) * MD_DEEP, batch = at.batch * MD_BATCH_1,
              last = min(md_step_of(g, at.slice + 1) * MD_DEEP, first + MD_EARLY / BYTES);
    MD_ROLLED for (int i = first; i < last; i++) MD_FOR (q, MD_PRODUCTS)
    {
        const md_tensor_map *map = q ? MD_MAP_2 : MD_MAP_1;
        if (MD_SWAPPED)
            md_ask<(MD_ALONG_1 == 2), MD_BM, DOWN_PARTS>(map, at.row, i * BK, batch, rank);
        else
            md_ask<(MD_ALONG_1 == 2), MD_BN, ACROSS_PARTS>(map, at.column, i * BK, batch, rank);
    }
}

MD_INLINE void md_produce(const md_params &p, const md_grid &g, unsigned tiles, unsigned full, unsigned empty, int rank)
{
    md_ring r = {0, 0};
    /* The box as src/device/cuda/map.c makes it. Results of the other rows are computed but not stored. */
    const unsigned down_bytes =
        MD_SHRINKS && md_points_rows(&p) < MD_BM ? ((unsigned)md_points_rows(&p) + 7) / 8 * 1024 : DOWN_BYTES;
    for (int t = blockIdx.x / MD_CLUSTER; t < g.all; t += gridDim.x / MD_CLUSTER) {
        const md_tile_at at = md_tile_of(g, t, rank);
        const int down = at.batch * MD_DOWN(MD_BATCH_), across = at.batch * MD_ACROSS(MD_BATCH_);
#ifdef MD_SPANS
        const int from = at.from, first = 0, end = md_steps_at(g, t, rank);
#else
        const int from = 0, first = md_step_of(g, at.slice), end = md_step_of(g, at.slice + 1);
#endif
        for (int i = first; i < end; i++) {
            const unsigned bar = full + r.stage * 8;
            md_bar_wait(empty + r.stage * 8, r.phase ^ 1);
            md_bar_expect(bar, MD_DEEP * (down_bytes + ACROSS_BYTES));
            MD_FOR (d, MD_DEEP) {
                const unsigned to = tiles + r.stage * STAGE_BYTES + d * SLICE_BYTES;
                const int k = from + (i * MD_DEEP + d) * BK;
                MD_FOR (q, DOWN_BYTES / DOWN_ONE)
                    md_copy<(MD_DOWN(MD_ALONG_) == 2), MD_BM, DOWN_PARTS>(
                        to + q * DOWN_ONE, q ? MD_MAP_2 : &p.MD_DOWN(map), at.row, k, down, bar, rank);
                MD_FOR (q, ACROSS_BYTES / ACROSS_ONE)
                    md_copy<(MD_ACROSS(MD_ALONG_) == 2), MD_BN, ACROSS_PARTS>(to + DOWN_BYTES + q * ACROSS_ONE,
                                                                              q ? MD_MAP_2 : &p.MD_ACROSS(map),
                                                                              at.column, k, across, bar, rank);
            }
            md_ring_next(r);
        }
    }
    md_wait_for_cluster(r, empty);
}
