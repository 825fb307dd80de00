/* MD_SELECT_HYBRID: the model picks at once; then some real calls of a shape are served by other variants and timed, in
 * turns with the one that serves, and the faster one stays. No call waits: times are asked for at later calls, and
 * background threads prepare trials. Nothing is tried while a stream is captured or the op is frozen. Thread-safe. */
#ifndef MD_DISPATCH_HYBRID_HYBRID_H
#define MD_DISPATCH_HYBRID_HYBRID_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/hybrid/trial.h"
#include "dispatch/op.h"

md_status md_ds_hybrid_create(struct md_ds_hybrid **out, md_ds_op *op);
/** Waits for background jobs, and releases the shape entries that timed calls hold. NULL in *hybrid is allowed. */
void md_ds_hybrid_destroy(struct md_ds_hybrid **hybrid);

/** Runs a slow call as md_ds_run does; a challenger may serve it, and it may be timed. */
md_status md_ds_hybrid_run(md_ds_op *op, md_ds_shape_entry *entry, md_stream stream, md_ds_bound *bound);

/** One call in so many of the entry's shape takes the slow path: a power of two. `otherwise`: for entries without
 * trials. Launch plans made now are expected to have this rate. */
uint32_t md_ds_hybrid_every(const md_ds_op *op, const md_ds_shape_entry *entry, uint32_t otherwise);
/** True if sampled calls of the entry's shape are to take the slow path. */
bool md_ds_hybrid_watches(const md_ds_op *op, const md_ds_shape_entry *entry);
/** True once after the entry's launch plans have become outdated: another variant serves, or at another rate. */
bool md_ds_hybrid_wants_launch_plan(const md_ds_op *op, md_ds_shape_entry *entry);

/* A challenger, for reports. */
typedef struct md_ds_tried {
    int32_t variant, n; /* n: times of calls */
    double expected; /* time over the incumbent's */
    double us, idle_us; /* median of calls; of the background race; 0: none */
    bool is_out;
} md_ds_tried;

typedef struct md_ds_trial_state {
    int32_t stage, challengers, timed, switches, demotions; /* timed: calls that challengers served */
    bool is_over, is_raced; /* raced: the background race is over, or impossible */
    double load; /* of the GPU by this op, as seen last; 0: not known */
    md_ds_tried of[MD_DS_CHALLENGERS]; /* the incumbent, and `challengers` others */
} md_ds_trial_state;

/** False if the shape has no trial. Not from inside md_ds_table_each, whose lock comes after the trials'. */
bool md_ds_trial_of(md_ds_trial_state *out, const md_ds_op *op, const md_ds_shape_entry *entry);
/** As md_ds_table_each; fn may ask md_ds_trial_visited, which is md_ds_trial_of for it. */
void md_ds_trials_each(md_ds_op *op, void (*fn)(void *user, const md_ds_shape_entry *entry), void *user);
bool md_ds_trial_visited(md_ds_trial_state *out, const md_ds_op *op, const md_ds_shape_entry *entry);

#endif
