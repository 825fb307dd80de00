/* Transposing sweeps: a tensor whose last axis runs with an outer index is read in vectors along that axis, and tiles
 * of MD_VL x MD_VL values are transposed in registers. */
#ifndef MD_FAMILY_HOST_POINT_TRANSPOSE_H
#define MD_FAMILY_HOST_POINT_TRANSPOSE_H

#include "family/family.h"

enum { MD_FA_MAX_TRANSPOSED = 3 };

typedef struct md_fa_transpose {
    int32_t index; /* the outer index along which the transposed loads are contiguous */
    int32_t n;
    const md_fx_node *load[MD_FA_MAX_TRANSPOSED];
} md_fa_transpose;

/** Finds the loads that need transposing: the lanes run along one index, but the tensor's last axis along another.
 * False if there is none. */
bool md_fa_transpose_find(md_fa_transpose *out, const md_fa_target *target);
md_status md_fa_transpose_emit(md_kn_source *out, const md_fa_target *target, bool is_streaming);
void md_fa_transpose_envelope(md_kn_envelope *out, const md_fa_target *target);
void md_fa_transpose_geometry(md_kn_geometries *out, const md_fa_target *target, const int64_t *size);
/** Correct the features of a sweep: for the tiles, or for strided loads where tiles are not used. */
void md_fa_transpose_features(md_fa_features *out, const md_fa_target *target, const int64_t *size);
void md_fa_transpose_penalty(md_fa_features *out, const md_fa_target *target, const int64_t *size);

#endif
