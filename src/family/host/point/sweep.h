/* What pointwise, gather and scatter of the host share: a loop over outer points around a loop over lanes; its text,
 * geometry and cost. */
#ifndef MD_FAMILY_HOST_POINT_SWEEP_H
#define MD_FAMILY_HOST_POINT_SWEEP_H

#include "codegen/codegen.h"
#include "family/family.h"

typedef struct md_fa_sweep {
    const char *source; /* the template: "host/pointwise.c" */
    bool is_flat; /* the last indices run as one axis where tensors are contiguous */
    bool is_cyclic; /* flat, and loads may run over the last of these indices alone */
    bool is_strided; /* any strides; otherwise those along the lanes must be 1 */
    bool is_streaming;
    bool is_owned; /* scatter: each block visits all points and writes only its own part of the target */
    int32_t n_extra; /* parameters after the stage's */
    md_kn_param extra[2];
} md_fa_sweep;

/** Elements of a block. */
enum { MD_FA_BLOCK_POINTS = 16384 };
/** The longest period of loads that repeat along the lanes. */
enum { MD_FA_CYCLE = 64 };

/** Whether its lanes are bytes. */
md_cg_bytes md_fa_sweep_bytes(const md_fa_target *target, const md_fa_sweep *sweep);
md_status md_fa_sweep_emit(md_kn_source *out, const md_fa_target *target, const md_fa_sweep *sweep);
void md_fa_sweep_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_sweep *sweep);
void md_fa_sweep_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_sweep *sweep,
                          const int64_t *size);
void md_fa_sweep_features(md_fa_features *out, const md_fa_target *target, const md_fa_sweep *sweep,
                          const int64_t *size);
/** True if merging indices changes anything. */
bool md_fa_sweep_can_flatten(const md_fa_target *target);
/** True if merging them makes some loads repeat, and their period is short enough at these sizes. */
bool md_fa_sweep_can_repeat(const md_fa_target *target, const int64_t *size);
/** The kind of these families; its spec is md_fa_sweep. */
extern const md_fa_kind md_fa_host_sweep_kind;

#endif
