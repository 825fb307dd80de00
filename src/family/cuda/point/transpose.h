/* Transposing sweeps on a GPU: tiles in shared memory. */
#ifndef MD_FAMILY_CUDA_POINT_TRANSPOSE_H
#define MD_FAMILY_CUDA_POINT_TRANSPOSE_H

#include "family/point/transpose.h"

md_status md_fa_cuda_transpose_emit(md_kn_source *out, const md_fa_target *target, bool is_unaligned);
void md_fa_cuda_transpose_geometry(md_kn_geometries *out, const md_fa_target *target, bool is_unaligned,
                                   const int64_t *size);

#endif
