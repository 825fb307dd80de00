/* Times of single calls: which calls are timed, how, and what their times lead to. */
#include "dispatch/hybrid/internal.h"

#include "base/status.h"
#include "dispatch/cache/plan_cache.h"
#include "dispatch/pool/pool.h"
#include "dispatch/select/plan.h"
#include "dispatch/select/stored.h"
#include "tune/bench/bench.h"

#include <math.h>
#include <stdlib.h>

static void count_one(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* ---- What times lead to */

md_status md_ds_switch(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t stage,
                       const md_ds_pick *pick, bool only_unused)
{
    md_ds_plan *plan = NULL, *old = md_ds_plan_of(entry);
    MD_TRY(md_ds_plan_with(&plan, op, old, shape, stage, pick));
    pthread_mutex_lock(&op->lock_of_entries);
    const bool may = !only_unused || (md_ds_plan_of(entry) == old && md_ds_plan_retire(old));
    if (may)
        md_ds_shape_entry_put_plan(entry, plan, op->n_stages);
    pthread_mutex_unlock(&op->lock_of_entries);
    if (!may) {
        free(plan);
        return MD_NOT_FOUND;
    }
    md_ds_plan_cache_renew(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op);
    return MD_OK;
}

bool md_ds_make_incumbent(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t challenger,
                          bool only_unused)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const md_ds_challenger *next = &t->challenger[challenger], *now = &t->challenger[0];
    const bool is_idle = next->idle_us > 0.0 && now->idle_us > 0.0;
    const double us = is_idle ? next->idle_us : md_ds_challenger_summary(next).us,
                 before = is_idle ? now->idle_us : md_ds_challenger_summary(now).us;
    md_ds_pick pick = next->plan->stage[t->stage].pick;
    pick.variant = next->variant;
    pick.source = MD_DS_MEASURED;
    pick.runner_up = md_ds_plan_of(entry)->stage[t->stage].pick.variant;
    pick.us = us;
    pick.margin = before > us && us > 0.0 ? before / us - 1.0 : 0.0;
    if (op->policy.agrees) {
        if (entry->key && us > 0.0 && pick.variant >= 0)
            md_ds_propose(op, t->stage, md_hash128(entry->key, entry->key_bytes), pick.variant, us);
        return true;
    }
    const md_status status = md_ds_switch(op, entry, shape, t->stage, &pick, only_unused);
    if (status == MD_OK) {
        md_ds_trial_switch(t, challenger);
        count_one(&op->count.switches);
    }
    return status != MD_NOT_FOUND;
}

/* What was found to be the fastest: the incumbent, what waits for an agreement of ranks, or for the next process. */
static const md_ds_challenger *winner_of(md_ds_op *op, const md_ds_trial *t, const md_ds_shape_entry *entry)
{
    const int32_t proposed = op->policy.agrees && entry->key
                                 ? md_ds_proposal_of(op, t->stage, md_hash128(entry->key, entry->key_bytes))
                                 : t->fastest;
    for (int32_t i = 1; i < t->n_challengers && proposed >= 0; i++)
        if (t->challenger[i].variant == proposed)
            return &t->challenger[i];
    return &t->challenger[0];
}

void md_ds_keep_verdict(md_ds_op *op, const md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const md_ds_challenger *challenger = winner_of(op, t, entry);
    if (!t->is_over || challenger->variant < 0 || challenger->variant == t->stored || !entry->key ||
        !md_ds_trial_is_sound(t))
        return;
    const md_ds_pick pick = {.variant = challenger->variant,
                             .us = challenger->idle_us > 0.0 ? challenger->idle_us
                                                             : md_ds_challenger_summary(challenger).us};
    t->stored = challenger->variant;
    md_ds_stored_put(op, t->stage, md_hash128(entry->key, entry->key_bytes), &pick, challenger == &t->challenger[0]);
}

/* A call's time is that of all stages: it tells something of the model only where there is one stage. */
void md_ds_teach_model(struct md_ds_hybrid *h, const md_ds_trial *t, const md_ds_challenger *challenger)
{
    const bool is_idle = challenger->idle_us > 0.0;
    const md_ds_measured m = {.variant = challenger->variant,
                              .clock = is_idle ? MD_TN_CLOCK_IDLE : MD_TN_CLOCK_CALLS,
                              .us = is_idle ? challenger->idle_us : md_ds_challenger_summary(challenger).us,
                              .model_us = challenger->model_us};
    if (challenger->variant >= 0 && (is_idle || h->op->n_stages == 1))
        md_ds_observe_at(&h->op->stage[t->stage], t->select_sizes, &m, false);
}

