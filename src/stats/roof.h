/* How near the chosen kernels are to what their device allows. */
#ifndef MD_STATS_ROOF_H
#define MD_STATS_ROOF_H

#include "dispatch/op.h"
#include "tune/tune.h"

#include <jansson.h>

/** What keeps the stage's variant from the roofline at sizes by dim id. False where the model does not say: the
 * reference, a stage that a chain replaces, a kernel of a user's. */
bool md_ss_shortfall(md_tn_shortfall *out, const md_ds_op *op, int32_t stage, int32_t variant, const int64_t *size);
/** {"us", "limit", "reason", "lost_us", "model_us"}; null where there is nothing to say (us = 0). NULL if memory is
 * short. */
json_t *md_ss_roof_json(const md_tn_shortfall *shortfall);

#endif
