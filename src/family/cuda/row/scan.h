/* What the scan families of GPUs share: text of a launch, envelope, and what a scan has to do. */
#ifndef MD_FAMILY_CUDA_ROW_SCAN_H
#define MD_FAMILY_CUDA_ROW_SCAN_H

#include "family/cuda/cuda.h"

typedef struct md_fa_cuda_scan {
    const char *source; /* the template */
    bool is_column, is_strided, is_aligned;
    int32_t threads, group, items; /* of a block; lanes of a row; vectors a lane */
    int32_t phase; /* of scan_split; 0 */
    int32_t rounds; /* of `items` vectors that a lane has of a tile; 0: 1 */
    int32_t ring; /* stages of scan_ring.cu; 0: another template */
    int64_t stage_bytes;
    int32_t n_extra; /* parameters after the stage's */
    md_kn_param extra[2];
} md_fa_cuda_scan;

bool md_fa_cuda_scan_applies(const md_fa_target *target);
void md_fa_cuda_scan_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_scan *scan);
md_status md_fa_cuda_scan_print(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_cuda_scan *scan);

/* Sizes of a scan's stage. */
typedef struct md_fa_cuda_scan_size {
    int64_t rows, n; /* points of the outer indices; length of the axis */
    int64_t lanes; /* of the last outer index; 1 without one */
    double bytes, stored; /* touched once; of these, written */
    double ops, transcendental; /* a point */
    double scattered; /* accesses a point that are no vectors */
} md_fa_cuda_scan_size;
void md_fa_cuda_scan_measure(md_fa_cuda_scan_size *out, const md_fa_target *target, const int64_t *size);
/** Tiles of `vectors` vectors that hold any row of n elements; the same as md_tiles of cuda/scan.h. */
int64_t md_fa_cuda_scan_tiles(int64_t n, int32_t width, int64_t vectors);

#endif
