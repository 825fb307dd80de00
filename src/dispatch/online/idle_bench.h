/* Rivals timed beside calls: by a pool thread, on memory of their own, on the stream of the lowest priority, in
 * moments in which no op of the context is called. Kernels of a few us are told apart there, where marks around real
 * calls time the launch as well; and no call is spent on it. */
#ifndef MD_DISPATCH_ONLINE_IDLE_BENCH_H
#define MD_DISPATCH_ONLINE_IDLE_BENCH_H

#include "dispatch/cache/plan_cache.h"
#include "dispatch/online/trial.h"

/** The tensors of what is timed have at most so many bytes: longer kernels are told apart by calls, and would hold up
 * the next one. */
#define MD_DS_IDLE_BENCH_BYTES 64e6

/* All calls of an op so far. */
static inline uint64_t md_ds_calls_of(const md_ds_op *op)
{
    return atomic_load_explicit(&op->count.calls, memory_order_relaxed) +
           md_ds_plan_cache_calls(atomic_load_explicit(&op->plan_cache, memory_order_acquire));
}

/* A race that goes on in the next quiet moment. One thread at a time. */
typedef struct md_ds_idle_bench md_ds_idle_bench;

/* What a race needs to know of its op's calls, and when to stop. */
typedef struct md_ds_idle_bench_watch {
    /** Whether work that calls enqueued may be left on the GPU when nobody has called for so long, or a stream be
     * captured. */
    bool (*is_busy)(void *user, uint64_t quiet_ns);
    void *user;
    const _Atomic bool *is_ending; /* the race stops at the next look */
    uint64_t quiet_ns; /* nobody called for so long */
} md_ds_idle_bench_watch;

/** Between the trial's rivals, who are ready and agree. UNSUPPORTED where the stage has index tensors, or is too
 * large; OUT_OF_MEMORY. */
md_status md_ds_idle_bench_create(md_ds_idle_bench **out, md_ds_op *op, const md_ds_trial *trial);
void md_ds_idle_bench_destroy(md_ds_idle_bench **idle); /* NULL allowed */
/** Goes on while it is quiet; false where it was not for too long: ask again later. A device has one race at a time,
 * others are false at once. */
bool md_ds_idle_bench_run(md_ds_idle_bench *idle, const md_ds_idle_bench_watch *watch);
/** The median of the lower half of the variant's times in us, since what else runs on the GPU only adds to them; 0:
 * none. *spread: of that median. Those far behind have one or two times. */
double md_ds_idle_bench_us(double *spread, const md_ds_idle_bench *idle, int32_t variant);
/** What all of it took of the GPU. */
double md_ds_idle_bench_spent_us(const md_ds_idle_bench *idle);

#endif
