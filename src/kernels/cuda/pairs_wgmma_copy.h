/* Shared memory of pairs_wgmma.cu, and the warpgroup that fills it. */
#ifndef MD_CUDA_PAIRS_WGMMA_COPY_H
#define MD_CUDA_PAIRS_WGMMA_COPY_H

enum {
    GROUPS = 2, /* computing warpgroups */
    THREADS = 128 * (GROUPS + 1),
    OWN = 64 * GROUPS, /* lines of a tile */
    TEAMS = 2, /* of two copying warps, which take blocks in turns */
    COPIED = MD_BLOCK / 2 /* other lines that a warp copies */
};

/* Where a direction has its lines: own ones, stages of other ones, then what is known of own rows, or of those of all
 * stages, and the barriers. Values are other lines of a product. */
template <int to_keys> struct md_room {
    enum {
        OWN0 = md_pairs_product(0, to_keys),
        OWN1 = md_pairs_product(MD_PAIR_PRODUCTS - 1, to_keys),
        OTHER0 = md_pairs_product(0, !to_keys),
        OTHER1 = md_pairs_product(MD_PAIR_PRODUCTS - 1, !to_keys),
        DEPTH0 = md_pairs_length(OWN0),
        DEPTH1 = md_pairs_length(OWN1),
        HAS1 = MD_PAIR_PRODUCTS > 1,
        OWN1_AT = md_lines_bytes(OWN, DEPTH0),
        STAGES_AT = OWN1_AT + (HAS1 ? md_lines_bytes(OWN, DEPTH1) : 0),
        OTHER1_AT = md_lines_bytes(MD_BLOCK, DEPTH0),
        STAGE_BYTES = OTHER1_AT + (HAS1 ? md_lines_bytes(MD_BLOCK, DEPTH1) : 0),
        BARS_AT = STAGES_AT + MD_STAGES * STAGE_BYTES,
        NOTES_AT = BARS_AT + 16 + MD_STAGES * 24
    };
    static __device__ constexpr int value_at(int operand) { return operand == OTHER0 ? 0 : OTHER1_AT; }
};

typedef struct md_bars {
    unsigned own, full, empty, word; /* words: of each stage the block, and the end of the other lines */
} md_bars;

MD_INLINE md_bars md_bars_of(unsigned at)
{
    const md_bars b = {at, at + 16, at + 16 + MD_STAGES * 8, at + 16 + MD_STAGES * 16};
    return b;
}

MD_INLINE void md_init_bars(const md_bars &b)
{
    md_bar_init(b.own, 4);
    MD_FOR (i, MD_STAGES) {
        md_bar_init(b.full + i * 8, 2);
        md_bar_init(b.empty + i * 8, 4 * GROUPS);
    }
    md_bar_init_fence();
}

typedef md_ring<MD_STAGES> md_blocks_ring;

template <int to_keys> MD_INLINE int md_own_end(const md_params &p)
{
    return (int)(to_keys ? md_chain_keys(&p) : md_chain_rows(&p));
}

/* A warp copies `lines` lines of an operand, `at` the first one in the tile, `line` in the tensor. */
template <int operand, int lines, int pitch>
MD_INLINE void md_bring(unsigned to, int at, const md_params &p, const md_chain_batch &b, int line, int end)
{
    const int lane = md_ask_thread() & 31;
    MD_FOR (c, (md_pairs_length(operand) + 63) / 64)
        MD_TEST_POISON(to + c * (pitch * 128) + at * 128, lines * 128);
    __syncwarp();
    md_copy_lines<md_pairs_length(operand), lines, pitch, 1>(
        to, at, md_pairs_data(operand, &p), md_line_place<operand>(p, b, line + (lane & (lines - 1)), end), lane);
}

/* Waits for the warp's copies, and says so. */
MD_INLINE void md_tell(unsigned bar)
{
    md_proxy_fence();
    __syncwarp();
    if (md_ask_thread() % 32 == 0)
        md_bar_arrive(bar);
}

template <int to_keys>
MD_INLINE void md_bring_own(unsigned memory, md_chain_row *notes, const md_params &p, const md_chain_batch &b,
                            int first)
{
    typedef md_room<to_keys> R;
    const int at = threadIdx.x / 32 * 32, end = md_own_end<to_keys>(p);
    md_bring<R::OWN0, 32, OWN>(memory, at, p, b, first + at, end);
    if constexpr (R::HAS1)
        md_bring<R::OWN1, 32, OWN>(memory + R::OWN1_AT, at, p, b, first + at, end);
    if (!to_keys)
        notes[threadIdx.x] = md_chain_row_of(&p, &b, min(first + (int)threadIdx.x, end - 1));
}

/* A team brings its half of a block. */
template <int to_keys>
MD_INLINE void md_bring_block(unsigned to, md_chain_row *notes, const md_params &p, const md_chain_batch &b, int first,
                              int end)
{
    typedef md_room<to_keys> R;
    const int thread = md_ask_thread(), at = thread / 32 % 2 * COPIED, own = thread & 63;
    md_bring<R::OTHER0, COPIED, MD_BLOCK>(to, at, p, b, first + at, end);
    if constexpr (R::HAS1)
        md_bring<R::OTHER1, COPIED, MD_BLOCK>(to + R::OTHER1_AT, at, p, b, first + at, end);
    if (to_keys && own < MD_BLOCK)
        notes[own] = md_chain_row_of(&p, &b, min(first + own, end - 1));
}

/* Brings own lines, then block after block, and a last stage that says that there is none. */
template <int to_keys>
MD_INLINE void md_produce(const md_params &p, const md_pair_tile &tile, unsigned memory, unsigned char *data)
{
    typedef md_room<to_keys> R;
    const md_bars bars = md_bars_of(memory + R::BARS_AT);
    const md_chain_batch b = md_chain_batch_of(&p, tile.batch);
    const int first = tile.tile * OWN;
    md_chain_row *notes = (md_chain_row *)(data + R::NOTES_AT);
    md_walk<to_keys> walk;
    md_blocks_ring ring;
    bool has_own = false;
    md_begin_walk<OWN, MD_BLOCK>(walk, p, b, first);
    md_bring_own<to_keys>(memory, notes, p, b, first);
    MD_ROLLED for (int turn = 0;; turn ^= 1, ring.next())
    {
        const md_other_block block = md_next_block<OWN, MD_BLOCK>(walk, p, b);
        const bool is_mine = turn == md_ask_thread() / 64;
        if (is_mine) {
            md_bar_wait(bars.empty + ring.at * 8, ring.phase ^ 1);
            if (block >= 0)
                md_bring_block<to_keys>(memory + R::STAGES_AT + ring.at * R::STAGE_BYTES,
                                        notes + (to_keys ? ring.at * MD_BLOCK : 0), p, b,
                                        md_number_of(block) * MD_BLOCK, md_others(p, walk));
            if (md_ask_thread() % 64 == 0) {
                md_store_word(bars.word + ring.at * 8, (unsigned)block);
                md_store_word(bars.word + ring.at * 8 + 4, (unsigned)md_others(p, walk));
            }
        }
        if (is_mine || block < 0) {
            md_copy_commit();
            md_copy_wait<0>();
            if (!has_own)
                md_tell(bars.own);
            has_own = true;
        }
        if (is_mine)
            md_tell(bars.full + ring.at * 8);
        if (block < 0)
            break;
    }
}

#endif
