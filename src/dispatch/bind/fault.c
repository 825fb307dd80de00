/* Errors for indices that kernels found outside their axis, and for lengths above the size of a dim. */
#include "dispatch/bind/bind.h"

#include "base/status.h"

md_ds_fault md_ds_fault_at(const md_kn_shape *shape, int32_t tensor, int32_t axis, int64_t value)
{
    const int64_t extent = axis < 0 ? -1 : shape->extent[tensor][axis];
    return (md_ds_fault){tensor, axis, value, extent};
}

/* The dim of a fault of a length; -1: it is one of an index. */
static int32_t dim_of(const md_ds_op *op, int32_t axis)
{
    const int32_t dim = axis < 0 ? md_fx_length_axis(axis) : -1;
    return dim < op->formula->n_dims ? dim : -1;
}

static md_status fail_length(const md_ds_op *op, const char *when, int32_t tensor, int32_t dim, int64_t value)
{
    return md_fail(MD_INVALID_ARGUMENT, "op %s: %slength %lld in '%s' is above the size of '%s'", op->name, when,
                   (long long)value, op->formula->tensor[tensor].name, op->formula->dim[dim].name);
}

md_status md_ds_fail_fault(const md_ds_op *op, const md_ds_fault *fault)
{
    const int32_t dim = dim_of(op, fault->axis);
    if (dim >= 0)
        return fail_length(op, "", fault->tensor, dim, fault->value);
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
    const int32_t dim = dim_of(op, axis);
    const bool is_axis = tensor >= 0 && tensor < op->formula->n_tensors && axis < op->formula->tensor[tensor].rank;
    if (is_axis && dim >= 0)
        return fail_length(op, "an earlier call: ", tensor, dim, value);
    if (!is_axis || axis < 0)
        return md_fail(MD_INTERNAL, "op %s: a kernel reported axis %d of tensor %d, which does not exist", op->name,
                       axis, tensor);
    const md_fx_tensor *t = &op->formula->tensor[tensor];
    return md_fail(MD_INVALID_ARGUMENT, "op %s: an earlier call: index %lld is outside axis %d (dim '%s') of '%s'",
                   op->name, (long long)value, axis, op->formula->dim[t->dim[axis]].name, t->name);
}
