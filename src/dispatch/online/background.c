/* Background races: starts one when a trial wants it, and draws the conclusions. */
#include "dispatch/online/background.h"

#include "base/clock.h"
#include "base/status.h"
#include "dispatch/cache/plan_cache.h"
#include "dispatch/online/idle_bench.h"
#include "dispatch/online/times.h"
#include "tune/bench/clock.h"

#include <stdlib.h>

typedef struct race {
    struct md_ds_hybrid *h;
    md_ds_shape_entry *entry; /* held */
} race;

/* The GPU is busy if it has not passed the tail, or if the calls made since may not be done. If a stream was captured a
 * short time ago, one may be under capture now. */
static bool is_busy(void *user, uint64_t quiet_ns)
{
    static const uint64_t after_capture_ns = 50000000;
    enum { FEW = 8 };
    struct md_ds_hybrid *h = user;
    md_dev *dev = h->op->runtime->dev;
    double us = 0.0;
    pthread_mutex_lock(&h->lock);
    /* calls that found the GPU idle leave few launches behind */
    const uint64_t behind = md_ds_calls_of(h->op) - h->tail_calls, most = h->budget.was_busy ? behind : FEW;
    const bool is_left = (h->has_tail && dev->ops->mark_time(&us, dev, h->tail, h->tail) == MD_OK && us < 0.0) ||
                         (double)quiet_ns < (double)MD_MIN(behind, most) * h->budget.call_us * 1e3;
    pthread_mutex_unlock(&h->lock);
    const uint64_t captured = atomic_load_explicit(&h->captured_ns, memory_order_relaxed);
    return is_left || (captured && md_clock_ns() - captured < after_capture_ns);
}

/* The fastest becomes the incumbent, and the trial is over. The lock is held. */
static void finish_race(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    static const double gain = 0.01;
    md_ds_trial *t = md_ds_trial_in(entry);
    md_tn_take_clock(h->op->runtime->dev);
    const md_tn_summary own = md_ds_idle_bench_result(t->idle, t->challenger[0].variant);
    int32_t best = 0;
    h->budget.spent_us += md_ds_idle_bench_spent_us(t->idle);
    for (int32_t i = 0; i < t->n_challengers && own.us > 0.0; i++) {
        md_ds_challenger *x = &t->challenger[i];
        const md_tn_summary s = md_ds_idle_bench_result(t->idle, x->variant);
        x->idle_us = s.us;
        x->is_out = i > 0;
        x->is_unloaded = false;
        md_ds_teach_model(h, t, x);
        if (s.us > 0.0 && own.us - s.us > 2.0 * MD_MAX(s.error, own.error) &&
            s.us < (best > 0 ? t->challenger[best].idle_us : (1.0 - gain) * own.us))
            best = i;
    }
    if (best > 0)
        md_ds_make_incumbent(h->op, entry, &t->shape, best);
    for (int32_t i = 1; i < t->n_challengers && t->challenger[0].idle_us > 0.0; i++)
        if (t->challenger[i].idle_us > 0.0)
            t->challenger[i].expected = t->challenger[i].idle_us / t->challenger[0].idle_us;
    if (!t->is_over && own.us > 0.0)
        md_ds_trial_next(t);
    md_ds_keep_verdict(h->op, entry);
}

static md_status run_while_quiet(bool *is_done, struct md_ds_hybrid *h, md_ds_trial *t)
{
    static const double usual_us = 200.0;
    const double wanted_us = h->op->policy.quiet_us;
    md_status s = MD_OK;
    pthread_mutex_lock(&h->lock);
    if (!t->idle)
        s = md_ds_idle_bench_create(&t->idle, h->op, t);
    pthread_mutex_unlock(&h->lock);
    const md_ds_idle_bench_watch watch = {is_busy, h, &h->is_ending,
                                          (uint64_t)((wanted_us > 0.0 ? wanted_us : usual_us) * 1e3)};
    *is_done = s == MD_OK && md_ds_idle_bench_run(t->idle, &watch);
    return s;
}

static void run_race(void *user)
{
    enum { FIRST_WAIT_NS = 5000000, DOUBLINGS = 8 };
    race *j = user;
    struct md_ds_hybrid *h = j->h;
    md_ds_trial *t = md_ds_trial_in(j->entry);
    bool is_done = false;
    md_status s = run_while_quiet(&is_done, h, t);
    pthread_mutex_lock(&h->lock);
    if (is_done)
        finish_race(h, j->entry);
    t->is_raced = is_done || s != MD_OK;
    t->race_ns = md_clock_ns() + ((uint64_t)FIRST_WAIT_NS << MD_MIN(t->n_races, DOUBLINGS));
    t->n_races++;
    pthread_mutex_unlock(&h->lock);
    md_ds_shape_entry_release(j->entry);
    free(j);
    atomic_fetch_sub_explicit(&h->n_races, 1, memory_order_release);
}

/* A race may wait long for a quiet moment, so it has a thread of its own. */
static void start_race(void *user)
{
    const race *j = user;
    md_jobs_submit(md_pool_jobs(j->h->op->runtime->dev->pool), run_race, user);
}

void md_ds_request_race(struct md_ds_hybrid *h, md_ds_shape_entry *entry, md_stream stream)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    md_dev *dev = h->op->runtime->dev;
    if (!t || !h->tail || h->op->policy.quiet_us < 0.0 || pthread_mutex_trylock(&h->lock) != 0)
        return;
    const bool is_wanted = !t->is_raced && h->budget.spent_us < h->op->policy.hybrid_cap_ms * 1e3;
    if ((is_wanted || atomic_load_explicit(&h->n_races, memory_order_relaxed)) &&
        dev->ops->mark_put(dev, h->tail, stream) == MD_OK) {
        if (h->is_idle_only) { /* no call is timed: the model says how long those behind the tail may take */
            h->budget.call_us = MD_MAX(h->budget.call_us, md_ds_plan_of(entry)->model_us);
            h->budget.was_busy = true;
        }
        h->has_tail = true;
        h->tail_calls = md_ds_calls_of(h->op);
    }
    race *j = is_wanted && h->has_tail && atomic_load_explicit(&h->n_races, memory_order_relaxed) == 0 &&
                      md_clock_ns() >= t->race_ns
                  ? malloc(sizeof *j)
                  : NULL;
    if (j) {
        *j = (race){h, entry};
        md_ds_shape_entry_hold(entry);
        atomic_fetch_add_explicit(&h->n_races, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&h->lock);
    if (j)
        md_jobs_submit_later(md_pool_jobs(dev->pool), start_race, j);
}
