/* Finds overlaps between the tensors of a call: forbidden ones fail, and inputs that an output overwrites are listed as
 * copies. */
#include "dispatch/bind/bind.h"

#include "base/dtype.h"
#include "base/status.h"

#include <string.h>

/* The bytes that a tensor spans, its largest stride, and what its other axes span. */
typedef struct extent_of {
    uintptr_t lo, hi; /* [lo, hi) */
    int64_t big_stride; /* bytes; 0 if no axis has more than one element */
    int64_t inner; /* bytes spanned by the other axes */
    bool is_empty;
} extent_of;

static extent_of extent_make(const md_tensor *t)
{
    extent_of e = {.lo = (uintptr_t)t->data};
    int64_t item = (int64_t)md_dtype_size(t->dtype), span = item, big = 0, big_size = 1;
    for (int32_t a = 0; a < t->rank; a++)
        e.is_empty |= t->size[a] == 0;
    for (int32_t a = 0; a < t->rank && !e.is_empty; a++) { /* binding checks strides where there are elements */
        if (t->size[a] == 1)
            continue;
        int64_t step = t->stride[a] * item;
        span += step * (t->size[a] - 1);
        if (step > big) {
            big = step;
            big_size = t->size[a];
        }
    }
    e.big_stride = big;
    e.inner = span - big * (big_size - 1);
    /* span and inner are in elements; a row of an odd number of 4-bit elements shares a byte with the next one */
    if (md_dtype_is_packed(t->dtype)) {
        span = md_dtype_span(t->dtype, span);
        e.inner = big % 2 ? span : md_dtype_span(t->dtype, e.inner);
        e.big_stride = big % 2 ? 0 : big / 2;
    }
    e.hi = e.lo + (uintptr_t)span;
    return e;
}

/* Views that interleave do not overlap: the left and the right half of a matrix's columns, for example. They have the
 * same largest stride, and in every period of it each leaves the other's bytes free. */
static bool may_overlap(const extent_of *a, const extent_of *b)
{
    if (a->is_empty || b->is_empty || a->hi <= b->lo || b->hi <= a->lo)
        return false;
    if (a->big_stride == 0 || a->big_stride != b->big_stride)
        return true;
    int64_t stride = a->big_stride;
    int64_t delta = (int64_t)(b->lo - a->lo) % stride;
    if (delta < 0)
        delta += stride;
    return !(delta >= a->inner && stride - delta >= b->inner);
}

/* True if two elements of the tensor may share memory. Sorted strides tell: every layout that comes from slicing,
 * transposing and padding passes. */
static bool overlaps_itself(const md_tensor *t)
{
    bool done[MD_MAX_RANK] = {false};
    int64_t span = 1;
    for (int32_t a = 0; a < t->rank; a++)
        if (t->size[a] == 0)
            return false;
    for (int32_t k = 0; k < t->rank; k++) {
        int32_t least = -1;
        for (int32_t a = 0; a < t->rank; a++)
            if (!done[a] && (least < 0 || t->stride[a] < t->stride[least]))
                least = a;
        done[least] = true;
        if (t->size[least] == 1)
            continue;
        if (t->stride[least] < span)
            return true;
        span += t->stride[least] * (t->size[least] - 1);
    }
    return false;
}

bool md_ds_same_layout(const md_tensor *a, const md_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->size[i] != b->size[i] || (a->size[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

void md_ds_copy_elements(const md_tensor *to, const md_tensor *from)
{
    size_t item = md_dtype_size(from->dtype);
    int64_t at[MD_MAX_RANK] = {0}, n = 1;
    for (int32_t a = 0; a < from->rank; a++)
        n *= from->size[a];
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int32_t a = 0; a < from->rank; a++)
            offset += at[a] * from->stride[a];
        memcpy((char *)to->data + (size_t)i * item, (const char *)from->data + offset * (int64_t)item, item);
        for (int32_t a = from->rank - 1; a >= 0 && ++at[a] == from->size[a]; a--)
            at[a] = 0;
    }
}

size_t md_ds_span(const md_tensor *t)
{
    extent_of e = extent_make(t);
    return e.is_empty ? 0 : (size_t)(e.hi - e.lo);
}

bool md_ds_may_overlap(const md_tensor *a, const md_tensor *b)
{
    const extent_of x = extent_make(a), y = extent_make(b);
    return may_overlap(&x, &y);
}

/* Kernels read the copy, so they see the input as it was before the call. */
static md_status list_copy(md_ds_copies *copies, const md_ds_op *op, md_fx_binding *b, int32_t tensor)
{
    md_tensor *input = &b->tensor[tensor];
    size_t n = md_dtype_size(input->dtype);
    if (md_dtype_is_packed(input->dtype))
        return md_fail(MD_UNSUPPORTED,
                       "op %s: a packed input (%s) that is read after its memory is written: give it "
                       "memory of its own",
                       op->name, md_dtype_name(input->dtype));
    if (copies->n == MD_DS_MAX_COPIES)
        return md_fail(MD_UNSUPPORTED, "op %s: more than %d inputs lie in the memory of outputs", op->name,
                       MD_DS_MAX_COPIES);
    for (int32_t a = 0; a < input->rank; a++)
        n *= (size_t)input->size[a];
    copies->tensor[copies->n] = tensor;
    copies->from[copies->n++] = *input;
    copies->n_bytes += md_ds_align(n);
    *input = md_tensor_make(NULL, input->dtype, input->rank, input->size);
    return MD_OK;
}

static md_status check_pair(md_ds_copies *copies, const md_ds_op *op, md_fx_binding *b, int32_t out, int32_t other)
{
    const md_fx_tensor *o = &op->formula->tensor[out], *x = &op->formula->tensor[other];
    extent_of eo = extent_make(&b->tensor[out]), ex = extent_make(&b->tensor[other]);
    if (!may_overlap(&eo, &ex))
        return MD_OK;
    if (x->role == MD_FX_OUTPUT)
        return md_fail(MD_INVALID_ARGUMENT, "outputs '%s' and '%s' overlap in memory", o->name, x->name);
    if (b->tensor[out].data != b->tensor[other].data || !md_ds_same_layout(&b->tensor[out], &b->tensor[other]))
        return md_fail(MD_INVALID_ARGUMENT, "output '%s' overlaps input '%s' in memory without being exactly it",
                       o->name, x->name);
    if (md_st_may_alias(op->program, out, other))
        return MD_OK;
    return list_copy(copies, op, b, other);
}

md_status md_ds_find_aliases(md_ds_copies *copies, const md_ds_op *op, md_fx_binding *binding)
{
    copies->n = 0;
    copies->n_bytes = 0;
    const md_fx_formula *f = op->formula;
    for (int32_t out = 0; out < f->n_tensors; out++) {
        if (f->tensor[out].role != MD_FX_OUTPUT)
            continue;
        if (overlaps_itself(&binding->tensor[out]))
            return md_fail(MD_INVALID_ARGUMENT, "elements of output '%s' overlap each other: check its strides",
                           f->tensor[out].name);
        for (int32_t t = 0; t < f->n_tensors; t++)
            if (f->tensor[t].role == MD_FX_INPUT || (f->tensor[t].role == MD_FX_OUTPUT && t > out))
                MD_TRY(check_pair(copies, op, binding, out, t));
    }
    return MD_OK;
}
