/* How near the chosen kernels are to what their device allows. */
#ifndef MD_STATS_ROOF_H
#define MD_STATS_ROOF_H

#include "dispatch/op.h"
#include "tune/tune.h"

#include <jansson.h>

/** What keeps a stage of a plan from the roofline, at sizes by dim id. us is 0 where there is nothing to say: of the
 * reference evaluator, and of a stage that is idle. */
md_tn_shortfall md_ss_shortfall(const md_ds_op *op, const md_ds_plan *plan, int32_t stage, const int64_t *size);
/** {"us", "limit", "reason", "lost_us", "model_us"}; null where there is nothing to say (us = 0). NULL if memory is
 * short. */
json_t *md_ss_roof_json(const md_tn_shortfall *shortfall);

#endif
