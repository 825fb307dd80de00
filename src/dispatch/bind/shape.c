/* Computes the shape of a call, its classes and its key. */
#include "dispatch/bind/bind.h"

#include "base/status.h"

#include <string.h>

/* The stride of the next axis, as md_tensor_make computes it. It saturates, since temporaries that are never stored and
 * empty tensors may be larger than memory. An empty axis does not make the other strides 0. */
static int64_t next_stride(int64_t stride, int64_t extent)
{
    int64_t product;
    return __builtin_mul_overflow(stride, MD_MAX(extent, 1), &product) ? INT64_MAX : product;
}

static bool is_contiguous(const md_kn_shape *s, int32_t t, int32_t rank)
{
    int64_t expected = 1;
    for (int32_t a = rank - 1; a >= 0; a--) {
        if (s->extent[t][a] != 1 && s->stride[t][a] != expected)
            return false;
        expected = next_stride(expected, s->extent[t][a]);
    }
    return true;
}

static bool is_aligned(const md_kn_shape *s, int32_t t, int32_t rank, const void *data, int64_t item, int64_t to)
{
    if ((uintptr_t)data % (uintptr_t)to)
        return false;
    for (int32_t a = 0; a + 1 < rank; a++)
        if (s->extent[t][a] > 1 && s->stride[t][a] % to * item % to)
            return false;
    return true;
}

static void classify(md_kn_shape *s, const md_fx_formula *f, int32_t t, const void *data)
{
    int32_t rank = f->tensor[t].rank;
    uint32_t bit = (uint32_t)1 << t;
    if (is_contiguous(s, t, rank))
        s->contiguous |= bit;
    if (rank == 0 || s->stride[t][rank - 1] == 1 || s->extent[t][rank - 1] <= 1)
        s->unit |= bit;
    int64_t item = (int64_t)md_dtype_size(f->tensor[t].dtype);
    if (is_aligned(s, t, rank, data, item, 64))
        s->aligned |= bit;
    if (is_aligned(s, t, rank, data, item, 16) && (rank == 0 || s->extent[t][rank - 1] % 16 * item % 16 == 0))
        s->aligned16 |= bit;
}

static void shape_of_temp(md_kn_shape *s, const md_fx_formula *f, int32_t t)
{
    int64_t stride = 1;
    for (int32_t a = f->tensor[t].rank - 1; a >= 0; a--) {
        s->extent[t][a] = s->size[f->tensor[t].dim[a]];
        s->stride[t][a] = stride;
        stride = next_stride(stride, s->extent[t][a]);
    }
}

void md_ds_shape_of(md_kn_shape *out, const md_ds_op *op, const md_fx_binding *binding)
{
    const md_fx_formula *f = op->formula;
    memset(out, 0, sizeof *out);
    memcpy(out->size, binding->size, (size_t)f->n_dims * sizeof *out->size);
    for (int32_t t = 0; t < f->n_tensors; t++) {
        const md_tensor *x = &binding->tensor[t];
        bool is_temp = f->tensor[t].role == MD_FX_TEMP;
        if (is_temp) {
            shape_of_temp(out, f, t);
        } else {
            memcpy(out->stride[t], x->stride, (size_t)x->rank * sizeof *x->stride);
            memcpy(out->extent[t], x->size, (size_t)x->rank * sizeof *x->size);
        }
        classify(out, f, t, is_temp ? NULL : x->data);
    }
}

void md_ds_key_of(md_ds_key *out, const md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as)
{
    const md_fx_formula *f = op->formula;
    int32_t n = 0;
    int64_t *key = out->word;
    for (int32_t d = 0; d < f->n_dims; d++)
        if (f->dim[d].size < 0)
            key[n++] = shape->size[d];
    key[n++] = (int64_t)((uint64_t)shape->contiguous << 32 | shape->unit);
    key[n++] = (int64_t)((uint64_t)shape->aligned << 32 | shape->aligned16);
    for (int32_t t = 0; t < f->n_tensors; t++) {
        if (f->tensor[t].role == MD_FX_TEMP)
            continue;
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            if (f->tensor[t].at_least[a])
                key[n++] = shape->extent[t][a];
        if (!(shape->contiguous >> t & 1))
            for (int32_t a = 0; a < f->tensor[t].rank; a++)
                key[n++] = shape->stride[t][a];
    }
    for (int32_t i = 0; i < op->space.n && as->n > 0; i++)
        key[n++] = as->size[i];
    out->n = n;
}

/* ---- From a key to its shape */

typedef struct key_reader {
    const int64_t *word;
    int32_t n, at;
    bool ok;
} key_reader;

static int64_t next_word(key_reader *r)
{
    r->ok = r->ok && r->at < r->n;
    return r->ok ? r->word[r->at++] : 0;
}

static int64_t next_size(key_reader *r)
{
    const int64_t size = next_word(r);
    r->ok = r->ok && size >= 0;
    return size;
}

/* Reads the extents and strides of an argument; its class `contiguous` is set already. */
static void read_tensor(md_kn_shape *s, key_reader *r, const md_fx_formula *f, int32_t t)
{
    const md_fx_tensor *x = &f->tensor[t];
    int64_t stride = 1;
    for (int32_t a = 0; a < x->rank; a++)
        s->extent[t][a] = x->at_least[a] ? next_size(r) : s->size[x->dim[a]];
    for (int32_t a = x->rank - 1; a >= 0; a--) {
        s->stride[t][a] = stride;
        stride = next_stride(stride, s->extent[t][a]);
    }
    if (!(s->contiguous >> t & 1))
        for (int32_t a = 0; a < x->rank; a++)
            s->stride[t][a] = next_word(r);
    r->ok = r->ok && is_contiguous(s, t, x->rank) == (s->contiguous >> t & 1);
}

bool md_ds_shape_of_key(md_kn_shape *out, md_ds_as *as, const md_ds_op *op, const int64_t *word, int32_t n)
{
    const md_fx_formula *f = op->formula;
    key_reader r = {.word = word, .n = n, .ok = true};
    memset(out, 0, sizeof *out);
    memset(as, 0, sizeof *as);
    for (int32_t d = 0; d < f->n_dims; d++)
        out->size[d] = f->dim[d].size < 0 ? next_size(&r) : f->dim[d].size;
    const uint64_t layout = (uint64_t)next_word(&r), alignment = (uint64_t)next_word(&r);
    out->contiguous = (uint32_t)(layout >> 32);
    out->unit = (uint32_t)layout;
    out->aligned = (uint32_t)(alignment >> 32);
    out->aligned16 = (uint32_t)alignment;
    for (int32_t t = 0; t < f->n_tensors && r.ok; t++)
        if (f->tensor[t].role == MD_FX_TEMP)
            shape_of_temp(out, f, t);
        else
            read_tensor(out, &r, f, t);
    if (r.ok && r.at < n)
        as->n = op->space.n;
    for (int32_t i = 0; i < as->n; i++)
        as->size[i] = next_size(&r);
    return r.ok && r.at == n;
}
