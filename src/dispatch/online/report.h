/* What calls, launch plans and statistics read of a trial. Thread-safe. */
#ifndef MD_DISPATCH_ONLINE_REPORT_H
#define MD_DISPATCH_ONLINE_REPORT_H

#include "dispatch/cache/shape_entry.h"
#include "dispatch/online/trial.h"
#include "dispatch/op.h"

/** One call in so many of the entry's shape takes the slow path: a power of two. `otherwise`: for entries without
 * trials. Launch plans made now are expected to have this rate. */
uint32_t md_ds_hybrid_every(const md_ds_op *op, const md_ds_shape_entry *entry, uint32_t otherwise);
/** True once after the entry's launch plans have become outdated: another variant serves, or at another rate. */
bool md_ds_hybrid_wants_launch_plan(const md_ds_shape_entry *entry);

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

/** False if the shape has no trial. */
bool md_ds_trial_of(md_ds_trial_state *out, const md_ds_op *op, const md_ds_shape_entry *entry);

#endif
