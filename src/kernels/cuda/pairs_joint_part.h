/* What is known of joint pairs when the kernel is compiled, and how its blocks share the work. A part of
 * pairs_joint.cu. */
#ifndef MD_CUDA_PAIRS_JOINT_PART_H
#define MD_CUDA_PAIRS_JOINT_PART_H

enum {
    GROUPS = 2, /* computing warpgroups */
    THREADS = 128 * (GROUPS + 1),
    OWN = 64 * GROUPS, /* keys of a tile */
    BLOCK = 64, /* rows of a step */
    ROWS0 = md_pairs_product(0, 0), /* the operands */
    KEYS0 = md_pairs_product(0, 1),
    ROWS1 = md_pairs_product(1, 0),
    KEYS1 = md_pairs_product(1, 1),
    LENGTH0 = md_pairs_length(ROWS0),
    LENGTH1 = md_pairs_length(ROWS1),
    EARLY_VALUE = md_pairs_value(MD_EARLY), /* operands of rows */
    LATE_VALUE = md_pairs_value(MD_LATE),
    ROW_VALUE = md_pairs_value(MD_ROWWARDS), /* an operand of keys */
    EARLY_WIDTH = md_pairs_length(EARLY_VALUE),
    LATE_WIDTH = md_pairs_length(LATE_VALUE),
    ROW_WIDTH = md_pairs_length(ROW_VALUE),
    ROW_COLUMNS = ROW_WIDTH / GROUPS /* of a warpgroup */
};
static_assert(ROW_WIDTH == 64 || ROW_WIDTH == 128, "a warpgroup's columns are in one piece");

/* The rows of a batch: runs of rows that follow each other in memory, each cut into blocks. */
typedef struct md_row_blocks {
    int run, runs, each, all; /* rows of a run; runs; blocks of a run; of all */
} md_row_blocks;

MD_INLINE md_row_blocks md_row_blocks_of(const md_params &p)
{
    md_row_blocks b;
    b.run = max((int)md_chain_run(&p), 1);
    b.runs = (int)md_chain_rows(&p) / b.run;
    b.each = (b.run + BLOCK - 1) / BLOCK;
    b.all = b.runs * b.each;
    return b;
}

/* The first row of a block; how many it has. */
MD_INLINE int md_first_row(const md_row_blocks &b, int number)
{
    return number / b.each * b.run + number % b.each * BLOCK;
}
MD_INLINE int md_count_rows(const md_row_blocks &b, int number)
{
    return min(b.run - number % b.each * BLOCK, (int)BLOCK);
}

/* The number of the thread, asked anew each time: what follows from it does not stay in registers. */
MD_INLINE int md_ask_thread()
{
    int number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}

typedef struct md_tile {
    int batch, tile, part; /* of MD_SPLIT */
} md_tile;

/* Tiles with the first keys first: if later rows have more keys, these have the most rows. */
MD_INLINE md_tile md_tile_of(const md_params &p, int number)
{
    const int width = (int)md_chain_batches(&p) * MD_SPLIT, across = number % width;
    const md_tile t = {across / MD_SPLIT, number / width, across % MD_SPLIT};
    return t;
}

MD_INLINE int md_tiles(const md_params &p) { return ((int)md_chain_keys(&p) + OWN - 1) / OWN; }

#endif
