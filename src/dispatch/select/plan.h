/* How a shape is served: variants of all stages, their geometry, and the memory between them. */
#ifndef MD_DISPATCH_SELECT_PLAN_H
#define MD_DISPATCH_SELECT_PLAN_H

#include "dispatch/types.h"

/* What may be done for a shape that was not met before. */
typedef enum md_ds_effort {
    MD_DS_REFERENCE_ONLY, /* the reference serves, whatever there is */
    MD_DS_ONLY_READY, /* nothing is built, measured or waited for: NOT_FOUND where nothing that is ready fits */
    /* what is ready serves while something better is being built; waits only where nothing that is ready fits */
    MD_DS_SOON,
    MD_DS_BEST /* waits for the best */
} md_ds_effort;

/** Chooses for a shape, as if it had the sizes of `as`. `call` gives data to MD_SELECT_MEASURE; NULL: the model.
 * Where nothing can be built, the reference serves. */
md_status md_ds_plan_make(md_ds_plan **out, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as,
                          const md_kn_call *call, md_ds_effort effort);
/** A copy in which one stage has another pick, whose variant is ready. */
md_status md_ds_plan_with(md_ds_plan **out, md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape,
                          int32_t stage, const md_ds_pick *pick);

#endif
