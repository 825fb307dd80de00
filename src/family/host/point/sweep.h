/* Sweeps of the host: over elements, and in tiles that are transposed. */
#ifndef MD_FAMILY_HOST_POINT_SWEEP_H
#define MD_FAMILY_HOST_POINT_SWEEP_H

#include "codegen/codegen.h"
#include "family/family.h"
#include "family/point/point.h"

/* ---- sweep.c */

/* What pointwise, gather and scatter of the host share: a loop over outer points around a loop over lanes; its text,
 * geometry and cost. */

typedef struct md_fa_sweep {
    const char *source; /* the template: "host/pointwise.c" */
    bool is_flat; /* the last indices run as one axis where tensors are contiguous */
    bool is_cyclic; /* flat, and loads may run over the last of these indices alone */
    bool is_strided; /* any strides; otherwise those along the lanes must be 1 */
    bool is_streaming;
    bool is_placed; /* places along short rows are worked out once for all of them (places.h) */
    bool is_owned; /* scatter: each block visits all points and writes only its own part of the target */
    bool is_binned, is_split; /* of scatter_bins, which adds macros and functions to the text of each launch */
    bool fuses; /* products that reductions add up are not rounded */
    /* results that are computed together, neighbours along the last outer index; a point is then a group. 0: none */
    int32_t n_group;
    int32_t block_points; /* elements of a block; 0: MD_FA_BLOCK_POINTS */
    void (*print)(md_strbuf *defines, md_strbuf *expr, const md_fa_target *target, bool is_split, int32_t phase);
    int32_t n_extra; /* parameters after the stage's */
    md_kn_param extra[2];
} md_fa_sweep;

/** Elements of a block where the sweep says nothing else. */
enum { MD_FA_BLOCK_POINTS = 16384 };
/** The longest period of loads that repeat along the lanes. */
enum { MD_FA_CYCLE = 64 };

/** Elements of a block. */
int32_t md_fa_sweep_block(const md_fa_sweep *sweep);
/** Whether its lanes are bytes. */
md_cg_bytes md_fa_sweep_bytes(const md_fa_target *target, const md_fa_sweep *sweep);
/** Bits of an element where elements are looked up (md_cg_tabled); 0: they are computed. `n_outer`: indices of the
 * outer loop. */
int32_t md_fa_sweep_table(int32_t *from, const md_fa_target *target, const md_fa_sweep *sweep, int32_t n_outer);
md_status md_fa_sweep_emit(md_kn_source *out, const md_fa_target *target, const void *spec);
void md_fa_sweep_envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec);
void md_fa_sweep_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_sweep *sweep,
                          const int64_t *size);
void md_fa_sweep_features(md_fa_features *out, const md_fa_target *target, const void *spec, const int64_t *size);
/** True if merging indices changes anything. */
bool md_fa_sweep_can_flatten(const md_fa_target *target);
/** True if merging them makes some loads repeat, and their period is short enough at these sizes. */
bool md_fa_sweep_can_repeat(const md_fa_target *target, const int64_t *size);
/** The kind of these families; its spec is md_fa_sweep. */
extern const md_fa_kind md_fa_host_sweep_kind;

/* ---- transpose.c */

/* Transposing sweeps on the host: tiles of MD_VL x MD_VL values are transposed in registers. */

md_status md_fa_transpose_emit(md_kn_source *out, const md_fa_target *target, bool is_streaming);
void md_fa_transpose_geometry(md_kn_geometries *out, const md_fa_target *target, const int64_t *size);
/** Correct the features of a sweep: for the tiles, or for strided loads where tiles are not used. */
void md_fa_transpose_features(md_fa_features *out, const md_fa_target *target, const int64_t *size);
void md_fa_transpose_penalty(md_fa_features *out, const md_fa_target *target, const int64_t *size);

#endif
