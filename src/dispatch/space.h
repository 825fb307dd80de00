/* The shape space of an op: its dynamic dims, the hints laid in it, and how far apart two points are. */
#ifndef MD_DISPATCH_SPACE_H
#define MD_DISPATCH_SPACE_H

#include "expr/formula.h"

enum { MD_DS_MAX_HINTS = 64, MD_DS_MAX_DYNAMIC = 16, MD_DS_LABEL = 96 };

typedef struct md_ds_space {
    const md_fx_formula *formula;
    int32_t n; /* dynamic dims that some index runs over, in order of first appearance */
    int32_t dim[MD_DS_MAX_DYNAMIC];
    double weight[MD_DS_MAX_DYNAMIC]; /* of the user; 1 by default */
    double occurrences[MD_DS_MAX_DYNAMIC]; /* axes of arguments, inputs then outputs, that have the dim */
    int32_t n_hints;
    int64_t hint[MD_DS_MAX_HINTS][MD_DS_MAX_DYNAMIC]; /* parallel to dim[] */
} md_ds_space;

/** Lays out the space. `hints`: "64,256" (diagonal), "b=1,8 n=64,4096" (grid over named dims; a dim that is not named is 256),
 * "(b=1,n=64) (b=512,n=4096)" (points). Points are brought into the dims' declared ranges; equal ones merge. An op
 * without dynamic dims gets one hint. INVALID_ARGUMENT names the offending part, and `source` ("MD_HINTS", "option hints"). */
md_status md_ds_space_make(md_ds_space *out, const md_fx_formula *formula, const char *hints, const char *source,
                           const char *weights);

/** sum over dims of w * |log2 x - log2 h|, sizes below 1 counting as 1/2 (log2 = -1). MD_METRIC_INDUCTOR: w is the number of
 * occurrences of the dim in the arguments, as in TorchInductor's multi-kernel (PyTorch 2.9, multi_kernel.py). */
double md_ds_distance(const md_ds_space *space, md_metric metric, const int64_t *size, const int64_t *hint);

/** All sizes by dim id at hint i: static dims and the hint's; dims that no index runs over stay 0. */
void md_ds_hint_sizes(int64_t size[MD_FX_MAX_DIMS], const md_ds_space *space, int32_t i);
/** "b=64 n=256", "static" where nothing is dynamic. */
void md_ds_hint_label(char out[MD_DS_LABEL], const md_ds_space *space, int32_t i);

#endif
