/* A region of a packed product: rows x columns of one batch. It goes through blocks of K: it packs the region's rows of
 * A, packs groups of strips of B, and runs the micro-kernel on both. B is read along its rows in memory: block of K by
 * block of K if it is stored along the columns, group by group if it is stored along K (packed A for the whole K then
 * stays in the private cache).
 *
 * md_config.h:
 *   MD_VL, MD_ACC_F32 | _F64 | _I64 | _PAIRS, MD_PRODUCTS
 *   MD_ROWS, MD_VECS   the tile
 *   MD_DEPTH           of a block of K
 *   MD_GROUP           strips of B packed at a time: enough for long reads, few enough for the private cache
 *   MD_NEAR            accumulators that packed A may take for the whole K; 0: B is stored along the columns
 *   MD_PACKED_ONCE          defined: B lies packed in memory (gemm_pack.c)
 * md_expr.h: see source.h, and md_points_batch rows columns depth (p) sizes
 *   md_epilogue(p, batch, row, column, c0, c1, n)   stores n <= MD_VL columns from accumulators c0[], c1[]
 *   md_epilogue_room(p, column)                     columns before an index wraps: n must not exceed it
 *   md_span_of(p, batch, &from, &to)                with MD_SPANS: the steps of K that a batch sums */
#ifndef MD_HOST_REGION_H
#define MD_HOST_REGION_H

static const md_tiling md_region_tiling = {.rows = MD_ROWS,
                                           .pitch = MD_PITCH,
                                           .strip = MD_STRIP,
                                           .group = MD_GROUP,
                                           .depth = MD_DEPTH,
                                           .lanes = MD_VL,
                                           .near = MD_NEAR};

typedef struct md_region {
    int64_t batch, row, row_end, column, column_end;
    int64_t from, depth; /* where K begins: 0, but for MD_SPANS; the whole K from there on */
    int64_t kept_from; /* the column that c begins with */
    md_acc *a, *b, *c;
    md_scratch at;
} md_region;

#ifdef MD_ACC_PAIRS
/* Sums of a tile as the epilogue takes them. Those of several spans are wider than an accumulator. */
MD_INLINE void md_widen_sums(const md_region *g, md_out out[MD_VL], const md_acc *at, int64_t n)
{
    const md_total *total = (const md_total *)(g->b + g->at.total) + (at - g->c);
    for (int64_t i = 0; i < MD_VL; i++)
        out[i] = i >= n ? 0 : g->depth > MD_SPAN ? (md_out)total[i] : (md_out)at[i];
}
#endif

/* Stores one finished tile. */
MD_INLINE void md_finish(const md_params *p, const md_region *g, const md_acc *c, int64_t row, int rows, int64_t column,
                         int64_t columns)
{
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns;) {
            int64_t n = md_least(md_least(MD_VL, columns - j), md_epilogue_room(p, column + j));
            const md_acc *at = c + i * MD_PITCH + j;
#ifdef MD_ACC_PAIRS
            md_out sum[2][MD_VL];
            md_widen_sums(g, sum[0], at, n);
            if (MD_PRODUCTS == 2)
                md_widen_sums(g, sum[1], at + MD_STRIP, n);
            md_epilogue(p, g->batch, md_row_of(p, row + i), column + j, sum[0], sum[1], n);
#else
            md_epilogue(p, g->batch, md_row_of(p, row + i), column + j, at, at + MD_STRIP, n);
#endif
            j += n;
        }
}

/* Adds the sums of a span of K to those of the spans before it. */
static void md_add_span(md_total *total, md_acc *c, int n, int is_first, int is_last)
{
    for (int i = 0; i < n; i++) {
        total[i] = is_first ? c[i] : total[i] + c[i];
        if (is_last)
            c[i] = (md_acc)total[i];
    }
}

