/* Products on Hopper's tensor cores. TMA brings tiles into a ring of stages; one warpgroup issues the copies, one or
 * two compute. Cooperative: the computing warpgroups share a tile by rows. Ping-pong: they take tiles alternately, so
 * that the epilogue of one overlaps the products of the other. The grid is persistent. A cluster of two shares an
 * operand by multicast; or the blocks of a cluster split K and add their sums through each other's shared memory.
 * Swapped: the tile is one of the transposed product, so its rows are columns of the result.
 *
 * md_config.h:
 *   MD_BM, MD_BN                the tile
 *   MD_SWAPPED                  1: the tile's rows are columns of the result, and its columns are rows
 *   MD_STAGES, MD_DEEP          stages of the ring; 128-byte steps of K in a stage
 *   MD_CONSUMERS, MD_PINGPONG   computing warpgroups (1 or 2); whether they take tiles alternately
 *   MD_CLUSTER, MD_SHARE_A      blocks that share an operand (1, 2); whether they run along the columns and share A,
 *                               else along the rows and share B
 *   MD_ALONG_0, MD_ALONG_1      1: the operand is contiguous along K, 2: along its rows
 *   MD_BATCH_0, MD_BATCH_1      0: the operand has no batch
 *   MD_RASTER                   rows of tiles walked together
 *   MD_OPERAND_BYTES            2, or 4: tf32, along K
 *   MD_EARLY                    bytes of B that a block asks for before it waits for earlier launches
 *   MD_SHRINKS                  no more rows are copied than exist, if they are fewer than a tile has
 *   MD_READS                    the epilogue in registers reads tensors along the columns
 *   MD_LOW, MD_HIGH             registers of copying and computing threads
 *   MD_PANEL, MD_PANELS         columns of a buffer of results; buffers of a warp
 *   MD_RESULT                   epilogue: 1 in registers, results by TMA; 2 in registers, results by words at any even
 *                               address; 0 by md_store_tile
 *   MD_ROLLED_PANELS            a loop over panels instead of a text for each
 *   MD_SPLIT                    slices of K
 *   MD_CLUSTER_REDUCE           1: the slices of a tile are a cluster; 0: they go to the workspace
 *   md_wgmma(acc, a, b)         the instruction for the tile's columns
 * md_expr.h: src/codegen/product/product.h; md_params begins with md_tensor_map of A, B, the second B where there is
 * one, and the results with MD_RESULT. */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "wgmma.h"

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

/* Computes the sums of one tile, stage by stage. A stage is released when the next one's products have been issued. */
MD_INLINE void md_multiply(md_tile &acc, md_ring &r, int steps, unsigned tiles, unsigned full, unsigned empty)
{
    unsigned before = empty;
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (b, BLOCKS)
            MD_FOR (i, MD_BN / 2)
                acc[q][b][i] = 0;
    MD_ROLLED for (int i = 0; i < steps; i++)
    {
        const unsigned stage = tiles + r.stage * STAGE_BYTES;
        const unsigned first = MD_PINGPONG ? 0 : (threadIdx.x / 128 - 1) * (WG_ROWS * 128);
        md_bar_wait(full + r.stage * 8, r.phase);
        md_wgmma_fence();
        MD_FOR (k, 4 * MD_DEEP) { /* of 32 bytes */
            const unsigned slice = stage + k / 4 * SLICE_BYTES,
                           down = slice + first + k % 4 * (MD_DOWN(MD_ALONG_) == 2 ? 2048 : 32);
            const unsigned across = slice + DOWN_BYTES + k % 4 * (MD_ACROSS(MD_ALONG_) == 2 ? 2048 : 32);
            MD_FOR (q, MD_PRODUCTS) {
                const unsigned long long right = md_wgmma_matrix(across + (MD_SWAPPED ? 0 : q * ACROSS_ONE), 8192);
                MD_FOR (m, BLOCKS)
                    md_wgmma(acc[q][m], md_wgmma_matrix(down + (MD_SWAPPED ? q * DOWN_ONE : 0) + m * 8192, 8192),
                             right);
            }
        }
        md_wgmma_commit();
        md_wgmma_wait<1>();
        if (i > 0)
            md_release(before);
        before = empty + r.stage * 8;
        md_ring_next(r);
    }
    md_wgmma_wait<0>();
#if MD_SWAPPED /* otherwise the compiler would choose between sums while they are added up */
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (b, BLOCKS)
            MD_FOR (i, MD_BN / 2)
                asm volatile("" : "+f"(acc[q][b][i])::"memory");
#endif
    if (steps > 0)
        md_release(before);
}

