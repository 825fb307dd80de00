/* Hybrid: times single calls, by marks on their stream where the device has them, else by the host's clock. */
#include "dispatch/online/timed_call.h"

#include "dispatch/cache/plan_cache.h"
#include "dispatch/online/schedule.h"
#include "dispatch/online/times.h"
#include "tune/bench/bench.h"

bool md_ds_timing_has_marks(md_ds_timing *x, md_dev *dev)
{
    return (x->from || dev->ops->mark_create(&x->from, dev) == MD_OK) &&
           (x->to || dev->ops->mark_create(&x->to, dev) == MD_OK);
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
    const int32_t calls = md_ds_calls_since(t, entry);
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
    if (!t || t->n_challengers < 2 || !md_ds_is_timing_due(t, entry, is_sample))
        return;
    earn(h, t, entry, stream);
    if (dev->ops->mark_time && !(marks = find_marks(h)))
        return;
    const int32_t i = md_ds_next_challenger(h, entry);
    out->is_stale = i == MD_DS_STALE_TRIAL;
    if (i == MD_DS_ROUND_OVER)
        md_ds_judge_challenger(h, entry);
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
        md_ds_count_one(&h->op->count.trials);
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
        md_ds_timing *x = &h->timing[i];
        double us = -1.0;
        if (!x->entry || !x->is_marked)
            continue;
        if (dev->ops->mark_time(&us, dev, x->from, x->to) == MD_OK && us < 0.0)
            continue;
        atomic_fetch_sub_explicit(&h->n_marked, 1, memory_order_relaxed);
        md_ds_record_time(h, x->entry, x, us);
        release(x);
    }
}
