/* What a pool holds: for every hint the best config of every family that applies (of reductions always a persistent and
 * another variant, however slow the model finds them), on GPUs variants for extra points off
 * the hints, a user's own kernels, a library's, the representatives of numeric classes; or the pinned variant alone. */
#ifndef MD_DISPATCH_POOL_FILL_H
#define MD_DISPATCH_POOL_FILL_H

#include "dispatch/pool/pool.h"

/** Chooses configs and starts building them, in a pool that was initialized. only_first: those for the first hint, if
 * there are any; md_ds_pool_fill_rest adds the others. */
md_status md_ds_pool_fill(md_ds_pool *c, bool only_first);
/** Adds what only_first left out, while others read the pool. One thread. */
md_status md_ds_pool_fill_rest(md_ds_pool *c);

#endif
