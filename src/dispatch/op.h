/* An op below the public layer: formula, program, candidates per stage, and what was chosen for every shape met. Thread-safe after
 * creation. Its records hold what one shape needs: picks, geometry, workspace layout, counters. */
#ifndef MD_DISPATCH_OP_H
#define MD_DISPATCH_OP_H

#include "base/table.h"
#include "dispatch/candidates.h"
#include "dispatch/runtime.h"
#include "dispatch/warm.h"
#include "expr/eval.h"

typedef enum md_ds_source {
    MD_DS_PINNED,
    MD_DS_MEASURED,
    MD_DS_MODEL,
    MD_DS_NEAREST,
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
    double margin; /* by which the runner-up was worse: octaves (nearest) or a time ratio minus 1 */
    double us; /* model or measured time; 0 where neither was asked */
} md_ds_pick;

typedef struct md_ds_stage_plan {
    md_ds_pick pick;
    md_kn_plan_geometry geometry;
    size_t workspace_offset;
} md_ds_stage_plan;

typedef struct md_ds_record {
    void *key; /* bytes of the shape key */
    size_t key_bytes;
    _Atomic int32_t users; /* calls and launches that hold it */
    _Atomic int32_t is_hot; /* used since the eviction hand passed */
    bool is_loose; /* in no table, since all places were held or memory was short: its one user frees it by giving it back */
    bool by_reference;
    _Atomic int32_t has_no_plan; /* and never will: library calls, too many parameters */
    size_t workspace_bytes;
    size_t temp_offset[MD_FX_MAX_TENSORS];
    _Atomic uint64_t calls, time_ns, n_timed; /* time_ns: of n_timed of the calls */
    double model_us; /* of all stages */
    int64_t size[MD_FX_MAX_DIMS]; /* by dim id */
    md_ds_as as; /* chosen as if it had these */
    double nearest; /* octaves to the nearest hint */
    bool is_uncovered; /* farther than the op's threshold */
    bool is_strided; /* some tensor was not contiguous */
    md_ds_stage_plan stage[]; /* one per stage */
} md_ds_record;

typedef struct md_ds_counters {
    _Atomic uint64_t calls, hits, misses, evictions, measured, adopted, by_reference, captured_misses;
    _Atomic uint64_t forgotten_calls, forgotten_ns, forgotten_timed; /* of records that are gone; calls that were not timed count as the model says */
} md_ds_counters;

typedef struct md_ds_op {
    md_ds_runtime *runtime;
    uint64_t serial; /* no other op of the context ever has it */
    char name[64];
    md_strbuf printed; /* the formula, canonical */
    md_fx_formula *formula;
    md_st_program *program;
    md_ds_space space;
    md_ds_policy policy;
    int32_t n_stages;
    md_ds_candidates stage[MD_ST_MAX_STAGES];
    pthread_mutex_t lock_of_records;
    md_table *records; /* shape key -> md_ds_record */
    md_ds_record **ring; /* all records, for eviction */
    int64_t max_records, n_records, hand;
    md_ds_counters count;
    md_ds_warm warm;
    _Atomic(struct md_ds_slots *) slots; /* made when a shape is met again; NULL until then */
    md_dev_report report; /* of asynchronous devices, else NULL pointers */
} md_ds_op;

typedef struct md_ds_op_options {
    const char *name; /* NULL: `fallback_name`, else the first output */
    const char *fallback_name;
    md_dtype dtype;
    const char *sizes, *hints, *hints_source, *weights, *pin;
    md_ds_policy policy; /* pin ignored */
    md_bounds bounds;
    int64_t max_shapes;
} md_ds_op_options;

/** Makes an op; returns when every candidate is built or has failed. `runtime` must outlive it. */
md_status md_ds_op_create(md_ds_op **out, md_ds_runtime *runtime, const char *formula, const md_ds_op_options *options);
void md_ds_op_destroy(md_ds_op **op);

/** Time of all calls of a record, in ns: those that were not timed count as much as those that were, or as the model says. */
uint64_t md_ds_record_ns(const md_ds_record *record);

/** Part of "2:variant;3:other" or "variant" that is for a stage: a malloc'ed copy or NULL in *out. */
md_status md_ds_pin_of(char **out, const char *pin, int32_t stage);

#endif
