/* What the files of hybrid share: the state of an op with MD_SELECT_HYBRID, its timed calls, trials and races. */
#ifndef MD_DISPATCH_HYBRID_INTERNAL_H
#define MD_DISPATCH_HYBRID_INTERNAL_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/plan_cache.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/hybrid/budget.h"
#include "dispatch/hybrid/trial.h"
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
    _Atomic int32_t n_followed; /* shapes for which better variants were looked for */
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

/* ---- timing.c */

typedef struct md_ds_timed_call {
    md_ds_trial *trial; /* NULL: the call is not timed */
    bool is_stale; /* the trial is to be refreshed after the launch */
    md_ds_plan *plan; /* the plan of a challenger that serves; NULL: the incumbent serves */
    md_ds_timing *marks; /* NULL: the host's clock */
    md_ds_timing time; /* the time itself, where there are no marks */
} md_ds_timed_call;

/** Decides whether and whom this call times, and marks its begin. The lock is held. */
void md_ds_begin_timing(md_ds_timed_call *out, struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, md_stream stream,
                        bool is_sample);
/** Marks the end, or takes `us` where there are no marks. `status`: of the launch; one that failed has no time. Takes
 * the lock. */
void md_ds_end_timing(const md_ds_timed_call *call, struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry,
                      md_stream stream, double us, md_status status);
/** Takes the times that are there by now. The lock is held. */
void md_ds_poll_timings(struct md_ds_hybrid *hybrid);
/** Creates marks where they are missing; false where the device has none left. */
bool md_ds_timing_has_marks(md_ds_timing *timing, md_dev *dev);

enum {
    MD_DS_NOT_TIMED = -1,
    MD_DS_STALE_TRIAL = -2, /* the trial must be refreshed first */
    MD_DS_ROUND_OVER = -3 /* the challenger must be judged first */
};
/** The challenger that serves the next timed call (0: the incumbent), or one of the above. */
int32_t md_ds_next_challenger(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry);
/** Sets how many calls take the fast path for each slow one; launch plans made from now on have it. */
void md_ds_set_rate(const struct md_ds_hybrid *hybrid, md_ds_trial *trial);

/** From now on the entry's shape is served with this pick in one stage, whose variant is ready and fits the shape.
 * Calls under way finish as they began. With only_unused NOT_FOUND if the plan has served a call. Errors change
 * nothing. */
md_status md_ds_switch(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t stage,
                       const md_ds_pick *pick, bool only_unused);
/** The challenger serves from now on. With only_unused false if a call was served by the plan before. */
bool md_ds_make_incumbent(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t challenger,
                          bool only_unused);
/** Keeps what the trial decided, once. */
void md_ds_keep_verdict(md_ds_op *op, const md_ds_shape_entry *entry);
/** Tells the correction of the model what was measured of a challenger. */
void md_ds_teach_model(struct md_ds_hybrid *hybrid, const md_ds_trial *trial, const md_ds_challenger *challenger);
/** Takes the expected times of a trial from the model again, as corrected by now. */
void md_ds_refresh_trial(struct md_ds_hybrid *hybrid, md_ds_trial *trial);
/** Takes the time of a call in us; not positive: the call has none. Times of older generations are dropped. */
void md_ds_record_time(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, const md_ds_timing *timing, double us);

/* ---- challengers.c */

/* A trial that is to be made. */
typedef struct md_ds_trial_job {
    _Atomic int32_t *n_jobs;
    md_ds_op *op;
    md_ds_shape_entry *entry; /* held */
    md_kn_shape shape;
    int64_t select_sizes[MD_FX_MAX_DIMS]; /* what variants are chosen by */
    int32_t n_runs; /* so far; while kernels are built, and after a race without a quiet moment, it runs again */
    uint64_t due_ns; /* of its next run */
    bool has_followed; /* md_ds_pool_follow was asked */
} md_ds_trial_job;

/** Sets the trial's stage, of those that have challengers the one that takes the most time, and its challengers, the
 * incumbent first. Returns how many; 0: no stage has any. */
int32_t md_ds_choose_challengers(md_ds_trial *trial, const md_ds_trial_job *job);
bool md_ds_is_listed(const md_ds_challenger *list, int32_t n, int32_t variant);
/** True if a variant that is being built may be faster at the shape than what serves a stage, by the model and its
 * error: a trial waits for it. */
bool md_ds_awaits(const md_ds_trial_job *job);
/** The variant that is ahead of what serves the stage by more than the model errs; with own_bits one of the same
 * numeric class. -1: none. */
