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

/* The tensor maps of the operands over the result's columns: of the first product and of the second. A second tile
 * has its own (gemm_wgmma_second.h). */
#ifndef MD_MAP_1
#define MD_IS_SECOND 0
#define MD_MOVES_REGISTERS (MD_CONSUMERS == 2) /* two warpgroups have enough registers without */
#ifdef MD_GATHERS
#define MD_MAP_1 &p.map0
#else
#define MD_MAP_1 &p.map1
#endif
#if MD_PRODUCTS == 2 && defined MD_GATHERS
#define MD_MAP_2 &p.map1
#elif MD_PRODUCTS == 2
#define MD_MAP_2 &p.map2
#else
#define MD_MAP_2 nullptr
#endif
#endif

/* A block must not end before what the other one's threads say of its stages has arrived: that would come to a block of
 * the next launch, which begins early (md_wait_for_launches). */
MD_INLINE void md_wait_for_cluster(md_ring r, unsigned empty)
{
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
