/* The measured search for one stage at an op's hints: where the policy asks for it, or for a formula without an op. */
#ifndef MD_DISPATCH_POOL_TUNE_H
#define MD_DISPATCH_POOL_TUNE_H

#include "dispatch/pool/points.h"
#include "dispatch/pool/pool.h"

/* Variants for extra points that are queued behind the first builds of a search, so that they compile while it
 * measures. The pool asks for the same ones afterwards and finds them built. */
typedef struct md_ds_prebuilt {
    const md_ds_pool *c;
    int32_t n;
    md_bd_variant *variant[MD_DS_MAX_HINTS + MD_DS_MAX_CORNERS];
} md_ds_prebuilt;

/** Fills the wisdom for the hints of a pool's stage, from which md_tn_decide then answers. Nothing below
 * MD_TUNE_MEASURE. `prebuilt` is zeroed; finish it when the pool is filled. */
md_status md_ds_tune_hints(md_ds_prebuilt *prebuilt, const md_ds_pool *c);
void md_ds_prebuilt_finish(md_ds_prebuilt *prebuilt);

/** Ranks what else of the pool was timed at a hint: the model does not decide where a time is known. */
md_status md_ds_note_measured(md_ds_pool *c);

/** Searches one stage at the hints, and at the extra points where asked for and on a GPU, with half of the time for
 * each. `job` says all but target, points, wisdom and counters; its budget is of all stages. */
md_status md_ds_tune_stage(const md_tn_job *job, const md_fa_target *target, const md_ds_policy *policy,
                           const md_ds_space *space, bool off_hints);

#endif