void md_ds_refresh_trial(struct md_ds_hybrid *h, md_ds_trial *t)
{
    md_ds_pool *pool = &h->op->stage[t->stage];
    double us[MD_DS_CHALLENGERS];
    int32_t variant[MD_DS_CHALLENGERS];
    t->version = md_tn_correction_version(pool->correction);
    for (int32_t i = 0; i < t->n_challengers; i++) {
        /* the time of a chain's parts is not corrected: md_ds_correct leaves times below 0 alone */
        const bool is_variant = t->challenger[i].variant >= 0;
        us[i] = is_variant ? t->challenger[i].model_us : -t->challenger[i].model_us;
        variant[i] = is_variant ? t->challenger[i].variant : 0;
    }
    md_ds_correct(us, pool, t->select_sizes, variant, t->n_challengers);
    for (int32_t i = 1; i < t->n_challengers; i++) {
        md_ds_challenger *challenger = &t->challenger[i];
        if (us[0] != 0.0)
            challenger->expected = fabs(us[i]) / fabs(us[0]);
        challenger->is_known =
            challenger->is_known || (challenger->variant >= 0 && md_ds_is_measured(pool, challenger->variant));
    }
    if (t->step == 0)
        md_ds_trial_next(t);
}

/* The challenger is out, and the next one is tried. */
static void drop_challenger(struct md_ds_hybrid *h, md_ds_trial *t, int32_t challenger)
{
    md_ds_teach_model(h, t, &t->challenger[challenger]);
    t->challenger[challenger].is_out = true;
    md_ds_trial_next(t);
}

/* After a round A B B A: drops the challenger, makes it the incumbent, or neither. */
static void judge_challenger(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const md_ds_verdict v = md_ds_trial_judge(t);
    if (v == MD_DS_SWITCH)
        (void)md_ds_make_incumbent(h->op, entry, &t->shape, t->current, false);
    if (v != MD_DS_GO_ON)
        drop_challenger(h, t, t->current);
}

/* After the trial: demotes the incumbent if it became slow. */
static void watch(struct md_ds_hybrid *h, md_ds_shape_entry *entry, double us)
{
    int32_t better = -1;
    if (!md_ds_trial_watch(&better, md_ds_trial_in(entry), us))
        return;
    count_one(&h->op->count.demotions);
    if (better > 0)
        (void)md_ds_make_incumbent(h->op, entry, &md_ds_trial_in(entry)->shape, better, false);
}

static void record_challenger(struct md_ds_hybrid *h, md_ds_trial *t, int32_t challenger, double us)
{
    const int32_t looks = md_ds_trial_looks(t);
    md_ds_budget_spend(&h->budget, us, md_ds_challenger_summary(&t->challenger[0]).us);
    if (t->challenger[challenger].n == looks && md_ds_trial_is_behind(t, challenger))
        drop_challenger(h, t, challenger);
    else if (t->challenger[challenger].n == looks)
        md_ds_trial_next(t);
}

void md_ds_record_time(struct md_ds_hybrid *h, md_ds_shape_entry *entry, const md_ds_timing *timing, double us)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const int32_t i = timing->challenger;
    t->n_running--;
    h->n_tried -= i > 0;
    if (timing->generation != t->switches + t->demotions)
        return;
    if (t->is_over) {
        if (i == 0 && us > 0.0)
            watch(h, entry, us);
    } else if (!md_ds_challenger_add(&t->challenger[i], us)) {
        if (i > 0)
            drop_challenger(h, t, i);
    } else if (i > 0) {
        record_challenger(h, t, i, us);
    } else if (t->challenger[0].n == MD_DS_OWN_TIMES) {
        md_ds_teach_model(h, t, &t->challenger[0]);
    }
}

/* ---- Which calls are timed, and which variant serves them */

/* Unless callers run ahead of the GPU, one challenger is under way at a time: its cost is known before the next. */
static bool may_cost(struct md_ds_hybrid *h, md_ds_trial *t)
{
    if (h->n_tried > 0 && !h->budget.is_ahead)
        return false;
    const bool may = md_ds_budget_covers(&h->budget, md_ds_challenger_summary(&t->challenger[0]).us,
                                         md_ds_trial_ratio(t, t->current));
    t->is_waiting = !may;
    return may;
}

