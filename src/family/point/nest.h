/* What the nest families of both devices share. They serve every stage. */
#ifndef MD_FAMILY_POINT_NEST_H
#define MD_FAMILY_POINT_NEST_H

#include "family/family.h"

md_status md_fa_nest_emit(md_kn_source *out, const md_fa_target *target, md_dev_kind dialect);
/** Points of the outer loop: all indices except the axis of a row or a scan. */
int64_t md_fa_nest_points(const md_fa_target *target, const int64_t *size);
/** Steps of the inner loop for each point. */
double md_fa_nest_steps(const md_fa_target *target, const int64_t *size);

/* Callbacks of a family that takes every stage in any layout and has no fields. */
bool md_fa_nest_applies(const md_fa_target *target);
bool md_fa_nest_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size);

#endif