/* One tile of C in one block of K. */
static void md_tile_block(const md_region *g, int height, const md_acc *a, const md_acc *b, md_acc *tile, int64_t k0,
                          int64_t depth)
{
    const int64_t end = k0 + depth;
    int64_t k = 0;
    do {
        md_tile_run(height, md_least(MD_SUM_DEPTH, depth - k), a + k * height, b + k * MD_PITCH, tile,
                    (k0 + k) % MD_SPAN == 0);
        k += MD_SUM_DEPTH;
    } while (k < depth);
    if (g->depth > MD_SPAN && (end % MD_SPAN == 0 || end >= g->depth))
        md_add_span((md_total *)(g->b + g->at.total) + (tile - g->c), tile, height * MD_PITCH, end <= MD_SPAN,
                    end >= g->depth);
}

/* All panels of A with one strip of B. */
static void md_strip(const md_params *p, const md_region *g, const md_acc *a, const md_acc *b, int64_t column,
                     int64_t k0, int64_t depth)
{
    int64_t columns = md_least(MD_STRIP, g->column_end - column);
    md_acc *c = g->c + (g->at.is_kept ? (column - g->kept_from) / MD_STRIP * MD_PITCH * g->at.padded_rows : 0);
    int is_last = k0 + depth >= g->depth;
    for (int64_t row = g->row; row < g->row_end;) {
        int height = md_height(g->row_end - row);
        md_acc *tile = c + (g->at.is_kept ? (row - g->row) * MD_PITCH : 0);
        if (g->at.is_kept && k0 > 0)
            for (int i = 0; i < height * MD_PITCH; i += 64 / (int)sizeof(md_acc))
                __builtin_prefetch(tile + height * MD_PITCH + i, 1);
        md_tile_block(g, height, a + (row - g->row) * depth, b, tile, k0, depth);
        if (is_last)
            md_finish(p, g, tile, row, (int)md_least(height, g->row_end - row), column, columns);
        row += height;
    }
}

#ifdef MD_PACKED_ONCE
/* Packed B has strip after strip, each of the whole K (gemm_pack.c). */
#define MD_STRIPS_OF(p, g, column, k0, depth)                                                                          \
    ((const md_acc *)(p)->packed + ((column) / MD_STRIP * (g)->depth + (k0)) * MD_PITCH)
#define MD_STRIP_DEPTH(g, depth) (g)->depth
#else
#define MD_STRIPS_OF(p, g, column, k0, depth) (g)->b
#define MD_STRIP_DEPTH(g, depth) (depth)
#endif

/* A group of strips of B in one block of K: packed where they are not yet, then used. */
static void md_group(const md_params *p, const md_region *g, const md_acc *a, int64_t column, int64_t k0, int64_t depth)
{
    int64_t end = md_least(column + MD_GROUP * MD_STRIP, g->column_end);
    const md_acc *b = MD_STRIPS_OF(p, g, column, k0, depth);
#ifndef MD_PACKED_ONCE
    md_pack_b(p, g->b, g->batch, column, end, g->from + k0, depth);
#endif
    for (; column < end; column += MD_STRIP, b += MD_PITCH * MD_STRIP_DEPTH(g, depth))
        md_strip(p, g, a, b, column, k0, depth);
}

/* The loops over blocks of K run once if K is 0, since the empty sum is stored too. */
static void md_region_run(const md_params *p, md_region *g)
{
    int64_t k0 = 0;
    g->kept_from = g->column;
    do {
        int64_t depth = md_least(MD_DEPTH, g->depth - k0);
        md_acc *a = g->a + (g->at.is_whole ? k0 * g->at.padded_rows : 0);
        md_pack_a(p, a, g->batch, g->row, g->row_end, g->from + k0, depth);
        for (int64_t column = g->column; !g->at.is_whole && column < g->column_end; column += MD_GROUP * MD_STRIP)
            md_group(p, g, a, column, k0, depth);
        k0 += MD_DEPTH;
    } while (k0 < g->depth);
    for (int64_t column = g->column; g->at.is_whole && column < g->column_end; column += MD_GROUP * MD_STRIP) {
        g->kept_from = column;
        k0 = 0;
        do {
            md_group(p, g, g->a + k0 * g->at.padded_rows, column, k0, md_least(MD_DEPTH, g->depth - k0));
            k0 += MD_DEPTH;
        } while (k0 < g->depth);
    }
}

#endif
