/* The launch plans of an op, found by the key of a call. Readers take no lock and write only counters of their own
 * thread (plan_entry.h says how). Plan entries live as long as the op. A plan entry holds the shape entry of its plan,
 * so the entry is not evicted. */
#ifndef MD_DISPATCH_CACHE_PLAN_CACHE_H
#define MD_DISPATCH_CACHE_PLAN_CACHE_H

#include "dispatch/cache/shape_entry.h"
#include "dispatch/cache/plan_entry.h"
#include "dispatch/op.h"

typedef struct md_ds_plan_cache md_ds_plan_cache;

enum { MD_DS_SHARDS = 64 }; /* threads numbered below MD_DS_SHARDS - 1 have their own counters; others share the last */

enum { MD_DS_CHUNK = 32, MD_DS_TALLY_BYTES = 1024 };

typedef _Atomic uint64_t md_ds_counter; /* calls of one plan entry, by one thread or by all that share counters */

/* The counters of a thread for a chunk of plan entries. Every call writes `n`, few calls write `rest`, so they lie on
 * different cache lines. A tally is aligned to its size, so that `rest` is found from the address of a counter. */
typedef struct md_ds_tally {
    md_ds_counter n[MD_DS_CHUNK];
    struct {
        _Atomic uint64_t n_flushed; /* calls of n that the shape entry has counted */
        _Atomic uint64_t ns, n_timed; /* of calls timed around the launch; not yet added to the entry */
    } rest[MD_DS_CHUNK];
} md_ds_tally;
_Static_assert(sizeof(md_ds_tally) == MD_DS_TALLY_BYTES, "counters are found by their addresses");

/** The call that was just counted will be counted by its shape entry, too: it must not count twice. */
static inline void md_ds_count_elsewhere(md_ds_counter *n)
{
    const uintptr_t at = (uintptr_t)n % MD_DS_TALLY_BYTES;
    md_ds_tally *tally = (md_ds_tally *)((uintptr_t)n - at);
    atomic_fetch_add_explicit(&tally->rest[at / sizeof *n].n_flushed, 1, memory_order_relaxed);
}

static inline void md_ds_count_time(md_ds_counter *n, uint64_t ns)
{
    const uintptr_t at = (uintptr_t)n % MD_DS_TALLY_BYTES;
    md_ds_tally *tally = (md_ds_tally *)((uintptr_t)n - at);
    atomic_fetch_add_explicit(&tally->rest[at / sizeof *n].ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->rest[at / sizeof *n].n_timed, 1, memory_order_relaxed);
}

/** Makes a cache whose plan entries have room for plans like this one. `older`: NULL, or the cache that it replaces
 * because its plan entries are too short; the new one owns it, since threads may still read it. NULL if memory is
 * short. */
md_ds_plan_cache *md_ds_plan_cache_create(int64_t max_entries, const md_ds_packed_launch *encoded,
                                          md_ds_plan_cache *older);
void md_ds_plan_cache_destroy(md_ds_plan_cache *plan_cache); /* destroys the older ones, too; NULL allowed */
void md_ds_plan_cache_disown(
    md_ds_plan_cache *plan_cache); /* destroys one that was never used, but not the older ones */
/** True if plan entries are long enough for the plan. */
bool md_ds_plan_cache_hold(const md_ds_plan_cache *plan_cache, const md_ds_packed_launch *encoded);
/** The plan entry that may have the plan of a call, and the thread's counter of it; NULL if there is none. The caller
 * compares the key. Takes no lock. */
const _Atomic uint64_t *md_ds_plan_cache_find(md_ds_counter **counter, md_ds_plan_cache *plan_cache, uint64_t hash,
                                              int32_t thread);
/** Puts a launch plan, made from `plan`, into a plan entry. Does nothing if the shape entry has got another plan
 * meanwhile. */
void md_ds_plan_cache_publish(md_ds_plan_cache *plan_cache, md_ds_op *op, uint64_t hash,
                              const md_ds_packed_launch *encoded, md_ds_shape_entry *entry, const md_ds_plan *plan);
/** Adds the counts of all plan entries to their shape entries, or to the op for shape entries that are gone. */
void md_ds_plan_cache_flush(md_ds_plan_cache *plan_cache, md_ds_op *op);
/** All calls of the op so far; calls that are being made may be missing. Takes no lock. */
uint64_t md_ds_calls_of(const md_ds_op *op);
/** Empties the plan entries whose shape entry has another plan now. */
void md_ds_plan_cache_renew(md_ds_plan_cache *plan_cache, md_ds_op *op);
/** Empties all plan entries, so that their shape entries can be evicted; false if all were empty. */
bool md_ds_plan_cache_drop(md_ds_plan_cache *plan_cache, md_ds_op *op);

#endif
