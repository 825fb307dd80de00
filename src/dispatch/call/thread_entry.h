/* Making, checking and updating the entries of a thread cache. */
#ifndef MD_DISPATCH_CALL_THREAD_ENTRY_H
#define MD_DISPATCH_CALL_THREAD_ENTRY_H

#include "dispatch/cache/launch_plan.h"
#include "dispatch/call/thread_cache.h"

/* What an entry is made of. */
typedef struct md_ds_thread_entry_source {
    const _Atomic uint64_t *plan_entry;
    uint64_t sequence; /* of the plan entry, before all below was read */
    md_ds_counter *counter;
    uint64_t mask; /* the sample rate less 1 */
    bool is_timed;
    const md_ds_param_map *param_map;
    const md_kn_geometry *geometry;
    const md_kn_word *params; /* param_map->n_params */
    const md_ds_half *halves;
    md_ds_thread_launch *thread_launch; /* the copy that contains `maps`; NULL: no tensor maps */
    md_dev_map *maps;
} md_ds_thread_entry_source;

/** The way for the probes of a call, with an empty entry; NULL unless the probes were met three times of late, or
 * `at_once`: making an entry pays only if the shape comes again soon. NULL for calls with sizes to choose by, which the
 * probes do not contain. */
md_ds_cached *md_ds_thread_entry_place(md_ds_thread *thread, const md_ds_op *op, const md_ds_call_args *call,
                                       bool at_once);
/** Fills an entry with a launch plan and the data of a call. False if it cannot be one: the entry is empty then. */
bool md_ds_thread_entry_set(md_ds_cached *cached, const md_ds_op *op, const md_ds_call_args *call,
                            const md_ds_thread_entry_source *source);
/** The same from a copied launch plan, if it is one launch without memory. */
bool md_ds_thread_entry_set_copy(md_ds_cached *cached, const md_ds_op *op, const md_ds_call_args *call,
                                 const _Atomic uint64_t *plan_entry, md_ds_thread_launch *thread_launch);
/** True if the plan entry still holds this plan. To be asked when the op's generation has changed. */
bool md_ds_thread_entry_is_current(md_ds_thread_entry *entry, const md_ds_op *op);
void md_ds_thread_entry_clear(md_ds_thread_entry *entry);
/** Clears the entry that uses a copy, so that the copy can be reused. */
void md_ds_thread_entry_release(md_ds_thread_launch *thread_launch);
/** After new addresses were stored in the entry: checks their alignment and overlaps, and sets the parameters.
 * False: the entry does not serve this call. `low`: all addresses, or'ed. */
bool md_ds_thread_entry_move(md_ds_thread_entry *entry, const md_ds_op *op, uint64_t low);

/** True if no output overlaps another tensor, but for the aliases that are allowed. `span`: where the spans begin among
 * the halves of a launch plan; aliases follow. */
bool md_ds_no_alias(const md_ds_half *span, const md_ds_arg_layout *layout, const md_ds_word *data);

/** The halves of an entry. */
static inline md_ds_half *md_ds_thread_entry_halves(md_ds_thread_entry *e, const md_ds_arg_layout *layout)
{
    return (md_ds_half *)(void *)(e->word + e->n_params + layout->n_tensors + e->n_maps);
}

/** The addresses in the entry were not checked: makes the next call check its own. Returns false. */
static inline bool md_ds_thread_entry_forget(md_ds_thread_entry *e)
{
    e->word[e->n_params] = 0;
    return false;
}

/* ---- The index of the cache */

static inline uint64_t md_ds_mix_probes(const md_ds_op *op, uint64_t first, uint64_t second, uint64_t third)
{
    return op->serial * 0x9e3779b97f4a7c15u + first * 0xc2b2ae3d27d4eb4fu + second * 0x94d049bb133111ebu +
           third * 0xbf58476d1ce4e5b9u;
}

static inline uint64_t md_ds_cache_tag(const md_ds_op *op, uint64_t mixed)
{
    return op->serial << 16 | (mixed >> 32 & 0xfffc);
}

static inline uint32_t md_ds_cache_set(uint64_t mixed)
{
    return (uint32_t)(mixed >> 48) & (MD_DS_CACHE_SETS - 1);
}

/** The way of a set that is looked at first. */
static inline uint32_t md_ds_cache_first_way(uint64_t mixed)
{
    return (uint32_t)(mixed >> 62) & (MD_DS_CACHE_WAYS - 1);
}

#endif
