/* An op below the public layer: its formula, the variants of each stage, and the tables of the shapes that it met.
 * All functions on an op that is made are thread-safe. create.h makes and frees ops. */
#ifndef MD_DISPATCH_OP_H
#define MD_DISPATCH_OP_H

#include "base/table.h"
#include "dispatch/args.h"
#include "dispatch/compile/compile.h"
#include "dispatch/pool/pool.h"
#include "dispatch/runtime.h"
#include "dispatch/types.h"
#include "expr/eval/eval.h"

struct md_ds_adoption; /* select/adopt.h */
struct md_ds_async_fill; /* select/async_fill.h */
struct md_ds_hybrid; /* hybrid/internal.h */
struct md_ds_merged; /* merged.h */
struct md_ds_stored; /* select/stored.h */
struct md_ds_indices; /* call/index_sample.h */
struct md_ds_packed_operands; /* packed_operand.h */
struct md_ds_plan_cache; /* cache/plan_cache.h */
struct md_ds_shape_entry; /* cache/shape_entry.h */
struct md_ds_waiting; /* cache/table.h */

typedef struct md_ds_op {
    struct md_ds_op *next; /* this and the next two are the registry's, under the runtime's lock_of_ops */
    int32_t n_owners;
    bool is_made, has_failed; /* neither: some thread is making it */
    md_strbuf identity; /* equal bytes for equal ops */
    char name[64];
    md_ds_compiled *compiled; /* owned; the next three point into it */
    md_fx_formula *formula;
    md_st_program *program;
    md_fa_customs *customs; /* NULL: none */
    md_ds_space space; /* a copy, since calls read it */
    md_ds_policy policy;
    int32_t n_stages;
    md_ds_pool *stage; /* as many as the program has; the first n_stages are made */
    uint64_t kept_stages; /* bits: they move axes of constants, so that their results are kept as packed operands are */
    uint32_t kept_tensors; /* bits of the temporaries that these write */
    pthread_mutex_t lock_of_entries; /* of the shape table: all fields up to `hand`, and `waiting` */
    md_table *entries; /* shape key -> md_ds_shape_entry */
    struct md_ds_shape_entry **ring; /* the same entries, for eviction */
    int64_t max_entries, n_entries, hand;
    pthread_mutex_t lock_of_upgrades; /* held while waiting entries get better plans; before lock_of_entries */
    struct md_ds_async_fill *async_fill; /* NULL: pools were filled at creation */
    struct md_ds_adoption *adoption; /* NULL: there are no chains */
    _Atomic bool is_filling;
    _Atomic bool is_orphan; /* in a child after fork whose pools no thread fills */
    struct md_ds_waiting *waiting; /* entries whose plan is a stand-in */
    _Atomic int32_t n_waiting;
    _Atomic int32_t frozen; /* md_ds_frozen */
    struct md_ds_hybrid *hybrid; /* the state of MD_SELECT_HYBRID; NULL in other modes */
    /* hybrid's, of an entry whose new plan replaces a stand-in; NULL: none */
    void (*upgraded)(struct md_ds_op *op, struct md_ds_shape_entry *entry, const md_kn_shape *shape);
    struct md_ds_stored *stored; /* measured picks, in memory and in the store */
    struct md_ds_indices *indices; /* NULL unless statistics want them */
    _Atomic int32_t n_trials; /* alive */
    _Atomic int32_t n_far; /* shapes that were far from all hints */
    md_ds_counters count;
    char padding[64]; /* warm calls read only what follows, on cache lines that no thread writes */
    bool has_fast_call; /* calls may have launch plans */
    bool takes_times; /* of some calls */
    md_ds_runtime *runtime;
    uint64_t runtime_id; /* runtime->id */
    _Atomic uint64_t generation; /* grows whenever an entry of the plan cache is emptied */
    uint64_t serial; /* unique in the runtime; below 2^48 */
    _Atomic(struct md_ds_plan_cache *) plan_cache; /* made when a shape is met again; NULL until then */
    struct md_ds_packed_operands *packed; /* NULL: no operand is constant */
    struct md_ds_merged *merged; /* serves calls with contiguous tensors; NULL: none */
    md_dev_report report; /* on devices whose calls return early; else its pointers are NULL */
    md_ds_arg_layout layout;
} md_ds_op;

static inline bool md_ds_is_filling(const md_ds_op *op)
{
    return atomic_load_explicit(&op->is_filling, memory_order_acquire);
}

/** True if the stage only moves axes of constants: a bit of kept_stages. */
static inline bool md_ds_is_kept_stage(const md_ds_op *op, int32_t stage)
{
    return op->kept_stages >> stage & 1;
}

/** True if sampled calls can be timed around their launch; else they take the slow path, which times them. */
static inline bool md_ds_times_launches(const md_ds_op *op)
{
    return op->takes_times && !op->indices && !md_ds_is_async(op->runtime);
}

#endif
