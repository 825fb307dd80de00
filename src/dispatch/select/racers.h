/* Which variants MD_SELECT_MEASURE times at a shape: the model's best few. */
#ifndef MD_DISPATCH_SELECT_RACERS_H
#define MD_DISPATCH_SELECT_RACERS_H

#include "dispatch/pool/pool.h"
#include "dispatch/select/fit.h"

/* MD_DS_OWN_RACERS: but custom kernels, of which the model knows little. */
enum { MD_DS_OWN_RACERS = 8, MD_DS_RACERS = 24 };

/** The variants that are worth timing, the most promising first; returns how many (at most MD_DS_RACERS). us[n]: by the
 * corrected model; <= 0: the variant does not serve. */
int32_t md_ds_pick_racers(int32_t variant[MD_DS_RACERS], const md_ds_pool *c, const double *us, int32_t n);

/** Loads what libraries need for the n variants, for at most `budget_ms` and the last load. Variants that cannot be
 * loaded, or for which no time was left, leave the list; returns how many stay. Waits for loads that others have begun.
 */
int32_t md_ds_load_racers(int32_t *variant, int32_t n, const md_ds_pool *c, const md_ds_query *query, double budget_ms);

#endif
