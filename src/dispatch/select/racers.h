/* Which variants MD_SELECT_MEASURE times at a shape: the model's best few. */
#ifndef MD_DISPATCH_SELECT_RACERS_H
#define MD_DISPATCH_SELECT_RACERS_H

#include "dispatch/pool/pool.h"

/* MD_DS_OWN_RACERS: but custom kernels, of which the model knows little. */
enum { MD_DS_OWN_RACERS = 8, MD_DS_RACERS = 24 };

/** The variants that are worth timing, the most promising first; returns how many (at most MD_DS_RACERS). us[n]: by the
 * corrected model; <= 0: the variant does not serve. */
int32_t md_ds_pick_racers(int32_t variant[MD_DS_RACERS], const md_ds_pool *c, const double *us, int32_t n);

#endif
