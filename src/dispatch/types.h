/* An op below the public layer: formula, program, candidates per stage, and what was chosen for every shape met.
 * Thread-safe after creation. Its records hold what one shape needs: picks, geometry, workspace layout, counters. */
#ifndef MD_DISPATCH_TYPES_H
#define MD_DISPATCH_TYPES_H

#include "base/table.h"
#include "dispatch/compile.h"
#include "dispatch/pool/pool.h"
#include "dispatch/runtime.h"
#include "dispatch/bind/args.h"
#include "expr/eval/eval.h"

typedef enum md_ds_source {
    MD_DS_PINNED,
    MD_DS_MEASURED,
    MD_DS_MODEL,
    MD_DS_NEAREST,
    MD_DS_NEAREST_CELL, /* of the lattice that default hints stand in */
    MD_DS_DEFAULT, /* no candidate fitted, or there was nothing to choose from */
    MD_DS_REFERENCE /* nothing could be compiled: the evaluator serves */
} md_ds_source;
const char *md_ds_source_name(md_ds_source source);

typedef struct md_ds_pick {
    int32_t variant; /* of the stage's candidates; -1: reference */
    md_ds_source source;
    int32_t hint; /* whose entry was taken, or that the variant was made for; -1 */
    int32_t runner_up; /* variant, or -1 */
    double distance; /* to that hint; -1 */
    double margin; /* by which the runner-up was worse: octaves (NEAREST) or a time ratio minus 1 */
    double us; /* model or measured time; 0 where neither was asked */
} md_ds_pick;

typedef struct md_ds_stage_plan {
    md_ds_pick pick;
    md_kn_plan_geometry geometry;
    size_t workspace_offset;
    int32_t wished; /* variant that is being built and will serve instead; -1: none */
} md_ds_stage_plan;

/* How a shape is served: what was chosen, and where its temporaries and workspace lie. Never changes once it is a
 * record's. */
typedef struct md_ds_plan {
    struct md_ds_plan *older; /* what served before: calls under way still read it */
    bool by_reference;
    bool is_makeshift; /* something better is being built, or looked for */
    bool is_early; /* chosen while the pool was growing */
    _Atomic int32_t has_no_launch_plan; /* and never will: library calls, too many parameters */
    double model_us; /* of all stages */
    size_t workspace_bytes;
    size_t temp_offset[MD_FX_MAX_TENSORS];
    md_ds_stage_plan stage[]; /* one per stage */
} md_ds_plan;

struct md_ds_trial; /* trial.h */

/* VAIN: nobody to try */
typedef enum md_ds_trial_stage { MD_DS_NO_TRIAL, MD_DS_TRIAL_ASKED, MD_DS_TRIAL_VAIN } md_ds_trial_stage;

typedef struct md_ds_shape_entry {
    void *key; /* bytes of the shape key */
    size_t key_bytes;
    _Atomic int32_t users; /* calls, launches, plans and the table: the last one frees it */
    _Atomic int32_t is_hot; /* used since the eviction hand passed */
    bool is_loose; /* in no table, since all places were held, memory was short, or it shall be chosen anew soon */
    _Atomic(md_ds_plan *) plan; /* replaced when something better is ready; older ones live as long as the record */
    _Atomic uint64_t calls, time_ns, n_timed; /* time_ns: of n_timed of the calls */
    int64_t size[MD_FX_MAX_DIMS]; /* by dim id */
    md_ds_as as; /* chosen as if it had these */
    double nearest; /* octaves to the nearest hint */
    bool is_uncovered; /* farther than the op's threshold */
    bool is_strided; /* some tensor was not contiguous */
    _Atomic(struct md_ds_trial *) trial; /* MD_SELECT_HYBRID: made once, by the pool */
    _Atomic int32_t trial_state; /* md_ds_trial_stage: how far that is */
} md_ds_shape_entry;

static inline md_ds_plan *md_ds_plan_of(const md_ds_shape_entry *entry)
{
    return atomic_load_explicit(&entry->plan, memory_order_acquire);
}

