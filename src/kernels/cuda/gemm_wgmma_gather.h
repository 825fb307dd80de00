/* The warpgroup that fills the ring where rows of operand A lie anywhere: all its threads copy pieces of them, one asks
 * the copy engine for the operands over the columns. A part of gemm_wgmma_rows.cu. */
#include "gemm_wgmma_lines.h"

/* Arrives at the barrier once all copies that the thread has begun are there. */
MD_INLINE void md_bar_arrive_copied(unsigned bar)
{
    MD_TEST_PAUSE(bar);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

MD_INLINE void md_produce(const md_params &p, const md_grid &g, unsigned tiles, unsigned full, unsigned empty, int rank,
                          int *lines)
{
    const int line = threadIdx.x / PIECES, piece = threadIdx.x % PIECES, depth = (int)md_points_depth(&p);
    const unsigned mine = line * 128 + ((piece ^ (line & 7)) << 4); /* in the swizzle of 128 bytes */
    int *points = lines + 2 * LINE_WORDS * MD_BM;
    md_ring r = {0, 0};
    int turn = 0;
    md_find_points(p, points);
    md_meet(4, FEEDERS);
    MD_ROLLED for (int t = blockIdx.x / MD_CLUSTER; t < g.all; t += gridDim.x / MD_CLUSTER)
    {
        const md_tile_at at = md_tile_of(g, t, rank);
        MD_FOR (i, (MD_BM + FEEDERS - 1) / FEEDERS)
            if (MD_BM % FEEDERS == 0 || threadIdx.x < MD_BM)
                md_find_line(p, at, threadIdx.x + i * FEEDERS, lines + turn, points);
        md_meet(4, FEEDERS);
        md_feed feed;
        feed.begin(p, lines + turn, points, line, md_step_of(g, at.slice) * (MD_DEEP * BK) + piece * 8);
        turn = LINE_WORDS * MD_BM - turn; /* the lines of a tile are read until the threads meet again */
        MD_ROLLED for (int i = md_step_of(g, at.slice); i < md_step_of(g, at.slice + 1); i++)
        {
            const unsigned bar = full + r.stage * 8;
            md_bar_wait(empty + r.stage * 8, r.phase ^ 1);
            MD_FOR (d, MD_DEEP) {
                const unsigned to = tiles + r.stage * STAGE_BYTES + d * SLICE_BYTES;
                const int k = (i * MD_DEEP + d) * BK;
                if (threadIdx.x == 0) {
                    if (d == 0)
                        md_bar_expect(bar, MD_DEEP * ACROSS_BYTES);
                    MD_FOR (q, MD_PRODUCTS)
                        md_copy<(MD_ALONG_1 == 2), MD_BN, ACROSS_PARTS>(to + DOWN_BYTES + q * ACROSS_ONE,
                                                                        q ? MD_MAP_2 : MD_MAP_1, at.column, k,
                                                                        at.batch * MD_BATCH_1, bar, rank);
                }
                unsigned from = to + mine;
                asm volatile("" : "+r"(from)); /* found once, not for each piece */
                feed.copy(from, k + piece * 8, depth);
            }
            md_bar_arrive_copied(bar);
            md_ring_next(r);
        }
    }
    md_wait_for_cluster(r, empty);
}
