/* MD_SELECT_HYBRID: the state of an op, calls on the slow path, and what others read of a trial. */
#include "dispatch/hybrid/hybrid.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/task/fork.h"
#include "base/task/pool.h"
#include "dispatch/cache/table.h"
#include "dispatch/hybrid/internal.h"
#include "dispatch/run/run.h"
#include "tune/bench/bench.h"

#include <stdlib.h>

/* A shape without a launch plan gets a trial after FIRST_CALLS calls, others when one is sampled first: a shape that is
 * seldom called does not earn back what its trial takes. MOST_JOBS trials are prepared at a time; MOST_QUEUED: with
 * idle_tune, where a race follows at once. */
enum { FIRST_CALLS = 8, MOST_JOBS = 4, MOST_QUEUED = 512 };

/* In a child after fork: its pool has no thread that would finish the parent's jobs. */
static void forget_jobs(void *user)
{
    struct md_ds_hybrid *h = user;
    atomic_store_explicit(&h->n_jobs, 0, memory_order_relaxed);
    atomic_store_explicit(&h->n_races, 0, memory_order_relaxed);
    atomic_store_explicit(&h->op->runtime->is_racing, false, memory_order_relaxed);
}

/* Makes what the driver makes at the first use of timing, since its lock would hold up calls later: events, the gate
 * kernel, and the memory of races. A race that got no memory fails when it begins. */
static void warm_up(md_ds_op *op)
{
    enum { SHARE = 20 };
    md_dev *dev = op->runtime->dev;
    double us = 0.0;
    void *memory = NULL;
    const double n_bytes = (double)md_tn_cold_bytes(dev) + MD_DS_IDLE_FIRST_BYTES,
                 n_free = dev->ops->free_bytes ? (double)dev->ops->free_bytes(dev) : 0.0;
    if (!dev->ops->time || !dev->ops->workspace || dev->ops->is_simulated || n_bytes * SHARE > n_free ||
        atomic_exchange_explicit(&op->runtime->is_warm, true, memory_order_relaxed))
        return;
    pthread_mutex_lock(&op->runtime->lock_of_tuning);
    (void)dev->ops->time(&us, dev, dev->tuning, NULL, NULL);
    (void)dev->ops->workspace(&memory, dev, dev->tuning, (size_t)n_bytes);
    pthread_mutex_unlock(&op->runtime->lock_of_tuning);
}

static void ask_late(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape);

md_status md_ds_hybrid_create(struct md_ds_hybrid **out, md_ds_op *op)
{
    md_dev *dev = op->runtime->dev;
    struct md_ds_hybrid *h = calloc(1, sizeof *h);
    if (!h)
        return md_fail_memory();
    h->op = op;
    h->is_idle_only = op->policy.select != MD_SELECT_HYBRID;
    for (int32_t i = 0; dev->ops->mark_create && !h->is_idle_only && i < MD_DS_HYBRID_TIMES; i++)
        (void)md_ds_timing_has_marks(&h->timing[i], dev); /* what fails is tried again when a call needs it */
    if (dev->ops->mark_create && dev->ops->mark_create(&h->tail, dev) != MD_OK)
        h->tail = NULL; /* without marks there are no background races */
    md_mutex_init(&h->lock);
    md_fork_watch(h, forget_jobs);
    warm_up(op);
    md_jobs_expect_later(md_pool_jobs(dev->pool));
    op->upgraded = ask_late;
    *out = h;
    return MD_OK;
}

void md_ds_hybrid_destroy(struct md_ds_hybrid **hybrid)
{
    struct md_ds_hybrid *h = *hybrid;
    if (!h)
        return;
    md_dev *dev = h->op->runtime->dev;
    atomic_store_explicit(&h->is_ending, true, memory_order_release);
    md_ds_prepare_wait(&h->n_jobs, h->op);
    md_ds_prepare_wait(&h->n_races, h->op);
    md_fork_leave(h);
    if (h->tail)
        dev->ops->mark_destroy(dev, h->tail);
    for (int32_t i = 0; i < MD_DS_HYBRID_TIMES; i++) {
        if (h->timing[i].entry)
            md_ds_shape_entry_release(h->timing[i].entry);
        if (h->timing[i].from)
            dev->ops->mark_destroy(dev, h->timing[i].from);
        if (h->timing[i].to)
            dev->ops->mark_destroy(dev, h->timing[i].to);
    }
    md_mutex_finish(&h->lock);
    free(h);
    *hybrid = NULL;
}

/* The entry's plan is its own and final, and the op may still change it. */
static bool is_open(const md_ds_op *op, const md_ds_shape_entry *entry)
{
    const md_ds_plan *plan = md_ds_plan_of(entry);
    return !entry->is_loose && !plan->by_reference && !plan->is_stand_in &&
           atomic_load_explicit(&op->frozen, memory_order_relaxed) == MD_DS_NOT_FROZEN;
}

