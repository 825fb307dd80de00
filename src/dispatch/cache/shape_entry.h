/* The table of shapes of an op: found, or chosen and remembered; evicted by CLOCK when it is full. */
#ifndef MD_DISPATCH_CACHE_SHAPE_ENTRY_H
#define MD_DISPATCH_CACHE_SHAPE_ENTRY_H

#include "dispatch/bind/shape.h"
#include "dispatch/select/plan.h"

/** The record of a key, held for the caller: give it back. NULL where there is none. */
md_ds_shape_entry *md_ds_shape_entry_find(md_ds_op *op, const md_ds_key *key);
/** Chooses for a shape (as if it had the sizes of `as`) and remembers it, held for the caller. `call` and `effort` as
 * in md_ds_plan_make. */
md_status md_ds_shape_entry_add(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key, const md_kn_shape *shape,
                                const md_ds_as *as, const md_kn_call *call, md_ds_effort effort);
void md_ds_shape_entry_give_back(md_ds_op *op, md_ds_shape_entry *entry);
void md_ds_shape_entry_free(void *entry); /* a md_table drop function */

/** A record that is in no table: the caller frees it with md_ds_shape_entry_free. */
md_status md_ds_shape_entry_make(md_ds_shape_entry **out, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as,
                                 const md_kn_call *call, md_ds_effort effort);

/** Calls fn on every record while none can be added or evicted. */
void md_ds_shape_entry_each(md_ds_op *op, void (*fn)(void *user, const md_ds_shape_entry *entry), void *user);

#endif
