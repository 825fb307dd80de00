/* Picks between two tiles for a grouped product, whose rows only the device has counted. md_config.h: MD_PICK_TABLE,
 * for each tile its columns and, by the host's model, the ns of 64 of K and of its end; MD_PICK_BLOCKS, which make
 * tiles at once. */
#ifndef MD_CUDA_PICK_TILE_H
#define MD_CUDA_PICK_TILE_H

enum { PICK_COLUMNS, PICK_STEP, PICK_END };

/* The time of so many units of rows with a tile: rounds of tiles, which all blocks make together. */
MD_INLINE uint64_t md_ns_of_units(unsigned units, const int (&tile)[3], int64_t columns, int64_t depth)
{
    const uint64_t across = (uint64_t)(columns + tile[PICK_COLUMNS] - 1) / tile[PICK_COLUMNS],
                   rounds = (units * across + MD_PICK_BLOCKS - 1) / MD_PICK_BLOCKS;
    return rounds * ((uint64_t)((depth + 63) / 64) * tile[PICK_STEP] + tile[PICK_END]);
}

/* 1: the second tile is faster. */
MD_INLINE int md_pick_tile(const md_params &p, unsigned units, unsigned units_of_second)
{
    const int table[2][3] = MD_PICK_TABLE;
    const int64_t columns = md_points_columns(&p), depth = md_points_depth(&p);
    return md_ns_of_units(units_of_second, table[1], columns, depth) < md_ns_of_units(units, table[0], columns, depth);
}

#endif
