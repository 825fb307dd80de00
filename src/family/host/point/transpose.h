/* Transposing sweeps on the host: tiles of MD_VL x MD_VL values are transposed in registers. */
#ifndef MD_FAMILY_HOST_POINT_TRANSPOSE_H
#define MD_FAMILY_HOST_POINT_TRANSPOSE_H

#include "family/point/transpose.h"

md_status md_fa_transpose_emit(md_kn_source *out, const md_fa_target *target, bool is_streaming);
void md_fa_transpose_geometry(md_kn_geometries *out, const md_fa_target *target, const int64_t *size);
/** Correct the features of a sweep: for the tiles, or for strided loads where tiles are not used. */
void md_fa_transpose_features(md_fa_features *out, const md_fa_target *target, const int64_t *size);
void md_fa_transpose_penalty(md_fa_features *out, const md_fa_target *target, const int64_t *size);

#endif
