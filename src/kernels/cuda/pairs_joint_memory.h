/* Sums that joint pairs add up in memory, as threads of a warpgroup hold them: four floats of a thread (two of each of
 * its rows, 8 apart) beside those of the next one. First of all blocks of rows; with MD_SPLIT > 1 then of all tiles of
 * keys. A part of pairs_joint.cu. */
#ifndef MD_CUDA_PAIRS_JOINT_MEMORY_H
#define MD_CUDA_PAIRS_JOINT_MEMORY_H

MD_INLINE float *md_memory(const md_params &p) { return (float *)p.work0; }

/* Floats before those of keys; all of them. */
MD_INLINE long long md_row_floats(const md_params &p)
{
    return md_chain_batches(&p) * md_row_blocks_of(p).all * (BLOCK * ROW_WIDTH);
}
MD_INLINE long long md_all_floats(const md_params &p)
{
    return md_row_floats(p) +
           (MD_SPLIT > 1 ? md_chain_batches(&p) * md_tiles(p) * (OWN * (EARLY_WIDTH + LATE_WIDTH)) : 0);
}

/* With MD_ORDER words follow: for each block of rows the number of tiles that have added to it, and how many tiles have
 * begun. */
MD_INLINE int *md_turns(const md_params &p) { return (int *)(md_memory(p) + md_all_floats(p)); }
MD_INLINE long long md_all_turns(const md_params &p) { return md_chain_batches(&p) * md_row_blocks_of(p).all; }

/* Adds what a thread has of n columns of 64 lines, which begin at `to`. */
template <int n> MD_INLINE void md_add_lines(float *to, const float (&o)[n])
{
    to += (threadIdx.x & 127) * 4;
    MD_FOR (i, n / 4)
        asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to + i * 512)),
                     "f"(o[i * 4]), "f"(o[i * 4 + 1]), "f"(o[i * 4 + 2]), "f"(o[i * 4 + 3])
                     : "memory");
}

MD_INLINE void md_clear_memory(const md_params &p)
{
    const long long n = MD_ORDER ? md_all_turns(p) + 1 : md_all_floats(p) / 4;
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += (long long)gridDim.x * 256)
        if (MD_ORDER)
            md_turns(p)[i] = 0;
        else
            ((float4 *)md_memory(p))[i] = make_float4(0, 0, 0, 0);
}

/* Stores two columns of a line from memory. */
MD_INLINE void md_store_pair(int sum, const md_params &p, const md_chain_batch &b, int line, int column, float x,
                             float y)
{
    md_chain_row row = {0};
    if (!md_pairs_towards_keys(sum))
        row = md_chain_row_of(&p, &b, line);
    md_pairs_store(sum, &p, &b, &row, line, column, {{x, y}}, md_full());
}

/* Stores the results towards rows. */
MD_INLINE void md_store_rows(const md_params &p)
{
    enum { VECTORS = BLOCK * ROW_WIDTH / 4 };
    const md_row_blocks blocks = md_row_blocks_of(p);
    const long long n = md_row_floats(p) / 4;
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += (long long)gridDim.x * 256) {
        const unsigned block = (unsigned)(i / VECTORS), batch = block / (unsigned)blocks.all;
        const int at = (int)(i % VECTORS), thread = at & 127, number = (int)(block - batch * blocks.all);
        const bool is_there = !MD_ORDER || md_turns(p)[block] > 0;
        const float4 v = is_there ? ((const float4 *)md_memory(p))[i] : make_float4(0, 0, 0, 0);
        const md_chain_batch b = md_chain_batch_of(&p, batch);
        const int line = thread / 32 * 16 + thread % 32 / 4, column = at / 128 * 8 + (thread & 3) * 2,
                  first = md_first_row(blocks, number), rows = md_count_rows(blocks, number);
        if (line < rows)
            md_store_pair(MD_ROWWARDS, p, b, first + line, column, v.x, v.y);
        if (line + 8 < rows)
            md_store_pair(MD_ROWWARDS, p, b, first + line + 8, column, v.z, v.w);
    }
}

/* Stores those towards keys: memory has them by batch and tile, for each warpgroup the early sum and the late one. */
MD_INLINE void md_store_keys(const md_params &p)
{
    enum { EARLY = 16 * EARLY_WIDTH, VECTORS = EARLY + 16 * LATE_WIDTH };
    const int tiles = md_tiles(p), keys = (int)md_chain_keys(&p);
    const long long n = md_chain_batches(&p) * tiles * (GROUPS * VECTORS);
    const float4 *from = (const float4 *)(md_memory(p) + md_row_floats(p));
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += (long long)gridDim.x * 256) {
        const unsigned half = (unsigned)(i / VECTORS), tile = half / GROUPS, batch = tile / (unsigned)tiles;
        const int at = (int)(i % VECTORS), in = at < EARLY ? at : at - EARLY, thread = in & 127;
        const float4 v = from[i];
        const md_chain_batch b = md_chain_batch_of(&p, batch);
        const int key = (int)(tile - batch * tiles) * OWN + (half % GROUPS) * 64 + thread / 32 * 16 + thread % 32 / 4,
                  column = in / 128 * 8 + (thread & 3) * 2;
        MD_FOR (h, 2) {
            const float x = h ? v.z : v.x, y = h ? v.w : v.y;
            if (key + h * 8 < keys && at < EARLY)
                md_store_pair(MD_EARLY, p, b, key + h * 8, column, x, y);
            else if (key + h * 8 < keys)
                md_store_pair(MD_LATE, p, b, key + h * 8, column, x, y);
        }
    }
}

MD_INLINE void md_store_memory(const md_params &p)
{
    md_store_rows(p);
    if (MD_SPLIT > 1)
        md_store_keys(p);
}

#endif
