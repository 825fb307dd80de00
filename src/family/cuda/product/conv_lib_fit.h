/* Constants of the cost model of conv_lib: how long cuDNN takes.
 *
 * Families: conv_lib
 * Source: ten layers of ResNet-50 at batches 1 and 32 on an H200, 29 November 2026 (data/results/convolution.md) */
#ifndef MD_FAMILY_CUDA_PRODUCT_CONV_LIB_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_CONV_LIB_FIT_H

#include "family/fit.h"

/* us of a launch and of 64 steps of K; the part of the tensor cores' rate, with 128 columns and more; channels that are
 * no multiple of eight want another layout first: times as long; planes are moved by the library itself: times as long
 * as all memory is touched once, on top. */
MD_FIT(START, 5.0)
MD_FIT(STEP, 0.052)
MD_FIT(RATE, 0.8)
MD_FIT(UNALIGNED, 2.0)
MD_FIT(PLANES, 2.0)

#endif
