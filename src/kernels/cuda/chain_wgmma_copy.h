/* The first warpgroup: one warp draws tiles and writes them down; it and two more bring their queries; one thread
 * brings keys and values. A part of chain_wgmma.cu. */
#ifndef MD_CUDA_CHAIN_WGMMA_COPY_H
#define MD_CUDA_CHAIN_WGMMA_COPY_H

typedef md_ring<MD_STAGES> md_blocks_ring;

/* 1: each row looks its keys up; the leading warp does. */
#ifdef MD_CHAIN_BY_ROW
#define MD_LOOKS_UP_ROWS MD_CHAIN_BOUNDED
#else
#define MD_LOOKS_UP_ROWS 0
#endif

/* What the leading warp writes down of a tile: words of a note. Then, for each warpgroup, the blocks of which all its
 * rows have all keys; and from byte 64 on, for each row, its first key and the one behind its last. */
enum { IS_TILE, BATCH, ROW, ITEM, BEGIN, END, LAST_KEY, SPLIT, CLEAN };

/* Copies a block of keys or values. */
#define MD_COPY_BLOCK(copy, to, full, empty, bytes, chunks)                                                            \
    md_bar_wait(empty + ring.at * 8, ring.phase ^ 1);                                                                  \
    md_bar_expect(full + ring.at * 8, bytes);                                                                          \
    MD_FOR (c, chunks) {                                                                                               \
        const unsigned at = to + ring.at * bytes + c * MD_BN * 128;                                                    \
        MD_TEST_POISON(at, MD_BN * 128);                                                                               \
        copy(at, p, b, c * 64, block * MD_BN, full + ring.at * 8);                                                     \
    }

/* Blocks of a tile that are still to be copied when the next tile is drawn: it takes some 6 us to bring its queries. */
enum { AHEAD = 4 };

/* Brings keys and values of all tiles. One thread. */
MD_INLINE void md_produce(const md_params &p, const md_places &s)
{
    md_blocks_ring ring;
    bool is_first = true;
    for (md_ring<MD_SLOTS> slot;; slot.next(), is_first = false) {
        md_bar_wait(s.full_note + slot.at * 8, slot.phase);
        const unsigned note = s.note + slot.at * NOTE_BYTES;
        const int end = md_load_word(note + END * 4), begin = md_load_word(note + BEGIN * 4);
        if (!md_load_word(note + IS_TILE * 4))
            return;
        const md_chain_batch b = md_chain_batch_of(&p, md_load_word(note + BATCH * 4));
        md_bar_arrive(s.empty_q + slot.at * 8);
        md_wait_for_launches();
        MD_ROLLED for (int block = end - 1; block >= begin; block--)
        {
            if (block == min(begin + AHEAD, end - 1) && !is_first)
                md_bar_arrive(s.near_end);
            MD_COPY_BLOCK(md_copy_keys, s.k, s.full_k, s.empty_k, K_BYTES, CHUNKS_K)
            MD_COPY_BLOCK(md_copy_values, s.v, s.full_v, s.empty_v, V_BYTES, CHUNKS_V)
            ring.next();
        }
    }
}

/* Writes down the blocks of which all rows of a warpgroup have all keys. */
MD_INLINE void md_note_open(const md_params &p, const md_work &work, const md_chain_batch &b, md_tile t, int group,
                            unsigned note, bool writes)
{
    const int first = t.row + group * 64;
    if (first < work.rows)
        md_tile_keys(t, p, b, first, min(first + 64, work.rows));
    if (writes) {
        md_store_word(note + (CLEAN + 2 * group) * 4, (t.open_begin + MD_BN - 1) / MD_BN);
        md_store_word(note + (CLEAN + 2 * group + 1) * 4, t.open_end / MD_BN);
    }
}

