/* Background races: a pool thread times a trial's challengers on made-up inputs and the stream of the lowest priority,
 * in moments in which no op of the context is called. It tells kernels of a few us apart, which marks around real
 * calls cannot, because they time the launch as well; and it costs no call. */
#ifndef MD_DISPATCH_ONLINE_IDLE_BENCH_H
#define MD_DISPATCH_ONLINE_IDLE_BENCH_H

#include "dispatch/cache/plan_cache.h"
#include "dispatch/online/trial.h"

/* A race that may be interrupted by calls and goes on in the next quiet moment. One thread at a time. */
typedef struct md_ds_idle_bench md_ds_idle_bench;

/* When a race may run, and when it must stop. */
typedef struct md_ds_idle_bench_watch {
    /** True if work that calls enqueued may be left on the GPU after quiet_ns without calls, or if a stream may be
     * under capture. */
    bool (*is_busy)(void *user, uint64_t quiet_ns);
    void *user;
    const _Atomic bool *is_ending; /* the op is being destroyed: stop before the next sample */
    uint64_t quiet_ns; /* time without calls that counts as quiet */
} md_ds_idle_bench_watch;

/** Among the trial's challengers, which are ready and agree. Errors as md_ds_idle_memory_plan. */
md_status md_ds_idle_bench_create(md_ds_idle_bench **out, md_ds_op *op, const md_ds_trial *trial);
void md_ds_idle_bench_destroy(md_ds_idle_bench **idle); /* NULL allowed */
/** Runs while it is quiet. True when the race is over; false where calls kept it waiting for too long: ask again later.
 * A device has one race at a time: false at once for a second one. */
bool md_ds_idle_bench_run(md_ds_idle_bench *idle, const md_ds_idle_bench_watch *watch);
/** The variant's time: the median of the lower half of its samples, since other work on the GPU only adds to them.
 * us = 0: none. Variants that were dropped early have one or two samples. */
md_tn_summary md_ds_idle_bench_result(const md_ds_idle_bench *idle, int32_t variant);
/** GPU time that the whole race took, us. */
double md_ds_idle_bench_spent_us(const md_ds_idle_bench *idle);

#endif
