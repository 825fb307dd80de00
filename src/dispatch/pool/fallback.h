/* A variant for a shape that none of the pool fits. */
#ifndef MD_DISPATCH_POOL_FALLBACK_H
#define MD_DISPATCH_POOL_FALLBACK_H

#include "dispatch/pool/pool.h"

/** Starts building the best config for the shape, of the best family that has not failed. NOT_FOUND if none fits. The
 * caller holds the lock of variants. */
md_status md_ds_pool_add_fallback(int32_t *variant, md_ds_pool *c, const md_kn_shape *shape);
/** Adds variants until one that is built serves all sizes, strides and places of data. Waits for builds. NOT_FOUND if
 * none does. */
md_status md_ds_pool_cover(md_ds_pool *c);

#endif
