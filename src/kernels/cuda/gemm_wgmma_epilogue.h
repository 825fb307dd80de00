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

#include "gemm_wgmma_registers.h"
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
    md_place place = {at.batch, row, column, at.slice};
#ifdef MD_GROUPED
    place.row_end = at.row_end;
#endif
    md_store_tile(&p, sums, sums + (MD_PRODUCTS - 1) * 16 * PITCH, PITCH, place, 16, PANEL, lane, 32);
}
#endif

#include "gemm_wgmma_results.h"

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
