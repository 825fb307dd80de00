/* Products on Hopper's tensor cores: TMA brings tiles into a ring of stages, one warpgroup issues the copies, one or
 * two compute. Cooperative: the computing warpgroups share a tile by rows. Ping-pong: they take turns with whole
 * tiles, so that the epilogue of one runs under the products of the other. The grid is persistent; clusters of two
 * share an operand by multicast; or the blocks of a cluster split K among them and add up what they have through
 * each other's shared memory.
 *
 * md_config.h: MD_BM, MD_BN (the tile), MD_STAGES, MD_DEEP (times 128 bytes of K a stage), MD_CONSUMERS (1 or 2),
 * MD_PINGPONG, MD_CLUSTER (1, 2), MD_SHARE_A (the cluster runs along the columns and shares A; else along the rows
 * and shares B), MD_ALONG_0, MD_ALONG_1 (1: the operand lies along K, 2: along its rows), MD_BATCH_0, MD_BATCH_1 (0:
 * the operand has no batch), MD_RASTER (rows of tiles walked together), MD_OPERAND_BYTES (2, or 4: tf32, along K),
 * MD_SHRINKS (where there are fewer rows than a tile has, no more are copied), MD_READS (the epilogue in registers
 * reads tensors along the columns), MD_LOW, MD_HIGH (registers of copying and computing threads), MD_PANEL and
 * MD_PANELS (columns of a buffer of results; buffers a warp), MD_RESULT (epilogue: 1 in registers, results by TMA; 2
 * in registers, results by words at any even address; 0 by md_store_tile), MD_ROLLED_PANELS, MD_SPLIT (slices of K),
 * MD_CLUSTER_REDUCE (1: those of a tile are a cluster; 0: of the workspace), and md_wgmma(acc, a, b), the instruction for the
 * tile's columns. md_expr.h: src/codegen/product.h; md_params begins with md_tensor_map of A, B, the second B where
 * there is one, and the results with MD_RESULT. */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "wgmma.h"

