/* A call of an op at some sizes, bound to memory that is not there: what a pick looks at. */
#ifndef MD_TESTS_DISPATCH_BIND_H
#define MD_TESTS_DISPATCH_BIND_H

#include "dispatch/bind/bind.h"

#include <string.h>

/* Once the sizes are bound: contiguous tensors whose data lies `offset` bytes behind a boundary, and the shape. */
static inline void bind_tensors(md_ds_bound *out, const md_ds_op *op, uintptr_t offset)
{
    const md_fx_formula *f = op->formula;
    for (int32_t t = 0; t < f->n_tensors; t++) {
        int64_t extent[MD_MAX_RANK];
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            extent[a] = out->binding.size[f->tensor[t].dim[a]];
        out->binding.tensor[t] = md_tensor_make((void *)(0x10000000000 * (uintptr_t)(t + 1) + offset),
                                                f->tensor[t].dtype, f->tensor[t].rank, extent);
    }
    md_ds_shape_of(&out->shape, op, &out->binding);
}

/* Sizes by dim in turn. */
static inline void bind(md_ds_bound *out, const md_ds_op *op, const int64_t *size, uintptr_t offset)
{
    const md_fx_formula *f = op->formula;
    memset(out, 0, sizeof *out);
    for (int32_t d = 0; d < f->n_dims; d++)
        out->binding.size[d] = f->dim[d].size >= 0 ? f->dim[d].size : size[d % 2];
    bind_tensors(out, op, offset);
}

#endif
