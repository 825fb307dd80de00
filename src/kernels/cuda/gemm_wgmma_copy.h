/* The ring of stages, and the copies that fill it. A part of gemm_wgmma.cu and gemm_wgmma8.cu. */
/* Down: along the tile's rows, with its operand; across: along its columns. A stage with two products has two operands
 * over the result's columns. */
#if MD_SWAPPED
#define MD_DOWN(operand) operand##1
#define MD_ACROSS(operand) operand##0
#define md_points_down md_points_columns
#define md_points_across md_points_rows
#else
#define MD_DOWN(operand) operand##0
#define MD_ACROSS(operand) operand##1
#define md_points_down md_points_rows
#define md_points_across md_points_columns
#endif

enum {
    BK = 128 / MD_OPERAND_BYTES, /* one row of the swizzle */
    THREADS = 128 * (MD_CONSUMERS + 1),
    WG_ROWS = MD_PINGPONG ? MD_BM : MD_BM / MD_CONSUMERS,
    BLOCKS = WG_ROWS / 64,
    BN64 = (MD_BN + 63) / 64,
    DOWN_ONE = MD_BM * 128, /* bytes of operand A of one product */
    DOWN_BYTES = (MD_SWAPPED ? MD_PRODUCTS : 1) * DOWN_ONE,
    ACROSS_ONE = (MD_ACROSS(MD_ALONG_) == 2) ? BN64 * 8192 : MD_BN * 128,
    ACROSS_BYTES = (MD_SWAPPED ? 1 : MD_PRODUCTS) * ACROSS_ONE,
    SLICE_BYTES = DOWN_BYTES + ACROSS_BYTES, /* of BK of K */
    STAGE_BYTES = MD_DEEP * SLICE_BYTES,
    DOWN_PARTS = MD_CLUSTER == 2 && MD_SHARE_A ? 2 : 1,
    ACROSS_PARTS = MD_CLUSTER == 2 && !MD_SHARE_A ? 2 : 1,
    PANEL = MD_PANEL, /* columns of the tile stored at once: 64, 32, 16, or 8 times an odd number */
    PITCH = PANEL + 4, /* of a panel of sums */
    /* of a warp */
    BUFFER_BYTES = MD_RESULT == 2 ? 0
                   : MD_RESULT    ? MD_PANELS * 16 * PANEL * 2
                                  : MD_PRODUCTS * 16 * PITCH * 4,
    PANEL_BYTES = 16 * PANEL * 2,
    WARP_BYTES = BLOCKS * (MD_BN / PANEL) * PANEL_BYTES, /* of all panels of a warp */
    PARTS_PITCH = MD_BN + 8, /* of a block's sums where slices meet */
    PARTS_BYTES = MD_CLUSTER_REDUCE ? MD_PRODUCTS * MD_BM * PARTS_PITCH * 4 : MD_CONSUMERS * 4 * BUFFER_BYTES,
    LAST_HAS_ROOM = MD_RESULT == 1 && !MD_PINGPONG && MD_CONSUMERS * 4 * WARP_BYTES <= MD_STAGES * STAGE_BYTES
};

#include "gemm_wgmma_tiles.h"

typedef struct md_ring {
    int stage;
    unsigned phase;
} md_ring;

MD_INLINE void md_ring_next(md_ring &r)
{
    if (++r.stage == MD_STAGES) {
        r.stage = 0;
        r.phase ^= 1;
    }
}

/* One part of an operand's tile: all of it, or this block's half for the whole cluster. */
template <bool along_rows, int rows, int parts>
MD_INLINE void md_copy(unsigned to, const md_tensor_map *map, int row, int k, int batch, unsigned bar, int rank)
{
    if (along_rows) {
        const int depth = BK / parts, at = parts == 2 ? rank * depth : 0;
        MD_FOR (i, (rows + 63) / 64) {
            MD_TEST_POISON(to + i * 8192 + at * 128, depth * 128);
            if (parts == 2)
                md_tma_load_all(to + i * 8192 + at * 128, map, row + i * 64, k + at, batch, bar, 3);
            else
                md_tma_load(to + i * 8192, map, row + i * 64, k, batch, bar);
        }
    } else if (parts == 2) {
        const int at = rank * (rows / 2);
        MD_TEST_POISON(to + at * 128, rows / 2 * 128);
        md_tma_load_all(to + at * 128, map, k, row + at, batch, bar, 3);
    } else {
        MD_TEST_POISON(to, rows * 128);
        md_tma_load(to, map, k, row, batch, bar);
    }
}

/* Brings into the L2 what md_copy would copy. */
template <bool along_rows, int rows, int parts>
MD_INLINE void md_ask(const md_tensor_map *map, int row, int k, int batch, int rank)
{
    if (along_rows)
        MD_FOR (i, (rows + 63) / 64)
            md_tma_ask(map, row + i * 64, k + (parts == 2 ? rank * (BK / 2) : 0), batch);
    else
        md_tma_ask(map, k, row + (parts == 2 ? rank * (rows / 2) : 0), batch);
}

/* The operand of a stage's second product. */
#if MD_PRODUCTS == 2
#define MD_MAP_2 &p.map2
#else
#define MD_MAP_2 nullptr
#endif

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
        const md_tensor_map *map = q ? MD_MAP_2 : &p.map1;
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
        for (int i = md_step_of(g, at.slice); i < md_step_of(g, at.slice + 1); i++) {
            const unsigned bar = full + r.stage * 8;
            md_bar_wait(empty + r.stage * 8, r.phase ^ 1);
            md_bar_expect(bar, MD_DEEP * (down_bytes + ACROSS_BYTES));
            MD_FOR (d, MD_DEEP) {
                const unsigned to = tiles + r.stage * STAGE_BYTES + d * SLICE_BYTES;
                const int k = (i * MD_DEEP + d) * BK;
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
    /* A block must not end before what the other one's threads say of its stages has arrived: that would come to a
     * block of the next launch, which begins early (md_wait_for_launches). */
    MD_ROLLED for (int i = 0; MD_CLUSTER > 1 && i < MD_STAGES; i++)
    {
        md_bar_wait(empty + r.stage * 8, r.phase ^ 1);
        md_ring_next(r);
    }
}

MD_INLINE void md_release(unsigned bar)
{
    const int lane = threadIdx.x & 31;
    if (MD_CLUSTER == 1) {
        if (lane == 0)
            md_bar_arrive(bar);
    } else if (lane < 2) {
        md_bar_arrive_at(bar, lane);
    }
}

#if MD_ROLLED_PANELS
#define MD_PANEL_LOOP MD_ROLLED
#else
#define MD_PANEL_LOOP MD_UNROLL
#endif

typedef float md_tile[MD_PRODUCTS][BLOCKS][MD_BN / 2];
