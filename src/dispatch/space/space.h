/* The shape space of an op: its dynamic dims, the hints in it, and the distance of two points. */
#ifndef MD_DISPATCH_SPACE_SPACE_H
#define MD_DISPATCH_SPACE_SPACE_H

#include "base/strbuf.h"
#include "expr/formula.h"

enum { MD_DS_MAX_HINTS = 64, MD_DS_MAX_VALUES = 32 /* of a dim */, MD_DS_MAX_DYNAMIC = 16, MD_DS_LABEL = 96 };

/* The largest size that a hint may have. */
#define MD_DS_MOST_HINT (INT64_C(1) << 40)

/* Sizes to choose by, where a call gives them: parallel to md_ds_space.dim, 0 for the shape's own. */
typedef struct md_ds_as {
    int32_t n; /* sizes given; 0: none, and size[] is not looked at */
    int64_t size[MD_DS_MAX_DYNAMIC];
} md_ds_as;

typedef struct md_ds_space {
    const md_fx_formula *formula;
    int32_t n; /* dynamic dims that some index runs over, in order of first appearance */
    int32_t dim[MD_DS_MAX_DYNAMIC];
    double weight[MD_DS_MAX_DYNAMIC]; /* of the user; 1 by default */
    double occurrences[MD_DS_MAX_DYNAMIC]; /* axes of arguments, inputs then outputs, that have the dim */
    int32_t n_hints;
    int64_t hint[MD_DS_MAX_HINTS][MD_DS_MAX_DYNAMIC]; /* parallel to dim[] */
} md_ds_space;

/** Makes the space. `hints`: "64,256" (diagonal), "b=1,8 n=64,4096" (grid over named dims; a dim that is not named
 * is 256), "(b=1,n=64) (b=512,n=4096)" (points). Points are moved into the dims' declared ranges; equal ones
 * merge. An op without dynamic dims gets one hint. INVALID_ARGUMENT names the offending part, and `source`
 * ("MD_HINTS", "option hints"). */
md_status md_ds_space_make(md_ds_space *out, const md_fx_formula *formula, const char *hints, const char *source,
                           const char *weights);

/** sum over dims of w * |log2 x - log2 h|, sizes below 1 counting as 1/2 (log2 = -1). MD_METRIC_INDUCTOR: w is the
 * number of occurrences of the dim in the arguments, as in TorchInductor's multi-kernel (PyTorch 2.9,
 * multi_kernel.py). */
double md_ds_distance(const md_ds_space *space, md_metric metric, const int64_t *size, const int64_t *hint);

/** The nearest hint, ties to the earlier one, and its distance. */
int32_t md_ds_nearest_hint(double *distance, const md_ds_space *space, md_metric metric, const int64_t *size);
/** Takes the sizes to choose by from the end of a call's arguments: *n_args becomes the number of those before them.
 * INVALID_ARGUMENT for an unknown dim, one that is given twice, and a size outside the dim's range. */
md_status md_ds_as_take(md_ds_as *out, const md_ds_space *space, const md_arg *args, int32_t *n_args);
/** Sizes by dim id with those of `as` in place of the shape's. */
void md_ds_as_sizes(int64_t out[MD_FX_MAX_DIMS], const md_ds_space *space, const int64_t *size, const md_ds_as *as);

/** All sizes by dim id at a point (parallel to dim[]): static dims and the point's; others stay 0. */
void md_ds_point_sizes(int64_t size[MD_FX_MAX_DIMS], const md_ds_space *space, const int64_t *point);
/** All sizes by dim id at hint i: static dims and the hint's; dims that no index runs over stay 0. */
static inline void md_ds_hint_sizes(int64_t size[MD_FX_MAX_DIMS], const md_ds_space *space, int32_t i)
{
    md_ds_point_sizes(size, space, space->hint[i]);
}
/** The place of a dim in space->dim; -1 where it is static, or no index runs over it. */
int32_t md_ds_slot_of(const md_ds_space *space, int32_t dim);
/** Adds hints as they are written, "(b=1,n=64) (b=512,n=4096)": those of the bits in `chosen`. */
void md_ds_print_hints(md_strbuf *out, const md_ds_space *space, uint64_t chosen);

/** True if `source` says that neither options nor environment gave hints. */
bool md_ds_are_default_hints(const char *source);

/* ---- grid.c: the default hints of selection by distance, and classes of alignment */

/* Hints of the grid in an octave of each dynamic dim. */
#define MD_DS_GRID_STEPS 4.0

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
