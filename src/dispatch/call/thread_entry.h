/* Entries of a thread: plans as their next calls need them. */
#ifndef MD_DISPATCH_CALL_THREAD_ENTRY_H
#define MD_DISPATCH_CALL_THREAD_ENTRY_H

#include "dispatch/call/thread_cache.h"

/* What an entry is made of. */
typedef struct md_ds_thread_entry_source {
    const _Atomic uint64_t *slot;
    uint64_t sequence; /* the slot's, when all below was read */
    md_ds_counter *counter;
    uint64_t mask; /* `every` less 1 */
    bool is_timed;
    const md_ds_param_map *param_map;
    const md_kn_geometry *geometry;
    const md_kn_word *params; /* as many as the recipe has */
    const md_ds_half *halves;
    md_ds_thread_plan *thread_plan; /* has the tensor maps; NULL where there are none */
    md_dev_map *maps;
} md_ds_thread_entry_source;

/** Where a plan is to be found, by the same sizes that are looked at in arguments; NULL unless it was met thrice of
 * late, or `at_once`: an entry costs more than it saves where shapes do not come again soon. Sizes to choose by are
 * not looked at: those calls are found by all of their key. */
md_ds_cache_line *md_ds_thread_entry_place(md_ds_thread *thread, const md_ds_op *op, const md_ds_call_args *call,
                                           bool at_once);
/** Makes the entry the plan's, with the data of a call; false where it cannot be, and the entry is of no plan. */
bool md_ds_thread_entry_set(md_ds_cache_line *front, const md_ds_op *op, const md_ds_call_args *call,
                            const md_ds_thread_entry_source *source);
/** The same of a plan that was copied, if it is one launch without memory. */
bool md_ds_thread_entry_set_copy(md_ds_cache_line *front, const md_ds_op *op, const md_ds_call_args *call,
                                 const _Atomic uint64_t *slot, md_ds_thread_plan *thread_plan);
/** Whether the plan is its slot's still, where the op has changed since that was seen. */
bool md_ds_thread_entry_is_still(md_ds_thread_entry *entry, const md_ds_op *op);
/** Makes the entry one of no plan. */
void md_ds_thread_entry_clear(md_ds_thread_entry *entry);
/** Lets the copy go: no entry has its maps any more. */
void md_ds_thread_entry_let_go(md_ds_thread_plan *thread_plan);
/** New addresses are in the entry's data: true where they are as the plan wants them, and in the parameters now.
 * `low`: all of them, or'ed. */
bool md_ds_thread_entry_move(md_ds_thread_entry *entry, const md_ds_op *op, uint64_t low);

/** Whether outputs lie apart from everything, as md_ds_launch_plan_fits. `span`: of each tensor; then what may be
 * exactly each output. */
bool md_ds_no_alias(const md_ds_half *span, const md_ds_arg_layout *layout, const md_ds_word *data);

/** Where an entry's halves begin. */
static inline md_ds_half *md_ds_thread_entry_halves(md_ds_thread_entry *e, const md_ds_arg_layout *layout)
{
    return (md_ds_half *)(void *)(e->word + e->n_params + layout->n_tensors + e->n_maps);
}

/** The addresses in it were not looked at, or are not what the plan wants: the next ones are new. */
static inline bool md_ds_thread_entry_forget(md_ds_thread_entry *e)
{
    e->word[e->n_params] = 0;
    return false;
}

/* ---- By a few sizes */

static inline uint64_t md_ds_mix(const md_ds_op *op, uint64_t first, uint64_t second, uint64_t third)
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

/** Where the front of a set is looked for first. */
static inline uint32_t md_ds_cache_way(uint64_t mixed)
{
    return (uint32_t)(mixed >> 62) & (MD_DS_CACHE_WAYS - 1);
}

#endif
