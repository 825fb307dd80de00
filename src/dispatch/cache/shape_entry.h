/* The table of shapes of an op: found, or chosen and remembered; evicted by CLOCK when it is full. */
#ifndef MD_DISPATCH_CACHE_SHAPE_ENTRY_H
#define MD_DISPATCH_CACHE_SHAPE_ENTRY_H

#include "dispatch/bind/shape.h"
#include "dispatch/select/plan.h"

/** The record of a key, held for the caller: give it back. NULL where there is none. */
md_ds_record *md_ds_record_find(md_ds_op *op, const md_ds_key *key);
/** Chooses for a shape (as if it had the sizes of `as`) and remembers it, held for the caller. `call` and `effort` as in md_ds_way_make. */
md_status md_ds_record_add(md_ds_record **out, md_ds_op *op, const md_ds_key *key, const md_kn_shape *shape, const md_ds_as *as,
                           const md_kn_call *call, md_ds_effort effort);
void md_ds_record_give_back(md_ds_op *op, md_ds_record *record);
void md_ds_record_free(void *record); /* a md_table drop function */

/** A record that is in no table: the caller frees it with md_ds_record_free. */
md_status md_ds_record_make(md_ds_record **out, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as, const md_kn_call *call,
                            md_ds_effort effort);

/** Calls fn on every record while none can be added or evicted. */
void md_ds_record_each(md_ds_op *op, void (*fn)(void *user, const md_ds_record *record), void *user);

#endif
