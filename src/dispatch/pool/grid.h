/* The default hints of selection by distance: a grid, a quarter of an octave apart in every dynamic dim. And classes of
 * alignment, for which a hint may have different best variants. */
#ifndef MD_DISPATCH_POOL_GRID_H
#define MD_DISPATCH_POOL_GRID_H

#include "dispatch/pool/space.h"

/* Points of the grid per octave. */
#define MD_DS_GRID 4.0

/** The hint of the grid that is nearest to `size` (by dim id), parallel to space->dim. Returns the distance. */
double md_ds_nearest_on_grid(int64_t hint[MD_DS_MAX_DYNAMIC], const md_ds_space *space, md_metric metric,
                             const int64_t *size);

/** Sizes by dim id, near `hint`, that have the alignment class of `size`: each dynamic size is divisible by the same
 * powers of two, up to 64. Kernels for aligned rows do not fit odd ones, and half a vector more takes a step more, so a
 * hint's best variant is looked for among the sizes of the call's class. Returns true if these are the hint itself. */
bool md_ds_sizes_at_hint(int64_t out[MD_FX_MAX_DIMS], const md_ds_space *space, const int64_t *size,
                         const int64_t *hint);

/** "i=64 j=256": a point parallel to space->dim; "static" where nothing is dynamic. */
void md_ds_point_label(char out[MD_DS_LABEL], const md_ds_space *space, const int64_t *point);

#endif
