/* Answers of the model for a stage, kept in the store: on a GPU the model takes tenths of a second for a stage's pool.
 * Answers of a library built from other sources are not found. Not thread-safe: for filling one pool. */
#ifndef MD_TUNE_SEARCH_ESTIMATES_H
#define MD_TUNE_SEARCH_ESTIMATES_H

#include "tune/wisdom/wisdom.h"

typedef struct md_tn_estimates md_tn_estimates; /* NULL: knows and keeps nothing */

/** Reads what is kept for the stage. *out NULL where there is no store, or nothing worth keeping. */
md_status md_tn_estimates_open(md_tn_estimates **out, md_tn_wisdom *wisdom, const md_fa_target *target);
/** Writes what is new, and frees. */
void md_tn_estimates_close(md_tn_estimates **estimates);

/** What md_tn_best gives at this shape, from memory or anew. */
md_status md_tn_estimate(md_fa_config *out, double *us, md_tn_estimates *estimates, const md_fa_target *target,
                         const md_fa_family *family, const md_kn_shape *shape);

#endif