#if MD_PRODUCTS == 2
#define MD_MAP_OF_RESULT map3
#else
#define MD_MAP_OF_RESULT map2
#endif

#include "gemm_wgmma_epilogue.h"

MD_INLINE void md_consume(const md_params &p, const md_grid &g, unsigned tiles, unsigned full, unsigned empty,
                          unsigned char *ring, unsigned char *buffers, int rank)
{
    const int group = threadIdx.x / 128 - 1, step = gridDim.x / MD_CLUSTER;
    unsigned char *mine = buffers + (threadIdx.x / 32 - 4) * BUFFER_BYTES;
    int t = blockIdx.x / MD_CLUSTER;
    unsigned turn = 0; /* which of the buffers is next */
    unsigned done = 0; /* stages of the tiles before this one */
    md_tile acc;
    md_ring r = {0, 0};
    if (MD_PINGPONG && group == 1) {
        t += step;
        done = g.steps;
        md_meet_arrive(1, 256);
    }
    for (; t < g.all; t += MD_PINGPONG ? 2 * step : step) {
        if (MD_PINGPONG) {
            r.stage = done % MD_STAGES;
            r.phase = done / MD_STAGES & 1;
            done += 2 * g.steps;
            md_meet(1 + group, 256);
        }
        const md_tile_at at = md_tile_of(g, t, rank);
        md_multiply(acc, r, md_step_of(g, at.slice + 1) - md_step_of(g, at.slice), tiles, full, empty);
        if (MD_PINGPONG)
            md_meet_arrive(2 - group, 256);
        const bool is_last = LAST_HAS_ROOM && t + step >= g.all;
        if (is_last) { /* the ring is free once both groups have multiplied */
            if (MD_CONSUMERS == 2)
                md_meet(3, 256);
            mine = ring + (threadIdx.x / 32 - 4) * WARP_BYTES;
            turn = 0;
        }
#if MD_CLUSTER_REDUCE
        md_results_of_slices(p, acc, at, buffers, empty + MD_STAGES * 8, turn);
        turn ^= 1;
#else
        md_results(p, acc, at, mine, turn, is_last);
#endif
    }
#if MD_CLUSTER_REDUCE
    md_bar_wait_cluster(empty + MD_STAGES * 8 + 8, turn ^ 1); /* no block sends to these buffers any more */
#endif
    if (MD_RESULT == 1 && (threadIdx.x & 31) == 0)
        md_tma_wait_read<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
    const unsigned start = md_shared_address(md_memory), base = (start + 1023) & ~1023u,
                   after = base + MD_STAGES * STAGE_BYTES;
    const unsigned full = after + PARTS_BYTES, empty = full + MD_STAGES * 8;
    unsigned char *buffers = md_memory + (after - start);
    const md_grid g = md_grid_of(p);
    const int rank = MD_CLUSTER == 2 ? md_cluster_rank() : 0;
    if (threadIdx.x == 0) {
        md_tma_prefetch(&p.map0);
        md_tma_prefetch(&p.map1);
        for (int i = 0; i < MD_STAGES; i++) {
            md_bar_init(full + i * 8, 1);
            md_bar_init(empty + i * 8, 4 * (MD_PINGPONG ? 1 : MD_CONSUMERS) * MD_CLUSTER);
        }
        for (int i = 0; i < 2 * MD_CLUSTER_REDUCE; i++)
            md_bar_init(empty + (MD_STAGES + i) * 8, 4 * MD_CONSUMERS * MD_SPLIT);
        md_bar_init_fence();
    }
    if (MD_CLUSTER == 2 || MD_CLUSTER_REDUCE)
        md_cluster_meet();
    else
        __syncthreads();
    if (threadIdx.x == 0)
        md_ask_early(p, g, rank);
    md_wait_for_launches();
    if (threadIdx.x < 128) {
        if (MD_CONSUMERS == 2)
            md_registers_down<MD_LOW>();
        if (threadIdx.x == 0)
            md_produce(p, g, base, full, empty, rank);
#if MD_READS
        if (threadIdx.x / 32 == 1)
            md_read_ahead(p, g, rank);
#endif
    } else {
        if (MD_CONSUMERS == 2) /* two warpgroups have enough registers without */
            md_registers_up<MD_HIGH>();
        md_consume(p, g, base, full, empty, md_memory + (base - start), buffers, rank);
    }
    __syncwarp();
    if (MD_CLUSTER == 2 || MD_CLUSTER_REDUCE)
        md_cluster_meet();
}
