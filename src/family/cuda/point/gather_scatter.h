/* What gathers and scatters on GPUs share. A row is an outer point whose address may be read from an index tensor; a
 * group of a few lanes has a row. */
#ifndef MD_FAMILY_CUDA_POINT_GATHER_SCATTER_H
#define MD_FAMILY_CUDA_POINT_GATHER_SCATTER_H

#include "family/cuda/cuda.h"

typedef struct md_fa_cuda_gather_scatter {
    const char *source; /* the template */
    bool is_strided, is_aligned;
    bool is_owned; /* blocks own parts of the target and visit all rows in order */
    int32_t lanes, rows, items; /* lanes of a group; rows that a group has in flight; vectors of a row for each lane */
} md_fa_cuda_gather_scatter;

enum { MD_FA_GATHER_SCATTER_THREADS = 256 };

/** Prints the defines and md_expr.h of cuda/gather.cu and cuda/scatter.cu:
 *   struct md_outer, md_outer_at(p, row), MD_ROWS(p)
 *       the outer indices of a row
 *   MD_LANE_COUNT(p)
 *       the length of the lanes' axis
 *   struct md_index, md_read(p, outer, &index)
 *       what is read once for a row and used in subscripts
 *   struct md_values, md_row_get(p, outer, index, x, n, &values), md_row_put(p, outer, index, x, n, values)
 *       what is stored: computed by md_row_get, stored by md_row_put
 *   md_owned(p, outer, index), with MD_OWNED
 *       true if the row goes to the block's part, own .. own + n_own - 1 of MD_OWN(p) */
md_status md_fa_cuda_gather_scatter_emit(md_kn_source *out, const md_fa_target *target, const void *spec);
void md_fa_cuda_gather_scatter_envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec);
/** True if a config is worth trying at these sizes. */
bool md_fa_cuda_gather_scatter_legal(const md_fa_target *target, const md_fa_cuda_gather_scatter *spec,
                                     const int64_t *size);
void md_fa_cuda_gather_scatter_geometry(md_kn_geometries *out, const md_fa_target *target,
                                        const md_fa_cuda_gather_scatter *spec, const int64_t *size);
void md_fa_cuda_gather_scatter_features(md_fa_features *out, const md_fa_target *target, const void *spec,
                                        const int64_t *size);
/** The kind of both; its spec is md_fa_cuda_gather_scatter. */
extern const md_fa_kind md_fa_cuda_gather_scatter_kind;

#endif
