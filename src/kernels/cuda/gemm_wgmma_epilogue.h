/* From the sums of a tile in registers to results in memory. A part of gemm_wgmma.cu. */
#ifndef MD_CUDA_GEMM_WGMMA_EPILOGUE_H
#define MD_CUDA_GEMM_WGMMA_EPILOGUE_H

#if MD_RESULT
MD_N_DECL MD_INLINE unsigned md_pair(const md_params &p, const float *acc, const float *acc1, int batch, int row,
                                     int column, md_n_t n)
{
    const md_v sums = {{acc[0], acc[1]}}, others = {{acc1[0], acc1[1]}};
    return md_result(&p, batch, row, column, sums, others, n);
}

#if MD_READS
/* Prefetches what the epilogue reads along the columns. Done by an idle warp. */
MD_INLINE void md_read_ahead(const md_params &p, const md_grid &g, int rank)
{
    const float none[2] = {0, 0};
    for (int t = blockIdx.x / MD_CLUSTER; t < g.all; t += gridDim.x / MD_CLUSTER) {
        const md_tile_at at = md_tile_of(g, t, rank);
        const int row = MD_SWAPPED ? at.column : at.row, column = MD_SWAPPED ? at.row : at.column;
        MD_ROLLED for (int c = (threadIdx.x & 31) * 2; c < (MD_SWAPPED ? MD_BM : MD_BN); c += 64)
        {
            const md_span span = {0,
                                  row >= (int)md_points_rows(&p) ? 0 : min((int)md_points_columns(&p) - column - c, 2)};
            if (span.hi > 0)
                asm volatile("" ::"r"(md_pair(p, none, none, at.batch, row, column + c, span)));
        }
    }
}
#endif

#if MD_SWAPPED
/* A thread has two rows of a result's column. Neighbours in the columns exchange one, so that each has two columns of a
 * row: the even one of the first row, the odd one of the second. */
MD_INLINE void md_exchange(float (&pair)[2], const float *sums)
{
    const bool is_odd = threadIdx.x >> 2 & 1;
    const float other = __shfl_xor_sync(~0u, is_odd ? sums[0] : sums[1], 4);
    pair[0] = is_odd ? other : sums[0];
    pair[1] = is_odd ? sums[1] : other;
}

/* A panel of a warp's 16 columns of the result: through shared memory, 32 bytes a row, and by TMA. */
MD_INLINE void md_panel(const md_params &p, const float *acc, const float *acc1, const md_tile_at &at, int row,
                        int column, unsigned buffers, unsigned &turn, bool is_last)
{
    const int lane = threadIdx.x & 31, down = lane / 8 * 2, across = lane % 4 * 2 + (lane >> 2 & 1),
              last_row = (int)md_points_rows(&p) - 1, last_column = (int)md_points_columns(&p) - 2;
    const unsigned to = buffers + turn + across * 32 + lane / 8 * 4;
    unsigned out[PANEL / 4];
    MD_FOR (j, PANEL / 4) {
        float pair[2], pair1[2] = {0, 0};
        md_exchange(pair, acc + j * 2);
        if (MD_PRODUCTS == 2)
            md_exchange(pair1, acc1 + j * 2);
        out[j] = md_pair(p, pair, MD_PRODUCTS == 2 ? pair1 : pair, at.batch, min(column + j / 2 * 8 + across, last_row),
                         min(row + j % 2 * 8 + down, last_column), md_full());
    }
    turn = is_last ? turn + PANEL_BYTES : MD_PANELS == 1 ? 0 : turn ^ PANEL_BYTES;
    if (lane == 0 && !is_last)
        md_tma_wait_read<MD_PANELS - 1>();
    __syncwarp();
    MD_FOR (j, PANEL / 4) /* places are those of the 32-byte swizzle */
        md_store_word(to + j / 2 * 256 + ((j % 2 ^ (across >> 2)) << 4), out[j]);
    md_proxy_fence();
    __syncwarp();
    if (lane == 0) {
        md_tma_store(&p.MD_MAP_OF_RESULT, to - across * 32, row, column, at.batch);
        md_tma_commit();
    }
}
#else
/* A panel of a warp's 16 rows as it is stored: pairs of columns, eight columns by eight columns, of the first eight
 * rows and of the others. Rows and columns beyond the last are computed from the last one, and not stored: code with
 * masks is twice as long, and waits for each of its loads. */
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
/* Four threads have the columns of a row. If the row begins at an odd half of a word, each gives its first column to
 * the thread before it. */
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

/* Stores directly to memory. */
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
/* Stores through shared memory and by TMA. `turn`: which of the buffers; is_last: each panel has its own. */
MD_INLINE void md_panel(const md_params &p, const float *acc, const float *acc1, const md_tile_at &at, int row,
                        int column, unsigned buffers, unsigned &turn, bool is_last)
{
    /* Rows that are an odd number of 16 bytes apart are in different banks without a swizzle. */
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
#endif
#else
/* Puts a panel of a warp's 16 rows into shared memory as sums, then runs the epilogue. */
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

/* The tile panel by panel. With MD_ROLLED_PANELS there is code for one panel only: the sums move down after each, since
 * registers have no index at run time. */
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
        if (row < (int)md_points_down(&p) && column < (int)md_points_across(&p)) {
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

/* Each block of the cluster stores its sums in shared memory, and computes the results of a part of the tile. `ready`,
 * and the barrier behind it: all have stored; all have read. */
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

#endif