int32_t md_ds_find_sure(md_ds_pick *out, const md_ds_trial_job *job, int32_t stage, bool own_bits);

/* ---- prepare.c */

/** Queues a job, counted in *n_jobs, that makes the entry's trial. At most one job per entry. */
void md_ds_prepare_trial(_Atomic int32_t *n_jobs, md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape,
                         const md_ds_as *as);
/** Takes challengers in whose library's kernels are loaded by now, and begins to load what would save more than loading
 * costs. The lock of hybrid is held. */
void md_ds_load_challengers(md_ds_op *op, md_ds_trial *trial);
/** Waits until *n_jobs, of an op that ends, is 0. */
void md_ds_prepare_wait(const _Atomic int32_t *n_jobs, const md_ds_op *op);

/* ---- quiet.c */

/* What a race knows of calls. One thread at a time. */
typedef struct md_ds_quiet {
    struct md_ds_hybrid *hybrid; /* of the op whose race it is */
    uint64_t least_ns; /* time without calls that counts as quiet; may be changed between waits */
    uint64_t seen_ns, n_calls; /* when calls of the context were seen last, and how many there were by then */
} md_ds_quiet;

/** Begins a run of the race. */
void md_ds_quiet_begin(md_ds_quiet *quiet);
/** Waits until the GPU and the context are quiet; false where that takes too long, or the op ends. */
bool md_ds_quiet_wait(md_ds_quiet *quiet);
/** True if an op of the context was called since this was asked last. */
bool md_ds_quiet_is_over(md_ds_quiet *quiet);
/** Marks on the stream what a race must wait for. The lock is held. */
void md_ds_put_tail(struct md_ds_hybrid *hybrid, const md_ds_shape_entry *entry, md_stream stream);

/* ---- idle_memory.c */

enum { MD_DS_IDLE_PACKED_SETS = 32 }; /* the most where variants pack operands */

typedef struct md_ds_idle_memory {
    md_ds_op *op;
    int32_t stage;
    md_kn_shape shape;
    md_kn_call call; /* of the next run; points into this struct, which must not move */
    int64_t at[MD_KN_MAX_TENSORS]; /* offset of each tensor in a set, bytes */
    int64_t set_bytes, workspace_bytes, packed_bytes; /* packed operands of each set: behind the workspace */
    const void *packed_by[MD_DS_IDLE_PACKED_SETS]; /* of each set, as in its call */
    int32_t n_sets, next, last; /* sets of the next run, and of the last */
    char *memory; /* the sets, then the workspace; filled when the stream's workspace was here */
    void *own; /* on the host: the memory, as it was allocated */
} md_ds_idle_memory;

/** Lays out the sets for one stage, for variants that want no more workspace and packed operands than `most`.
 * UNSUPPORTED where the stage has index tensors (made-up values could be wrong ones) or is larger than
 * MD_DS_IDLE_BENCH_BYTES; OUT_OF_MEMORY where it needs more than 5% of what is free. */
md_status md_ds_idle_memory_plan(md_ds_idle_memory *out, md_ds_op *op, int32_t stage, const md_kn_shape *shape,
                                 const md_kn_geometries *most);
/** Gets the memory, which others may have moved since, and fills it. The runtime's lock of tuning is held, until the
 * runs are done. */
md_status md_ds_idle_memory_get(md_ds_idle_memory *m);
void md_ds_idle_memory_finish(md_ds_idle_memory *m);
/** The call on the next set. For md_tn_runs. */
md_kn_call *md_ds_idle_memory_next(void *memory);

/** Stages whose tensors have more bytes are not timed in the background. Most need no more than the FIRST_BYTES, which
 * are there from the beginning. */
#define MD_DS_IDLE_FIRST_BYTES 64e6
#define MD_DS_IDLE_BENCH_BYTES 256e6
#define MD_DS_IDLE_HOST_BYTES 8e6

/* ---- race.c */

/* A race that may be interrupted by calls and goes on in the next quiet moment. One thread at a time. */
typedef struct md_ds_idle_bench md_ds_idle_bench;

void md_ds_idle_bench_destroy(md_ds_idle_bench **idle); /* NULL allowed */

/** Runs the background race of the entry's trial, on a thread of the pool, if it is quiet. True if it should run again,
 * after trial->race_ns. */
bool md_ds_race(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry);
/** After a launch, without the lock: starts a background race of the trial where one is due. */
void md_ds_request_race(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, md_stream stream);

#endif