void md_ds_set_rate(const struct md_ds_hybrid *h, md_ds_trial *t)
{
    const md_ds_challenger *own = &t->challenger[0];
    const bool is_new = own->n < MD_DS_OWN_TIMES;
    const double us = own->n ? md_ds_challenger_summary(own).us : own->model_us,
                 slow_us = h->budget.is_ahead ? 0.0 : h->op->runtime->dev->facts.slow_call_us;
    const int32_t least = md_ds_budget_every(&h->budget, us, slow_us),
                  wanted = t->is_over || (t->is_waiting && !is_new) ? MD_DS_TRIAL_WAITS
                           : h->budget.is_ahead                     ? MD_DS_TRIAL_AHEAD
                           : is_new                                 ? MD_DS_TRIAL_EVERY
                                                                    : MD_DS_TRIAL_CALMLY,
                  every = MD_MAX(wanted, least);
    if (every == atomic_load_explicit(&t->every, memory_order_relaxed))
        return;
    atomic_store_explicit(&t->every, every, memory_order_relaxed);
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
}

static bool has_launch_plan(const md_ds_shape_entry *entry)
{
    return !atomic_load_explicit(&md_ds_plan_of(entry)->has_no_launch_plan, memory_order_relaxed);
}

/* Calls that this one stands for: those that took the fast path since the last slow one. */
static int32_t calls_since(md_ds_trial *t, const md_ds_shape_entry *entry)
{
    const int32_t before = t->previous_every;
    t->previous_every = atomic_load_explicit(&t->published_every, memory_order_relaxed);
    return has_launch_plan(entry) ? before : atomic_load_explicit(&t->every, memory_order_relaxed);
}

/* True if this call may be timed: of a shape without a launch plan every call comes here, of others only samples. */
static bool is_timing_due(md_ds_trial *t, const md_ds_shape_entry *entry, bool is_sample)
{
    const int32_t every = atomic_load_explicit(&t->every, memory_order_relaxed);
    return is_sample || has_launch_plan(entry) || t->n_unplanned++ % every == 0;
}

/* A B B A. The verdict waits for the last times. */
static int32_t next_in_race(struct md_ds_hybrid *h, md_ds_trial *t)
{
    static const bool is_challenger[] = {false, true, true, false};
    if (t->step == MD_COUNT(is_challenger)) {
        if (t->n_running > 0)
            return MD_DS_NOT_TIMED;
        t->step = 0;
        return MD_DS_ROUND_OVER;
    }
    if (is_challenger[t->step] && !may_cost(h, t))
        return MD_DS_NOT_TIMED;
    return is_challenger[t->step++] ? t->current : 0;
}

static void end_trial(md_ds_trial *t)
{
    for (int32_t i = 1; i < t->n_challengers; i++)
        t->challenger[i].is_out = true;
    md_ds_trial_next(t);
}

int32_t md_ds_next_challenger(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const int32_t n_own = t->challenger[0].n;
    const bool is_stale = t->version != md_tn_correction_version(h->op->stage[t->stage].correction);
    if (t->is_over)
        return is_stale ? MD_DS_STALE_TRIAL : t->n_running == 0 ? 0 : MD_DS_NOT_TIMED;
    if (n_own < MD_DS_OWN_TIMES)
        return n_own + t->n_running < MD_DS_OWN_TIMES ? 0 : MD_DS_NOT_TIMED;
    if (t->current > 0 && t->challenger[t->current].n >= md_ds_trial_looks(t))
        return next_in_race(h, t);
    if (h->budget.spent_us > h->op->policy.hybrid_cap_ms * 1e3) {
        end_trial(t);
        return MD_DS_NOT_TIMED;
    }
    if (is_stale)
        return MD_DS_STALE_TRIAL;
    /* one look at a time: its result decides which challenger is next */
    return t->n_running == 0 && may_cost(h, t) ? t->current : MD_DS_NOT_TIMED;
}

/* ---- Timing a call */

bool md_ds_timing_has_marks(md_ds_timing *timing, md_dev *dev)
{
    return (timing->from || dev->ops->mark_create(&timing->from, dev) == MD_OK) &&
           (timing->to || dev->ops->mark_create(&timing->to, dev) == MD_OK);
}

static md_ds_timing *find_marks(struct md_ds_hybrid *h)
{
    for (int32_t i = 0; i < MD_DS_HYBRID_TIMES; i++)
        if (!h->timing[i].entry)
            return md_ds_timing_has_marks(&h->timing[i], h->op->runtime->dev) ? &h->timing[i] : NULL;
    return NULL;
}

