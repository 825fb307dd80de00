/* Convolutions by cuDNN 9, which is loaded on first use. Builds without CUDA have the functions, but no
 * convolutions. */
#ifndef MD_DEVICE_DNN_DNN_H
#define MD_DEVICE_DNN_DNN_H

#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

enum { MD_DEV_CUDA_CONV_RANKS = 4, MD_DEV_CUDA_CONV_AXES = 5 };
/* Convolutions, with all sizes, whose plans are kept. */
enum { MD_DEV_CUDA_CONV_MOST = 4096 };
enum { MD_DEV_CUDA_CONV_IMAGE, MD_DEV_CUDA_CONV_FILTER, MD_DEV_CUDA_CONV_RESULT, MD_DEV_CUDA_CONV_TENSORS };

/* What a convolution computes: the result, or the filter as the gradient that the result's gradient gives it. */
enum { MD_DEV_CUDA_CONV_FORWARD, MD_DEV_CUDA_CONV_OF_FILTER };

/* Y[n,o,y..] = sum[c,r..](X[n,c,y*step+r*apart-border..] * W[o,c,r..]), where places outside of X give zeros, or
 * W[o,c,r..] = sum[n,y..](X[n,c,y*step+r*apart-border..] * Y[n,o,y..]). The first two axes are batch and channels of X
 * and Y, channels of Y and X of W; then come two or three of the image. Strides are in elements. It has no padding,
 * because it is compared as bytes. */
typedef struct md_dev_cuda_conv {
    int64_t size[MD_DEV_CUDA_CONV_TENSORS][MD_DEV_CUDA_CONV_AXES],
        stride[MD_DEV_CUDA_CONV_TENSORS][MD_DEV_CUDA_CONV_AXES];
    /* of axes of the image. As many zeros lie behind an axis as in front: cuDNN takes other numbers, and gives wrong
     * results (9.19, causal rows of three zeros in front and none behind) */
    int32_t border[3], step[3], apart[3];
    int32_t n_axes; /* of a tensor: 4 or 5 */
    int32_t dtype; /* md_dtype of all three: BF16, F16, or F32, which is multiplied in f32 */
    int32_t rank; /* which answer of the heuristic, best first; the last one if there are fewer */
    int16_t alignment[MD_DEV_CUDA_CONV_TENSORS]; /* bytes that addresses and strides are multiples of */
    int16_t kind; /* CONV_FORWARD or CONV_OF_FILTER */
} md_dev_cuda_conv;

/** True if the library can be loaded and is of version 9. Loads it. */
bool md_dev_cuda_has_conv(void);

/** Runs a convolution on the stream. UNSUPPORTED if the library is missing,
 * of another version or has no kernel that is content with so much workspace, and for convolutions beyond CONV_MOST.
 * Thread-safe. */
md_status md_dev_cuda_conv_run(md_dev *dev, md_stream stream, const md_dev_cuda_conv *what,
                               void *const data[MD_DEV_CUDA_CONV_TENSORS], void *workspace, int64_t workspace_bytes);

/** Loads what a run needs, so that it takes no longer than its launch: starts the library, asks for its answers, runs
 * the answer's kernel once. Takes milliseconds, the first time a second: for background threads. Without `may_load`
 * nothing is started or loaded: NOT_FOUND if it would have to be. UNSUPPORTED as for runs. Thread-safe. */
md_status md_dev_cuda_conv_load(md_dev *dev, const md_dev_cuda_conv *what, int64_t workspace_bytes, bool may_load);

#endif
