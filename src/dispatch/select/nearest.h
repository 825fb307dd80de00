/* The hints of an op that are nearest to a shape. */
#ifndef MD_DISPATCH_SELECT_NEAREST_H
#define MD_DISPATCH_SELECT_NEAREST_H

#include "dispatch/op.h"

/** True if the op selects by distance to the grid of default hints (space/grid.c), not to hints that someone gave. */
bool md_ds_has_grid(const md_ds_op *op);
/** Octaves from sizes (by dim id) to the nearest hint that the op selects by. */
double md_ds_nearest_octaves(const md_ds_op *op, const int64_t *sizes);
/** The nearest of the hints of the bits in `hints`, ties to the earlier one; -1, and distance -1, if there is none. */
int32_t md_ds_nearest_of(double *distance, const md_ds_op *op, uint64_t hints, const int64_t *sizes);

#endif
