/* The points that a pool has variants for: its hints and, on GPUs, extra points off the hints. Those are the hints'
 * ragged twins (rows at no boundary of memory) and, where hints are the defaults, lopsided points (corners). */
#ifndef MD_DISPATCH_SPACE_POINTS_H
#define MD_DISPATCH_SPACE_POINTS_H

#include "dispatch/space/space.h"
#include "tune/search/search.h"

/* The most lopsided points of a space with one to three dims. */
enum { MD_DS_MAX_CORNERS = 120 };
enum { MD_DS_MAX_BETWEEN = 32, MD_DS_CHAIN_POINTS = 20 };

/** The point of a hint, made smaller where 64 bits could not count its work; ragged: with odd sizes. */
void md_ds_hint_point(md_tn_point *out, const md_fa_target *target, const md_ds_space *space, int32_t hint,
                      bool is_ragged);
/** Lopsided points of a space of one to three dims, or of a chain's or a window's, into out[MD_DS_MAX_CORNERS]; returns
 * how many. */
int32_t md_ds_corner_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space);
/** Of a product of which an operand is a window of a tensor, as in a convolution: layers of networks, into
 * out[MD_DS_MAX_CORNERS]; returns how many, 0 for others. */
int32_t md_ds_window_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space);
/** Batches, queries and keys of a chain into out[MD_DS_CHAIN_POINTS], at the depth and columns of `size`, by dim id;
 * returns how many. */
int32_t md_ds_chain_points(md_tn_point *out, const md_fa_target *target, const md_ds_space *space, const int64_t *size);
/** True for dims of a chain's depth and columns. */
bool md_ds_is_length(const md_fa_target *target, int32_t dim);
/** True for a chain whose depth or columns are dynamic: GPUs have kernels for each length of them. */
bool md_ds_has_free_lengths(const md_fa_target *target);
/** Points of default hints on the host: between neighbours, and of one long or one short dim. Returns how many. */
int32_t md_ds_points_between(md_tn_point out[MD_DS_MAX_BETWEEN], const md_fa_target *target, const md_ds_space *space);
/** The shape of contiguous tensors at a point; at a ragged one no tensor counts as aligned. */
void md_ds_point_shape(md_kn_shape *out, const md_fa_target *target, const md_tn_point *point);

/** Halves sizes (by dim id), largest first, until the work is not more than a machine could do. */
void md_ds_bring_into_reach(int64_t size[MD_FX_MAX_DIMS], const md_fa_target *target);
/** Operations plus bytes of the stage at these sizes, or its points if they are more. Calls of more than
 * MD_DS_MOST_WORK are refused: 64 bits must be able to count them. */
double md_ds_work(const md_fa_target *target, const int64_t *size);
#define MD_DS_MOST_WORK 1e18

#endif
