/* Finds overlaps between the tensors of a call: forbidden ones fail, and inputs that an output overwrites are listed as
 * copies. */
#include "dispatch/bind/bind.h"

#include "base/dtype.h"
#include "base/status.h"

#include <string.h>

/* What a tensor has in memory: runs of bytes along axes, those of the largest strides first. */
typedef struct extent_of {
    uintptr_t lo;
    int64_t span; /* bytes from the first to the last */
    int64_t run;
    int32_t n_axes;
    struct {
        int64_t stride, size; /* bytes; elements, more than one */
    } axis[MD_MAX_RANK];
    bool is_empty;
} extent_of;

static void add_axis(extent_of *e, int64_t stride, int64_t size)
{
    int32_t at = e->n_axes++;
    for (; at > 0 && e->axis[at - 1].stride < stride; at--)
        e->axis[at] = e->axis[at - 1];
    e->axis[at].stride = stride;
    e->axis[at].size = size;
    e->span += stride * (size - 1);
}

/* Strides and run were counted in elements of half a byte. A row of an odd number of them shares a byte with the next
 * one, so only rows of whole bytes are told apart. */
static void in_bytes(extent_of *e, md_dtype dtype)
{
    const int64_t stride = e->n_axes > 0 ? e->axis[0].stride : 0, size = e->n_axes > 0 ? e->axis[0].size : 1;
    const bool has_rows = stride > 0 && stride % 2 == 0;
    e->run = md_dtype_span(dtype, has_rows ? e->span - stride * (size - 1) : e->span);
    e->span = md_dtype_span(dtype, e->span);
    e->n_axes = has_rows;
    e->axis[0].stride = stride / 2;
}

static extent_of extent_make(const md_tensor *t)
{
    const int64_t item = (int64_t)md_dtype_size(t->dtype);
    extent_of e = {.lo = (uintptr_t)t->data, .span = item, .run = item};
    for (int32_t a = 0; a < t->rank; a++)
        e.is_empty |= t->size[a] == 0;
    for (int32_t a = 0; a < t->rank && !e.is_empty; a++) /* binding checks strides where there are elements */
        if (t->size[a] > 1)
            add_axis(&e, t->stride[a] * item, t->size[a]);
    if (md_dtype_is_packed(t->dtype))
        in_bytes(&e, t->dtype);
    return e;
}

/* Of two tensors without their axes before the k-th, which have the spans, b begins `delta` bytes behind a. Views that
 * interleave do not overlap: the left and the right half of a matrix's columns, for example. They have the same stride,
 * and in every period of it each leaves the other's bytes free. */
static bool meet(const extent_of *a, const extent_of *b, int32_t k, int64_t spans[2], int64_t delta)
{
    if (delta >= spans[0] || -delta >= spans[1])
        return false;
    const int64_t stride = k < a->n_axes ? a->axis[k].stride : 0;
    if (stride == 0 || k >= b->n_axes || stride != b->axis[k].stride)
        return true;
    int64_t inner[2] = {spans[0] - stride * (a->axis[k].size - 1), spans[1] - stride * (b->axis[k].size - 1)};
    if (inner[0] > stride || inner[1] > stride)
        return true;
    const int64_t rest = (delta % stride + stride) % stride;
    return meet(a, b, k + 1, inner, rest) || meet(a, b, k + 1, inner, rest - stride);
}

static bool may_overlap(const extent_of *a, const extent_of *b)
{
    return !a->is_empty && !b->is_empty && meet(a, b, 0, (int64_t[]){a->span, b->span}, (int64_t)(b->lo - a->lo));
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
    return e.is_empty ? 0 : (size_t)e.span;
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
