/* The reference evaluator on a call's memory, wherever that lies. */
#include "base/dtype.h"
#include "base/status.h"
#include "dispatch/call/slow_call.h"

#include <stdlib.h>
#include <string.h>

/* A piece of device memory and its copy. Tensors that overlap share one, so that writing one back undoes no other. */
typedef struct encoded {
    uintptr_t lo, hi;
    char *host;
} encoded;

typedef struct images {
    int32_t n;
    encoded at[MD_FX_MAX_TENSORS];
} images;

static bool has_data(const md_ds_op *op, const md_fx_binding *b, int32_t t)
{
    return op->formula->tensor[t].role != MD_FX_TEMP && b->tensor[t].data && md_ds_span(&b->tensor[t]) > 0;
}

static void add_range(images *m, uintptr_t lo, uintptr_t hi)
{
    for (int32_t i = 0; i < m->n; i++) {
        if (hi <= m->at[i].lo || m->at[i].hi <= lo)
            continue;
        lo = MD_MIN(lo, m->at[i].lo);
        hi = MD_MAX(hi, m->at[i].hi);
        m->at[i] = m->at[--m->n];
        i = -1; /* the larger range may touch those before */
    }
    m->at[m->n++] = (encoded){.lo = lo, .hi = hi};
}

static const encoded *image_of(const images *m, const void *data)
{
    const encoded *i = m->at;
    while ((uintptr_t)data < i->lo || (uintptr_t)data >= i->hi)
        i++;
    return i;
}

/* At the same distance from a 64-byte boundary. */
static char *place_of(const encoded *i, const void *data)
{
    return i->host + i->lo % 64 + ((uintptr_t)data - i->lo);
}

static md_status bring(images *m, md_ds_op *op, md_fx_binding *b)
{
    md_dev *dev = op->runtime->dev;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (has_data(op, b, t))
            add_range(m, (uintptr_t)b->tensor[t].data, (uintptr_t)b->tensor[t].data + md_ds_span(&b->tensor[t]));
    for (int32_t i = 0; i < m->n; i++) {
        encoded *x = &m->at[i];
        x->host = aligned_alloc(64, (x->hi - x->lo + 64 + 63) / 64 * 64);
        if (!x->host)
            return md_fail_memory();
        MD_TRY(dev->ops->copy(dev, x->host + x->lo % 64, (const void *)x->lo, x->hi - x->lo));
    }
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (has_data(op, b, t))
            b->tensor[t].data = place_of(image_of(m, b->tensor[t].data), b->tensor[t].data);
    return MD_OK;
}

static md_status take_back(const images *m, md_ds_op *op, const md_fx_binding *original)
{
    md_dev *dev = op->runtime->dev;
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        const md_tensor *x = &original->tensor[t];
        if (op->formula->tensor[t].role == MD_FX_OUTPUT && has_data(op, original, t))
            MD_TRY(dev->ops->copy(dev, x->data, place_of(image_of(m, x->data), x->data), md_ds_span(x)));
    }
    return MD_OK;
}

static md_status evaluate(const md_ds_op *op, md_fx_binding *binding, const md_kn_shape *shape)
{
    md_fx_fault fault = {0};
    MD_TRY(md_fx_evaluate(op->formula, binding, &fault));
    if (!fault.is_set)
        return MD_OK;
    return md_fail(MD_INVALID_ARGUMENT, "op %s: index %lld is outside axis %d of '%s', which has %lld elements",
                   op->name, (long long)fault.value, fault.axis, op->formula->tensor[fault.tensor].name,
                   (long long)shape->extent[fault.tensor][fault.axis]);
}

md_status md_ds_evaluate(md_ds_op *op, md_ds_bound *bound)
{
    images m = {0};
    md_fx_binding *b = &bound->binding;
    for (int32_t i = 0; i < bound->copies.n; i++)
        b->tensor[bound->copies.tensor[i]] = bound->copies.from[i];
    if (!md_ds_is_async(op->runtime))
        return evaluate(op, b, &bound->shape);
    md_fx_binding there = *b;
    md_status s = bring(&m, op, b);
    if (s == MD_OK) {
        s = evaluate(op, b, &bound->shape);
        md_status back = s == MD_OK || s == MD_INVALID_ARGUMENT ? take_back(&m, op, &there) : MD_OK;
        s = s == MD_OK ? back : s;
    }
    for (int32_t i = 0; i < m.n; i++)
        free(m.at[i].host);
    return s;
}

md_status md_ds_reference(md_ds_op *op, const md_arg *args, int32_t n_args)
{
    md_ds_bound bound;
    md_dev *dev = op->runtime->dev;
    MD_TRY(md_ds_bind(&bound, op, args, n_args));
    if (bound.is_empty)
        return MD_OK;
    MD_TRY(md_ds_check_pointers(op, &bound));
    MD_TRY(dev->ops->sync(dev, NULL));
    atomic_fetch_add_explicit(&op->count.by_reference, 1, memory_order_relaxed);
    return md_ds_evaluate(op, &bound);
}
