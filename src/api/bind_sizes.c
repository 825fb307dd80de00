/* Binds an op to sizes given as text, without tensors of the caller. */
#include "api/context.h"
#include "base/dtype.h"
#include "base/status.h"
#include "dispatch/merged.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const md_fx_formula *formula;
    md_fx_binding *binding;
    md_fx_named named;
} reader;

static md_status set_size(void *user, const char *name, int64_t lo, int64_t hi)
{
    reader *r = user;
    int32_t d = -1;
    if (lo != hi)
        return md_fail(MD_INVALID_ARGUMENT, "sizes: '%s' needs one size here, not a range", name);
    MD_TRY(md_fx_name_dim(&d, &r->named, r->formula, name, strlen(name)));
    const md_fx_dim *dim = &r->formula->dim[d];
    if (dim->size >= 0 && dim->size != lo)
        return md_fail(MD_INVALID_ARGUMENT, "sizes: dim '%s' is static: %lld, not %lld", name, (long long)dim->size,
                       (long long)lo);
    if (lo < dim->lo || lo > dim->hi)
        return md_fail(MD_INVALID_ARGUMENT, "sizes: dim '%s' = %lld lies outside its declared range %lld..%lld", name,
                       (long long)lo, (long long)dim->lo, (long long)dim->hi);
    r->binding->size[d] = lo;
    return MD_OK;
}

static md_status fill_sizes(md_fx_binding *b, const md_ds_op *op, const char *sizes)
{
    const md_fx_formula *f = op->formula;
    for (int32_t d = 0; d < f->n_dims; d++)
        b->size[d] = f->dim[d].size;
    MD_TRY(md_fx_sizes_parse(sizes ? sizes : "", set_size, &(reader){f, b, {.source = "sizes"}}));
    for (int32_t i = 0; i < op->space.n; i++)
        if (b->size[op->space.dim[i]] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "sizes: '%s': the size of dim '%s' is missing", sizes ? sizes : "",
                           f->dim[op->space.dim[i]].name);
    return MD_OK;
}

/* Makes tensors without memory. An axis with a minimum length gets the length that the program reaches. */
static md_status make_tensors(md_fx_binding *b, const md_ds_op *op)
{
    const md_fx_formula *f = op->formula;
    md_kn_shape shape;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    for (int32_t d = 0; d < f->n_dims; d++)
        size[d] = MD_MAX(b->size[d], 0);
    md_tn_shape(&shape, op->program, size);
    for (int32_t t = 0; t < f->n_tensors; t++) {
        const md_fx_tensor *x = &f->tensor[t];
        int64_t extent[MD_MAX_RANK] = {0};
        int64_t bytes = (int64_t)md_dtype_size(x->dtype);
        for (int32_t a = 0; a < x->rank; a++) {
            extent[a] = b->size[x->dim[a]] >= 0 ? b->size[x->dim[a]] : shape.extent[t][a];
            if (x->at_least[a])
                extent[a] = MD_MAX(extent[a], shape.extent[t][a]);
            if (__builtin_mul_overflow(bytes, MD_MAX(extent[a], 1), &bytes))
                return md_fail(MD_INVALID_ARGUMENT, "sizes: '%s' would exceed 2^63 bytes", x->name);
        }
        b->tensor[t] = md_tensor_make(NULL, x->dtype, x->rank, extent);
    }
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            if (b->size[f->tensor[t].dim[a]] < 0)
                b->size[f->tensor[t].dim[a]] = b->tensor[t].size[a];
    return MD_OK;
}

static void fill(md_dtype dtype, void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (md_dtype_is_real(dtype))
            md_dtype_store(dtype, data, (int64_t)i, (double)(i * 2654435761u % 1024) / 512.0 - 1.0);
        else
            md_dtype_store_int(dtype, data, (int64_t)i, 0);
}

/* Copies the pattern to device memory in pieces of 2^20 elements: the pattern repeats after that many. */
static md_status fill_there(md_dev *dev, md_dtype dtype, char *data, size_t n)
{
    enum { PIECE = 1 << 20 };
    size_t item = md_dtype_size(dtype);
    void *piece = malloc(MD_MIN(n, PIECE) * item);
    if (!piece)
        return md_fail_memory();
    fill(dtype, piece, MD_MIN(n, PIECE));
    md_status s = MD_OK;
    for (size_t done = 0; done < n && s == MD_OK; done += PIECE)
        s = dev->ops->copy(dev, data + done * item, piece, MD_MIN(n - done, PIECE) * item);
    free(piece);
    return s;
}

static md_status make_memory(md_fx_binding *b, md_op *op)
{
    const md_fx_formula *f = op->ds->formula;
    md_dev *dev = op->context->dev;
    for (int32_t t = 0; t < f->n_tensors; t++) {
        size_t n = 1;
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            n *= (size_t)b->tensor[t].size[a];
        if (f->tensor[t].role == MD_FX_TEMP || n == 0)
            continue;
        MD_TRY(dev->ops->alloc(&b->tensor[t].data, dev, n * md_dtype_size(f->tensor[t].dtype)));
        if (md_ds_is_async(&op->context->runtime))
            MD_TRY(fill_there(dev, b->tensor[t].dtype, b->tensor[t].data, n));
        else
            fill(b->tensor[t].dtype, b->tensor[t].data, n);
    }
    return MD_OK;
}

md_status md_api_bind_sizes(md_ds_bound *out, md_op *op, const char *sizes, md_api_memory memory)
{
    memset(out, 0, sizeof *out);
    MD_TRY(fill_sizes(&out->binding, op->ds, sizes));
    MD_TRY(make_tensors(&out->binding, op->ds));
    if (memory == MD_API_MEMORY_TO_MEASURE && op->ds->policy.select == MD_SELECT_MEASURE)
        MD_TRY(make_memory(&out->binding, op));
    md_ds_shape_of(&out->shape, op->ds, &out->binding);
    return MD_OK;
}

void md_api_unbind_sizes(md_ds_bound *bound, md_op *op)
{
    md_dev *dev = op->context->dev;
    for (int32_t t = 0; t < op->ds->formula->n_tensors; t++)
        if (bound->binding.tensor[t].data)
            dev->ops->free(dev, bound->binding.tensor[t].data);
}

bool md_api_merged(md_op *out, md_strbuf *merged_sizes, md_op *op, const char *sizes)
{
    md_ds_bound bound;
    if (!md_ds_merged_of(op->ds) || md_api_bind_sizes(&bound, op, sizes, MD_API_NO_MEMORY) != MD_OK)
        return false;
    *out = *op;
    out->ds = md_ds_merged_of(op->ds);
    md_ds_merged_sizes(merged_sizes, op->ds, bound.binding.size);
    return !merged_sizes->failed;
}
