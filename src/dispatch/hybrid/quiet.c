/* Moments without calls, in which races run: when they begin, and how long a race waits for one. */
#include "dispatch/hybrid/internal.h"

#include "base/clock.h"
#include "base/task/jobs.h"
#include "dispatch/cache/plan_cache.h"
#include "tune/bench/bench.h"

#include <time.h>

/* LOOK_NS: time between two looks whether it is quiet; BUSY_LOOK_NS: the same after a look that found calls, doubled by
 * each further one up to CALM_LOOK_NS where nobody asked for races. A look reads counters that calls write, which
 * then wait for the cache line.
 * PATIENCE_NS: a run of the race waits no longer for a quiet moment; QUEUED_PATIENCE_NS: where other races wait behind
 * it. */
enum {
    LOOK_NS = 50000,
    BUSY_LOOK_NS = 200000,
    CALM_LOOK_NS = 5000000,
    PATIENCE_NS = 100000000,
    QUEUED_PATIENCE_NS = 10000000
};

/* False where another thread holds the list of ops. */
static bool count_calls(uint64_t *out, md_ds_runtime *runtime)
{
    if (pthread_mutex_trylock(&runtime->lock_of_ops) != 0)
        return false;
    *out = 0;
    for (md_ds_op *op = runtime->ops; op; op = op->next)
        if (op->is_made)
            *out += md_ds_calls_of(op);
    pthread_mutex_unlock(&runtime->lock_of_ops);
    return true;
}

bool md_ds_quiet_is_over(md_ds_quiet *quiet)
{
    uint64_t n = 0;
    if (count_calls(&n, quiet->hybrid->op->runtime) && n == quiet->n_calls)
        return false;
    quiet->n_calls = n;
    quiet->seen_ns = md_clock_ns();
    return true;
}

/* The GPU is busy if it has not passed the tail, or if the calls made since then may not be done after quiet_ns
 * without calls. If a stream was captured a short time ago, one may be under capture now. */
static bool is_busy(struct md_ds_hybrid *h, uint64_t quiet_ns)
{
    static const uint64_t after_capture_ns = 50000000;
    enum { FEW = 8 };
    md_dev *dev = h->op->runtime->dev;
    double us = 0.0;
    pthread_mutex_lock(&h->lock);
    /* If the last call found the GPU idle, the host is the slower one: at most FEW calls can be unfinished. */
    const uint64_t behind = md_ds_calls_of(h->op) - h->tail_calls, most = h->budget.was_busy ? behind : FEW;
    const bool is_left = (h->has_tail && dev->ops->mark_time(&us, dev, h->tail, h->tail) == MD_OK && us < 0.0) ||
                         (double)quiet_ns < (double)MD_MIN(behind, most) * h->budget.call_us * 1e3;
    const bool is_unknown = !h->has_tail && md_ds_is_async(h->op->runtime);
    pthread_mutex_unlock(&h->lock);
    const uint64_t captured = atomic_load_explicit(&h->captured_ns, memory_order_relaxed);
    return is_left || is_unknown || md_pool_is_busy(dev->pool) ||
           (captured && md_clock_ns() - captured < after_capture_ns);
}

static bool is_quiet(md_ds_quiet *quiet)
{
    if (md_ds_quiet_is_over(quiet))
        return false;
    const uint64_t quiet_ns = md_clock_ns() - quiet->seen_ns;
    return quiet_ns >= quiet->least_ns && !is_busy(quiet->hybrid, quiet_ns);
}

static bool is_ending(const md_ds_quiet *quiet)
{
    return atomic_load_explicit(&quiet->hybrid->is_ending, memory_order_acquire) || md_jobs_are_awaited();
}

static uint64_t end_of_patience(const md_ds_quiet *quiet)
{
    const uint64_t patience_ns = quiet->hybrid->is_idle_only ? QUEUED_PATIENCE_NS : PATIENCE_NS;
    return md_clock_ns() + MD_MAX(patience_ns, 2 * quiet->least_ns);
}

void md_ds_quiet_begin(md_ds_quiet *quiet)
{
    quiet->n_calls = 0;
    quiet->seen_ns = md_clock_ns();
}

bool md_ds_quiet_wait(md_ds_quiet *quiet)
{
    int64_t busy_ns = BUSY_LOOK_NS;
    const uint64_t deadline_ns = end_of_patience(quiet);
    while (!is_quiet(quiet)) {
        if (md_clock_ns() >= deadline_ns || is_ending(quiet))
            return false;
        const bool is_called = md_clock_ns() - quiet->seen_ns < LOOK_NS;
        nanosleep(&(struct timespec){.tv_nsec = is_called ? busy_ns : LOOK_NS}, NULL);
        if (is_called && quiet->hybrid->is_idle_only)
            busy_ns = MD_MIN(2 * busy_ns, CALM_LOOK_NS);
    }
    return !is_ending(quiet) && !md_tn_is_stuck(quiet->hybrid->op->runtime->dev);
}

void md_ds_put_tail(struct md_ds_hybrid *h, const md_ds_shape_entry *entry, md_stream stream)
{
    md_dev *dev = h->op->runtime->dev;
    if (h->tail && dev->ops->mark_put(dev, h->tail, stream) != MD_OK)
        return;
    if (h->is_idle_only) { /* no call is timed: the model says how long those behind the tail may take */
        h->budget.call_us = MD_MAX(h->budget.call_us, md_ds_plan_of(entry)->model_us);
        h->budget.was_busy = h->tail != NULL;
    }
    h->has_tail = h->tail != NULL;
    h->tail_calls = md_ds_calls_of(h->op);
}
