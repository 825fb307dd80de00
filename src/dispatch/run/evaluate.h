/* The reference evaluator on bound arguments. */
#ifndef MD_DISPATCH_RUN_EVALUATE_H
#define MD_DISPATCH_RUN_EVALUATE_H

#include "dispatch/bind/alias.h"

/** Evaluates the formula on the caller's thread. `copies` names inputs that share memory with an output: they are read
 * as the caller gave them. The device has to be idle. Data pointers in `binding` may be changed. */
md_status md_ds_evaluate(const md_ds_op *op, md_fx_binding *binding, const md_ds_copies *copies,
                         const md_kn_shape *shape);

#endif
