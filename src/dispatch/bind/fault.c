/* Errors for indices that kernels found outside their axis. */
#include "dispatch/bind/bind.h"

#include "base/status.h"

md_status md_ds_fail_fault(const md_ds_op *op, const md_ds_fault *fault)
{
    return md_fail(MD_INVALID_ARGUMENT, "op %s: index %lld is outside axis %d of '%s', which has %lld elements",
                   op->name, (long long)fault->value, fault->axis, op->formula->tensor[fault->tensor].name,
                   (long long)fault->extent);
}

md_status md_ds_check(md_ds_op *op)
{
    const md_kn_report *r = op->report.host;
    if (!r || !atomic_load_explicit(&r->is_set, memory_order_acquire))
        return MD_OK;
    int32_t tensor = r->tensor, axis = r->axis;
    int64_t value = r->value;
    MD_TRY(op->runtime->dev->ops->report_clear(op->runtime->dev, &op->report));
    if (tensor < 0 || tensor >= op->formula->n_tensors || axis < 0 || axis >= op->formula->tensor[tensor].rank)
        return md_fail(MD_INTERNAL, "op %s: a kernel reported axis %d of tensor %d, which does not exist", op->name,
                       axis, tensor);
    const md_fx_tensor *t = &op->formula->tensor[tensor];
    return md_fail(MD_INVALID_ARGUMENT, "op %s: an earlier call: index %lld is outside axis %d (dim '%s') of '%s'",
                   op->name, (long long)value, axis, op->formula->dim[t->dim[axis]].name, t->name);
}
