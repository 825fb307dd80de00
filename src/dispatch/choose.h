/* Choosing a variant of one stage for one shape. */
#ifndef MD_DISPATCH_CHOOSE_H
#define MD_DISPATCH_CHOOSE_H

#include "dispatch/op.h"

/** Picks by the op's policy, for kernels at `shape` as if its sizes were `by` (by dim id). `call` gives data to MD_SELECT_MEASURE; NULL falls back to the model. `is_captured`: nothing is built or
 * measured, and UNSUPPORTED where nothing that is ready fits. NOT_FOUND where no candidate could be built; UNSUPPORTED where a pinned one does not fit. */
md_status md_ds_choose(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_kn_shape *shape, const int64_t *by, const md_kn_call *call,
                       bool is_captured);

/** The model's time of the first n candidates at sizes by dim id, calibrated by what was measured at hints. */
void md_ds_model_us(double *us, md_ds_op *op, int32_t stage, const int64_t *by, int32_t n);

/** NULL where candidate i can serve the shape, else why not ("not built: ...", "longer than it was compiled for"). */
const char *md_ds_unfit(const md_ds_candidates *c, int32_t i, const md_kn_shape *shape);

#endif
