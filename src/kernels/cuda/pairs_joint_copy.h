/* Shared memory of pairs_joint.cu, and the warpgroup that fills it. */
#ifndef MD_CUDA_PAIRS_JOINT_COPY_H
#define MD_CUDA_PAIRS_JOINT_COPY_H

/* 64 elements of each of some lines follow each other, 128 bytes a line. */
MD_INLINE constexpr int md_lines_bytes(int lines, int length) { return (length + 63) / 64 * lines * 128; }

enum {
    KEYS1_AT = md_lines_bytes(OWN, LENGTH0),
    STAGES_AT = KEYS1_AT + md_lines_bytes(OWN, LENGTH1),
    ROWS1_AT = md_lines_bytes(BLOCK, LENGTH0),
    STAGE_BYTES = ROWS1_AT + md_lines_bytes(BLOCK, LENGTH1),
    WEIGHTS_AT = STAGES_AT + MD_STAGES * STAGE_BYTES,
    WEIGHTS_BYTES = OWN * 128, /* of a block, by keys: 64 rows are a line of 128 bytes; there are two */
    SUMS_AT = WEIGHTS_AT + 2 * WEIGHTS_BYTES,
    SUMS_BYTES = MD_ORDER ? BLOCK * ROW_WIDTH * 4 : 0, /* what a block adds to rows, as memory has it */
    BARS_AT = SUMS_AT + SUMS_BYTES,
    NUMBER_AT = BARS_AT + 24, /* of the tile */
    NOTES_BYTES = BLOCK * MD_NOTE_BYTES, /* of a stage */
    NOTES_AT = BARS_AT + 32 + (MD_STAGES * 24 + 15) / 16 * 16
};
static_assert(BARS_AT % 16 == 0 && NOTES_BYTES % 16 == 0, "two words of 64 bits are read at once");

typedef struct md_bars {
    unsigned own, full, empty, word; /* words: of each stage its block, and how many rows it has */
    unsigned sums, sent; /* sums are there; they have been read */
} md_bars;

MD_INLINE md_bars md_bars_of(unsigned memory)
{
    const unsigned at = memory + BARS_AT;
    const md_bars b = {at, at + 32, at + 32 + MD_STAGES * 8, at + 32 + MD_STAGES * 16, at + 8, at + 16};
    return b;
}

MD_INLINE void md_init_bars(const md_bars &b)
{
    md_bar_init(b.own, 1);
    md_bar_init(b.sums, 4 * GROUPS);
    md_bar_init(b.sent, 1);
    MD_FOR (i, MD_STAGES) {
        md_bar_init(b.full + i * 8, 3); /* warps */
        md_bar_init(b.empty + i * 8, 4 * GROUPS);
    }
    md_bar_init_fence();
}

typedef md_ring<MD_STAGES> md_blocks_ring;

/* A number of a block of rows, and whether all of them exist and have all keys of the tile, which exist; -1: none. */
typedef int md_block;
MD_INLINE int md_number_of(md_block b) { return b >> 1; }
MD_INLINE bool md_is_open(md_block b) { return b & 1; }

/* The blocks with a row that has some key of the tile, in order; with MD_ORDER the last one of each run, then the ones
 * before them, so that all tiles have a block at about the same time where later rows have more keys. They are looked
 * at 32 at a time, by whole warps. These threads have few registers: what follows from the block's number is computed
 * anew each time. */
typedef struct md_walk {
    int next; /* how many blocks have been looked at */
    unsigned has, open; /* of the last 32 of these */
} md_walk;

MD_INLINE md_tile md_own_tile(const md_params &p)
{
    return md_tile_of(p, md_load_word(((md_shared_address(md_shared) + 1023) & ~1023u) + NUMBER_AT));
}
MD_INLINE md_chain_batch md_own_batch(const md_params &p) { return md_chain_batch_of(&p, md_own_tile(p).batch); }

