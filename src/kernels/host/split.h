/* Cuts one product into regions for threads. Shared by the kernel and the family that counts its blocks
 * (src/family/host/product/gemm.c), so that both cut alike. Plain C without a prelude. */
#ifndef MD_HOST_SPLIT_H
#define MD_HOST_SPLIT_H

#include <stdint.h>

typedef struct md_split {
    int64_t rows, columns; /* number of regions along each side */
} md_split;

static inline int64_t md_split_parts(int64_t size, int64_t most) { return size <= most ? 1 : (size - 1) / most + 1; }

/* Of all factorisations of `regions` into rows x columns with no region larger than the limits, the one that packs
 * least: every region packs its rows of A and its columns of B. {0, 0} if there is none. */
static inline md_split md_split_of(int64_t regions, int64_t m, int64_t n, int64_t rows_most, int64_t columns_most)
{
    int64_t low = md_split_parts(m, rows_most), high = regions / md_split_parts(n, columns_most);
    md_split best = {0, 0};
    double least = 0;
    for (int64_t rows = low; rows <= high; rows++) {
        if (regions % rows != 0)
            continue;
        double packed = (double)rows * (double)n + (double)(regions / rows) * (double)m;
        if (best.rows == 0 || packed < least) {
            least = packed;
            best = (md_split){rows, regions / rows};
        }
    }
    return best;
}

/* The start of part i of `parts`, in multiples of `unit`; the last part ends at `size`. */
static inline int64_t md_split_at(int64_t size, int64_t unit, int64_t parts, int64_t i)
{
    int64_t units = (size + unit - 1) / unit, at = units / parts * i + (units % parts * i) / parts;
    return at >= units ? size : at * unit;
}

/* The length of the longest part. */
static inline int64_t md_split_most(int64_t size, int64_t unit, int64_t parts)
{
    int64_t units = (size + unit - 1) / unit;
    return (units + parts - 1) / parts * unit;
}

typedef struct md_tiling {
    int64_t rows; /* of a tile */
    int64_t pitch, strip; /* lanes of a packed strip of B, and the columns among them of one product */
    int64_t group; /* strips packed at a time */
    int64_t depth; /* of a block of K */
    int64_t lanes; /* MD_VL */
    int64_t near; /* accumulators that packed A may take to stay in the private cache for the whole K */
} md_tiling;

/* How K is added, whatever the tile and the block of K: at most MD_SUM_DEPTH products go into an accumulator that began
 * with 0; it is added to the sum of a span; spans are added in f64. So the error of f32 sums stops growing with K. */
enum { MD_SUM_DEPTH = 256, MD_SPAN = 64 * MD_SUM_DEPTH };

/* Scratch of a region, in accumulators: where packed A, the tiles of C and their totals over spans begin (packed B
 * comes first), and its length. */
typedef struct md_scratch {
    int64_t a, c, total, all, padded_rows;
    int is_whole; /* A is packed for the whole K, and columns are finished group by group */
    int is_kept; /* tiles of C are kept in scratch between blocks of K */
} md_scratch;

static inline md_scratch md_scratch_of(md_tiling t, md_split split, int64_t m, int64_t n, int64_t k)
{
    int64_t depth = k < t.depth ? k : t.depth, strips = md_split_most(n, t.strip, split.columns) / t.strip;
    md_scratch s = {.padded_rows = md_split_most(m, t.rows, split.rows), .is_kept = k > t.depth};
    s.is_whole = s.padded_rows <= t.near / (k > 0 ? k : 1);
    if (s.is_whole && strips > t.group)
        strips = t.group;
    int64_t tiles = s.is_kept ? s.padded_rows * strips : t.rows;
    s.a = (t.group * t.pitch * depth + t.lanes + 15) / 16 * 16;
    s.c = s.a + (s.padded_rows * (s.is_whole ? k : depth) + t.lanes + 15) / 16 * 16;
    s.total = s.c + (tiles * t.pitch + t.lanes + 15) / 16 * 16;
    s.all = s.total + (k > MD_SPAN ? 2 * tiles * t.pitch : 0);
    return s;
}

#endif