/* False while the stream is captured. */
static bool may_mark(const md_ds_op *op, md_stream stream)
{
    if (!md_ds_is_capturing(op->runtime, stream))
        return true;
    atomic_store_explicit(&op->hybrid->captured_ns, md_clock_ns(), memory_order_relaxed);
    return false;
}

/* One of a few calls that another plan serves: after the last of them a race may come (ask_late). */
static bool is_stand_in_due(const md_ds_shape_entry *entry)
{
    return md_ds_plan_of(entry)->is_stand_in && !entry->is_loose &&
           atomic_load_explicit(&entry->calls, memory_order_relaxed) % FIRST_CALLS == 0;
}

static bool wants_trial(const struct md_ds_hybrid *h, const md_ds_shape_entry *entry, bool is_sample)
{
    return !md_ds_trial_in(entry) &&
           atomic_load_explicit(&entry->trial_state, memory_order_relaxed) == MD_DS_NO_TRIAL &&
           (is_sample || atomic_load_explicit(&entry->calls, memory_order_relaxed) >= FIRST_CALLS) &&
           atomic_load_explicit(&h->n_jobs, memory_order_relaxed) < (h->is_idle_only ? MOST_QUEUED : MOST_JOBS);
}

/* With idle_tune: the model is not sure of the pick of some stage. */
static bool is_doubtful(const md_ds_op *op, const md_ds_shape_entry *entry)
{
    const md_ds_plan *plan = md_ds_plan_of(entry);
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_ds_pick *p = &plan->stage[s].pick;
        if (!plan->stage[s].is_idle && p->source == MD_DS_MODEL && p->runner_up >= 0 && p->margin < MD_DS_MODEL_ERROR &&
            (!op->policy.races_cheaply || p->us <= MD_DS_CALM_US))
            return true;
    }
    return false;
}

/* With idle_tune: there may be something to find out. */
static bool is_worth_a_look(const md_ds_op *op, const md_ds_shape_entry *entry)
{
    return is_doubtful(op, entry) || entry->is_far;
}

/* None of its calls is a sample: they have no launch plan, for good or until a library's kernel is loaded. */
static bool has_no_samples(const md_ds_shape_entry *entry)
{
    const md_ds_plan *plan = md_ds_plan_of(entry);
    return plan->may_load || atomic_load_explicit(&plan->has_no_launch_plan, memory_order_relaxed);
}

/* Calls asked for no trial while another plan stood in, and may be over. */
static void ask_late(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape)
{
    struct md_ds_hybrid *h = op->hybrid;
    if (is_open(op, entry) && wants_trial(h, entry, false) && (!h->is_idle_only || is_worth_a_look(op, entry)))
        md_ds_prepare_trial(&h->n_jobs, op, entry, shape, &entry->as);
}

/* Before the launch. Times nothing if another thread has the lock. */
static void begin(md_ds_timed_call *out, struct md_ds_hybrid *h, md_ds_shape_entry *entry, md_stream stream,
                  const md_ds_bound *bound)
{
    if (pthread_mutex_trylock(&h->lock) != 0)
        return;
    if (wants_trial(h, entry, bound->is_sample) &&
        (!h->is_idle_only || ((bound->is_sample || has_no_samples(entry)) && is_worth_a_look(h->op, entry))))
        md_ds_prepare_trial(&h->n_jobs, h->op, entry, &bound->shape, &bound->as);
    if (!h->is_idle_only && md_ds_trial_in(entry))
        md_ds_load_challengers(h->op, md_ds_trial_in(entry));
    if (!h->is_idle_only)
        md_ds_begin_timing(out, h, entry, stream, bound->is_sample);
    if (md_ds_trial_in(entry) && !h->is_idle_only) {
        md_ds_set_rate(h, md_ds_trial_in(entry));
        md_ds_keep_verdict(h->op, entry);
    }
    pthread_mutex_unlock(&h->lock);
}

/* After the launch, which is not delayed by it. */
static void digest_times(struct md_ds_hybrid *h, md_ds_shape_entry *entry, bool is_stale)
{
    if ((!is_stale && atomic_load_explicit(&h->n_marked, memory_order_relaxed) == 0) ||
        pthread_mutex_trylock(&h->lock) != 0)
        return;
    if (is_stale)
        md_ds_refresh_trial(h, md_ds_trial_in(entry));
    md_ds_poll_timings(h);
    pthread_mutex_unlock(&h->lock);
}

md_status md_ds_hybrid_run(md_ds_op *op, md_ds_shape_entry *entry, md_stream stream, md_ds_bound *bound)
{
    struct md_ds_hybrid *h = op->hybrid;
    md_ds_timed_call call = {0};
    double us = -1.0;
    const bool is_sync = !md_ds_is_async(op->runtime), marks = may_mark(op, stream), may = marks && is_open(op, entry);
    if (may)
        begin(&call, h, entry, stream, bound);
    md_status s = md_ds_run(call.trial && is_sync ? &us : NULL, op, entry, call.plan, stream, bound);
    if (call.trial)
        md_ds_end_timing(&call, h, entry, stream, us, s);
    if (may)
        digest_times(h, entry, call.is_stale);
    if (may || (marks && is_stand_in_due(entry)))
        md_ds_request_race(h, entry, stream);
    /* Where there is but one stage a challenger that did not launch has done nothing: the incumbent serves. */
    return s != MD_OK && s != MD_INVALID_ARGUMENT && call.plan && op->n_stages == 1
               ? md_ds_run(NULL, op, entry, NULL, stream, bound)
               : s;
}

