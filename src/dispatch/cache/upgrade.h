/* Shapes that get something better than what served them first. Thread-safe. */
#ifndef MD_DISPATCH_CACHE_UPGRADE_H
#define MD_DISPATCH_CACHE_UPGRADE_H

#include "dispatch/select/plan.h"

struct md_ds_upgrade; /* a record that waits for a build */

/** Room for one; NULL where too many wait already or memory is short. Free it, or hand it to md_ds_upgrade_add. */
struct md_ds_upgrade *md_ds_upgrade_make(md_ds_op *op, const md_kn_shape *shape);
/** Holds the record until it is promoted. The lock of records is held. */
void md_ds_upgrade_add(md_ds_op *op, struct md_ds_upgrade *waiting, md_ds_shape_entry *entry);
/** Lets go of all: the op ends. */
void md_ds_upgrade_drop(md_ds_op *op);

/** Some variant that the way waits for is ready, or will never be. */
bool md_ds_is_due(const md_ds_op *op, const md_ds_plan *plan);
/** Chooses anew for the records of an op that wait for a build that has come to its end. Never waits, never builds. */
void md_ds_upgrade_ready(md_ds_op *op);
/** The same for all ops: what the builder calls. `runtime` is a md_ds_runtime. */
void md_ds_upgrade_all(void *runtime);

/** From now on the record's shape is served with this pick in one stage; its variant is ready, and fits the shape.
 * Calls under way finish as they began. OUT_OF_MEMORY leaves all as it was. */
md_status md_ds_switch(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t stage,
                       const md_ds_pick *pick);

#endif
