/* All panels of a tile. A part of gemm_wgmma_epilogue.h and gemm_wgmma8.cu.
 *
 * The tile panel by panel. With MD_ROLLED_PANELS there is code for one panel only: the sums move down after each, since
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
        if (row < md_down_end(p, at) && column < (int)md_points_across(&p)) {
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