enum {
    BK = 128 / MD_OPERAND_BYTES, /* one row of the swizzle */
    THREADS = 128 * (MD_CONSUMERS + 1),
    WG_ROWS = MD_PINGPONG ? MD_BM : MD_BM / MD_CONSUMERS,
    BLOCKS = WG_ROWS / 64,
    BN64 = (MD_BN + 63) / 64,
    A_BYTES = MD_BM * 128,
    B_ONE = (MD_ALONG_1 == 2) ? BN64 * 8192 : MD_BN * 128, /* of one product */
    B_BYTES = MD_PRODUCTS * B_ONE,
    SLICE_BYTES = A_BYTES + B_BYTES, /* of BK of K */
    STAGE_BYTES = MD_DEEP * SLICE_BYTES,
    A_PARTS = MD_CLUSTER == 2 && MD_SHARE_A ? 2 : 1,
    B_PARTS = MD_CLUSTER == 2 && !MD_SHARE_A ? 2 : 1,
    PANEL = MD_PANEL, /* columns stored at once: 64, 32, 16, or 8 times an odd number */
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

typedef struct md_tile_at {
    int batch, row, column, slice; /* of a block's tile */
} md_tile_at;

typedef struct md_grid {
    int rows, columns, steps; /* tiles of a cluster along rows and columns; of K */
    int all; /* tiles of all batches and slices */
} md_grid;

MD_INLINE md_grid md_grid_of(const md_params &p)
{
    const int rows = MD_BM * (MD_SHARE_A ? 1 : MD_CLUSTER), columns = MD_BN * (MD_SHARE_A ? MD_CLUSTER : 1);
    md_grid g;
    g.rows = (int)((md_points_rows(&p) + rows - 1) / rows);
    g.columns = (int)((md_points_columns(&p) + columns - 1) / columns);
    g.steps = (int)((md_points_depth(&p) + MD_DEEP * BK - 1) / (MD_DEEP * BK));
    g.all = g.rows * g.columns * (int)md_points_batch(&p) * MD_SPLIT;
    return g;
}

/* Tile t in an order that stays in a band of MD_RASTER tiles of rows. */
MD_INLINE md_tile_at md_tile_of(const md_grid &g, int t, int rank)
{
    const int plane = g.rows * g.columns, band = MD_RASTER * g.columns;
    md_tile_at at;
    at.slice = MD_SPLIT > 1 ? t % MD_SPLIT : 0;
    t /= MD_SPLIT;
    /* Most grids have one batch and one band: divisions are what a small product waits for before its first copy. */
    at.batch = t < plane ? 0 : t / plane;
    t -= at.batch * plane;
    const int number = t < band ? 0 : t / band, first = number * MD_RASTER, height = min(g.rows - first, MD_RASTER);
    t -= number * band;
    at.row = first + t % height;
    at.column = t / height;
    if (MD_CLUSTER == 2 && MD_SHARE_A)
        at.column = at.column * 2 + rank;
    else if (MD_CLUSTER == 2)
        at.row = at.row * 2 + rank;
    at.row *= MD_BM;
    at.column *= MD_BN;
    return at;
}

/* Steps of K in front of a slice. */
MD_INLINE int md_step_of(const md_grid &g, int slice)
{
    return MD_SPLIT > 1 ? (int)((long long)g.steps * slice / MD_SPLIT) : slice * g.steps;
}

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

/* One part of an operand's tile: all of it, or this block's half for everybody. */
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

MD_INLINE void md_produce(const md_params &p, const md_grid &g, unsigned tiles, unsigned full, unsigned empty, int rank)
{
    md_ring r = {0, 0};
    /* As device/cuda_map.c makes the box. What lies in the other rows is computed with, and stored by nobody. */
    const unsigned a_bytes =
        MD_SHRINKS && md_points_rows(&p) < MD_BM ? ((unsigned)md_points_rows(&p) + 7) / 8 * 1024 : A_BYTES;
    for (int t = blockIdx.x / MD_CLUSTER; t < g.all; t += gridDim.x / MD_CLUSTER) {
        const md_tile_at at = md_tile_of(g, t, rank);
        for (int i = md_step_of(g, at.slice); i < md_step_of(g, at.slice + 1); i++) {
            const unsigned bar = full + r.stage * 8;
            md_bar_wait(empty + r.stage * 8, r.phase ^ 1);
            md_bar_expect(bar, MD_DEEP * (a_bytes + B_BYTES));
            MD_FOR (d, MD_DEEP) {
                const unsigned to = tiles + r.stage * STAGE_BYTES + d * SLICE_BYTES;
                const int k = (i * MD_DEEP + d) * BK;
                md_copy<(MD_ALONG_0 == 2), MD_BM, A_PARTS>(to, &p.map0, at.row, k, at.batch * MD_BATCH_0, bar, rank);
                md_copy<(MD_ALONG_1 == 2), MD_BN, B_PARTS>(to + A_BYTES, &p.map1, at.column, k, at.batch * MD_BATCH_1,
                                                           bar, rank);
#if MD_PRODUCTS == 2
                md_copy<(MD_ALONG_1 == 2), MD_BN, B_PARTS>(to + A_BYTES + B_ONE, &p.map2, at.column, k,
                                                           at.batch * MD_BATCH_1, bar, rank);
#endif
            }
            md_ring_next(r);
        }
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

/* The sums of one tile. Stage by stage; a stage is given back when the next one's products are under way. */
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
                           a = slice + first + k % 4 * (MD_ALONG_0 == 2 ? 2048 : 32);
            const unsigned b = slice + A_BYTES + k % 4 * (MD_ALONG_1 == 2 ? 2048 : 32);
            MD_FOR (q, MD_PRODUCTS) {
                const unsigned long long mb = md_wgmma_matrix(b + q * B_ONE, 8192);
                MD_FOR (m, BLOCKS)
                    md_wgmma(acc[q][m], md_wgmma_matrix(a + m * 8192, 8192), mb);
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
    if (steps > 0)
        md_release(before);
}

#if MD_PRODUCTS == 2
#define MD_MAP_OF_RESULT map3
#else
#define MD_MAP_OF_RESULT map2
#endif

#if MD_RESULT
MD_N_DECL MD_INLINE unsigned md_pair(const md_params &p, const float *acc, const float *acc1, int batch, int row,
                                     int column, md_n_t n)
{
    const md_v sums = {{acc[0], acc[1]}}, others = {{acc1[0], acc1[1]}};
    return md_result(&p, batch, row, column, sums, others, n);
}

#if MD_READS
/* What the epilogue reads along the columns: read by a warp that has nothing else to do, so that it lies near when
 * the sums are there. */
MD_INLINE void md_read_ahead(const md_params &p, const md_grid &g, int rank)
{
    const float none[2] = {0, 0};
    for (int t = blockIdx.x / MD_CLUSTER; t < g.all; t += gridDim.x / MD_CLUSTER) {
        const md_tile_at at = md_tile_of(g, t, rank);
        MD_ROLLED for (int c = (threadIdx.x & 31) * 2; c < MD_BN; c += 64)
        {
            const md_span span = {
                0, at.row >= (int)md_points_rows(&p) ? 0 : min((int)md_points_columns(&p) - at.column - c, 2)};
            if (span.hi > 0)
                asm volatile("" ::"r"(md_pair(p, none, none, at.batch, at.row, at.column + c, span)));
        }
    }
}
#endif

/* A panel of a warp's 16 rows as it is stored: pairs of columns, eight columns by eight columns, of the first eight
 * rows and of the others. What lies beyond the last row or column is made of the last one, and stored by nobody: a
 * text with masks is twice as long, and waits for each of its loads. */
MD_INLINE void md_pairs(unsigned (&out)[PANEL / 4], const md_params &p, const float *acc, const float *acc1,
                        const md_tile_at &at, int row, int column)
{
    const int lane = threadIdx.x & 31, last_row = (int)md_points_rows(&p) - 1, columns = (int)md_points_columns(&p);
    const int rows[2] = {min(row + lane / 4, last_row), min(row + lane / 4 + 8, last_row)};
    if (MD_RESULT == 1 || column + PANEL <= columns)
        MD_FOR (j, PANEL / 4)
            out[j] = md_pair(p, acc + j * 2, acc1 + j * 2, at.batch, rows[j % 2],
                             min(column + j / 2 * 8 + lane % 4 * 2, columns - 2), md_full());
    else
        MD_FOR (j, PANEL / 4) {
            const int c = column + j / 2 * 8 + lane % 4 * 2;
            const md_span span = {0, min(columns - c, 2)};
            out[j] = md_pair(p, acc + j * 2, acc1 + j * 2, at.batch, rows[j % 2], c, span);
        }
}

#if MD_RESULT == 2
/* Four threads have the columns of a row. Where the row begins at an odd half of a word, each gives its first column
 * to the one before it. */
MD_INLINE void md_store_row(const unsigned (&out)[PANEL / 4], int half, uint16_t *to, int columns)
{
    const int lane = threadIdx.x & 31, q = lane & 3, odd = (int)((uintptr_t)to >> 1 & 1);
    if (odd && q == 0 && columns > 0)
        to[0] = (uint16_t)out[half];
    MD_FOR (j, PANEL / 8) {
        const unsigned mine = out[j * 2 + half], given = q > 0 ? mine : j + 1 < PANEL / 8 ? out[(j + 1) * 2 + half] : 0;
        const unsigned next = __shfl_sync(~0u, given, (lane & ~3) | ((q + 1) & 3)),
                       word = odd ? __funnelshift_r(mine, next, 16) : mine;
        const int c = j * 8 + q * 2 + odd;
        if (c + 1 < min(columns, PANEL))
            *(uint32_t *)(to + c) = word;
        else if (c < columns)
            to[c] = (uint16_t)word;
    }
}

/* Straight to memory. */
MD_INLINE void md_panel(const md_params &p, const float *acc, const float *acc1, const md_tile_at &at, int row,
                        int column, unsigned, unsigned &, bool)
{
    unsigned out[PANEL / 4];
    md_pairs(out, p, acc, acc1, at, row, column);
    MD_FOR (half, 2) {
        const int r = row + (threadIdx.x & 31) / 4 + half * 8;
        md_store_row(out, half, md_result_at(&p, at.batch, r, at.column) + (column - at.column),
                     r < (int)md_points_rows(&p) ? (int)md_points_columns(&p) - column : 0);
    }
}
#else
/* Through shared memory, and out by TMA. `turn`: which of the buffers; is_last: each panel has its own. */
MD_INLINE void md_panel(const md_params &p, const float *acc, const float *acc1, const md_tile_at &at, int row,
                        int column, unsigned buffers, unsigned &turn, bool is_last)
{
    /* Rows that are an odd number of 16 bytes apart lie in different banks as they are. */
    const int lane = threadIdx.x & 31, mask = PANEL % 16 == 0 ? PANEL / 8 - 1 : 0,
              in = (lane & 7) + (lane >> 3 & 1) * 8;
    const unsigned mine = in * (PANEL * 2), swizzle = (mine >> 7) & mask, to = buffers + turn;
    unsigned out[PANEL / 4];
    md_pairs(out, p, acc, acc1, at, row, column);
    turn = is_last ? turn + PANEL_BYTES : MD_PANELS == 1 ? 0 : turn ^ PANEL_BYTES;
    if (lane == 0 && !is_last)
        md_tma_wait_read<MD_PANELS - 1>();
    __syncwarp();
    MD_FOR_STEP (j, PANEL / 16 * 2, 2)
        md_stmatrix(to + mine + (((j + (lane >> 4)) ^ swizzle) << 4), out[j * 2], out[j * 2 + 1], out[j * 2 + 2],
                    out[j * 2 + 3]);
    if (PANEL % 16)
        md_stmatrix(to + mine + (PANEL / 8 - 1) * 16, out[PANEL / 4 - 2], out[PANEL / 4 - 1]);
    md_proxy_fence();
    __syncwarp();
    if (lane == 0) {
        md_tma_store(&p.MD_MAP_OF_RESULT, to, column, row, at.batch);
        md_tma_commit();
    }
}
#endif
#else
/* A panel of a warp's 16 rows as sums in shared memory, then by the epilogue. */
MD_INLINE void md_panel(const md_params &p, const float *acc, const float *acc1, const md_tile_at &at, int row,
                        int column, float *sums)
{
    const int lane = threadIdx.x & 31;
    __syncwarp();
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (j, PANEL / 4) {
            const float *from = (q ? acc1 : acc) + j * 2;
            const float2 pair = {from[0], from[1]};
            *(float2 *)(sums + (q * 16 + lane / 4 + j % 2 * 8) * PITCH + j / 2 * 8 + lane % 4 * 2) = pair;
        }
    __syncwarp();
    const md_place place = {at.batch, row, column, at.slice};
    md_store_tile(&p, sums, sums + (MD_PRODUCTS - 1) * 16 * PITCH, PITCH, place, 16, PANEL, lane, 32);
}
#endif

/* The tile panel by panel. With MD_ROLLED_PANELS the text of one panel does for all: the sums move down after each,
 * since registers have no index at run time. */
MD_INLINE void md_results(const md_params &p, md_tile &tile, const md_tile_at &at, unsigned char *buffers,
                          unsigned &turn, bool is_last)
{
    enum { SUMS = BLOCKS * MD_BN / 2 };
    float(&acc)[MD_PRODUCTS][SUMS] = *(float(*)[MD_PRODUCTS][SUMS]) & tile;
    const int warp = threadIdx.x / 32 % 4,
              row0 = at.row + (MD_PINGPONG ? 0 : (threadIdx.x / 128 - 1) * WG_ROWS) + warp * 16;
    MD_PANEL_LOOP for (int number = 0; number < BLOCKS * (MD_BN / PANEL); number++)
    {
        const int row = row0 + number / (MD_BN / PANEL) * 64, column = at.column + number % (MD_BN / PANEL) * PANEL;
        const float *from = acc[0] + (MD_ROLLED_PANELS ? 0 : number * PANEL / 2),
                    *other = acc[MD_PRODUCTS - 1] + (from - acc[0]);
        if (row < (int)md_points_rows(&p) && column < (int)md_points_columns(&p)) {
#if MD_RESULT
            md_panel(p, from, other, at, row, column, md_shared_address(buffers), turn, is_last);
#else
            md_panel(p, from, other, at, row, column, (float *)buffers);
#endif
        }
        if (MD_ROLLED_PANELS)
            MD_FOR (q, MD_PRODUCTS)
                MD_FOR (i, SUMS - PANEL / 2)
                    acc[q][i] = acc[q][i + PANEL / 2];
    }
}

#if MD_CLUSTER_REDUCE
/* Sums of all slices at one vector, in the order of the slices. */
MD_INLINE md_v md_add_slices(unsigned address)
{
    float4 part[MD_SPLIT][MD_VL / 4];
    md_v v;
    MD_FOR (s, MD_SPLIT)
        MD_FOR (i, MD_VL / 4)
            part[s][i] = md_load_at(address + i * 16, s);
    MD_FOR (i, MD_VL / 4) {
        float4 sum = part[0][i];
        for (int s = 1; s < MD_SPLIT; s++) {
            sum.x += part[s][i].x;
            sum.y += part[s][i].y;
            sum.z += part[s][i].z;
            sum.w += part[s][i].w;
        }
        v.v[i * 4] = sum.x;
        v.v[i * 4 + 1] = sum.y;
        v.v[i * 4 + 2] = sum.z;
        v.v[i * 4 + 3] = sum.w;
    }
    return v;
}

/* Each block of the cluster lays out what it has, and makes results of a part of the tile. `ready`, and the barrier
 * behind it: all have laid out; all have read. */
MD_INLINE void md_results_of_slices(const md_params &p, const md_tile &acc, const md_tile_at &at,
                                    unsigned char *buffers, unsigned ready, unsigned phase)
{
    const int thread = threadIdx.x - 128, lane = threadIdx.x & 31, warp = thread / 32;
    float *parts = (float *)buffers;
    md_bar_wait_cluster(ready + 8, phase ^ 1);
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (b, BLOCKS)
            MD_FOR (j, MD_BN / 4) {
                const int row = warp / 4 * WG_ROWS + b * 64 + warp % 4 * 16 + lane / 4 + j % 2 * 8;
                const float2 pair = {acc[q][b][j * 2], acc[q][b][j * 2 + 1]};
                *(float2 *)(parts + (q * MD_BM + row) * PARTS_PITCH + j / 2 * 8 + lane % 4 * 2) = pair;
            }
    __syncwarp();
    if (lane < MD_SPLIT)
        md_bar_tell(ready, lane);
    md_bar_wait_cluster(ready, phase);
    const int rows = (int)md_least(md_points_rows(&p) - at.row, MD_BM), columns = (int)md_points_columns(&p),
              across = MD_BN / MD_VL;
    MD_ROLLED for (int i = at.slice * (THREADS - 128) + thread; i < rows * across; i += MD_SPLIT * (THREADS - 128))
    {
        const int row = i / across, column = i % across * MD_VL;
        if (at.column + column >= columns)
            continue;
        const unsigned from = md_shared_address(parts + row * PARTS_PITCH + column);
        const md_v v0 = md_add_slices(from), v1 = MD_PRODUCTS == 2 ? md_add_slices(from + MD_BM * PARTS_PITCH * 4) : v0;
        md_finish(&p, at.batch, at.row + row, at.column + column, v0, v1,
                  (int)md_least(MD_VL, columns - at.column - column));
    }
    __syncwarp();
    if (lane < MD_SPLIT)
        md_bar_tell(ready + 8, lane);
}
#endif

MD_INLINE void md_consume(const md_params &p, const md_grid &g, unsigned tiles, unsigned full, unsigned empty,
                          unsigned char *ring, unsigned char *buffers, int rank)
{
    const int group = threadIdx.x / 128 - 1, step = gridDim.x / MD_CLUSTER;
    unsigned char *mine = buffers + (threadIdx.x / 32 - 4) * BUFFER_BYTES;
    int t = blockIdx.x / MD_CLUSTER;
    unsigned turn = 0; /* which of the buffers */
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
        if (is_last) { /* nobody needs the ring any more, once both groups have multiplied */
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
    md_bar_wait_cluster(empty + MD_STAGES * 8 + 8, turn ^ 1); /* nobody reads here any more */
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
        if (MD_CONSUMERS == 2) /* two warpgroups have enough without */
            md_registers_up<MD_HIGH>();
        md_consume(p, g, base, full, empty, md_memory + (base - start), buffers, rank);
    }
    __syncwarp();
    if (MD_CLUSTER == 2 || MD_CLUSTER_REDUCE)
        md_cluster_meet();
}
