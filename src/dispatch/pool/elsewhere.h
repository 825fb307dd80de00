/* What installed wisdom knows of a stage at other points than the hints. */
#ifndef MD_DISPATCH_POOL_ELSEWHERE_H
#define MD_DISPATCH_POOL_ELSEWHERE_H

#include "dispatch/pool/pool.h"

/** Tells the correction the times of the pool's variants in installed wisdom, at any sizes. Families whose kernels have
 * another text since are left out. Failures are ignored: the model knows less then. */
void md_ds_note_elsewhere(md_ds_pool *c);

#endif