/* Whether some row of the block has some key of the tile, and whether all have all. */
MD_INLINE void md_look_at(bool &has, bool &open, const md_params &p, const md_row_blocks &blocks, int number)
{
    const md_tile t = md_own_tile(p);
    const int first = t.tile * OWN, stop = min(first + OWN, (int)md_chain_keys(&p));
    has = (unsigned)number < (unsigned)blocks.all && (MD_SPLIT == 1 || number / blocks.each % MD_SPLIT == t.part);
    open = stop == first + OWN;
    if (!has)
        return;
    const int rows = md_count_rows(blocks, number);
    open = open && rows == BLOCK;
#if MD_PAIR_BOUNDS
    const int row = md_first_row(blocks, number);
    const md_chain_batch b = md_chain_batch_of(&p, t.batch);
    const md_chain_keys_of span = md_chain_span(&p, &b, row, row + rows);
    has = span.begin < stop && span.end > first;
    open = open && span.open_begin <= first && span.open_end >= stop;
#endif
}

MD_INLINE int md_walked(const md_row_blocks &blocks, int n)
{
    if (!MD_ORDER)
        return n;
    const int block = blocks.each - 1 - n / blocks.runs;
    return block < 0 ? -1 : n % blocks.runs * blocks.each + block;
}

MD_INLINE md_block md_next_block(md_walk &w, const md_params &p)
{
    const md_row_blocks blocks = md_row_blocks_of(p);
    while (w.has == 0 && w.next < blocks.all) {
        bool has, open;
        md_look_at(has, open, p, blocks, md_walked(blocks, w.next + (md_ask_thread() & 31)));
        w.has = md_ballot(has);
        w.open = md_ballot(open);
        w.next += 32;
    }
    if (w.has == 0)
        return -1;
    const int lane = __ffs(w.has) - 1;
    w.has &= w.has - 1;
    return md_walked(blocks, w.next - 32 + lane) * 2 + (w.open >> lane & 1);
}

/* Brings the tile's keys. One thread. */
MD_INLINE void md_bring_keys(unsigned memory, const md_params &p)
{
    const md_bars bars = md_bars_of(memory);
    const md_chain_batch b = md_own_batch(p);
    const int first = md_own_tile(p).tile * OWN;
    md_bar_expect(bars.own, STAGES_AT);
    MD_FOR (c, LENGTH0 / 64)
        md_copy_keys0(memory + c * (OWN * 128), p, b, c * 64, first, bars.own);
    MD_FOR (c, LENGTH1 / 64)
        md_copy_keys1(memory + KEYS1_AT + c * (OWN * 128), p, b, c * 64, first, bars.own);
}

/* Brings a block of rows. One thread. */
MD_INLINE void md_bring_rows(unsigned to, const md_params &p, int row, unsigned bar)
{
    const md_chain_batch b = md_own_batch(p);
    const md_chain_row r = md_chain_row_of(&p, &b, row);
    MD_TEST_POISON(to, STAGE_BYTES);
    md_bar_expect(bar, STAGE_BYTES);
    MD_FOR (c, LENGTH0 / 64)
        md_copy_rows0(to + c * (BLOCK * 128), p, r, c * 64, bar);
    MD_FOR (c, LENGTH1 / 64)
        md_copy_rows1(to + ROWS1_AT + c * (BLOCK * 128), p, r, c * 64, bar);
}

/* Block after block, and a last stage that says that there is none. A warp. */
MD_INLINE void md_produce(const md_params &p, unsigned memory)
{
    const md_bars bars = md_bars_of(memory);
    md_walk walk = {0, 0, 0};
    md_blocks_ring ring;
    if (md_ask_thread() == 0)
        md_bring_keys(memory, p);
    MD_ROLLED for (;; ring.next())
    {
        const md_block block = md_next_block(walk, p);
        md_bar_wait(bars.empty + ring.at * 8, ring.phase ^ 1);
        if (md_ask_thread() == 0) {
            const md_row_blocks blocks = md_row_blocks_of(p);
            const unsigned full = bars.full + ring.at * 8;
            md_store_word(bars.word + ring.at * 8, (unsigned)block);
            md_store_word(bars.word + ring.at * 8 + 4, (unsigned)md_count_rows(blocks, md_number_of(block)));
            if (block >= 0)
                md_bring_rows(memory + STAGES_AT + ring.at * STAGE_BYTES, p, md_first_row(blocks, md_number_of(block)),
                              full);
            else
                md_bar_arrive(full);
        }
        __syncwarp();
        if (block < 0)
            return;
    }
}