/* ---- What calls, launch plans and statistics read of a trial */

static bool is_vain(const md_ds_shape_entry *entry)
{
    return atomic_load_explicit(&entry->trial_state, memory_order_relaxed) >= MD_DS_TRIAL_VAIN;
}

bool md_ds_hybrid_watches(const md_ds_op *op, const md_ds_shape_entry *entry)
{
    md_ds_trial *t = op->hybrid ? md_ds_trial_in(entry) : NULL;
    if (!op->hybrid || is_vain(entry))
        return false;
    if (!op->hybrid->is_idle_only)
        return true;
    return t ? !atomic_load_explicit(&t->is_settled, memory_order_relaxed) : is_worth_a_look(op, entry);
}

/* With idle_tune, of an entry that is still watched: the rate after so many calls on the slow path. They become seldom,
 * since where calls leave no quiet moment there will be no race. */
enum { FIRST_SAMPLES = 1, EARLY_SAMPLES = 6, SELDOM = 4096 };

static uint32_t idle_every(int32_t n_samples)
{
    return n_samples < FIRST_SAMPLES ? MD_DS_TRIAL_AHEAD : n_samples < EARLY_SAMPLES ? MD_DS_TRIAL_WAITS : SELDOM;
}

uint32_t md_ds_hybrid_every(const md_ds_op *op, const md_ds_shape_entry *entry, uint32_t otherwise)
{
    md_ds_trial *t = op->hybrid ? md_ds_trial_in(entry) : NULL;
    if (!md_ds_hybrid_watches(op, entry))
        return otherwise;
    if (op->hybrid->is_idle_only)
        return idle_every(atomic_load_explicit(&entry->n_samples, memory_order_relaxed));
    if (!t)
        return MD_DS_TRIAL_EVERY;
    const int32_t every = atomic_load_explicit(&t->every, memory_order_relaxed);
    atomic_store_explicit(&t->published_every, every, memory_order_relaxed);
    return (uint32_t)every;
}

/* True if launch plans need another rate: after some samples, and once it is known that there will be no trial. */
static bool changes_rate(md_ds_shape_entry *entry)
{
    int32_t vain = MD_DS_TRIAL_VAIN;
    const int32_t n = atomic_fetch_add_explicit(&entry->n_samples, 1, memory_order_relaxed);
    return atomic_compare_exchange_strong_explicit(&entry->trial_state, &vain, MD_DS_TRIAL_KNOWN_VAIN,
                                                   memory_order_relaxed, memory_order_relaxed) ||
           idle_every(n) != idle_every(n + 1);
}

bool md_ds_hybrid_wants_launch_plan(const md_ds_op *op, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const bool changes = op->hybrid && (!t || op->hybrid->is_idle_only) && changes_rate(entry);
    return changes || (t && atomic_load_explicit(&t->wants_launch_plan, memory_order_relaxed) &&
                       atomic_exchange_explicit(&t->wants_launch_plan, false, memory_order_relaxed));
}

bool md_ds_trial_visited(md_ds_trial_state *out, const md_ds_op *op, const md_ds_shape_entry *entry)
{
    const md_ds_trial *t = md_ds_trial_in(entry);
    if (!t)
        return false;
    *out = (md_ds_trial_state){.stage = t->stage,
                               .challengers = t->n_challengers - 1,
                               .timed = t->timed,
                               .switches = t->switches,
                               .demotions = t->demotions,
                               .is_over = t->is_over,
                               .is_raced = t->is_raced,
                               .load = op->hybrid->budget.load};
    for (int32_t i = 0; i < t->n_challengers; i++) {
        const md_ds_challenger *challenger = &t->challenger[i];
        out->of[i] = (md_ds_tried){challenger->variant,  challenger->n,
                                   challenger->expected, md_ds_challenger_summary(challenger).us,
                                   challenger->idle_us,  challenger->is_out};
    }
    return true;
}

bool md_ds_trial_of(md_ds_trial_state *out, const md_ds_op *op, const md_ds_shape_entry *entry)
{
    if (!md_ds_trial_in(entry))
        return false;
    pthread_mutex_lock(&op->hybrid->lock);
    const bool has_trial = md_ds_trial_visited(out, op, entry);
    pthread_mutex_unlock(&op->hybrid->lock);
    return has_trial;
}

void md_ds_trials_each(md_ds_op *op, void (*fn)(void *user, const md_ds_shape_entry *entry), void *user)
{
    if (op->hybrid)
        pthread_mutex_lock(&op->hybrid->lock);
    md_ds_table_each(op, fn, user);
    if (op->hybrid)
        pthread_mutex_unlock(&op->hybrid->lock);
}
