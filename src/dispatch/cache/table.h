/* The shape entries of an op, and what happens to them when a plan is chosen. */
#ifndef MD_DISPATCH_CACHE_TABLE_H
#define MD_DISPATCH_CACHE_TABLE_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/waiting.h"

/* ---- table.c */

/* The table of an op's shape entries by key. When it is full, CLOCK chooses the entry to evict. Thread-safe. */

/** The entry of a key, held: the caller releases it. NULL: there is none. Counts a hit or a miss. */
md_ds_shape_entry *md_ds_table_find(md_ds_op *op, const md_ds_key *key);
/** Adds a new entry and takes it over; returns the entry that serves, held for the caller. That is another one if a
 * thread added the key first; then `entry` is freed. If entry->is_loose, or if there is no place or no memory, it is
 * not remembered, and the next call of its shape chooses anew. *waiting (NULL: none) becomes NULL if the entry waits
 * in the op's list now. */
md_ds_shape_entry *md_ds_table_add(md_ds_op *op, const md_ds_key *key, md_ds_shape_entry *entry,
                                   struct md_ds_waiting **waiting);
/** Puts a new entry in the place of the key's, if it has one, and takes it over. Calls that begin later use it. If
 * there is no place or no memory, the key has no entry, and the next call of its shape chooses anew. */
void md_ds_table_replace(md_ds_op *op, const md_ds_key *key, md_ds_shape_entry *entry);
/** Calls fn on every entry while none can be added or evicted. Counts of the plan cache are flushed before. */
void md_ds_table_each(md_ds_op *op, void (*fn)(void *user, const md_ds_shape_entry *entry), void *user);

/* ---- assign.c */

/* Gives shapes the variants that somebody else chose, such as another process on equal hardware. Thread-safe. */

/** Makes the entry of a key with one variant for each stage, by name; variants that the pool lacks are built. It is in
 * no table, and nobody holds it: md_ds_assign takes it over, or md_ds_shape_entry_free frees it. UNSUPPORTED says
 * which variant cannot serve here, and why; INVALID_ARGUMENT if the words are no key of the op; NOT_FOUND: no such
 * variant. */
md_status md_ds_assign_make(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key, const char *const *variant);
/** Puts such an entry into the op's table, and remembers its variants beyond its eviction. OUT_OF_MEMORY: the entry is
 * freed. */
md_status md_ds_assign(md_ds_op *op, const md_ds_key *key, md_ds_shape_entry *entry);

#endif
