/* Which config of a family, and which family, a point gets. */
#ifndef MD_DISPATCH_POOL_DECIDE_H
#define MD_DISPATCH_POOL_DECIDE_H

#include "dispatch/pool/pool.h"

/** The config of a family at a point with this shape (md_ds_point_shape): under a numeric policy that of the class that
 * serves the point, else by wisdom and model as `rigor` says. NOT_FOUND where none is legal. */
md_status md_ds_decide(md_tn_decision *out, const md_ds_pool *c, const md_fa_family *family, const md_tn_point *point,
                       const md_kn_shape *shape, md_tune rigor);
/** The best of all families but libraries and last resorts at a point; where some are measured there, of those. *best
 * NULL: none fits. */
md_status md_ds_best_at(const md_fa_family **best, md_fa_config *config, const md_ds_pool *c, const md_tn_point *point);

#endif
