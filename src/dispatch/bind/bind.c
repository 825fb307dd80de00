/* Binds the arguments of a call and checks them as far as the slow call does. */
#include "dispatch/bind/bind.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static bool has_no_output(const md_ds_op *op, const md_fx_binding *b)
{
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        if (op->formula->tensor[t].role != MD_FX_OUTPUT)
            continue;
        bool is_empty = false;
        for (int32_t a = 0; a < b->tensor[t].rank; a++)
            is_empty |= b->tensor[t].size[a] == 0;
        if (!is_empty)
            return false;
    }
    return true;
}

md_status md_ds_bind(md_ds_bound *out, const md_ds_op *op, const md_arg *args, int32_t n_args)
{
    MD_TRY(md_ds_as_take(&out->as, &op->space, args, &n_args));
    MD_TRY(md_fx_bind(&out->binding, op->formula, args, n_args));
    out->is_empty = has_no_output(op, &out->binding);
    out->is_timed = out->is_sample = out->is_patient = false;
    MD_TRY(md_ds_find_aliases(&out->copies, op, &out->binding));
    md_ds_shape_of(&out->shape, op, &out->binding);
    return MD_OK;
}

/* "host", "cuda:1". */
static void device_name(char out[32], const md_dev *dev)
{
    if (dev->facts.kind == MD_DEV_CUDA)
        snprintf(out, 32, "cuda:%d", (int)dev->facts.index);
    else
        snprintf(out, 32, "%s", dev->ops->name);
}

static md_status check_pointer(const md_ds_op *op, int32_t tensor, const md_tensor *x)
{
    md_dev *dev = op->runtime->dev;
    char why[200], device[32];
    if (!x->data || md_ds_span(x) == 0)
        return MD_OK;
    md_status s = dev->ops->check_pointer(dev, x->data);
    if (s == MD_OK)
        return MD_OK;
    snprintf(why, sizeof why, "%s", md_last_error());
    device_name(device, dev);
    return md_fail(s, "op %s: argument '%s': %s; the op runs on %s", op->name, op->formula->tensor[tensor].name, why,
                   device);
}

md_status md_ds_check_pointers(const md_ds_op *op, const md_ds_bound *bound)
{
    if (!op->runtime->dev->ops->check_pointer)
        return MD_OK;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->formula->tensor[t].role != MD_FX_TEMP)
            MD_TRY(check_pointer(op, t, &bound->binding.tensor[t]));
    for (int32_t i = 0; i < bound->copies.n; i++)
        MD_TRY(check_pointer(op, bound->copies.tensor[i], &bound->copies.from[i]));
    return MD_OK;
}

md_status md_ds_check_stream(const md_ds_op *op, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    char why[200];
    if (!dev->ops->check_stream || dev->ops->check_stream(dev, stream) == MD_OK)
        return MD_OK;
    snprintf(why, sizeof why, "%s", md_last_error());
    return md_fail(MD_INVALID_ARGUMENT, "op %s: %s", op->name, why);
}

void md_ds_fill_call(md_kn_call *call, const md_ds_op *op, const md_ds_bound *bound)
{
    const md_fx_formula *f = op->formula;
    memset(call, 0, sizeof *call);
    call->shape = &bound->shape;
    call->report = op->report.kernel;
    call->program = op->program;
    call->device = op->runtime->dev;
    call->threads = op->runtime->dev->facts.threads;
    for (int32_t t = 0; t < f->n_tensors; t++)
        call->data[t] = f->tensor[t].role == MD_FX_TEMP ? NULL : bound->binding.tensor[t].data;
    for (int32_t s = 0; s < f->n_scalars; s++) {
        if (f->scalar[s].type == MD_I64)
            call->scalar[s].i = bound->binding.integer[s];
        else
            call->scalar[s].d = bound->binding.real[s];
    }
}
