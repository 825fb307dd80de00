/* Decides which calls are timed, and which variant serves them. */
#include "dispatch/online/schedule.h"

#include "base/status.h"
#include "dispatch/pool/correct.h"

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

int32_t md_ds_calls_since(md_ds_trial *t, const md_ds_shape_entry *entry)
{
    const int32_t before = t->previous_every;
    t->previous_every = atomic_load_explicit(&t->published_every, memory_order_relaxed);
    return has_launch_plan(entry) ? before : atomic_load_explicit(&t->every, memory_order_relaxed);
}

bool md_ds_is_timing_due(md_ds_trial *t, const md_ds_shape_entry *entry, bool is_sample)
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
