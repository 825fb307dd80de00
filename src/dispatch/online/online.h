/* MD_SELECT_HYBRID: the model picks at once; then, of the real calls of a shape, some are served by other variants
 * and timed, in turns with the one that serves, and the faster one stays. Nothing waits: times are asked for at
 * later calls, and all preparation is the pool's. Not in captures, not when frozen. Thread-safe. */
#ifndef MD_DISPATCH_ONLINE_ONLINE_H
#define MD_DISPATCH_ONLINE_ONLINE_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/online/trial.h"

/* A warm call in so many goes the long way at first, and as long as callers run ahead of the GPU; while a shape is
 * on trial; and while the trial waits until it may cost something, or is over: the long way takes some us of the
 * host, which is felt, so that fewer than 1 in 100 go it. Powers of two. */
enum { MD_DS_TRIAL_EVERY = 8, MD_DS_TRIAL_CALMLY = 64, MD_DS_TRIAL_WAITS = 256 };

/* What an op has for it; NULL in other modes. */
struct md_ds_hybrid;

md_status md_ds_hybrid_create(struct md_ds_hybrid **out, md_ds_op *op);
/** Waits for what is being prepared, and lets go of records. */
void md_ds_hybrid_destroy(struct md_ds_hybrid **hybrid);
void md_ds_trial_free(struct md_ds_trial *trial);

/** Runs a call that goes the long way, as md_ds_run. */
md_status md_ds_hybrid_run(md_ds_op *op, md_ds_shape_entry *entry, md_stream stream, md_ds_bound *bound);
/** How many warm calls of the record go the short way for each that goes the long one, plus 1: a power of two. */
uint32_t md_ds_hybrid_every(const md_ds_op *op, const md_ds_shape_entry *entry, uint32_t otherwise);
/** Whether plans of the record have another rate than it wants now; true once. */
bool md_ds_hybrid_wants_launch_plan(const md_ds_shape_entry *entry);

/* For reports. */
typedef struct md_ds_tried {
    int32_t variant, n; /* n: its times */
    double expected, us, idle_us; /* over the time of who serves; the median of calls, and beside calls, 0: none */
    bool is_out;
} md_ds_tried;
typedef struct md_ds_trial_state {
    int32_t stage, challengers, timed, switches, demotions; /* timed: calls that a rival served */
    bool is_over, is_raced; /* for now; beside calls */
    double load; /* of the GPU, by the op, as seen last; 0: not yet */
    md_ds_tried of[MD_DS_CHALLENGERS]; /* who serves, and `rivals` others */
} md_ds_trial_state;
/** False where the shape has none. */
bool md_ds_trial_of(md_ds_trial_state *out, const md_ds_op *op, const md_ds_shape_entry *entry);

#endif
