/* What the scan families of GPUs share: text of a launch, envelope, and the sizes and work of a scan. */
#ifndef MD_FAMILY_CUDA_ROW_SCAN_H
#define MD_FAMILY_CUDA_ROW_SCAN_H

#include "family/applies.h"
#include "family/cuda/cuda.h"

typedef struct md_fa_cuda_scan {
    const char *source; /* the template */
    bool is_column, is_strided, is_aligned;
    int32_t threads, group, items; /* threads of a block; lanes of a row; vectors of a lane */
    int32_t phase; /* of scan_split; otherwise 0 */
    int32_t rounds; /* a lane has so many times `items` vectors of a tile; 0: once */
    int32_t ring; /* stages of cuda/scan_ring.cu; 0: another template */
    int64_t stage_bytes;
    int32_t
        pieces; /* of 16 bytes of an element's operands that wait in shared memory (cuda/scan_ahead.h); 0: none do */
    int32_t n_extra; /* parameters after the stage's */
    md_kn_param extra[2];
} md_fa_cuda_scan;

void md_fa_cuda_scan_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_scan *scan);
md_status md_fa_cuda_scan_print(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_cuda_scan *scan);

/** True if a thread can hold the values of so many vectors: a recurrence has pairs. */
bool md_fa_cuda_scan_row_fits(const md_fa_target *target, int32_t items);
bool md_fa_cuda_columns_fit(const md_fa_target *target, int32_t items);

/* Sizes and work of a scan at a shape. */
typedef struct md_fa_cuda_scan_size {
    int64_t rows, n; /* points of the outer indices; length of the axis */
    int64_t lanes; /* size of the last outer index; 1 if there is none */
    double bytes, stored; /* of all tensors, each touched once; of those, the stored ones */
    double ops, transcendental; /* of a point */
    double scattered; /* accesses of a point that are no vectors */
} md_fa_cuda_scan_size;
void md_fa_cuda_scan_measure(md_fa_cuda_scan_size *out, const md_fa_target *target, const int64_t *size);
/** Tiles of `vectors` vectors that hold a row of n elements at any alignment, as md_tiles of cuda/scan.h counts
 * them. */
int64_t md_fa_cuda_scan_tiles(int64_t n, int32_t width, int64_t vectors);
bool md_fa_cuda_is_recurrence(const md_fa_target *target);
/** Bytes of a total in the workspace; of an element's value in registers. */
int64_t md_fa_cuda_scan_total(const md_fa_target *target);
int64_t md_fa_cuda_scan_value(const md_fa_target *target);

/* ---- scan_columns.c: columns in one pass, as tiles */
typedef struct md_fa_cuda_column_tile {
    int32_t threads, items, rounds; /* a thread's run has items * rounds elements, the last `items` in registers */
    bool is_aligned;
} md_fa_cuda_column_tile;
/** Pieces of 16 bytes of an element's operands, if these can wait in shared memory as they were loaded; else 0. */
int32_t md_fa_cuda_column_pieces(const md_fa_target *target, const md_fa_cuda_column_tile *tile);
bool md_fa_cuda_column_tile_fits(const md_fa_target *target, const md_fa_cuda_column_tile *tile);
void md_fa_cuda_place_column_tiles(md_kn_geometries *out, const md_fa_target *target,
                                   const md_fa_cuda_column_tile *tile, const int64_t *size);
void md_fa_cuda_column_tile_features(md_fa_features *out, const md_fa_target *target,
                                     const md_fa_cuda_column_tile *tile, const int64_t *size);

#endif
