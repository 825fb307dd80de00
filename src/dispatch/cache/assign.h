/* Gives shapes the variants that somebody else chose, such as another process on equal hardware. Thread-safe. */
#ifndef MD_DISPATCH_CACHE_ASSIGN_H
#define MD_DISPATCH_CACHE_ASSIGN_H

#include "dispatch/cache/table.h"

/** Makes the entry of a key with one variant for each stage, by name; variants that the pool lacks are built. It is in
 * no table, and nobody holds it: md_ds_assign takes it over, or md_ds_shape_entry_free frees it. UNSUPPORTED says
 * which variant cannot serve here, and why; INVALID_ARGUMENT if the words are no key of the op; NOT_FOUND: no such
 * variant. */
md_status md_ds_assign_make(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key, const char *const *variant);
/** Puts such an entry into the op's table, and remembers its variants beyond its eviction. OUT_OF_MEMORY: the entry is
 * freed. */
md_status md_ds_assign(md_ds_op *op, const md_ds_key *key, md_ds_shape_entry *entry);

#endif
