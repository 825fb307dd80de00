/* Results made in registers (MD_RESULT), with md_pair. A part of gemm_wgmma_epilogue.h and gemm_wgmma8.cu. */
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
    const int lane = threadIdx.x & 31, last_row = md_down_end(p, at) - 1, columns = (int)md_points_columns(&p);
    const int rows[2] = {(int)md_row_of(&p, min(row + lane / 4, last_row)),
                         (int)md_row_of(&p, min(row + lane / 4 + 8, last_row))};
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
#ifdef MD_GROUPED
/* Stores a panel of a warp's 16 rows from its buffer, in pieces of 16 bytes, each where its row lies. */
MD_INLINE void md_store_panel(const md_params &p, const md_tile_at &at, int row, int column, unsigned from, int mask)
{
    enum { PIECES_OF_ROW = PANEL / 8 };
    const int columns = (int)md_points_columns(&p);
    MD_FOR (j, (16 * PIECES_OF_ROW + 31) / 32) {
        const int number = (threadIdx.x & 31) + j * 32, r = number / PIECES_OF_ROW, c = number % PIECES_OF_ROW;
        const unsigned line = r * (PANEL * 2), swizzle = (line >> 7) & mask;
        if (r < 16 && row + r < at.row_end && column + c * 8 < columns)
            *(uint4 *)md_result_at(&p, at.batch, md_row_of(&p, row + r), column + c * 8) =
                md_load_words(from + line + ((c ^ swizzle) << 4));
    }
}
#endif

/* Stores through shared memory and by TMA, or where the rows lie. `turn`: which of the buffers; is_last: each panel has
 * its own. */
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
#ifdef MD_GROUPED
    __syncwarp();
    md_store_panel(p, at, row, column, to, mask);
#else
    md_proxy_fence();
    __syncwarp();
    if (lane == 0) {
        md_tma_store(&p.MD_MAP_OF_RESULT, to, column, row, at.batch);
        md_tma_commit();
    }
#endif
}
#endif
#endif