typedef struct md_ds_counters {
    _Atomic uint64_t calls, hits, misses, evictions, measured, adopted, by_reference, captured_misses;
    _Atomic uint64_t nearest; /* calls that were served by what was ready, while something better was being built */
    _Atomic uint64_t promotions; /* shapes that got something better later */
    _Atomic uint64_t waits; /* misses that had to wait for a build, since nothing that was ready fitted */
    _Atomic uint64_t frozen_misses; /* misses of a frozen op */
    _Atomic uint64_t trials; /* calls that another variant served than the one in charge, to be timed */
    _Atomic uint64_t switches; /* shapes that got another variant by that */
    _Atomic uint64_t demotions; /* variants that became slow */
    _Atomic uint64_t quarantined; /* variants whose results differ from those of most others */
    /* of records that are gone; calls that were not timed count as the model says */
    _Atomic uint64_t forgotten_calls, forgotten_ns, forgotten_timed;
} md_ds_counters;

/* What a miss may still do. */
typedef enum md_ds_frozen {
    MD_DS_NOT_FROZEN,
    MD_DS_FROZEN_READY, /* nothing is built or measured; what is ready serves, and where nothing fits the call fails */
    MD_DS_FROZEN_REFERENCE, /* the same, but where nothing fits the reference evaluator serves */
    MD_DS_FROZEN_FAIL /* every miss fails */
} md_ds_frozen;

struct md_ds_upgrade; /* promote.c */

typedef struct md_ds_op {
    struct md_ds_op *next; /* of the runtime; this and the next two under its lock of ops */
    int32_t n_owners;
    bool is_made, has_failed; /* neither: somebody is at it */
    md_strbuf identity; /* bytes that are equal where two ops are one */
    char name[64];
    md_ds_compiled *compiled; /* owned: what the next three point to */
    md_fx_formula *formula;
    md_st_program *program;
    md_fa_customs *customs; /* NULL: none */
    md_ds_space space; /* copies: calls read them */
    md_ds_policy policy;
    int32_t n_stages;
    md_ds_pool stage[MD_ST_MAX_STAGES];
    pthread_mutex_t lock_of_entries;
    md_table *entries; /* shape key -> md_ds_shape_entry */
    md_ds_shape_entry **ring; /* all records, for eviction */
    int64_t max_entries, n_entries, hand;
    pthread_mutex_t lock_of_promotions; /* held while records are promoted; taken before lock_of_records */
    struct md_ds_async_fill *async_fill; /* growth.h; NULL: pools were whole from the start */
    _Atomic bool is_filling, is_orphan; /* orphan: in a child after fork, that nobody lets it grow */
    struct md_ds_upgrade *waiting; /* records that are to be promoted; also under lock_of_records */
    _Atomic int32_t n_waiting;
    _Atomic int32_t frozen; /* md_ds_frozen */
    struct md_ds_hybrid *hybrid; /* MD_SELECT_HYBRID; else NULL */
    struct md_ds_indices *indices; /* indices.h: where statistics want them; else NULL */
    _Atomic int32_t n_trials; /* alive */
    md_ds_counters count;
    char apart[64]; /* what a warm call reads is on no line that others write */
    bool has_fast_call; /* calls may have plans */
    bool takes_times; /* of some calls */
    md_ds_runtime *runtime;
    uint64_t runtime_id; /* its */
    _Atomic uint64_t generation; /* goes on when a slot has been emptied */
    uint64_t serial; /* no other op of the context ever has it; below 2^48 */
    _Atomic(struct md_ds_plan_cache *) plan_cache; /* made when a shape is met again; NULL until then */
    md_dev_report report; /* of asynchronous devices, else NULL pointers */
    md_ds_arg_layout layout;
} md_ds_op;

typedef struct md_ds_op_options {
    const char *name; /* NULL: `fallback_name`, else the first output */
    const char *fallback_name;
    md_ds_compile_options compile;
    const char *pin;
    int64_t max_shapes;
    bool is_async; /* made as soon as every stage has one variant that is ready */
} md_ds_op_options;

/** Makes an op, or finds the one that is the same in all but is_async and gives it one more owner. Returns when every
 * candidate is built or has failed, or earlier (is_async). `runtime` must outlive it. */
md_status md_ds_op_create(md_ds_op **out, md_ds_runtime *runtime, const char *formula, const md_ds_op_options *options);
void md_ds_op_destroy(md_ds_op **op); /* of one owner; the last one's frees it */
/** Frees an op that md_ds_leave (share.h) left to the caller. */
void md_ds_op_free(md_ds_op **op);
/** Waits for all builds; then every shape that was met has the best there is. */
void md_ds_op_wait(md_ds_op *op);

/** Time of all calls of a record, in ns: those that were not timed count as much as those that were, or as the model
 * says. */
uint64_t md_ds_shape_entry_ns(const md_ds_shape_entry *entry);

#endif
