/* Builds plans from picks: geometry of each stage, and where temporaries and workspace lie. */
#ifndef MD_DISPATCH_SELECT_PLAN_H
#define MD_DISPATCH_SELECT_PLAN_H

#include "dispatch/op.h"

/** A zeroed plan; free() frees it. NULL if memory is short. */
md_ds_plan *md_ds_plan_create(const md_ds_op *op);
/** Computes geometry, memory and modelled time from the picks of all stages. INVALID_ARGUMENT if the memory would
 * exceed 2^63 bytes. */
md_status md_ds_plan_finish(md_ds_plan *plan, const md_ds_op *op, const md_kn_shape *shape);
/** A copy in which one stage has another pick, whose variant is ready. The caller frees it. */
md_status md_ds_plan_with(md_ds_plan **out, const md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape,
                          int32_t stage, const md_ds_pick *pick);

#endif
