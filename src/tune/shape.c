/* The shape of contiguous tensors at given sizes. */
#include "tune/tune.h"

#include "base/status.h"
#include "expr/node.h"

#include <string.h>

/* The length that the formula's subscripts need of an axis at these sizes; 1 where nothing is known (a gather's table).
 */
static int64_t length_needed(const md_fx_formula *f, int32_t t, int32_t axis, const int64_t *size)
{
    int64_t needed = 1;
    for (int32_t i = 0; i < f->n_reaches; i++) {
        const md_fx_reach *r = &f->reach[i];
        int64_t lo, hi;
        if (r->tensor != t || r->axis != axis)
            continue;
        if (md_fx_range(&lo, &hi, f, size, r) && lo <= hi && hi < INT64_MAX)
            needed = MD_MAX(needed, hi + 1);
    }
    return needed;
}

static void set_sizes(md_kn_shape *out, const md_fx_formula *f, const int64_t *size)
{
    memcpy(out->size, size, (size_t)f->n_dims * sizeof *size);
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t a = 0; a < f->tensor[t].rank; a++) {
            int32_t dim = f->tensor[t].dim[a];
            if (f->tensor[t].at_least[a])
                out->size[dim] = MD_MAX(out->size[dim], length_needed(f, t, a, size));
        }
}

/* Row-major without gaps at a 64-byte boundary; rows start at such boundaries only where their length makes them. */
static void set_layout(md_kn_shape *out, const md_fx_formula *f, int32_t t)
{
    const md_fx_tensor *tensor = &f->tensor[t];
    const uint32_t bit = (uint32_t)1 << t;
    const int64_t item = (int64_t)md_dtype_size(tensor->dtype);
    bool is_aligned = true, is_aligned16 = true;
    for (int32_t a = 0; a < tensor->rank; a++)
        out->extent[t][a] = out->size[tensor->dim[a]];
    /* its strides never overflow */
    const md_tensor x = md_tensor_make(NULL, tensor->dtype, tensor->rank, out->extent[t]);
    for (int32_t a = 0; a < tensor->rank; a++) {
        out->stride[t][a] = x.stride[a];
        if (a + 1 < tensor->rank && out->extent[t][a] > 1 && x.stride[a] % 64 * item % 64)
            is_aligned = false;
        if (a + 1 < tensor->rank ? out->extent[t][a] > 1 && x.stride[a] % 16 * item % 16
                                 : out->extent[t][a] % 16 * item % 16)
            is_aligned16 = false; /* whole pieces, too */
    }
    out->aligned16 |= is_aligned16 ? bit : 0;
    out->contiguous |= bit;
    out->unit |= bit;
    if (is_aligned)
        out->aligned |= bit;
}

void md_tn_shape(md_kn_shape *out, const md_st_program *program, const int64_t *size)
{
    memset(out, 0, sizeof *out);
    set_sizes(out, program->formula, size);
    for (int32_t t = 0; t < program->formula->n_tensors; t++)
        set_layout(out, program->formula, t);
}