/* Looks up the keys of a tile's rows, and writes them down and those of the tile. A warp. */
#if MD_LOOKS_UP_ROWS
MD_INLINE void md_note_rows(md_tile &t, const md_params &p, const md_work &work, const md_chain_batch &b, unsigned note)
{
    const int lane = threadIdx.x & 31;
    const unsigned MOST = 0x7fffffff;
    unsigned begin = MOST, end = 0;
    MD_ROLLED for (int g = 0; g < MD_GROUPS; g++)
    {
        unsigned open_begin = 0, open_end = MOST;
        MD_FOR (i, 2) {
            const int row = g * 64 + i * 32 + lane;
            int first = 0, last = 0;
            if (t.row + row < work.rows) {
                md_keys_of_row(first, last, p, b, t.row + row);
                begin = min(begin, (unsigned)first);
                end = max(end, (unsigned)last);
                open_begin = max(open_begin, (unsigned)first);
                open_end = min(open_end, (unsigned)last);
            }
            md_store_word(note + 64 + row * 8, first);
            md_store_word(note + 68 + row * 8, last);
        }
        open_begin = __reduce_max_sync(MD_ALL_LANES, open_begin);
        open_end = max(__reduce_min_sync(MD_ALL_LANES, open_end), open_begin);
        if (lane == g) {
            md_store_word(note + (CLEAN + 2 * g) * 4, (open_begin + MD_BN - 1) / MD_BN);
            md_store_word(note + (CLEAN + 2 * g + 1) * 4, open_end / MD_BN);
        }
    }
    t.end = (int)__reduce_max_sync(MD_ALL_LANES, end);
    t.blocks_begin = min((int)__reduce_min_sync(MD_ALL_LANES, begin), t.end) / MD_BN;
    t.blocks_end = (t.end + MD_BN - 1) / MD_BN;
}
#endif

/* Writes a tile down. A warp. */
MD_INLINE void md_note_tile(const md_params &p, const md_work &work, const md_tile &tile, int number, unsigned note)
{
    const int lane = threadIdx.x & 31;
    const md_chain_batch b = md_chain_batch_of(&p, tile.batch);
    md_tile t = tile;
#if MD_LOOKS_UP_ROWS
    md_note_rows(t, p, work, b, note);
#elif defined MD_CHAIN_BY_ROW
    MD_ROLLED for (int g = 0; g < MD_GROUPS; g++) md_note_open(p, work, b, t, g, note, lane == g);
    md_tile_keys(t, p, b, t.row, min(t.row + ROWS, work.rows));
#else
    if (lane < MD_GROUPS)
        md_note_open(p, work, b, t, lane, note, true);
    else if (lane == 31)
        md_tile_keys(t, p, b, t.row, min(t.row + ROWS, work.rows));
#endif
    if (lane == 31) {
        const int split = number % MD_SPLIT, each = (t.blocks_end - t.blocks_begin + MD_SPLIT - 1) / MD_SPLIT;
        int begin = t.blocks_begin + split * each, end = min(begin + each, t.blocks_end);
        /* every tile has a block: one without keys has the block behind all keys, which the copies fill with zeros */
        if (begin >= end) {
            begin = ((int)md_chain_keys(&p) + MD_BN - 1) / MD_BN;
            end = begin + 1;
        }
        const int words[CLEAN] = {1, t.batch, t.row, t.batch * work.tiles + t.row / ROWS, begin, end, t.end, split};
        MD_FOR (i, CLEAN)
            md_store_word(note + i * 4, words[i]);
    }
}

/* Copies the queries of a tile into a slot, 16 rows at a time: every COPIERS-th 16 from `first` on; and writes down the
 * keys of each row. Rows that do not exist become zeros and have no keys. A warp. */
enum { COPIERS = 3, AT_ONCE = MD_LOW < 40 ? 1 : 2 /* these threads have few registers */ };
MD_INLINE void md_copy_queries(const md_params &p, unsigned to, unsigned note, int batch, int tile_row, int rows,
                               int first)
{
    const md_chain_batch b = md_chain_batch_of(&p, batch);
    const int lane = threadIdx.x & 31;
    MD_ROLLED for (int line = first * 16; line < ROWS; line += COPIERS * 16)
    {
        const int own = tile_row + line + (lane & 15);
        long long from = -1;
        int begin = 0, end = 0;
        MD_FOR (c, CHUNKS_K)
            MD_TEST_POISON(to + c * (ROWS * 128) + line * 128, 16 * 128);
        __syncwarp();
        if (own < rows) {
            const md_chain_row r = md_chain_row_of(&p, &b, own);
            from = md_chain_q(&p, &r);
            if (!MD_LOOKS_UP_ROWS)
                md_keys_of_row(begin, end, p, b, own);
        }
        if (!MD_LOOKS_UP_ROWS && lane < 16) {
            md_store_word(note + 64 + (line + lane) * 8, begin);
            md_store_word(note + 68 + (line + lane) * 8, end);
        }
        MD_ROLLED for (int i = 0; i < MD_DEPTH / 16; i += AT_ONCE) MD_FOR (j, AT_ONCE)
        {
            const int piece = (i + j) * 32 + lane, row = piece / (MD_DEPTH / 8), c = piece % (MD_DEPTH / 8);
            const long long at = __shfl_sync(MD_ALL_LANES, from, row);
            if (MD_DEPTH / 16 % AT_ONCE == 0 || row < 16)
                md_copy_or_clear(to + c / 8 * (ROWS * 128) + (line + row) * 128 + ((c % 8 ^ (row & 7)) << 4),
                                 md_chain_q_data(&p) + (at < 0 ? 0 : at + c * 8), at < 0 ? 0 : 16);
        }
    }
    md_copy_commit();
    md_copy_wait<0>();
    md_proxy_fence();
    __syncwarp();
}

