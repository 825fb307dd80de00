/* Constants of the cost model of conv_lib: how long cuDNN takes.
 *
 * Families: conv_lib
 * Source: ten layers of ResNet-50 at batches 1 and 32 on an H200, 29 November 2026 (data/results/convolution.md) */
#ifndef MD_FAMILY_CUDA_PRODUCT_CONV_LIB_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_CONV_LIB_FIT_H

#include "family/fit.h"

/* us of a launch and of 64 steps of K; the part of the tensor cores' rate, with 128 columns and more; channels that are
 * no multiple of eight want another layout first: times as long. */
MD_FIT(START, 5.0)
MD_FIT(STEP, 0.052)
MD_FIT(RATE, 0.8)
MD_FIT(UNALIGNED, 2.0)

/* Planes are moved by the library itself, on top: us; images and filter, times as long as touching their bytes once
 * (13 layers of 3 x 3 at batches 1, 7 and 32, the same H200, 30 November 2026). */
MD_FIT(PLANES, 1.3)
MD_FIT(PLANES_OF_IMAGES, 3.7)
MD_FIT(PLANES_OF_FILTER, 11.6)

#endif
