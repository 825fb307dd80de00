/* Which tiles there are, and their order. A part of gemm_wgmma.cu. */
#ifndef MD_CUDA_GEMM_WGMMA_TILES_H
#define MD_CUDA_GEMM_WGMMA_TILES_H

typedef struct md_tile_at {
    int batch, row, column, slice; /* of a block's tile */
#ifdef MD_GROUPED
    int row_end; /* of the unit's rows in the tile; there may be none */
#endif
#ifdef MD_SPANS
    int from, to; /* the steps of K that its batch sums */
#endif
} md_tile_at;

typedef struct md_grid {
    int rows, columns, steps; /* tiles of a cluster along rows and columns; of K */
    int all; /* tiles of all batches and slices */
#ifdef MD_GROUPED
    const md_unit *unit; /* a tile along the rows each (grouped.h) */
#endif
#ifdef MD_SPANS
    const md_params *p;
#endif
} md_grid;

/* Where the rows of a tile end. */
#ifdef MD_GROUPED
#define MD_IS_NO_GROUP(p, at) ((at).batch >= md_points_groups(&(p)))
MD_INLINE int md_down_end(const md_params &, const md_tile_at &at) { return at.row_end; }
#else
#define MD_IS_NO_GROUP(p, at) false
MD_INLINE int md_down_end(const md_params &p, const md_tile_at &) { return (int)md_points_down(&p); }
#endif

/* units: of rows, of a grouped product (md_units_of). */
MD_INLINE md_grid md_grid_of(const md_params &p, int units)
{
    const int rows = MD_BM * (MD_SHARE_A ? 1 : MD_CLUSTER), columns = MD_BN * (MD_SHARE_A ? MD_CLUSTER : 1);
    md_grid g;
    g.rows = (int)((md_points_down(&p) + rows - 1) / rows);
    g.columns = (int)((md_points_across(&p) + columns - 1) / columns);
    g.steps = (int)((md_points_depth(&p) + MD_DEEP * BK - 1) / (MD_DEEP * BK));
#ifdef MD_SPANS
    g.p = &p;
#endif
#ifdef MD_GROUPED
    g.unit = md_first_unit(p);
    g.rows = units;
    g.all = g.rows * g.columns * MD_SPLIT;
#else
    g.all = g.rows * g.columns * (int)md_points_batch(&p) * MD_SPLIT;
#endif
    return g;
}

/* Tile t in an order that stays in a band of MD_RASTER tiles of rows. */
MD_INLINE md_tile_at md_tile_of(const md_grid &g, int t, int rank)
{
    const int plane = g.rows * g.columns, band = MD_RASTER * g.columns;
    md_tile_at at;
    at.slice = MD_SPLIT > 1 ? t % MD_SPLIT : 0;
    t /= MD_SPLIT;
    /* Most grids have one batch and one band: then the divisions are skipped, which a small product would wait for
     * before its first copy. */
    at.batch = t < plane ? 0 : t / plane;
    t -= at.batch * plane;
    const int number = t < band ? 0 : t / band, first = number * MD_RASTER, height = min(g.rows - first, MD_RASTER);
    t -= number * band;
    at.row = first + t % height;
    at.column = t / height;
#ifdef MD_GROUPED
    const md_unit unit = g.unit[at.row];
    at.batch = unit.group;
    at.row = unit.row + rank * MD_BM;
    at.row_end = min(unit.row_end, at.row + MD_BM);
#else
    if (MD_CLUSTER == 2 && MD_SHARE_A)
        at.column = at.column * 2 + rank;
    else if (MD_CLUSTER == 2)
        at.row = at.row * 2 + rank;
    at.row *= MD_BM;
#endif
    at.column *= MD_BN;
#ifdef MD_SPANS
    int64_t from, to;
    md_span_of(g.p, at.batch, &from, &to);
    at.from = (int)from;
    at.to = (int)to;
#endif
    return at;
}

/* Steps of K before a slice. */
MD_INLINE int md_step_of(const md_grid &g, int slice)
{
    return MD_SPLIT > 1 ? (int)((long long)g.steps * slice / MD_SPLIT) : slice * g.steps;
}

#ifdef MD_SPANS
/* Steps of tile t, of which there may be none. */
MD_INLINE int md_steps_at(const md_grid &g, int t, int rank)
{
    if (t >= g.all)
        return 0;
    const md_tile_at at = md_tile_of(g, t, rank);
    return (at.to - at.from + MD_DEEP * BK - 1) / (MD_DEEP * BK);
}
#endif

#endif