/* Writes down what is known of the rows of each block. Two warps. */
MD_INLINE void md_note_all(const md_params &p, unsigned memory, unsigned char *data)
{
    const md_bars bars = md_bars_of(memory);
    md_walk walk = {0, 0, 0};
    md_blocks_ring ring;
    MD_ROLLED for (;; ring.next())
    {
        const md_block block = md_next_block(walk, p);
        md_bar_wait(bars.empty + ring.at * 8, ring.phase ^ 1);
        if (block >= 0) {
            const md_row_blocks blocks = md_row_blocks_of(p);
            const md_chain_batch b = md_own_batch(p);
            const int line = md_ask_thread() - (128 - BLOCK), number = md_number_of(block);
            const int row = md_first_row(blocks, number) + min(line, md_count_rows(blocks, number) - 1);
            md_note_put(data + NOTES_AT + ring.at * NOTES_BYTES, line, md_chain_row_of(&p, &b, row));
        }
        __syncwarp();
        if (md_ask_thread() % 32 == 0)
            md_bar_arrive(bars.full + ring.at * 8);
        if (block < 0)
            return;
    }
}

/* Says that a block has been added: the next tile's turn. */
MD_INLINE void md_hand_on(int *turn)
{
    md_tma_wait<0>();
    md_proxy_fence_all();
    md_add_release(turn, 1);
}

/* Sends what blocks add to rows, each when all tiles before this one that have some key of its rows have sent theirs.
 * Meanwhile the block before is added, whose turn is handed on. A warp, of which one lane sends. */
MD_INLINE void md_send_all(const md_params &p, unsigned memory)
{
    const md_bars bars = md_bars_of(memory);
    md_walk walk = {0, 0, 0};
    int *before = nullptr;
    MD_ROLLED for (unsigned phase = 0;; phase ^= 1)
    {
        const md_block block = md_next_block(walk, p);
        if (block < 0)
            break;
        const md_row_blocks blocks = md_row_blocks_of(p);
        const int row = md_first_row(blocks, md_number_of(block)),
                  end = row + md_count_rows(blocks, md_number_of(block));
        const md_chain_batch b = md_own_batch(p);
        const int own = md_own_tile(p).tile - (int)md_chain_span(&p, &b, row, end).begin / OWN;
        const int place = md_own_tile(p).batch * blocks.all + md_number_of(block);
        if (md_ask_thread() % 32 == 0) {
            int *turn = md_turns(p) + place, now = md_load_acquire(turn);
            if (before)
                md_hand_on(before);
            while (now != own)
                now = md_load_acquire(turn);
            before = turn;
            md_bar_wait(bars.sums, phase);
            md_proxy_fence_all();
            md_bulk_send(md_memory(p) + (long long)place * (BLOCK * ROW_WIDTH), memory + SUMS_AT, SUMS_BYTES, own > 0);
            md_tma_wait_read<0>();
            md_bar_arrive(bars.sent);
        }
        __syncwarp();
    }
    if (before)
        md_hand_on(before);
}

/* The first warp brings rows, the second one sends sums, the last two write down what is known of rows. */
MD_INLINE void md_bring_all(const md_params &p, unsigned memory, unsigned char *data)
{
    if (threadIdx.x < 32)
        md_produce(p, memory);
    else if (threadIdx.x >= 128 - BLOCK)
        md_note_all(p, memory, data);
    else if (MD_ORDER)
        md_send_all(p, memory);
}

#endif
