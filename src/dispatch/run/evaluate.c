/* Runs the reference evaluator on the memory of a call. Device memory that the CPU cannot read is copied to the host
 * and back. */
#include "dispatch/run/run.h"

#include "base/status.h"
#include "dispatch/bind/bind.h"

#include <stdlib.h>

/* A range of device memory and its copy. Tensors that overlap share one copy, so that all of them see one state. */
typedef struct host_copy {
    uintptr_t lo, hi;
    char *host;
} host_copy;

typedef struct host_copies {
    int32_t n;
    host_copy at[MD_FX_MAX_TENSORS];
} host_copies;

static bool has_data(const md_ds_op *op, const md_fx_binding *b, int32_t t)
{
    return op->formula->tensor[t].role != MD_FX_TEMP && b->tensor[t].data && md_ds_span(&b->tensor[t]) > 0;
}

static void add_range(host_copies *copies, uintptr_t lo, uintptr_t hi)
{
    for (int32_t i = 0; i < copies->n; i++) {
        if (hi <= copies->at[i].lo || copies->at[i].hi <= lo)
            continue;
        lo = MD_MIN(lo, copies->at[i].lo);
        hi = MD_MAX(hi, copies->at[i].hi);
        copies->at[i] = copies->at[--copies->n];
        i = -1; /* the larger range may overlap earlier ones */
    }
    copies->at[copies->n++] = (host_copy){.lo = lo, .hi = hi};
}

static const host_copy *copy_of(const host_copies *copies, const void *data)
{
    const host_copy *copy = copies->at;
    while ((uintptr_t)data < copy->lo || (uintptr_t)data >= copy->hi)
        copy++;
    return copy;
}

/* Copies keep the distance from a 64-byte boundary. */
static char *host_address(const host_copy *copy, const void *data)
{
    return copy->host + copy->lo % 64 + ((uintptr_t)data - copy->lo);
}

static md_status copy_in(host_copies *copies, const md_ds_op *op, md_fx_binding *b)
{
    md_dev *dev = op->runtime->dev;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (has_data(op, b, t))
            add_range(copies, (uintptr_t)b->tensor[t].data, (uintptr_t)b->tensor[t].data + md_ds_span(&b->tensor[t]));
    for (int32_t i = 0; i < copies->n; i++) {
        host_copy *copy = &copies->at[i];
        copy->host = aligned_alloc(64, (copy->hi - copy->lo + 64 + 63) / 64 * 64);
        if (!copy->host)
            return md_fail_memory();
        MD_TRY(dev->ops->copy(dev, copy->host + copy->lo % 64, (const void *)copy->lo, copy->hi - copy->lo));
    }
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (has_data(op, b, t))
            b->tensor[t].data = host_address(copy_of(copies, b->tensor[t].data), b->tensor[t].data);
    return MD_OK;
}

static md_status copy_out(const host_copies *copies, const md_ds_op *op, const md_fx_binding *original)
{
    md_dev *dev = op->runtime->dev;
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        const md_tensor *x = &original->tensor[t];
        if (op->formula->tensor[t].role == MD_FX_OUTPUT && has_data(op, original, t))
            MD_TRY(dev->ops->copy(dev, x->data, host_address(copy_of(copies, x->data), x->data), md_ds_span(x)));
    }
    return MD_OK;
}

static md_status evaluate(const md_ds_op *op, md_fx_binding *binding, const md_kn_shape *shape)
{
    md_fx_fault found = {.cancel = &op->runtime->dev->cancel};
    MD_TRY(md_fx_evaluate(op->formula, binding, &found));
    if (!found.is_set)
        return MD_OK;
    const md_ds_fault fault = md_ds_fault_at(shape, found.tensor, found.axis, found.value);
    return md_ds_fail_fault(op, &fault);
}

md_status md_ds_evaluate(const md_ds_op *op, md_fx_binding *b, const md_ds_copies *inputs, const md_kn_shape *shape)
{
    host_copies copies = {0};
    for (int32_t i = 0; i < inputs->n; i++)
        b->tensor[inputs->tensor[i]] = inputs->from[i];
    if (!md_ds_is_async(op->runtime))
        return evaluate(op, b, shape);
    md_fx_binding original = *b;
    md_status s = copy_in(&copies, op, b);
    if (s == MD_OK) {
        s = evaluate(op, b, shape);
        md_status back = s == MD_OK || s == MD_INVALID_ARGUMENT ? copy_out(&copies, op, &original) : MD_OK;
        s = s == MD_OK ? back : s;
    }
    for (int32_t i = 0; i < copies.n; i++)
        free(copies.at[i].host);
    return s;
}
