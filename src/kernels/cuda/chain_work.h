/* How blocks share the rows of a chain. A part of chain_*.cu. */
#ifndef MD_CUDA_CHAIN_WORK_H
#define MD_CUDA_CHAIN_WORK_H

typedef struct md_work {
    int rows, planes; /* rows of a batch; batches */
    int runs, each, more; /* runs of rows (heads of a group) of a batch; tiles of a run; runs that have one more */
    int tiles, section, all; /* tiles of a batch; batches walked together; numbers */
} md_work;

typedef struct md_tile {
    int batch, row; /* the first */
    int end; /* behind the last key that a row has */
    int blocks_begin, blocks_end; /* of keys */
    int open_begin, open_end; /* keys that all rows have */
} md_tile;

template <int rows> MD_INLINE md_work md_work_of(const md_params &p)
{
    /* Keys and values that stay in the L2 while tiles of all lengths read them. */
    const int SECTION_BYTES = 24 << 20;
    md_work w;
    w.rows = (int)md_chain_rows(&p);
    /* runs that are shorter than a tile are one */
    const int run = (int)md_chain_run(&p) < rows ? max(w.rows, 1) : (int)md_chain_run(&p);
    w.planes = (int)md_chain_batches(&p);
    w.tiles = (w.rows + rows - 1) / rows;
    w.runs = min(w.rows / run, w.tiles);
    w.each = w.runs > 0 ? w.tiles / w.runs : 0;
    w.more = w.tiles - w.runs * w.each;
    w.section = min(max(SECTION_BYTES / ((MD_DEPTH + MD_WIDTH) * 2 * max((int)md_chain_keys(&p), 1)), 1), w.planes);
    w.all = w.tiles * w.planes * MD_SPLIT;
    return w;
}

/* Asked for by whole warps, whose lanes share the rows where each row looks its keys up. */
#ifdef MD_CHAIN_BY_ROW
#define md_chain_span_by_warp md_chain_span_by<32>
#else
#define md_chain_span_by_warp md_chain_span
#endif

/* Keys of some rows of a tile. By whole warps if each row looks its keys up. */
MD_INLINE void md_tile_keys(md_tile &t, const md_params &p, const md_chain_batch &b, int row, int end)
{
    const md_chain_keys_of span = md_chain_span_by_warp(&p, &b, row, end);
    t.end = (int)span.end;
    t.blocks_end = ((int)span.end + MD_BN - 1) / MD_BN;
    t.blocks_begin = (int)span.begin / MD_BN;
    t.open_begin = (int)span.open_begin;
    t.open_end = (int)span.open_end;
}

/* Tiles with the most keys first, if the later rows of a run have more: by section of batches, from the last rows of
 * all runs to the first. Every number below `all` is a tile: a block without one would leave its SM idle while others
 * hold two. */
template <int rows> MD_INLINE md_tile md_tile_of(const md_work &w, int number)
{
    const int whole = w.section * w.tiles, section = number < whole ? 0 : number / whole,
              batches = min(w.planes - section * w.section, w.section), rounds = batches * w.runs * w.each;
    int rest = number - section * whole, width = w.runs, down = 0;
    if (rest >= rounds) { /* the first rows of the longer runs */
        rest -= rounds;
        width = w.more;
        down = w.each;
    }
    const int round = rest / (batches * width), across = rest - round * batches * width, batch = across / width,
              run = across - batch * width + 1;
    md_tile t;
    t.batch = section * w.section + batch;
    t.row = (run * w.each + min(run, w.more) - 1 - down - round) * rows;
    t.end = t.blocks_begin = t.blocks_end = t.open_begin = t.open_end = 0;
    return t;
}

/* The number of a tile that the block draws. Its first two it has without asking, there and back: whoever has much work
 * first has little second. Each number but the block's first is followed by a draw, so that the last one of the launch
 * is known, and resets the counter. */
MD_INLINE int md_draw(unsigned *counter, int all)
{
    const unsigned before = atomicAdd(counter, 1u);
    if (before == (unsigned)all - gridDim.x - 1)
        *(volatile unsigned *)counter = 0;
    return (int)(before + 2 * gridDim.x);
}

#endif