/* Looks at the stream for the budget. True if it was idle. */
static bool see_load(struct md_ds_hybrid *h, md_stream stream)
{
    md_dev *dev = h->op->runtime->dev;
    const uint64_t now = md_tn_now_ns(dev);
    const bool is_idle = !dev->ops->is_idle || dev->ops->is_idle(dev, stream);
    if (md_ds_budget_see(&h->budget, !is_idle, now))
        md_ds_budget_look(&h->budget, md_ds_calls_of(h->op), now);
    return is_idle;
}

/* The budget earns from the calls that this one stands for. After the trial the device is not asked. */
static void earn(struct md_ds_hybrid *h, md_ds_trial *t, const md_ds_shape_entry *entry, md_stream stream)
{
    const int32_t calls = calls_since(t, entry);
    t->n_calls += calls;
    const bool is_careful = h->op->runtime->dev->ops->mark_time && !h->budget.is_ahead;
    if (t->is_careful != is_careful && t->step == 0) {
        t->is_careful = is_careful;
        md_ds_trial_next(t);
    }
    const bool is_idle = t->is_over || see_load(h, stream);
    if (t->challenger[0].n > 0)
        md_ds_budget_earn(&h->budget, h->op->policy.hybrid_share, md_ds_challenger_summary(&t->challenger[0]).us, calls,
                          is_idle);
}

void md_ds_begin_timing(md_ds_timed_call *out, struct md_ds_hybrid *h, md_ds_shape_entry *entry, md_stream stream,
                        bool is_sample)
{
    md_dev *dev = h->op->runtime->dev;
    md_ds_trial *t = md_ds_trial_in(entry);
    md_ds_timing *marks = NULL;
    if (!t || t->n_challengers < 2 || !is_timing_due(t, entry, is_sample))
        return;
    earn(h, t, entry, stream);
    if (dev->ops->mark_time && !(marks = find_marks(h)))
        return;
    const int32_t i = md_ds_next_challenger(h, entry);
    out->is_stale = i == MD_DS_STALE_TRIAL;
    if (i == MD_DS_ROUND_OVER)
        judge_challenger(h, entry);
    if (i < 0 || (marks && dev->ops->mark_put(dev, marks->from, stream) != MD_OK))
        return;
    *out = (md_ds_timed_call){.trial = t,
                              .plan = i > 0 ? t->challenger[i].plan : NULL,
                              .marks = marks,
                              .time = {.challenger = i, .generation = t->switches + t->demotions}};
    t->n_running++;
    t->timed += i > 0;
    h->n_tried += i > 0;
    if (i > 0)
        count_one(&h->op->count.trials);
    if (!marks)
        return;
    marks->challenger = i;
    marks->generation = out->time.generation;
    marks->is_marked = false;
    marks->entry = entry;
    md_ds_shape_entry_hold(entry);
}

/* Gives the marks and the hold on the entry back. */
static void release(md_ds_timing *marks)
{
    md_ds_shape_entry_release(marks->entry);
    marks->entry = NULL;
}

void md_ds_end_timing(const md_ds_timed_call *call, struct md_ds_hybrid *h, md_ds_shape_entry *entry, md_stream stream,
                      double us, md_status s)
{
    md_dev *dev = h->op->runtime->dev;
    pthread_mutex_lock(&h->lock);
    if (call->marks && s == MD_OK && dev->ops->mark_put(dev, call->marks->to, stream) == MD_OK) {
        call->marks->is_marked = true;
        atomic_fetch_add_explicit(&h->n_marked, 1, memory_order_relaxed);
    } else {
        md_ds_record_time(h, entry, &call->time, call->marks || s != MD_OK ? -1.0 : us);
        if (call->marks)
            release(call->marks);
    }
    pthread_mutex_unlock(&h->lock);
}

void md_ds_poll_timings(struct md_ds_hybrid *h)
{
    md_dev *dev = h->op->runtime->dev;
    for (int32_t i = 0; i < MD_DS_HYBRID_TIMES; i++) {
        md_ds_timing *timing = &h->timing[i];
        double us = -1.0;
        if (!timing->entry || !timing->is_marked)
            continue;
        if (dev->ops->mark_time(&us, dev, timing->from, timing->to) == MD_OK && us < 0.0)
            continue;
        atomic_fetch_sub_explicit(&h->n_marked, 1, memory_order_relaxed);
        md_ds_record_time(h, timing->entry, timing, us);
        release(timing);
    }
}
