/* Shape entries whose plan is a stand-in: they wait for a build, or for the pool to be filled. */
#ifndef MD_DISPATCH_CACHE_WAITING_H
#define MD_DISPATCH_CACHE_WAITING_H

#include "dispatch/cache/shape_entry.h"
#include "dispatch/op.h"

struct md_ds_waiting {
    struct md_ds_waiting *next;
    md_ds_shape_entry *entry; /* held; its key says the shape */
};

/** A place in the list; NULL if too many wait already or memory is short. The caller frees it, or adds it. */
struct md_ds_waiting *md_ds_waiting_create(md_ds_op *op);
/** Adds an entry with a key, which is held until it leaves the list. The lock of entries is held. */
void md_ds_waiting_add(md_ds_op *op, struct md_ds_waiting *waiting, md_ds_shape_entry *entry);
/** Takes the entries off the list whose wait is over. Takes the lock of entries. */
struct md_ds_waiting *md_ds_waiting_take_due(md_ds_op *op);
/** The shape of one that has an entry. */
void md_ds_waiting_shape(md_kn_shape *out, const md_ds_op *op, const struct md_ds_waiting *waiting);
/** Empties the list at the end of the op. */
void md_ds_waiting_drop(md_ds_op *op);

/** True if a better plan may be chosen now: a variant that the plan waits for is ready or has failed, or the pool has
 * been filled. */
bool md_ds_is_due(const md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape);

#endif
