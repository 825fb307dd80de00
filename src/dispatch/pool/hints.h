/* Which families' configs a pool gets for a hint. */
#ifndef MD_DISPATCH_POOL_HINTS_H
#define MD_DISPATCH_POOL_HINTS_H

#include "dispatch/pool/pool.h"

/* Variants for points off the hints, above the policy's limit. They take places of MD_DS_SPARE_VARIANTS. */
enum { MD_DS_MAX_EXTRA = 26 };
_Static_assert((int)MD_DS_MAX_EXTRA + (int)MD_DS_LAST_RESORTS <= (int)MD_DS_SPARE_VARIANTS,
               "places are left for last resorts");

/** Adds every family's best at a hint: of the families of last resort, or of the others. `is_ragged`: rows and data
 * start at no boundary of memory, as with odd lengths. */
md_status md_ds_add_hint(md_ds_pool *c, int32_t hint, bool last_resort, bool is_ragged);

/** True for host pools of default hints without numeric classes or measured results. There every variant is a run of
 * the C compiler that nobody asked for. */
bool md_ds_is_frugal(const md_ds_pool *c);
/** Adds every family once, with its config of the hint where it does best, and for every hint the best of all, if no
 * variant of the pool comes near it; then the best between hints, where the pool is far behind. Families of last resort
 * are left out. */
md_status md_ds_add_frugally(md_ds_pool *c);
/** Adds the best at the middle hint, which serves until the rest is there, and the library's. */
md_status md_ds_add_first(md_ds_pool *c);

#endif
