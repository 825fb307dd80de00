/* A shape entry: what an op keeps of one shape that it met. Here is its lifetime; table.h finds entries by key.
 * Everything that uses an entry holds it: calls, launches, entries of the plan cache, trials, and the table. Whoever
 * releases it last frees it. */
#ifndef MD_DISPATCH_CACHE_SHAPE_ENTRY_H
#define MD_DISPATCH_CACHE_SHAPE_ENTRY_H

#include "dispatch/space/space.h"
#include "dispatch/types.h"

struct md_ds_trial; /* hybrid/trial.h */

/* Hybrid looks for better variants at shapes that are farther than this from all hints (octaves), at MOST_LOOKED_FOR
 * shapes of an op. */
#define MD_DS_FAR 1.0
enum { MD_DS_MOST_LOOKED_FOR = 256 };

typedef enum md_ds_trial_stage {
    MD_DS_NO_TRIAL,
    MD_DS_TRIAL_ASKED, /* a background job makes it */
    MD_DS_TRIAL_VAIN, /* there is no challenger */
    MD_DS_TRIAL_KNOWN_VAIN /* and launch plans have been made since */
} md_ds_trial_stage;

typedef struct md_ds_shape_entry {
    void *key; /* bytes of the shape key; NULL: in no table */
    size_t key_bytes;
    md_ds_counters *count; /* the op's */
    _Atomic int32_t users; /* holders */
    _Atomic int32_t is_hot; /* used since the eviction hand passed */
    bool is_loose; /* in no table: all places were held, memory was short, or the plan is not to be kept */
    _Atomic(md_ds_plan *) plan; /* replaced by better ones; older plans live as long as the entry */
    _Atomic uint64_t calls, time_ns, n_timed; /* time_ns: of n_timed of the calls */
    int64_t size[MD_FX_MAX_DIMS]; /* by dim id */
    md_ds_as as; /* sizes that the choice was made by */
    double nearest; /* octaves to the nearest hint */
    bool is_uncovered; /* farther than the op's threshold */
    bool is_strided; /* some tensor was not contiguous */
    /* MD_SELECT_HYBRID and idle_tune: */
    bool is_far; /* from all hints, and one of the first such: the pool may have nothing good for it */
    _Atomic int32_t n_samples; /* sampled calls so far, which took the slow path */
    void (*free_trial)(struct md_ds_trial *trial); /* set before `trial` */
    _Atomic(struct md_ds_trial *) trial; /* made at most once, by a background job; owned */
    _Atomic int32_t trial_state; /* md_ds_trial_stage */
} md_ds_shape_entry;

/** The plan that serves now. Valid as long as the entry is held. Any thread. */
static inline md_ds_plan *md_ds_plan_of(const md_ds_shape_entry *entry)
{
    return atomic_load_explicit(&entry->plan, memory_order_acquire);
}

/** The same for a call, a sequence or a combo that runs by it: from now on the plan is one that has served. */
md_ds_plan *md_ds_plan_to_serve(const md_ds_shape_entry *entry);
/** True if no call was served by the plan, and none will be: the caller replaces it at once. */
bool md_ds_plan_retire(md_ds_plan *plan);

static inline void md_ds_shape_entry_hold(md_ds_shape_entry *entry)
{
    atomic_fetch_add_explicit(&entry->users, 1, memory_order_relaxed);
}

/** Adds a call that took `us`; us < 0: it was not timed. Any thread. */
void md_ds_shape_entry_count(md_ds_shape_entry *entry, double us);
/** Puts a better plan, which the entry owns from now on. The op's lock of entries is held. */
void md_ds_shape_entry_put_plan(md_ds_shape_entry *entry, md_ds_plan *plan, int32_t n_stages);
/** The last holder adds the entry's counts to the op's and frees it. Any thread. */
void md_ds_shape_entry_release(md_ds_shape_entry *entry);
/** Frees an entry that nobody else holds, without adding its counts. A md_table drop function. */
void md_ds_shape_entry_free(void *entry);

/** Time of all calls in ns: calls that were not timed count as the mean of those that were, or as the model says. */
uint64_t md_ds_shape_entry_ns(const md_ds_shape_entry *entry);

#endif