/* Helps to copy the queries of all tiles. A warp. */
MD_INLINE void md_help(const md_params &p, const md_places &s, const md_work &work, int first)
{
    md_wait_for_launches();
    for (md_ring<MD_SLOTS> slot;; slot.next()) {
        md_bar_wait(s.full_note + slot.at * 8, slot.phase);
        const unsigned note = s.note + slot.at * NOTE_BYTES;
        if (md_load_word(note + IS_TILE * 4))
            md_copy_queries(p, s.q + slot.at * SLOT_BYTES, note, md_load_word(note + BATCH * 4),
                            md_load_word(note + ROW * 4), work.rows, first);
        const bool is_tile = md_load_word(note + IS_TILE * 4);
        __syncwarp();
        if ((threadIdx.x & 31) == 0)
            md_bar_arrive(s.full_q + slot.at * 8);
        if (!is_tile)
            return;
    }
}

/* The number of the block's next tile. A warp. turn: how many it has had. From the third on a tile is drawn when the
 * one before it nears its end, so that no block has more than it can do. */
MD_INLINE int md_next_number(const md_params &p, const md_places &s, const md_work &work, int turn)
{
    int number = 0;
    if (turn < 2)
        return turn == 0 ? blockIdx.x : 2 * gridDim.x - 1 - blockIdx.x;
    md_bar_wait(s.near_end, turn & 1);
    if ((threadIdx.x & 31) == 0)
        number = md_draw(md_chain_counter(&p), work.all);
    return __shfl_sync(MD_ALL_LANES, number, 0);
}

/* The leading warp has few registers: how rows are shared lies in shared memory, but for what it needs all the time. */
MD_INLINE void md_keep_work(unsigned at, const md_work &w)
{
    const int words[] = {w.planes, w.runs, w.each, w.more, w.tiles, w.section};
    MD_FOR (i, 6)
        md_store_word(at + i * 4, words[i]);
    __syncwarp();
}
MD_INLINE md_work md_kept_work(unsigned at, const md_work &now)
{
    md_work w = now;
    w.planes = md_load_word(at);
    w.runs = md_load_word(at + 4);
    w.each = md_load_word(at + 8);
    w.more = md_load_word(at + 12);
    w.tiles = md_load_word(at + 16);
    w.section = md_load_word(at + 20);
    return w;
}

/* Draws the block's tiles, writes them down and brings their queries. A warp. The first tile is written down before the
 * warp waits for earlier launches, if that reads no memory. */
MD_INLINE void md_lead(const md_params &p, const md_places &s, const md_work &first)
{
    const int lane = threadIdx.x & 31;
    int turn = 0;
    md_keep_work(s.work, first);
    if (MD_CHAIN_RAGGED)
        md_wait_for_launches();
    for (md_ring<MD_SLOTS> slot;; slot.next(), turn++) {
        const unsigned note = s.note + slot.at * NOTE_BYTES;
        const md_work work = md_kept_work(s.work, first);
        const int number = md_next_number(p, s, work, turn);
        const md_tile t = md_tile_of<ROWS>(work, number / MD_SPLIT);
        md_bar_wait(s.empty_q + slot.at * 8, slot.phase ^ 1);
        if (number < work.all)
            md_note_tile(p, work, t, number, note);
        else if (lane == 0)
            md_store_word(note + IS_TILE * 4, 0);
        __syncwarp();
        if (lane == 0)
            md_bar_arrive(s.full_note + slot.at * 8);
        md_wait_for_launches();
        if (number < work.all)
            md_copy_queries(p, s.q + slot.at * SLOT_BYTES, note, t.batch, t.row, work.rows, 0);
        if (lane == 0)
            md_bar_arrive(s.full_q + slot.at * 8);
        if (number >= work.all)
            return;
    }
}

#endif
