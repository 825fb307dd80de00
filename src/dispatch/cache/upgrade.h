/* Choosing plans for shape entries: when a shape is new, and again when something better is ready. Thread-safe. */
#ifndef MD_DISPATCH_CACHE_UPGRADE_H
#define MD_DISPATCH_CACHE_UPGRADE_H

#include "dispatch/cache/table.h"
#include "dispatch/select/select.h"

/** Chooses a plan for a shape and makes an entry for it, which is in no table and which nobody holds: the caller
 * frees it with md_ds_shape_entry_free. */
md_status md_ds_shape_entry_make(md_ds_shape_entry **out, md_ds_op *op, const md_ds_request *request);
/** The same of a given plan, which the entry, or on failure this function, frees. */
md_status md_ds_shape_entry_of_plan(md_ds_shape_entry **out, md_ds_op *op, const md_ds_request *request,
                                    md_ds_plan *plan);
/** The same as md_ds_shape_entry_make, and adds the entry to the op's table. *out is held: the caller releases it. */
md_status md_ds_shape_entry_add(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key,
                                const md_ds_request *request);

/** Chooses again for an entry that waits for something, or whose library has not loaded what would be faster, and waits
 * for the best. `request`: of the entry's shape. */
md_status md_ds_shape_entry_improve(md_ds_op *op, md_ds_shape_entry *entry, const md_ds_request *request);

/** Chooses again for the waiting entries of an op whose builds have ended. Never waits for builds or starts any. */
void md_ds_upgrade_ready(md_ds_op *op);
/** The same for all ops of a runtime: what the builder calls when a build ends. `runtime` is a md_ds_runtime. */
void md_ds_upgrade_all(void *runtime);

/** Begins to load a library's kernel in the background once the calls of an entry have lost as much as the load costs.
 * `shape` is the entry's. After the load the plan is chosen again. */
void md_ds_load_if_it_pays(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape);

#endif
