/* What is known of a sum of pairs (codegen/chain/pairs.h) when a kernel is compiled. Its own lines are those of its
 * results: keys, or rows; the others are those it runs over. A part of pairs_*.cu. */
#ifndef MD_CUDA_PAIRS_PART_H
#define MD_CUDA_PAIRS_PART_H

/* Lines in shared memory: 128 bytes of each follow each other. */
MD_INLINE constexpr int md_lines_bytes(int lines, int length) { return (length + 63) / 64 * lines * 128; }

/* The place of a line of an operand; -1 from `end` on. */
template <int operand> MD_INLINE long long md_line_place(const md_params &p, const md_chain_batch &b, int line, int end)
{
    md_chain_row row = {0};
    if (line >= end)
        return -1;
    if (!md_pairs_of_keys(operand))
        row = md_chain_row_of(&p, &b, line);
    return md_pairs_place(operand, &p, &b, &row, line);
}

template <int sum> struct md_part {
    enum {
        TO_KEYS = md_pairs_towards_keys(sum),
        VALUE = md_pairs_value(sum), /* operands: the value, and of each product the one of own lines and the other */
        OWN0 = md_pairs_product(0, TO_KEYS),
        OWN1 = md_pairs_product(MD_PAIR_PRODUCTS - 1, TO_KEYS),
        OTHER0 = md_pairs_product(0, !TO_KEYS),
        OTHER1 = md_pairs_product(MD_PAIR_PRODUCTS - 1, !TO_KEYS),
        USES0 = md_pairs_uses(sum, 0),
        USES1 = md_pairs_uses(sum, 1),
        PRODUCTS = USES0 + USES1,
        HALVES = md_pairs_halves(sum),
        WIDTH = md_pairs_length(VALUE),
        DEPTH0 = md_pairs_length(OWN0),
        DEPTH1 = md_pairs_length(OWN1),
        /* 1: the value is no operand of a product that is copied anyway */
        COPIES_VALUE = !(USES0 && VALUE == OTHER0) && !(USES1 && VALUE == OTHER1)
    };
};

/* A number of a block of other lines, and whether all own lines have all of them; -1: there is none. */
typedef int md_other_block;
MD_INLINE md_other_block md_other_block_of(int number, bool is_open) { return number * 2 + is_open; }
MD_INLINE int md_number_of(md_other_block b) { return b >> 1; }
MD_INLINE bool md_is_open(md_other_block b) { return b & 1; }

/* The blocks of other lines that some own line has, in order. Of rows: they are looked at 32 at a time. */
template <bool of_rows> struct md_walk {
    int next; /* the number of a block that was not looked at yet */
    unsigned has, open; /* of 32 blocks before it */
    int first; /* the first own key */
};
template <> struct md_walk<false> {
    int next, others; /* the next block; keys that some own row has end here */
    int begin, end; /* blocks that all own rows have */
};

/* Other lines; those from there on do not exist, or no own line has them. */
MD_INLINE int md_others(const md_params &p, const md_walk<true> &) { return (int)md_chain_rows(&p); }
MD_INLINE int md_others(const md_params &, const md_walk<false> &w) { return w.others; }

template <int own, int lines>
MD_INLINE void md_begin_walk(md_walk<true> &w, const md_params &, const md_chain_batch &, int first)
{
    w.next = 0;
    w.has = w.open = 0;
    w.first = first;
}
template <int own, int lines>
MD_INLINE void md_begin_walk(md_walk<false> &w, const md_params &p, const md_chain_batch &b, int first)
{
    const md_chain_keys_of span = md_chain_span(&p, &b, first, min(first + own, (int)md_chain_rows(&p)));
    w.others = (int)span.end;
    w.next = (int)span.begin / lines;
    w.begin = ((int)span.open_begin + lines - 1) / lines;
    w.end = (int)span.open_end / lines;
}

