/* Judges the challengers of a shape by their times. */
#include "dispatch/hybrid/trial.h"

#include "base/status.h"

#include <math.h>

/* A challenger is out when it is slower than this after LEAST_TIMES, or undecided after MOST_TIMES. */
static const double clearly_slower = 1.05, least_deviation = 0.01;
enum { LEAST_TIMES = 2, LEAST_TO_WIN = 4, MOST_TIMES = 8 };

bool md_ds_challenger_add(md_ds_challenger *challenger, double us)
{
    if (!(us > 0.0) || !isfinite(us))
        return false;
    challenger->us[challenger->n++ % MD_DS_CHALLENGER_TIMES] = us;
    return true;
}

md_tn_summary md_ds_challenger_summary(const md_ds_challenger *challenger)
{
    return md_tn_summarize(challenger->us, MD_MIN(challenger->n, MD_DS_CHALLENGER_TIMES), MD_TN_BY_MEDIAN);
}

/* Behind: its least time would have to be wrong by more than twice the usual deviation of single times, at least 2%, to
 * be worth a switch. */
bool md_ds_trial_is_behind(const md_ds_trial *t, int32_t challenger)
{
    const md_ds_challenger *rival = &t->challenger[challenger];
    const md_tn_summary own = md_ds_challenger_summary(&t->challenger[0]);
    const double us = md_tn_summarize(rival->us, MD_MIN(rival->n, MD_DS_CHALLENGER_TIMES), MD_TN_BY_LEAST).us,
                 deviation = own.error * sqrt((double)own.n);
    return own.us > 0.0 && us > (1.0 - MD_DS_SWITCH_GAIN) * own.us + 2.0 * fmax(deviation, least_deviation * own.us);
}

md_ds_verdict md_ds_trial_judge(const md_ds_trial *t)
{
    const md_ds_challenger *now = &t->challenger[0], *x = &t->challenger[t->current];
    const md_tn_summary a = md_ds_challenger_summary(now), b = md_ds_challenger_summary(x);
    if (x->n < LEAST_TIMES || now->n < LEAST_TIMES)
        return MD_DS_GO_ON;
    if (b.us > clearly_slower * a.us)
        return MD_DS_NEXT;
    if (x->n >= LEAST_TO_WIN && now->n >= LEAST_TO_WIN && b.us < (1.0 - MD_DS_SWITCH_GAIN) * a.us &&
        a.us - b.us > fmax(2.0 * fmax(a.error, b.error), fmax(x->resolution_us, now->resolution_us)))
        return MD_DS_SWITCH;
    return x->n >= MOST_TIMES || (x->n >= LEAST_TO_WIN && b.us > a.us) ? MD_DS_NEXT : MD_DS_GO_ON;
}

/* A short kernel's first time is a few us too long, because its code is in no cache. */
int32_t md_ds_trial_looks(const md_ds_trial *t)
{
    static const double short_us = 30.0;
    return MD_MAX(t->looks, md_ds_challenger_summary(&t->challenger[0]).us < short_us ? 2 : 1);
}

double md_ds_trial_ratio(const md_ds_trial *t, int32_t challenger)
{
    const md_ds_challenger *rival = &t->challenger[challenger];
    if (rival->n < md_ds_trial_looks(t))
        return rival->expected;
    const double own = md_ds_challenger_summary(&t->challenger[0]).us, us = md_ds_challenger_summary(rival).us;
    return own > 0.0 && us > 0.0 ? us / own : rival->expected;
}

static void end_trial(md_ds_trial *t)
{
    t->is_over = true;
    t->final_us = md_ds_challenger_summary(&t->challenger[0]).us;
    t->n_watched = 0;
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
}

void md_ds_trial_next(md_ds_trial *t)
{
    t->step = 0;
    t->current = 0;
    for (int32_t i = 1; i < t->n_challengers; i++) {
        md_ds_challenger *challenger = &t->challenger[i];
        challenger->is_out |= challenger->n >= md_ds_trial_looks(t) && md_ds_trial_is_behind(t, i);
        const double most =
            t->is_careful && !challenger->is_known && challenger->n == 0 ? MD_DS_TOO_RISKY : MD_DS_TOO_SLOW;
        if (!challenger->is_out && md_ds_trial_ratio(t, i) <= most &&
            (t->current == 0 || md_ds_trial_ratio(t, i) < md_ds_trial_ratio(t, t->current)))
            t->current = i;
    }
    if (t->current > 0)
        t->is_over = false; /* the correction changed: some challenger became promising */
    else if (!t->is_over)
        end_trial(t);
}

void md_ds_trial_switch(md_ds_trial *t, int32_t challenger)
{
    md_ds_challenger old = t->challenger[0];
    const double ratio = md_ds_trial_ratio(t, challenger);
    for (int32_t i = 1; i < t->n_challengers && ratio > 0.0; i++)
        t->challenger[i].expected /= ratio;
    t->challenger[0] = t->challenger[challenger];
    t->challenger[0].is_out = false;
    t->challenger[challenger] = old;
    t->challenger[challenger].is_out = true;
    t->switches++;
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
}

static void reopen(md_ds_trial *t)
{
    t->is_over = false;
    for (int32_t i = 0; i < t->n_challengers; i++) {
        t->challenger[i].is_out = false;
        t->challenger[i].n = 0;
    }
    t->demotions++;
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
}

bool md_ds_trial_is_sound(const md_ds_trial *t)
{
    const md_ds_challenger *own = &t->challenger[0];
    if (!t->is_over || (!(own->idle_us > 0.0) && own->n == 0))
        return false;
    for (int32_t i = 1; i < t->n_challengers; i++) {
        const md_ds_challenger *challenger = &t->challenger[i];
        if (challenger->is_unloaded && challenger->expected >= 1.0)
            continue; /* a challenger that is expected to be slower need not be loaded */
        if (challenger->n == 0 && !(challenger->idle_us > 0.0 && own->idle_us > 0.0) &&
            challenger->expected <= MD_DS_TOO_RISKY)
            return false;
    }
    return true;
}

bool md_ds_trial_watch(int32_t *better, md_ds_trial *t, double us)
{
    double least = 0.0;
    *better = -1;
    if (!(us > 0.0) || !isfinite(us))
        return false;
    t->watched[t->n_watched++ % MD_DS_WATCHED] = us;
    if (t->n_watched < MD_DS_WATCHED)
        return false;
    const double now = md_tn_summarize(t->watched, MD_DS_WATCHED, MD_TN_BY_MEDIAN).us;
    if (!(t->final_us > 0.0))
        t->final_us = now;
    if (now <= MD_DS_DEMOTION * t->final_us)
        return false;
    for (int32_t i = 1; i < t->n_challengers; i++) {
        const double m = md_ds_challenger_summary(&t->challenger[i]).us;
        if (m > 0.0 && m < now && (*better < 0 || m < least)) {
            *better = i;
            least = m;
        }
    }
    reopen(t);
    md_ds_trial_next(t);
    return true;
}
