/* Decides between one launch and many, and times real runs for it. */
#include "combo/decide/decide.h"

#include "base/status.h"
#include "combo/merge.h"
#include "combo/stored.h"
#include "tune/bench/bench.h"
#include "tune/bench/samples.h"

#include <string.h>

/* Under MD_SELECT_HYBRID, of so many runs one is timed; the two ways take turns. */
enum { TIMED_OF = 4 };

/* ---- The mode */

/* Measuring if an op measures, else hybrid if one is; by distance if all are. */
static md_select mode_of(const md_cb *cb)
{
    md_select most = MD_SELECT_DISTANCE;
    for (int32_t p = 0; p < cb->n_parts; p++) {
        const md_select own = cb->part[p].op->policy.select;
        if (own == MD_SELECT_MEASURE)
            return own;
        most = MD_MAX(most, own);
    }
    return most;
}

const char *md_cb_decide_why(const md_cb_decision *decision)
{
    static const char *const text[] = {[MD_CB_BY_RULE] = "by the rule",
                                       [MD_CB_BY_MODEL] = "by the model",
                                       [MD_CB_BY_TIMES] = "measured",
                                       [MD_CB_BY_STORE] = "measured by an earlier process"};
    return text[decision->by];
}

/* ---- The decision */

static void decide_by_model(md_cb *cb, md_select mode)
{
    md_cb_decision *d = &cb->decision;
    md_cb_predict(d->model_us, cb);
    d->by = mode == MD_SELECT_DISTANCE ? MD_CB_BY_RULE : MD_CB_BY_MODEL;
    d->how = mode == MD_SELECT_DISTANCE ? MD_CB_ONE : md_cb_prefer(d->model_us);
}

void md_cb_decide(md_cb *cb)
{
    md_cb_decision *d = &cb->decision;
    const md_select mode = mode_of(cb);
    const bool is_first = !d->is_made;
    if (d->is_current)
        return;
    d->is_made = d->is_current = true;
    memset(d->n, 0, sizeof d->n);
    d->is_pending = false;
    if (!is_first && (d->by == MD_CB_BY_TIMES || d->by == MD_CB_BY_STORE))
        return;
    decide_by_model(cb, mode);
    if (mode != MD_SELECT_MEASURE && mode != MD_SELECT_HYBRID)
        return;
    md_cb_how how;
    double us;
    d->is_open = cb->plan->n_units > 1;
    if (d->is_open && md_cb_record_find(&how, &us, cb)) {
        d->how = how;
        d->us[how] = us;
        d->by = MD_CB_BY_STORE;
        d->is_open = false;
    }
}

void md_cb_decide_add(md_cb *cb, md_cb_how how, double us)
{
    md_cb_decision *d = &cb->decision;
    if (!d->is_open || !(us > 0))
        return;
    if (d->n[how] < MD_CB_TIMES)
        d->time[how][d->n[how]++] = us;
    if (d->n[MD_CB_ONE] < MD_CB_TIMES || d->n[MD_CB_EACH] < MD_CB_TIMES)
        return;
    for (int32_t i = 0; i < MD_CB_HOWS; i++)
        d->us[i] = md_tn_summarize(d->time[i], d->n[i], MD_TN_BY_LOW_MEDIAN).us;
    d->how = d->us[MD_CB_ONE] <= d->us[MD_CB_EACH] ? MD_CB_ONE : MD_CB_EACH;
    d->by = MD_CB_BY_TIMES;
    d->is_open = false;
    md_cb_record_put(cb, d->how, d->us[d->how]);
}

/* ---- Times of runs */

/* Takes the time of a run that has ended. False if it has not. */
static bool collect(md_cb *cb)
{
    md_cb_decision *d = &cb->decision;
    md_dev *dev = cb->runtime->dev;
    double us = -1;
    if (!d->is_pending)
        return true;
    if (dev->ops->mark_time(&us, dev, d->from, d->to) != MD_OK)
        us = 0;
    if (us < 0)
        return false;
    d->is_pending = false;
    if (us > 0)
        md_cb_decide_add(cb, d->pending, us);
    return true;
}

static bool has_marks(md_cb *cb)
{
    md_cb_decision *d = &cb->decision;
    md_dev *dev = cb->runtime->dev;
    if (!d->from && dev->ops->mark_create(&d->from, dev) != MD_OK)
        return false;
    return d->to || dev->ops->mark_create(&d->to, dev) == MD_OK;
}

/* Runs that serve before all kernels are there would be timed for nothing. */
static bool can_time(const md_cb *cb)
{
    bool is_ready = !cb->plan->is_stand_in && !cb->plan->awaits_choices;
    for (int64_t i = 0; cb->merged && i < cb->merged->n; i++)
        is_ready &= cb->merged->group[i].ready != NULL || !cb->merged->group[i].text;
    return is_ready;
}

md_cb_how md_cb_decide_begin(md_cb *cb, md_stream stream)
{
    md_cb_decision *d = &cb->decision;
    md_dev *dev = cb->runtime->dev;
    d->start_ns = 0;
    if (!d->is_open || md_ds_is_capturing(cb->runtime, stream))
        return d->how;
    if (dev->ops->mark_create && !collect(cb))
        return d->how;
    if (!d->is_open || !can_time(cb))
        /* a run as one launch asks for its kernels, and so finds out when they are built */
        return d->is_open && cb->merged ? MD_CB_ONE : d->how;
    const uint64_t number = d->n_runs++;
    const int32_t every = mode_of(cb) == MD_SELECT_MEASURE ? 1 : TIMED_OF;
    if (number % (uint64_t)every != 0)
        return d->how;
    const md_cb_how how = number / (uint64_t)every % 2 ? MD_CB_EACH : MD_CB_ONE;
    if (!dev->ops->mark_create)
        d->start_ns = md_tn_now_ns(dev);
    else if (has_marks(cb) && dev->ops->mark_put(dev, d->from, stream) == MD_OK)
        d->start_ns = 1;
    return how;
}

void md_cb_decide_end(md_cb *cb, md_cb_how how, md_stream stream)
{
    md_cb_decision *d = &cb->decision;
    md_dev *dev = cb->runtime->dev;
    if (d->start_ns == 0)
        return;
    if (!dev->ops->mark_create) {
        md_cb_decide_add(cb, how, (double)(md_tn_now_ns(dev) - d->start_ns) / 1e3);
    } else if (dev->ops->mark_put(dev, d->to, stream) == MD_OK) {
        d->is_pending = true;
        d->pending = how;
    }
    d->start_ns = 0;
}

void md_cb_decide_finish(md_cb *cb)
{
    md_cb_decision *d = &cb->decision;
    if (d->from)
        cb->runtime->dev->ops->mark_destroy(cb->runtime->dev, d->from);
    if (d->to)
        cb->runtime->dev->ops->mark_destroy(cb->runtime->dev, d->to);
    *d = (md_cb_decision){.how = MD_CB_ONE};
}
