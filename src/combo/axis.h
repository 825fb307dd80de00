/* What fields of configs stand for, so that kernels of different families are tuned alike. */
#ifndef MD_COMBO_AXIS_H
#define MD_COMBO_AXIS_H

#include "build/build.h"

/* X: columns of a block, or the rows of a reduction that a block has. Y: its other rows. R: the part of a reduced row
 * that is read at once. */
typedef enum md_cb_axis {
    MD_CB_X,
    MD_CB_Y,
    MD_CB_R,
    MD_CB_BLOCK_AXES, /* the number of block dims */
    MD_CB_PLAIN = MD_CB_BLOCK_AXES,
    MD_CB_THREADS
} md_cb_axis;

md_cb_axis md_cb_axis_of(const md_fa_family *family, int32_t field);
/** Sizes along X, Y and R that a stage has at these sizes by dim id; at least 1. */
void md_cb_axis_sizes(int64_t size[MD_CB_BLOCK_AXES], const md_fa_target *target, const int64_t *of_dim);
/** The most that a block dim may be where there are so many elements: the next power of two. */
int64_t md_cb_axis_limit(const int64_t size[MD_CB_BLOCK_AXES], md_cb_axis axis);
/** The value of a field of a variant's config, `otherwise` if its family has no such field. */
int32_t md_cb_axis_value(const md_bd_variant *v, const char *field, int32_t otherwise);
/** True if a warp can compute an item: a pointwise one of few points, of one block, whose threads do not work together.
 * Then says how many points and rows it has. */
bool md_cb_axis_suits_warp(int32_t *points, int32_t *rows, const md_bd_variant *v, const md_kn_geometry *geometry,
                           const md_kn_shape *shape);

#endif
