/* The measured search at an op's hints, where the policy asks for it, or for a formula apart from ops. */
#ifndef MD_DISPATCH_POOL_TUNE_H
#define MD_DISPATCH_POOL_TUNE_H

#include "dispatch/pool/points.h"
#include "dispatch/pool/pool.h"
#include "tune/search/search.h"

/* What a search at the hints has no say in, and what is built beside it therefore: the pool, which comes after it,
 * asks for the same. */
typedef struct md_ds_ahead {
    const md_ds_pool *c;
    md_bd *builder;
    const md_ds_space *space;
    int32_t n;
    md_bd_variant *variant[MD_DS_MAX_HINTS + MD_DS_MAX_CORNERS];
} md_ds_ahead;

/** Fills the wisdom for the hints of a stage: what md_tn_decide then answers from. Nothing below MD_TUNE_MEASURE.
 * `ahead` is zeroed, and to be finished when the pool is there. */
md_status md_ds_tune_hints(md_ds_ahead *ahead, const md_ds_pool *c, md_bd *builder, const md_ds_space *space);
void md_ds_ahead_finish(md_ds_ahead *ahead);

/** What else of the pool was timed at a hint, and lost there, joins its list: the model has no say where the clock
 * had. */
md_status md_ds_note_measured(md_ds_pool *c, const md_ds_space *space);

/** Searches one stage at the hints, and off the hints where asked. `job` says all but target, points, wisdom and
 * counters; its budget is of all stages. */
md_status md_ds_tune_stage(const md_tn_job *job, const md_fa_target *target, const md_ds_policy *policy,
                           const md_ds_space *space, bool off_hints);

#endif
