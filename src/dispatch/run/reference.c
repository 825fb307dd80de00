/* A whole call by the reference evaluator: what md_reference does. */
#include "dispatch/run/run.h"

#include "base/status.h"
#include "dispatch/bind/bind.h"

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
    return md_ds_evaluate(op, &bound.binding, &bound.copies, &bound.shape);
}
