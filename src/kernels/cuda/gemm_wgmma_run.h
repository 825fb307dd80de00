/* Who copies and who computes. A part of gemm_wgmma.cu, gemm_wgmma8.cu and gemm_wgmma_rows.cu. */
#ifdef MD_GATHERS
#define MD_FILLERS (1 + FEEDERS) /* threads that say of a stage that it is full */
#else
#define MD_FILLERS 1
#endif

#ifdef MD_GATHERS
enum { MAY_HAVE_NO_ROWS = (MD_CONSUMERS == 2 && !MD_PINGPONG) || MD_CLUSTER == 2 };

/* Leaves out the products of a tile of which the warpgroup has no rows. */
MD_INLINE void md_pass(md_ring &r, int steps, unsigned full, unsigned empty)
{
    MD_ROLLED for (int i = 0; i < steps; i++)
    {
        md_bar_wait(full + r.stage * 8, r.phase);
        md_release(empty + r.stage * 8);
        md_ring_next(r);
    }
}
#endif

/* Steps of tile t of a ping-pong, which does not split K. */
#ifdef MD_SPANS
#define MD_STEPS_AT(g, t, rank) md_steps_at(g, t, rank)
#else
#define MD_STEPS_AT(g, t, rank) (g).steps
#endif

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
        done = MD_STEPS_AT(g, t - step, rank);
        md_meet_arrive(1, 256);
    }
    for (; t < g.all; t += MD_PINGPONG ? 2 * step : step) {
        if (MD_PINGPONG) {
            r.stage = done % MD_STAGES;
            r.phase = done / MD_STAGES & 1;
            done += MD_STEPS_AT(g, t, rank) + MD_STEPS_AT(g, t + step, rank);
            md_meet(1 + group, 256);
        }
        const md_tile_at at = md_tile_of(g, t, rank);
#ifdef MD_SPANS
        md_multiply(acc, r, md_steps_at(g, t, rank), tiles, full, empty, at.to - at.from);
#else
        const int steps = md_step_of(g, at.slice + 1) - md_step_of(g, at.slice);
#ifdef MD_GATHERS
        if (MAY_HAVE_NO_ROWS && at.row + (MD_PINGPONG ? 0 : group * WG_ROWS) >= md_down_end(p, at))
            md_pass(r, steps, full, empty);
        else
#endif
            md_multiply(acc, r, steps, tiles, full, empty);
#endif
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

/* What a block does. units: of rows, of a grouped product. */
MD_INLINE void md_make_tiles(const md_params &p, unsigned char *md_memory, int units)
{
    const unsigned start = md_shared_address(md_memory), base = (start + 1023) & ~1023u,
                   after = base + MD_STAGES * STAGE_BYTES;
    const unsigned full = after + PARTS_BYTES, empty = full + MD_STAGES * 8;
    unsigned char *buffers = md_memory + (after - start);
    const md_grid g = md_grid_of(p, units);
    const int rank = MD_CLUSTER == 2 ? md_cluster_rank() : 0;
    if (threadIdx.x == 0) {
        md_tma_prefetch(MD_MAP_1);
#ifndef MD_GATHERS
        md_tma_prefetch(&p.map0);
#endif
        for (int i = 0; i < MD_STAGES; i++) {
            md_bar_init(full + i * 8, MD_FILLERS);
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
#if !defined MD_GATHERS && !defined MD_SPANS
    if (threadIdx.x == 0)
        md_ask_early(p, g, rank);
#endif
#ifndef MD_GROUPED
    md_wait_for_launches();
#endif
    if (threadIdx.x < 128) {
        if (MD_MOVES_REGISTERS)
            md_registers_down<MD_LOW>();
#ifdef MD_GATHERS
        md_produce(p, g, base, full, empty, rank, (int *)(md_memory + (empty + MD_STAGES * 8 + 16 - start)));
#else
        if (threadIdx.x == 0)
            md_produce(p, g, base, full, empty, rank);
#endif
#if MD_READS && !defined MD_GATHERS
        if (threadIdx.x / 32 == 1)
            md_read_ahead(p, g, rank);
#endif
    } else if (!MD_IS_SECOND || threadIdx.x < THREADS) {
        if (MD_MOVES_REGISTERS)
            md_registers_up<MD_HIGH>();
        md_consume(p, g, base, full, empty, md_memory + (base - start), buffers, rank);
    }
    __syncwarp();
    if (MD_CLUSTER == 2 || MD_CLUSTER_REDUCE)
        md_cluster_meet();
}

#ifndef MD_PICKS
extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
#ifdef MD_GROUPED
    md_wait_for_launches(); /* they count the tiles */
    md_make_tiles(p, md_memory, md_units_of(p));
#else
    md_make_tiles(p, md_memory, 0);
#endif
}
#endif
