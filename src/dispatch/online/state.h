/* The state of an op with MD_SELECT_HYBRID, which the files of this room share. */
#ifndef MD_DISPATCH_ONLINE_STATE_H
#define MD_DISPATCH_ONLINE_STATE_H

#include "dispatch/cache/shape_entry.h"
#include "dispatch/online/budget.h"
#include "dispatch/online/trial.h"
#include "dispatch/op.h"

#include <pthread.h>

/* One call in so many takes the slow path, which costs some us of the host, or fewer (md_ds_budget_every): while
 * callers run ahead of the GPU, which hides that; at first; while a shape is on trial; while the trial is over or waits
 * for the budget. Powers of two. */
enum { MD_DS_TRIAL_AHEAD = 8, MD_DS_TRIAL_EVERY = 32, MD_DS_TRIAL_CALMLY = 64, MD_DS_TRIAL_WAITS = 256 };

enum { MD_DS_HYBRID_TIMES = 16 }; /* timed calls under way at a time */

/* Two marks around the launches of one call. */
typedef struct md_ds_timing {
    md_dev_mark *from, *to;
    md_ds_shape_entry *entry; /* held; NULL: the marks are free */
    bool is_marked; /* both marks are on the stream */
    int32_t challenger;
    int32_t generation; /* of the trial, at the call */
} md_ds_timing;

struct md_ds_hybrid {
    md_ds_op *op;
    pthread_mutex_t lock; /* of all trials of the op */
    bool is_idle_only; /* MD_SELECT_MODEL with idle_tune: no call is served by a challenger, nor timed */
    md_ds_budget budget;
    _Atomic int32_t n_jobs; /* trials being prepared */
    int32_t n_tried; /* calls that challengers serve and that have no time yet */
    _Atomic int32_t n_marked; /* timings whose times can be asked for */
    md_ds_timing timing[MD_DS_HYBRID_TIMES];
    /* Background races: */
    _Atomic int32_t n_races; /* one at a time */
    _Atomic bool is_ending;
    md_dev_mark *tail; /* behind a recent call; once it is passed the GPU has done that call */
    bool has_tail;
    uint64_t tail_calls; /* calls of the op before the tail was put */
    _Atomic uint64_t captured_ns; /* when a call was captured last */
};

static inline md_ds_trial *md_ds_trial_in(const md_ds_shape_entry *entry)
{
    return atomic_load_explicit(&entry->trial, memory_order_acquire);
}

static inline void md_ds_count_one(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

#endif
