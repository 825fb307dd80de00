/* Products whose blocks all have equal work for any number of tiles: the K steps of all tiles form one sequence, and
 * each block takes an equal run of it. A tile that is in one run is finished there. Of the others each block stores its
 * part, and the next launch adds the parts in the order of the blocks. md_config.h: MD_BM, MD_BN, MD_STREAM_K (most
 * blocks). md_expr.h: md_points_*. */
#ifndef MD_CUDA_GEMM_STREAM_H
#define MD_CUDA_GEMM_STREAM_H

enum { MD_STREAM_UNIT = 16 }; /* steps of K that are not divided */

typedef struct md_stream {
    int64_t units; /* of a tile */
    int64_t tiles, all;
    int64_t blocks; /* blocks that have any */
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

/* The first unit of a block; of block `blocks`: the number of all units. */
MD_INLINE int64_t md_stream_start(const md_stream &s, int64_t block) { return s.all * block / s.blocks; }

/* The block that has a unit. */
MD_INLINE int64_t md_stream_block(const md_stream &s, int64_t unit) { return ((unit + 1) * s.blocks - 1) / s.all; }

/* The place of a block's part of a tile. A block has at most two parts: at its start and at its end. */
MD_INLINE float *md_stream_part(const md_params *p, const md_stream &s, int64_t block, int64_t tile)
{
    return (float *)p->work0 + (2 * block + (md_stream_start(s, block) / s.units != tile)) * (MD_BM * MD_BN);
}

#endif
