/* Sums of joint pairs in memory, as threads of a warpgroup hold them: four floats of a thread (two of each of its rows,
 * 8 apart) beside those of the next one. First those of all blocks of rows, which tiles add up; with MD_SPLIT > 1 then
 * those of all parts of all tiles of keys. A part of pairs_joint.cu. */
#ifndef MD_CUDA_PAIRS_JOINT_MEMORY_H
#define MD_CUDA_PAIRS_JOINT_MEMORY_H

MD_INLINE float *md_memory(const md_params &p) { return (float *)p.work0; }

/* Floats of rows, before those of keys. */
MD_INLINE long long md_row_floats(const md_params &p)
{
    return md_chain_batches(&p) * md_row_blocks_of(p).all * (BLOCK * ROW_WIDTH);
}
/* Of the keys of one part of all tiles. */
MD_INLINE long long md_key_floats(const md_params &p)
{
    return MD_SPLIT > 1 ? md_chain_batches(&p) * md_tiles(p) * (OWN * (EARLY_WIDTH + LATE_WIDTH)) : 0;
}

/* With MD_ORDER words follow: for each block of rows the number of tiles that have added to it, and how many tiles have
 * begun. */
MD_INLINE int *md_turns(const md_params &p)
{
    return (int *)(md_memory(p) + md_row_floats(p) + MD_SPLIT * md_key_floats(p));
}
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

/* Stores them. */
template <int n> MD_INLINE void md_store_lines(float *to, const float (&o)[n])
{
    float4 *const own = (float4 *)to + (threadIdx.x & 127);
    MD_FOR (i, n / 4)
        own[i * 128] = make_float4(o[i * 4], o[i * 4 + 1], o[i * 4 + 2], o[i * 4 + 3]);
}

MD_INLINE void md_clear_memory(const md_params &p)
{
    const long long n = MD_ORDER ? md_all_turns(p) + 1 : md_row_floats(p) / 4;
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += (long long)gridDim.x * 256)
        if (MD_ORDER)
            md_turns(p)[i] = 0;
        else
            ((float4 *)md_memory(p))[i] = make_float4(0, 0, 0, 0);
}

#if MD_PHASE == 3
/* Eight columns of two lines, 8 apart, as four threads hold them. */
typedef struct md_eight {
    md_f line[2];
} md_eight;

MD_INLINE md_eight md_load_eight(const float *from)
{
    md_eight v;
    MD_FOR (i, 4) {
        const float4 w = ((const float4 *)from)[i];
        v.line[0].v[i * 2] = w.x;
        v.line[0].v[i * 2 + 1] = w.y;
        v.line[1].v[i * 2] = w.z;
        v.line[1].v[i * 2 + 1] = w.w;
    }
    return v;
}

/* Where item `at` of 64 lines lies, of lines of so many columns: its first line and column, and the floats before it.
 * Items of a line follow each other. */
template <int columns> MD_INLINE long long md_place_of(int &line, int &column, int at)
{
    const int piece = at % (columns / 8), in = at / (columns / 8);
    line = in / 8 * 16 + in % 8;
    column = piece * 8;
    return piece * 512 + in * 16;
}

MD_INLINE void md_store_rows(const md_params &p, long long item)
{
    enum { ITEMS = 4 * ROW_WIDTH };
    const md_row_blocks blocks = md_row_blocks_of(p);
    const unsigned block = (unsigned)(item / ITEMS), batch = block / (unsigned)blocks.all;
    const int number = (int)(block - batch * blocks.all), first = md_first_row(blocks, number),
              rows = md_count_rows(blocks, number);
    const md_chain_batch b = md_chain_batch_of(&p, batch);
    int line, column;
    const long long at = md_place_of<ROW_WIDTH>(line, column, (int)(item % ITEMS));
    md_eight v = {{{{0}}, {{0}}}};
    if (!MD_ORDER || md_turns(p)[block] > 0)
        v = md_load_eight(md_memory(p) + (long long)block * (BLOCK * ROW_WIDTH) + at);
    MD_FOR (h, 2)
        if (line + h * 8 < rows) {
            const md_chain_row r = md_chain_row_of(&p, &b, first + line + h * 8);
            md_pairs_store(MD_ROWWARDS, &p, &b, &r, first + line + h * 8, column, v.line[h], md_full());
        }
}

/* The sums of all parts of a tile at a place, part by part. */
MD_INLINE md_eight md_load_parts(const float *from)
{
    md_eight v = md_load_eight(from);
    MD_FOR (part, MD_SPLIT - 1) {
        const md_eight w = md_load_eight(from + (part + 1) * (OWN * (EARLY_WIDTH + LATE_WIDTH)));
        MD_FOR (h, 2)
            v.line[h] = v.line[h] + w.line[h];
    }
    return v;
}

/* Those towards keys: memory has them by batch, tile and part, for each warpgroup the early sum and the late one. */
MD_INLINE void md_store_keys(const md_params &p, long long item)
{
    enum { EARLY = 4 * EARLY_WIDTH, ITEMS = EARLY + 4 * LATE_WIDTH, HALF = 64 * (EARLY_WIDTH + LATE_WIDTH) };
    const int tiles = md_tiles(p), keys = (int)md_chain_keys(&p);
    const unsigned group = (unsigned)(item / ITEMS) % GROUPS, tile = (unsigned)(item / ITEMS) / GROUPS,
                   batch = tile / (unsigned)tiles;
    const int at = (int)(item % ITEMS), first = (int)(tile - batch * tiles) * OWN + (int)group * 64;
    const md_chain_batch b = md_chain_batch_of(&p, batch);
    const md_chain_row none = {0};
    const float *from = md_memory(p) + md_row_floats(p) + ((long long)tile * MD_SPLIT * GROUPS + group) * HALF;
    int line, column;
    const long long place = at < EARLY ? md_place_of<EARLY_WIDTH>(line, column, at)
                                       : 64 * EARLY_WIDTH + md_place_of<LATE_WIDTH>(line, column, at - EARLY);
    const md_eight v = md_load_parts(from + place);
    MD_FOR (h, 2)
        if (first + line + h * 8 < keys) {
            if (at < EARLY)
                md_pairs_store(MD_EARLY, &p, &b, &none, first + line + h * 8, column, v.line[h], md_full());
            else
                md_pairs_store(MD_LATE, &p, &b, &none, first + line + h * 8, column, v.line[h], md_full());
        }
}

/* A thread stores 16 floats. */
MD_INLINE void md_store_memory(const md_params &p)
{
    const long long item = (long long)blockIdx.x * 256 + threadIdx.x, rows = md_row_floats(p) / 16;
    if (item < rows)
        md_store_rows(p, item);
    else if (MD_SPLIT > 1 && item < rows + md_key_floats(p) / 16)
        md_store_keys(p, item - rows);
}
#endif

#endif
