/* What the files of hybrid share: an op's state, timed calls, and what is done with a time. */
#ifndef MD_DISPATCH_ONLINE_INTERNAL_H
#define MD_DISPATCH_ONLINE_INTERNAL_H

#include "dispatch/online/budget.h"
#include "dispatch/online/idle_bench.h"
#include "dispatch/online/online.h"

#include <pthread.h>

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

/* ---- times.c: what times say. The lock is held. */

/** From now on the entry's shape is served with this pick in one stage, whose variant is ready and fits the shape. Calls
 * under way finish as they began. OUT_OF_MEMORY leaves all as it was. Takes no lock of hybrid. */
md_status md_ds_switch(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t stage,
                       const md_ds_pick *pick);
/** The challenger serves from now on. */
void md_ds_make_incumbent(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t challenger);
/** Tells the correction of the model what was measured of a challenger. */
void md_ds_teach_model(struct md_ds_hybrid *hybrid, const md_ds_trial *trial, const md_ds_challenger *challenger);
/** Takes the expected times of a trial from the model again, as corrected by now. */
void md_ds_refresh_trial(struct md_ds_hybrid *hybrid, md_ds_trial *trial);
/** The challenger is out, and the next one is tried. */
void md_ds_drop_challenger(struct md_ds_hybrid *hybrid, md_ds_trial *trial, int32_t challenger);
/** After a round A B B A: drops the challenger, makes it the incumbent, or neither. */
void md_ds_judge_challenger(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry);
/** Takes the time of a call in us; not positive: the call has none. Times of older generations are dropped. */
void md_ds_record_time(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, const md_ds_timing *timing, double us);

/* ---- schedule.c: who serves the next timed call. The lock is held. */

enum { MD_DS_NOT_TIMED = -1, MD_DS_STALE_TRIAL = -2 }; /* stale: the trial must be refreshed first */
/** The challenger that serves the next timed call (0: the incumbent), or one of the above. */
int32_t md_ds_next_challenger(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry);
/** True if this call may be timed: of a shape without a launch plan every call comes here, of others only samples. */
bool md_ds_is_timing_due(md_ds_trial *trial, const md_ds_shape_entry *entry, const md_ds_bound *bound);
/** Calls that this one stands for: those that took the fast path since the last slow one. */
int32_t md_ds_calls_since(md_ds_trial *trial, const md_ds_shape_entry *entry);
/** Sets how many calls take the fast path for each slow one; launch plans made from now on have it. */
void md_ds_set_rate(const struct md_ds_hybrid *hybrid, md_ds_trial *trial);

/* ---- timed_call.c */

typedef struct md_ds_timed_call {
    md_ds_trial *trial; /* NULL: the call is not timed */
    bool is_stale; /* the trial is to be refreshed after the launch */
    md_ds_plan *plan; /* the challenger's; NULL: the incumbent's */
    md_ds_timing *marks; /* NULL: the host's clock */
    md_ds_timing time; /* whose time it is, where there are no marks */
} md_ds_timed_call;

/** Decides whether and whom this call times, and marks its begin. The lock is held. */
void md_ds_begin_timing(md_ds_timed_call *out, struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, md_stream stream,
                        const md_ds_bound *bound);
/** Marks the end, or takes `us` where there are no marks. `status`: of the launch; one that failed has no time. Takes
 * the lock. */
void md_ds_end_timing(const md_ds_timed_call *call, struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry,
                      md_stream stream, double us, md_status status);
/** Takes the times that are there by now. The lock is held. */
void md_ds_poll_timings(struct md_ds_hybrid *hybrid);
/** Creates marks where they are missing; false where the device has none left. */
bool md_ds_timing_has_marks(md_ds_timing *timing, md_dev *dev);

/* ---- background.c */

/** After a launch, without the lock: starts a background race of the trial where one is due. */
void md_ds_request_race(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, md_stream stream);

#endif
