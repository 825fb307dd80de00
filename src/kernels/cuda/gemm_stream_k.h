/* Products whose blocks all have as much to do, whatever the number of tiles: the steps of all tiles stand in one
 * row, and each block takes an equal run of them. A tile that lies in one run is finished there; of others each
 * block stores its part, and the launch that follows adds the parts in the order of the blocks. md_config.h: MD_BM,
 * MD_BN, MD_STREAM_K (blocks at most). md_expr.h: md_points_*. */
#ifndef MD_CUDA_GEMM_STREAM_H
#define MD_CUDA_GEMM_STREAM_H

enum { MD_STREAM_UNIT = 16 }; /* steps of K that are not divided */

typedef struct md_stream {
    int64_t units; /* of a tile */
    int64_t tiles, all;
    int64_t blocks; /* that have any */
} md_stream;

MD_INLINE md_stream md_stream_of(const md_params *p)
{
    const int64_t down = (md_points_rows(p) + MD_BM - 1) / MD_BM, across = (md_points_columns(p) + MD_BN - 1) / MD_BN;
    md_stream s;
    s.units = (md_points_depth(p) + MD_STREAM_UNIT - 1) / MD_STREAM_UNIT;
    s.units = s.units > 0 ? s.units : 1;
    s.tiles = md_points_batch(p) * down * across;
    s.all = s.tiles * s.units;
    s.blocks = md_least(MD_STREAM_K, s.all);
    return s;
}

/* The first unit of a block; of the one behind the last: all of them. */
MD_INLINE int64_t md_stream_start(const md_stream &s, int64_t block) { return s.all * block / s.blocks; }

/* Which block has a unit. */
MD_INLINE int64_t md_stream_block(const md_stream &s, int64_t unit) { return ((unit + 1) * s.blocks - 1) / s.all; }

/* Where a block stores its part of a tile: it has at most two parts, at its beginning and at its end. */
MD_INLINE float *md_stream_part(const md_params *p, const md_stream &s, int64_t block, int64_t tile)
{
    return (float *)p->work0 + (2 * block + (md_stream_start(s, block) / s.units != tile)) * (MD_BM * MD_BN);
}

#endif
