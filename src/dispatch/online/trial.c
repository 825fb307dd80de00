#include "dispatch/online/trial.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Who is slower than this after two times each is out; who is neither clearly faster nor slower after so many times,
 * too. */
static const double clearly_slower = 1.05, least_deviation = 0.01;
enum { LEAST_TIMES = 2, LEAST_TO_WIN = 4, MOST_TIMES = 8 };

bool md_ds_challenger_add(md_ds_challenger *r, double us)
{
    if (!(us > 0.0) || !isfinite(us))
        return false;
    r->us[r->n++ % MD_DS_CHALLENGER_TIMES] = us;
    return true;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *value, int32_t n)
{
    qsort(value, (size_t)n, sizeof *value, by_value);
    return n % 2 ? value[n / 2] : 0.5 * (value[n / 2 - 1] + value[n / 2]);
}

/* The spread of a median of n times that lie d around it: 1.48 d is their standard deviation, were they normal. */
double md_ds_challenger_median(double *spread, const md_ds_challenger *r)
{
    double value[MD_DS_CHALLENGER_TIMES];
    const int32_t n = r->n < MD_DS_CHALLENGER_TIMES ? r->n : MD_DS_CHALLENGER_TIMES;
    *spread = 0.0;
    if (n == 0)
        return 0.0;
    memcpy(value, r->us, (size_t)n * sizeof *value);
    double m = median(value, n);
    for (int32_t i = 0; i < n; i++)
        value[i] = fabs(r->us[i] - m);
    *spread = 1.48 * median(value, n) / sqrt((double)n);
    return m;
}

double md_ds_challenger_low_median(double *spread, const md_ds_challenger *r)
{
    md_ds_challenger low = *r;
    low.n = MD_MIN(low.n, MD_DS_CHALLENGER_TIMES);
    qsort(low.us, (size_t)low.n, sizeof *low.us, by_value);
    low.n = (low.n + 1) / 2;
    return md_ds_challenger_median(spread, &low);
}

/* Whoever would have to be off by twice the usual deviation of single times, and by 2% at least, to be worth a
 * switch, has had its chance. */
bool md_ds_trial_is_behind(const md_ds_trial *t, int32_t challenger)
{
    double spread, mine;
    const double own = md_ds_challenger_median(&spread, &t->challenger[0]);
    double us = md_ds_challenger_median(&mine, &t->challenger[challenger]);
    for (int32_t i = 0; i < MD_MIN(t->challenger[challenger].n, MD_DS_CHALLENGER_TIMES); i++)
        us = fmin(us, t->challenger[challenger].us[i]);
    const double deviation = spread * sqrt((double)MD_MIN(t->challenger[0].n, MD_DS_CHALLENGER_TIMES));
    return own > 0.0 && us > (1.0 - MD_DS_SWITCH_GAIN) * own + 2.0 * fmax(deviation, least_deviation * own);
}

md_ds_verdict md_ds_trial_judge(const md_ds_trial *t)
{
    const md_ds_challenger *b = &t->challenger[t->at];
    double spread_a, spread_b;
    double us_a = md_ds_challenger_median(&spread_a, &t->challenger[0]), us_b = md_ds_challenger_median(&spread_b, b);
    if (b->n < LEAST_TIMES || t->challenger[0].n < LEAST_TIMES)
        return MD_DS_GO_ON;
    if (us_b > clearly_slower * us_a)
        return MD_DS_NEXT;
    if (b->n >= LEAST_TO_WIN && t->challenger[0].n >= LEAST_TO_WIN && us_b < (1.0 - MD_DS_SWITCH_GAIN) * us_a &&
        us_a - us_b > fmax(2.0 * fmax(spread_a, spread_b), fmax(b->resolution_us, t->challenger[0].resolution_us)))
        return MD_DS_SWITCH;
    return b->n >= MOST_TIMES || (b->n >= LEAST_TO_WIN && us_b > us_a) ? MD_DS_NEXT : MD_DS_GO_ON;
}

/* The first time of a kernel that nobody has called for long is a few us too long (its code is in no cache). */
int32_t md_ds_trial_looks(const md_ds_trial *t)
{
    static const double short_us = 30.0;
    double spread;
    return MD_MAX(t->looks, md_ds_challenger_median(&spread, &t->challenger[0]) < short_us ? 2 : 1);
}

double md_ds_trial_ratio(const md_ds_trial *t, int32_t challenger)
{
    double spread;
    if (t->challenger[challenger].n < md_ds_trial_looks(t))
        return t->challenger[challenger].expected;
    const double own = md_ds_challenger_median(&spread, &t->challenger[0]),
                 us = md_ds_challenger_median(&spread, &t->challenger[challenger]);
    return own > 0.0 && us > 0.0 ? us / own : t->challenger[challenger].expected;
}

void md_ds_trial_next(md_ds_trial *t)
{
    double spread;
    t->step = 0;
    t->at = 0;
    for (int32_t i = 1; i < t->n_challengers; i++) {
        md_ds_challenger *r = &t->challenger[i];
        r->is_out |= r->n >= md_ds_trial_looks(t) && md_ds_trial_is_behind(t, i);
        const double most = t->is_careful && !r->is_known && r->n == 0 ? MD_DS_TOO_RISKY : MD_DS_TOO_SLOW;
        if (!r->is_out && md_ds_trial_ratio(t, i) <= most &&
            (t->at == 0 || md_ds_trial_ratio(t, i) < md_ds_trial_ratio(t, t->at)))
            t->at = i;
    }
    if (t->at > 0)
        t->is_over = false; /* what is expected of somebody has changed */
    if (t->at > 0 || t->is_over)
        return;
    t->is_over = true;
    t->settled_us = md_ds_challenger_median(&spread, &t->challenger[0]);
    t->n_watched = 0;
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
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

bool md_ds_trial_watch(int32_t *better, md_ds_trial *t, double us)
{
    double value[MD_DS_WATCHED], spread, least = 0.0;
    *better = -1;
    if (!(us > 0.0) || !isfinite(us))
        return false;
    t->watched[t->n_watched++ % MD_DS_WATCHED] = us;
    if (t->n_watched < MD_DS_WATCHED)
        return false;
    memcpy(value, t->watched, sizeof value);
    const double now = median(value, MD_DS_WATCHED);
    if (!(t->settled_us > 0.0))
        t->settled_us = now;
    if (now <= MD_DS_DEMOTION * t->settled_us)
        return false;
    for (int32_t i = 1; i < t->n_challengers; i++) {
        double m = md_ds_challenger_median(&spread, &t->challenger[i]);
        if (m > 0.0 && m < now && (*better < 0 || m < least)) {
            *better = i;
            least = m;
        }
    }
    reopen(t);
    md_ds_trial_next(t);
    return true;
}
