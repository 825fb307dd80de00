/* What gathers and scatters on GPUs share: rows whose places are read from tensors of indices, taken by a few lanes
 * each. */
#ifndef MD_FAMILY_CUDA_POINT_GATHER_SCATTER_H
#define MD_FAMILY_CUDA_POINT_GATHER_SCATTER_H

#include "family/cuda/cuda.h"

typedef struct md_fa_cuda_indirect {
    const char *source; /* the template */
    bool is_strided, is_aligned;
    bool is_owned; /* blocks own parts of the target and visit all rows in order */
    int32_t lanes, rows, items; /* of a row's group; rows that a group has in flight; vectors of each, a lane */
} md_fa_cuda_indirect;

enum { MD_FA_INDIRECT_THREADS = 256 };

/** `#define`s and md_expr.h of cuda/gather.cu and cuda/scatter.cu, put together:
 *   struct md_outer, md_outer_at(p, row), MD_ROWS(p)   the outer indices of a row
 *   MD_LANE_COUNT(p)                  length of the lanes' axis
 *   struct md_index                   what is read once a row and says where others lie; md_read(p, outer, &index)
 *   struct md_values                  what is stored; md_row_get(p, outer, index, x, n, &values) makes it,
 *                                     md_row_put(p, outer, index, x, n, values) stores it
 *   md_owned(p, outer, index)         with MD_OWNED: whether the row goes to the block's part, own .. own + n_own -
 *                                     1 of MD_OWN(p) */
md_status md_fa_cuda_indirect_emit(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_indirect *way);
void md_fa_cuda_indirect_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_indirect *way);
/** Whether a config is sensible at these sizes. */
bool md_fa_cuda_indirect_legal(const md_fa_target *target, const md_fa_cuda_indirect *way, const int64_t *size);
void md_fa_cuda_indirect_geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_cuda_indirect *way,
                                  const int64_t *size);
void md_fa_cuda_indirect_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_indirect *way,
                                  const int64_t *size);

#endif
