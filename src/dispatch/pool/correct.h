/* The correction of the model for one stage of an op: dispatch's side of tune/model/correction.h. Thread-safe. */
#ifndef MD_DISPATCH_POOL_CORRECT_H
#define MD_DISPATCH_POOL_CORRECT_H

#include "dispatch/pool/pool.h"
#include "tune/model/correction.h"

/* A measured time of one variant. */
typedef struct md_ds_measured {
    int32_t variant;
    md_tn_clock clock;
    double us, model_us; /* measured; by the model, uncorrected */
} md_ds_measured;

/** Tells the correction; `size` parallel to space->dim. Times that are not positive and finite are ignored. may_wait:
 * false on the path of a call, where the time is lost if another thread uses the correction now. */
void md_ds_observe(md_ds_pool *c, const int64_t *size, const md_ds_measured *measured, bool may_wait);
/** At sizes by dim id, what an earlier process measured at `date`: it is not written to the store again. */
void md_ds_observe_stored(md_ds_pool *c, const int64_t *select_sizes, const md_ds_measured *measured, int64_t date);
/** As md_ds_observe, at sizes by dim id. */
void md_ds_observe_at(md_ds_pool *c, const int64_t *select_sizes, const md_ds_measured *measured, bool may_wait);
/** Puts a variant into a hint's ranking (md_ds_rank), and tells the correction its time if that is measured. */
void md_ds_rank_observed(md_ds_pool *c, int32_t hint, md_ds_ranked variant);
/** Corrects the model's times of n candidates (NULL: the first n) at sizes by dim id; those that are not positive
 * stay. */
void md_ds_correct(double *us, md_ds_pool *c, const int64_t *select_sizes, const int32_t *variant, int32_t n);
/** True if the candidate was measured at any point. */
bool md_ds_is_measured(md_ds_pool *c, int32_t variant);
/** Tells the correction the times of the pool's variants in installed wisdom, at any sizes. Families whose kernels have
 * another text since are left out. Failures are ignored: the model knows less then. */
void md_ds_note_elsewhere(md_ds_pool *c);

#endif
