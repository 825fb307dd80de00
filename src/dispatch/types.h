/* Plain types that several rooms share: why a variant was picked, the plan of a shape, and an op's counters. */
#ifndef MD_DISPATCH_TYPES_H
#define MD_DISPATCH_TYPES_H

#include "expr/formula.h"
#include "kernel/kernel.h"

/* How long loading a kernel of cuBLASLt holds the driver's lock, in us (one H200: 1,400 to 3,000). */
#define MD_DS_LOAD_US 2000.0

/* Why a variant was picked. */
typedef enum md_ds_source {
    MD_DS_PINNED,
    MD_DS_MEASURED,
    MD_DS_STORED, /* measured by an earlier process */
    MD_DS_GIVEN, /* given by md_choices_import */
    MD_DS_MODEL,
    MD_DS_NEAREST,
    MD_DS_NEAREST_ON_GRID, /* the nearest hint of the grid of default hints */
    MD_DS_DEFAULT, /* no candidate fitted, or there was nothing to choose from */
    MD_DS_REFERENCE /* nothing could be compiled: the evaluator serves */
} md_ds_source;

typedef struct md_ds_pick {
    int32_t variant; /* of the stage's pool; -1: reference */
    md_ds_source source;
    /* the hint whose list was used; in other modes the nearest in whose list the variant is; -1: none, or one of the
     * grid */
    int32_t hint;
    int32_t runner_up; /* variant, or -1 */
    double distance; /* octaves to that hint, or to the grid's; -1 */
    double margin; /* by which the runner-up was worse: octaves (NEAREST) or a time ratio minus 1 */
    double us; /* modelled or measured time; 0: neither is known */
} md_ds_pick;

/** A pick without a variant yet. */
static inline md_ds_pick md_ds_empty_pick(md_ds_source source)
{
    return (md_ds_pick){.variant = -1, .source = source, .hint = -1, .runner_up = -1, .distance = -1.0};
}

/* Besides numbers of variants. BY_PARTS, of a chain's stage: the chain is idle, and its parts serve. */
enum { MD_DS_SOUGHT = -2, MD_DS_BY_PARTS = -3 };

typedef struct md_ds_stage_choice {
    md_ds_pick pick;
    md_kn_geometries geometry;
    size_t workspace_offset;
    /* a better variant that is still being built, or MD_DS_SOUGHT: kernels for the shape are being chosen; -1: none */
    int32_t wished;
    int32_t unloaded; /* a variant of a library whose kernel is not loaded, if it would save ... */
    double saved_us; /* ... so much of each call; 0: there is none */
    /* a chain gives the stage's results, or the chain's parts do: there is no launch, and `pick` may have no variant */
    bool is_idle;
} md_ds_stage_choice;

/* Whether a call was served by a plan: until then another may take its place whatever its bits are, and afterwards none
 * serves by it. */
typedef enum md_ds_usage { MD_DS_UNUSED, MD_DS_SERVES, MD_DS_RETIRED } md_ds_usage;

/* How a shape is served: the pick of each stage, and where temporaries and workspace lie in the memory of a call.
 * Never changes once a shape entry has it. */
typedef struct md_ds_plan {
    struct md_ds_plan *older; /* the plan that this one replaced: calls under way may still read it */
    bool by_reference;
    bool is_stand_in; /* a better variant is being built, or still has to be chosen */
    bool is_early; /* chosen while the pool was being filled */
    bool is_passing; /* a later call of the shape shall choose anew: this one could begin nothing */
    bool may_load; /* a stage has an `unloaded` variant. Calls are counted until its load pays; no launch plan before */
    _Atomic int32_t has_begun_load;
    _Atomic int32_t has_no_launch_plan; /* and never will: library calls, too many parameters */
    _Atomic int32_t use; /* md_ds_usage */
    double model_us; /* of all stages */
    size_t workspace_bytes; /* temporaries and workspace, of which those that no stage needs together share memory */
    /* of the stage with the most packed operands: behind the workspace, for calls whose operands are not packed */
    size_t packed_bytes;
    int32_t n_packing; /* stages that read packed operands */
    size_t unshared_bytes; /* the same if temporaries shared none */
    size_t temp_offset[MD_FX_MAX_TENSORS];
    md_ds_stage_choice stage[]; /* one per stage */
} md_ds_plan;

/** True if no call was served by the plan so far. */
static inline bool md_ds_plan_is_unused(const md_ds_plan *plan)
{
    return atomic_load_explicit(&plan->use, memory_order_acquire) == MD_DS_UNUSED;
}

/* What a shape that was not met before may cost. */
typedef enum md_ds_effort {
    MD_DS_REFERENCE_ONLY, /* the reference evaluator serves */
    MD_DS_ONLY_READY, /* nothing is built, measured or waited for: NOT_FOUND if no ready variant fits */
    MD_DS_SOON, /* a ready variant serves while a better one is built; waits only if no ready variant fits */
    MD_DS_BEST /* waits for the best variant */
} md_ds_effort;

/* What a miss of a frozen op may still do. */
typedef enum md_ds_frozen {
    MD_DS_NOT_FROZEN,
    MD_DS_FROZEN_READY, /* nothing is built or measured; the call fails if no ready variant fits */
    MD_DS_FROZEN_REFERENCE, /* the same, but the reference evaluator serves if no ready variant fits */
    MD_DS_FROZEN_FAIL /* every miss fails */
} md_ds_frozen;

typedef struct md_ds_counters {
    _Atomic uint64_t calls, hits, misses, evictions, measured, adopted, by_reference, captured_misses;
    _Atomic uint64_t stored; /* shapes served by picks that an earlier process measured */
    _Atomic uint64_t stored_picks, stored_times; /* read from the store */
    _Atomic uint64_t nearest; /* calls served by a stand-in plan */
    _Atomic uint64_t upgrades; /* shapes whose plan was replaced by a better one */
    _Atomic uint64_t waits; /* misses that waited for a build, since no ready variant fitted */
    _Atomic uint64_t frozen_misses; /* misses of a frozen op */
    _Atomic uint64_t trials; /* calls that a challenger served, to be timed */
    _Atomic uint64_t switches; /* shapes that got another variant after a trial */
    _Atomic uint64_t demotions; /* variants that became slow */
    _Atomic uint64_t quarantined; /* variants whose results differ from those of most others */
    /* packed operands (packed_operand.h): that there are, their bytes, how often they were made, and calls that packed
     * for themselves, in a capture or since memory was short */
    _Atomic uint64_t packed, packed_bytes, packings, unpacked;
    /* of shape entries that were freed; calls that were not timed count with the model's time */
    _Atomic uint64_t empty; /* calls without an element to compute */
    _Atomic uint64_t forgotten_calls, forgotten_ns, forgotten_timed;
} md_ds_counters;

const char *md_ds_source_name(md_ds_source source);

#endif
