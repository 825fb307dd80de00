/* What hybrid.c, hybrid_race.c and hybrid_state.c share. */
#ifndef MD_DISPATCH_ONLINE_INTERNAL_H
#define MD_DISPATCH_ONLINE_INTERNAL_H

#include "dispatch/online/budget.h"
#include "dispatch/online/online.h"
#include "dispatch/online/idle_bench.h"
#include "dispatch/online/correction.h"

#include <pthread.h>

enum { MD_DS_HYBRID_TIMES = 16 }; /* under way at a time */

typedef struct md_ds_timing { /* two marks on a stream, and whose time lies between them */
    md_dev_mark *from, *to;
    md_ds_shape_entry *entry; /* held; NULL: free */
    bool is_put; /* both marks are */
    int32_t challenger;
    int32_t generation; /* of the trial: what was timed before a switch counts for nobody */
} md_ds_timing;

struct md_ds_hybrid {
    md_ds_op *op;
    pthread_mutex_t lock; /* of all trials of the op */
    md_ds_correction *correction;
    md_ds_budget budget;
    _Atomic int32_t n_jobs;
    int32_t n_tried; /* calls that rivals serve and that have no time yet */
    _Atomic int32_t n_put; /* times that can be asked for */
    md_ds_timing timing[MD_DS_HYBRID_TIMES];
    /* Races beside calls: */
    _Atomic int32_t n_races; /* one at a time */
    _Atomic bool is_ending;
    md_dev_mark *tail; /* behind a call that went the long way of late; passed: the GPU has done that */
    bool has_tail;
    uint64_t tail_calls; /* calls of the op before it was put */
    _Atomic uint64_t captured_ns; /* when a call was captured last */
};

static inline md_ds_trial *md_ds_trial_in(const md_ds_shape_entry *entry)
{
    return atomic_load_explicit(&entry->trial, memory_order_acquire);
}

/* The lock is held: */
/** The rival serves from now on. */
void md_ds_put_in_charge(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t challenger);
/** Takes down what was seen of a rival over what the model says. */
void md_ds_teach(struct md_ds_hybrid *hybrid, const md_ds_trial *trial, const md_ds_challenger *challenger);

/** Behind a launch, without the lock: lets the pool race the trial's rivals beside calls, where that is still to be
 * done. */
void md_ds_request_race(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, md_stream stream);

#endif
