/* The plans of an op, found by the bytes of a call: slots of plain words (image.h), each under a sequence number, so
 * that readers take no lock and write nothing but counters of their own. Slots live as long as the op. The record
 * behind a plan is held (not evicted) as long as the slot is its. */
#ifndef MD_DISPATCH_CACHE_PLAN_CACHE_H
#define MD_DISPATCH_CACHE_PLAN_CACHE_H

#include "dispatch/cache/encode.h"

typedef struct md_ds_plan_cache md_ds_plan_cache;

enum { MD_DS_SHARDS = 64 }; /* threads below MD_DS_SHARDS - 1 have counters of their own */

enum { MD_DS_CHUNK = 32, MD_DS_TALLY_BYTES = 1024 };

typedef _Atomic uint64_t md_ds_counter; /* calls of one thread by one slot, or of all threads that came late */

/* Of a thread and as many slots; what every call writes is apart from what few write. Aligned to its size: so the
 * rest is found from a counter. */
typedef struct md_ds_tally {
    md_ds_counter n[MD_DS_CHUNK];
    struct {
        _Atomic uint64_t n_flushed; /* of n, added to the record or counted there */
        _Atomic uint64_t ns, n_timed; /* of those that were timed beside the launch; not added yet */
    } rest[MD_DS_CHUNK];
} md_ds_tally;
_Static_assert(sizeof(md_ds_tally) == MD_DS_TALLY_BYTES, "counters are found by their addresses");

/** A call that was counted here is counted by its record, too. */
static inline void md_ds_count_elsewhere(md_ds_counter *n)
{
    const uintptr_t at = (uintptr_t)n % MD_DS_TALLY_BYTES;
    md_ds_tally *c = (md_ds_tally *)((uintptr_t)n - at);
    atomic_fetch_add_explicit(&c->rest[at / sizeof *n].n_flushed, 1, memory_order_relaxed);
}

static inline void md_ds_count_time(md_ds_counter *n, uint64_t ns)
{
    const uintptr_t at = (uintptr_t)n % MD_DS_TALLY_BYTES;
    md_ds_tally *c = (md_ds_tally *)((uintptr_t)n - at);
    atomic_fetch_add_explicit(&c->rest[at / sizeof *n].ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->rest[at / sizeof *n].n_timed, 1, memory_order_relaxed);
}

/** Room for plans like this one. `older`: what it replaces, since it was too narrow; its slots are emptied, and it
 * lives as long as the new one, because threads may still read it. NULL where memory is short: then there is no warm
 * path. */
md_ds_plan_cache *md_ds_plan_cache_create(int64_t max_entries, const md_ds_encoded_plan *encoded,
                                          md_ds_plan_cache *older);
void md_ds_plan_cache_destroy(md_ds_plan_cache *plan_cache); /* the older ones too */
void md_ds_plan_cache_disown(md_ds_plan_cache *plan_cache); /* destroys one that was never used, and nothing older */
/** Whether there is room for a plan of this length. */
bool md_ds_plan_cache_hold(const md_ds_plan_cache *plan_cache, const md_ds_encoded_plan *encoded);
/** The slot that may have the plan of a call, and the thread's counter of it; NULL where there is none. Whose key it
 * has, the caller looks. */
const _Atomic uint64_t *md_ds_plan_cache_find(md_ds_counter **counter, md_ds_plan_cache *plan_cache, uint64_t hash,
                                              int32_t thread);
/** Puts a plan into a slot, which holds the record from then on; not where the record's way is another meanwhile than
 * the plan was made from. */
void md_ds_plan_cache_publish(md_ds_plan_cache *plan_cache, md_ds_op *op, uint64_t hash,
                              const md_ds_encoded_plan *encoded, md_ds_shape_entry *entry, const md_ds_plan *plan);
/** Adds what was counted to the records, or to the op where a record is gone. */
void md_ds_plan_cache_flush(md_ds_plan_cache *plan_cache, md_ds_op *op);
/** Calls that were counted by all slots so far, those under way perhaps not. Any thread, while the op lives. NULL: 0. */
uint64_t md_ds_plan_cache_calls(md_ds_plan_cache *plan_cache);
/** Empties the slots of records that have got another way since. */
void md_ds_plan_cache_renew(md_ds_plan_cache *plan_cache, md_ds_op *op);
/** Empties all slots, so that their records can be evicted; false where there were none. */
bool md_ds_plan_cache_drop(md_ds_plan_cache *plan_cache, md_ds_op *op);

#endif
