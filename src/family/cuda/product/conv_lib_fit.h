/* Constants of the cost model of conv_lib: how long cuDNN takes.
 *
 * Families: conv_lib
 * Source: ten layers of ResNet-50 at batches 1 and 32 on an H200, 29 November 2026 (data/results/convolution.md)
 * Runs: data/results/2026-11-30-h200-model.tar.xz:2026-11-30-h200-model/regret_conv_0243.jsonl@r=3,s=3
 *   data/results/2026-11-30-h200.tar.xz:2026-11-30-h200/regret_conv_0032.jsonl@r=3,s=3
 *   data/results/2026-11-29-h200-products.tar.xz:regret_convolutions.jsonl
 * Fit: 30 November 2026, H200: 18.9% root mean square of log(model / recorded), picks lose 7.1%, 228 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_CONV_LIB_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_CONV_LIB_FIT_H

#include "family/fit.h"

/* us of a launch, and of 64 steps of K: in each wave of tiles, and of a tile alone; channels that are no multiples of
 * eight, or eight (conv-6), take as many times as long. */
MD_FIT(START, 6.3)
MD_FIT(STEP, 0.627)
MD_FIT(STEP_ALONE, 0.135)
MD_FIT(UNALIGNED, 2.0)

/* Operations in a us: of f32 without TF32 by planes (6 layers at batch 7, the same H200, 30 November 2026), and us of
 * 64 steps of K of a tile alone; channels last take longer. Of gradients of filters: 4 layers at batch 32 (conv-5, the
 * same day). */
MD_FIT(F32_RATE, 22.7e6)
MD_FIT(F32_STEP_ALONE, 1.3)
MD_FIT(F32_PIXELS, 1.1)
MD_FIT(FILTER_RATE, 600e6)

/* Planes are moved by the library itself, on top: us; images and filter, times as long as touching their bytes once
 * (13 layers of 3 x 3 at batches 1, 7 and 32, the same H200, 30 November 2026). */
MD_FIT(PLANES, 1.3)
MD_FIT(PLANES_OF_IMAGES, 3.7)
MD_FIT(PLANES_OF_FILTER, 11.6)
/* Operations of planes in a us, less few filters' times as long; us of 64 steps of K alone (the same). */
MD_FIT(RATE, 650e6)
MD_FIT(NARROW, 1.6)
MD_FIT(PLANES_STEP_ALONE, 0.075)

/* 1 x 1 filters by planes: us, and operations in a us; where images are no multiples of eight places for many images
 * or, if that is less, for each (5 layers at batches 1, 7 and 32, layouts-4 of 30 November 2026). */
MD_FIT(POINTS, 2.5)
MD_FIT(POINTS_RATE, 400e6)
MD_FIT(POINTS_MOVED, 10.0)
MD_FIT(POINTS_MOVED_RATE, 208e6)
MD_FIT(POINTS_ALONE, 5.7)
MD_FIT(POINTS_EACH, 1.2)

#endif
