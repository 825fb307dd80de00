/* What pointwise families of both devices use. */
#ifndef MD_FAMILY_POINT_POINT_H
#define MD_FAMILY_POINT_POINT_H

#include "family/family.h"

/* ---- nest.c */

/* What the nest families of both devices share. They serve every stage. */

md_status md_fa_nest_emit(md_kn_source *out, const md_fa_target *target, md_dev_kind dialect);
/** Points of the outer loop: all indices except the axis of a row or a scan. */
int64_t md_fa_nest_points(const md_fa_target *target, const int64_t *size);
/** Steps of the inner loop for each point. */
double md_fa_nest_steps(const md_fa_target *target, const int64_t *size);

/* Callbacks of a family that takes every stage in any layout and has no fields. */
bool md_fa_nest_applies(const md_fa_target *target);
bool md_fa_nest_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size);

/* ---- transpose.c */

/* Loads that need transposing: of tensors whose last axis runs with another index than the lanes. They are read in
 * vectors along that axis, and tiles are transposed in registers or in shared memory. */

enum { MD_FA_MAX_TRANSPOSED = 3 };

typedef struct md_fa_transpose {
    int32_t index; /* the outer index along which the transposed loads are contiguous */
    int32_t n;
    const md_fx_node *load[MD_FA_MAX_TRANSPOSED];
    /* of a copy: indices whose axes stand right before those of the lanes, and of `index`, in both tensors, fastest
     * first. Where the tensors are contiguous they run as one with it */
    int32_t n_before[2], before[2][MD_MAX_RANK];
    bool is_batched; /* such tensors are matrices one after the other: [.., lanes, lines] becomes [.., lines, lanes] */
} md_fa_transpose;
enum { MD_FA_OF_LANES, MD_FA_OF_LINES }; /* numbers of n_before and before */

/** Finds the loads that need transposing: the lanes run along one index, but the tensor's last axis along another.
 * False if there is none. */
bool md_fa_transpose_find(md_fa_transpose *out, const md_fa_target *target);
/** `is_merged`: for kernels that run along several indices as one. */
void md_fa_transpose_envelope(md_kn_envelope *out, const md_fa_target *target, bool is_merged);
/** True if some indices run as one in copies of contiguous tensors. */
bool md_fa_transpose_can_merge(const md_fa_transpose *transpose);
/** Points of an index with those before it. */
int64_t md_fa_transpose_points(const md_fa_transpose *transpose, const md_fa_target *target, int32_t of,
                               const int64_t *size);

#endif
