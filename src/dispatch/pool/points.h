/* What diagonal hints do not see: rows that lie at no boundary, and points away from the diagonal. On GPUs pools
 * have kernels for those, too. */
#ifndef MD_DISPATCH_POOL_POINTS_H
#define MD_DISPATCH_POOL_POINTS_H

#include "dispatch/pool/space.h"
#include "tune/search/search.h"

/* Corners: for each of three dims that is long, ten, with rows at boundaries and not. */
enum { MD_DS_MAX_CORNERS = 64 };

/** A hint, no larger than a model can count; ragged: odd sizes. */
void md_ds_hint_point(md_tn_point *out, const md_fa_target *target, const md_ds_space *space, int32_t hint,
                      bool is_ragged);
/** Corners of a space of one to three dims, out[MD_DS_MAX_CORNERS], how many. */
int32_t md_ds_corner_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space);
/** The shape that contiguous tensors have at a point; none at a boundary where it is ragged. */
void md_ds_point_shape(md_kn_shape *out, const md_fa_target *target, const md_tn_point *point);

/** Halves sizes (by dim id) beyond what any machine has, largest first. */
void md_ds_bring_into_reach(int64_t size[MD_FX_MAX_DIMS], const md_fa_target *target);
/** Operations and bytes of the stage at these sizes: what a call may ask for ends at MD_DS_MOST_WORK, below what 64
 * bits count. */
double md_ds_work(const md_fa_target *target, const int64_t *size);
#define MD_DS_MOST_WORK 1e18

#endif