template <int own, int lines>
MD_INLINE void md_look_ahead(md_walk<true> &w, const md_params &p, const md_chain_batch &b)
{
    const int rows = (int)md_chain_rows(&p), stop = min(w.first + own, (int)md_chain_keys(&p));
    while (w.has == 0 && w.next * lines < rows) {
        const int row = (w.next + (threadIdx.x & 31)) * lines;
        bool has = false, open = false;
        if (row < rows) {
            const md_chain_keys_of span = md_chain_span(&p, &b, row, min(row + lines, rows));
            has = span.begin < stop && span.end > w.first;
            open = span.open_begin <= w.first && span.open_end >= stop;
        }
        w.has = md_ballot(has);
        w.open = md_ballot(open);
        w.next += 32;
    }
}

/* All warps of a block walk alike. */
template <int own, int lines>
MD_INLINE md_other_block md_next_block(md_walk<true> &w, const md_params &p, const md_chain_batch &b)
{
#if MD_PAIR_BOUNDS
    md_look_ahead<own, lines>(w, p, b);
    if (w.has == 0)
        return -1;
    const int lane = __ffs(w.has) - 1;
    w.has &= w.has - 1;
    return md_other_block_of(w.next - 32 + lane, w.open >> lane & 1);
#else
    return w.next * lines < (int)md_chain_rows(&p) ? md_other_block_of(w.next++, true) : -1;
#endif
}
template <int own, int lines>
MD_INLINE md_other_block md_next_block(md_walk<false> &w, const md_params &, const md_chain_batch &)
{
    const int number = w.next++;
    return number * lines < w.others
               ? md_other_block_of(number, !MD_PAIR_BOUNDS || (number >= w.begin && number < w.end))
               : -1;
}

/* How blocks of a launch share the tiles of all kinds, MD_PAIR_KINDS: sums, or directions. Sections of batches whose
 * operands stay in the L2; in each the tiles with the longest ways first if later rows have more keys. */
typedef struct md_pair_work {
    int of_rows, of_keys, most, planes, section; /* tiles; the larger; batches; batches walked together */
} md_pair_work;

MD_INLINE md_pair_work md_pair_work_of(const md_params &p, int own)
{
    const int SECTION_BYTES = 24 << 20;
    md_pair_work w;
    const int rows = (int)md_chain_rows(&p), keys = (int)md_chain_keys(&p);
    w.of_rows = w.of_keys = 0;
    MD_FOR (k, MD_PAIR_KINDS)
        if (md_kind_is_to_keys(k))
            w.of_keys = (keys + own - 1) / own;
        else
            w.of_rows = (rows + own - 1) / own;
    w.most = max(w.of_rows, w.of_keys);
    w.planes = (int)md_chain_batches(&p);
    const long long bytes = ((long long)rows + keys) * (MD_DEPTH + MD_WIDTH) * 2;
    w.section = (int)min(max(SECTION_BYTES / max(bytes, 1ll), 1ll), (long long)w.planes);
    if (MD_PAIR_BOUNDS) /* the longest of all tiles first counts for more */
        w.section = max(w.planes, 1);
    return w;
}

typedef struct md_pair_tile {
    int kind, batch, tile; /* tile -1: the number stands for none */
} md_pair_tile;

/* The numbers of the block and of the thread, asked anew each time: what follows from them does not stay in
 * registers. */
MD_INLINE int md_ask_block()
{
    int number;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
    return number;
}
MD_INLINE int md_ask_thread()
{
    int number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}

MD_INLINE md_pair_tile md_pair_tile_of(const md_pair_work &w, int number)
{
    const int whole = w.section * w.most * MD_PAIR_KINDS, section = number / whole, rest = number - section * whole,
              width = min(w.planes - section * w.section, w.section) * MD_PAIR_KINDS, across = rest % width,
              down = rest / width;
    md_pair_tile t = {across % MD_PAIR_KINDS, section * w.section + across / MD_PAIR_KINDS, -1};
    MD_FOR (k, MD_PAIR_KINDS)
        if (t.kind == k && down < (md_kind_is_to_keys(k) ? w.of_keys : w.of_rows))
            t.tile = md_kind_is_to_keys(k) ? down : w.of_rows - 1 - down;
    return t;
}

#endif
