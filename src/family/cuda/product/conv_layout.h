/* A stage as a convolution in the sense of a library: which axes of its tensors are batch, channels and image. */
#ifndef MD_FAMILY_CUDA_PRODUCT_CONV_LAYOUT_H
#define MD_FAMILY_CUDA_PRODUCT_CONV_LAYOUT_H

#include "family/cuda/product/gemm.h"

enum { MD_FA_CONV_AXES = 5, MD_FA_CONV_TENSORS = 3 };

typedef struct md_fa_conv_layout {
    bool is_of_filter; /* the gradient of the filter: that is stored, and the result's gradient is read */
    int32_t tensor[MD_FA_CONV_TENSORS]; /* image, filter, result */
    int32_t n_axes; /* of a convolution: 2 and its axes of the image */
    /* of batch, channels (of the filter: those of the result, then those of the image) and image: the tensor's axis,
     * and the dim of the formula; -1: of size 1 */
    int32_t axis[MD_FA_CONV_TENSORS][MD_FA_CONV_AXES], dim[MD_FA_CONV_TENSORS][MD_FA_CONV_AXES];
    int64_t step[3], apart[3], before[3]; /* of axes of the image */
    bool has_planes; /* channels of some tensor are not its last axis */
} md_fa_conv_layout;

/** False where the stage is more or less than a convolution of one image by one filter, zero outside of the image, or
 * the gradient of its filter. */
bool md_fa_conv_layout_of(md_fa_conv_layout *out, const md_cg_product *product);

#endif
