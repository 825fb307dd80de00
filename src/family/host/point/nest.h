/* The last resort, on any device: what its families share. */
#ifndef MD_FAMILY_HOST_POINT_NEST_H
#define MD_FAMILY_HOST_POINT_NEST_H

#include "family/family.h"

md_status md_fa_nest_emit(md_kn_source *out, const md_fa_target *target, md_dev_kind dialect);
/** Points of the outer loop: all indices but the axis of a row or a scan. */
int64_t md_fa_nest_points(const md_fa_target *target, const int64_t *size);
/** Steps of the innermost loop, per point. */
double md_fa_nest_steps(const md_fa_target *target, const int64_t *size);

/* Of a family that takes every stage, in any layout; it has no fields. */
bool md_fa_nest_applies(const md_fa_target *target);
bool md_fa_nest_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size);
void md_fa_nest_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config);

#endif
