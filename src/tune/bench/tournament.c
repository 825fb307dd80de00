/* The benchmark engine: looks, warm-up, rounds, cuts, ties. See tournament.h. */
#include "tune/bench/tournament.h"

#include <math.h>

/* Samples before a tie is believed; passes of warm-up, however short they are. */
enum { LEAST_TO_TIE = 4, MOST_WARM_UPS = 256 };

md_tn_tournament md_tn_tournament_make(md_tn_purpose purpose, const md_tn_sampler *sampler,
                                       md_tn_competitor *competitor, int32_t n)
{
    return (md_tn_tournament){
        .policy = *md_tn_policy_for(purpose), .sampler = *sampler, .n = n, .competitor = competitor};
}

static md_tn_permission ask(const md_tn_tournament *t, md_tn_moment moment, int32_t i)
{
    return t->sampler.proceed ? t->sampler.proceed(t->sampler.user, moment, i) : MD_TN_GO_ON;
}

static void fail(md_tn_competitor *c)
{
    c->is_in = false;
    c->has_failed = true;
    c->n = c->n_taken = 0;
    c->look_us = 0.0;
}

static md_tn_outcome take(double *us, md_tn_tournament *t, int32_t i, md_tn_step step)
{
    md_tn_competitor *c = &t->competitor[i];
    const int32_t repeats = step < MD_TN_WARM_UP ? 1 : c->repeats;
    *us = 0.0;
    md_tn_outcome o = t->sampler.sample(us, t->sampler.user, i, repeats, step);
    if (o == MD_TN_SAMPLED && (!(*us > 0.0) || !isfinite(*us)))
        o = MD_TN_RUN_FAILED;
    if (o == MD_TN_RUN_FAILED || o == MD_TN_RUN_HANGS)
        fail(c);
    return o;
}

/* ---- What times say */

static double time_of(const md_tn_tournament *t, const md_tn_competitor *c)
{
    return c->n ? md_tn_summarize(c->sample, c->n, t->policy.compare_by).us : c->look_us;
}

static uint32_t groups_of(const md_tn_competitor *c)
{
    return c->groups ? c->groups : 1;
}

/* The least time in each group, dropped competitors included; 0: there is none. */
static void find_best(double best[32], const md_tn_tournament *t)
{
    for (int32_t g = 0; g < 32; g++)
        best[g] = 0.0;
    for (int32_t i = 0; i < t->n; i++) {
        const md_tn_competitor *c = &t->competitor[i];
        const double us = time_of(t, c);
        for (int32_t g = 0; us > 0.0 && g < 32; g++)
            if (groups_of(c) >> g & 1 && (!(best[g] > 0.0) || us < best[g]))
                best[g] = us;
    }
}

static bool is_slow(const md_tn_competitor *c, double us, const double best[32], double factor)
{
    for (int32_t g = 0; g < 32; g++)
        if (groups_of(c) >> g & 1 && us <= factor * best[g])
            return false;
    return true;
}

static void drop_slow(md_tn_tournament *t, double factor)
{
    double best[32];
    find_best(best, t);
    for (int32_t i = 0; i < t->n; i++) {
        md_tn_competitor *c = &t->competitor[i];
        const double us = time_of(t, c);
        if (c->is_in && !c->never_drops && (!(us > 0.0) || is_slow(c, us, best, factor)))
            c->is_in = false;
    }
}

static int32_t count_in(const md_tn_tournament *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++)
        n += t->competitor[i].is_in;
    return n;
}

/* True if nothing is left to be decided: all differ by less than the tie, and no error is larger than half of it. */
static bool is_tie(const md_tn_tournament *t)
{
    double least = INFINITY, most = 0.0, error = 0.0;
    for (int32_t i = 0; i < t->n; i++) {
        const md_tn_competitor *c = &t->competitor[i];
        if (!c->is_in)
            continue;
        const md_tn_summary s = md_tn_summarize(c->sample, c->n, t->policy.judge_by);
        least = fmin(least, s.us);
        most = fmax(most, s.us);
        error = fmax(error, s.error);
    }
    return most - least <= t->policy.tie * least && error <= 0.5 * t->policy.tie * least;
}

/* Cuts that are due before the next pass. True if it is decided. */
static bool is_decided(md_tn_tournament *t)
{
    for (; t->n_cuts < MD_TN_MOST_CUTS; t->n_cuts++) {
        const md_tn_cut *cut = &t->policy.cut[t->n_cuts];
        if (cut->samples == 0 || cut->samples > t->pass)
            break;
        drop_slow(t, cut->factor);
    }
    const int32_t n = count_in(t);
    if (n == 0 || (n == 1 && t->pass > 0 && t->pass >= t->policy.least_samples))
        return true;
    return n > 1 && t->policy.tie > 0.0 && t->pass >= LEAST_TO_TIE && t->pass % 2 == 0 && is_tie(t);
}

/* ---- Looks */

static double least_look(const md_tn_tournament *t)
{
    double least = INFINITY;
    for (int32_t i = 0; i < t->n; i++) {
        const double us = time_of(t, &t->competitor[i]);
        if (us > 0.0)
            least = fmin(least, us);
    }
    return least;
}

/* One run that pays for page faults and cold caches, and one that says how long a sample must be. */
static md_tn_outcome look_at(md_tn_tournament *t, int32_t i)
{
    md_tn_competitor *c = &t->competitor[i];
    const double least = least_look(t);
    double us = 0.0, again = 0.0;
    md_tn_outcome o = take(&us, t, i, MD_TN_FIRST_LOOK);
    if (o != MD_TN_SAMPLED)
        return o;
    c->look_us = us;
    if ((c->looks_twice || us <= fmax(t->policy.second_look * least, t->policy.cheap_us)) &&
        ask(t, MD_TN_BEFORE_SECOND_LOOK, i) == MD_TN_GO_ON) {
        o = take(&again, t, i, MD_TN_SECOND_LOOK);
        if (o == MD_TN_SAMPLED)
            c->look_us = again;
    }
    return o;
}

static void set_repeats(md_tn_tournament *t)
{
    for (int32_t i = 0; i < t->n; i++) {
        md_tn_competitor *c = &t->competitor[i];
        if (c->is_in && c->repeats == 0)
            c->repeats = (int32_t)fmax(1.0, fmin(t->policy.sample_us / c->look_us, t->policy.most_repeats));
    }
}

/* Variants that no look reached get no samples. */
static md_tn_ending look_at_all(md_tn_tournament *t)
{
    bool has_time = true;
    for (int32_t i = 0; i < t->n; i++) {
        md_tn_competitor *c = &t->competitor[i];
        while (c->is_in && !(c->look_us > 0.0)) {
            const md_tn_permission p = has_time ? ask(t, MD_TN_BEFORE_LOOK, i) : MD_TN_STOP;
            if (p == MD_TN_PAUSE)
                return MD_TN_PAUSED;
            has_time = p == MD_TN_GO_ON;
            if (!has_time)
                c->is_in = false;
            else if (look_at(t, i) == MD_TN_RUN_HANGS)
                return MD_TN_HANGS;
        }
    }
    if (t->policy.look_factor > 0.0)
        drop_slow(t, t->policy.look_factor);
    set_repeats(t);
    t->has_looked = true;
    return MD_TN_ENDED;
}

/* ---- Rounds */

/* Whole passes over all, none of which counts. */
static md_tn_ending warm_up(md_tn_tournament *t)
{
    double spent_us = 0.0;
    for (int32_t k = 0; k < MOST_WARM_UPS && spent_us < t->policy.warm_up_us && count_in(t) > 0; k++)
        for (int32_t i = 0; i < t->n; i++) {
            double us = 0.0;
            const md_tn_outcome o = t->competitor[i].is_in ? take(&us, t, i, MD_TN_WARM_UP) : MD_TN_SAMPLED;
            if (o == MD_TN_RUN_HANGS)
                return MD_TN_HANGS;
            spent_us += us * t->competitor[i].repeats;
        }
    t->is_warm = true;
    return MD_TN_ENDED;
}

/* Until the competitor has its sample of this pass. MD_TN_GO_ON: it has, or is out. */
static md_tn_permission sample(md_tn_tournament *t, int32_t i, bool *hangs)
{
    md_tn_competitor *c = &t->competitor[i];
    while (c->is_in && c->n < c->room && c->n_taken <= t->pass) {
        double us = 0.0;
        const md_tn_permission p = ask(t, MD_TN_BEFORE_SAMPLE, i);
        if (p != MD_TN_GO_ON)
            return p;
        const md_tn_outcome o = take(&us, t, i, MD_TN_SAMPLE);
        if (o == MD_TN_SAMPLED) {
            c->sample[c->n++] = us;
            c->n_taken++;
        }
        *hangs = o == MD_TN_RUN_HANGS;
    }
    return *hangs ? MD_TN_STOP : MD_TN_GO_ON;
}

static md_tn_ending run_rounds(md_tn_tournament *t)
{
    bool hangs = false;
    for (; t->pass < t->policy.samples && !is_decided(t); t->pass++) {
        md_tn_permission p = t->pass % 2 == 0 ? ask(t, MD_TN_BEFORE_ROUND, t->pass / 2) : MD_TN_GO_ON;
        for (int32_t k = 0; k < t->n && p == MD_TN_GO_ON; k++)
            p = sample(t, t->pass % 2 == 0 ? k : t->n - 1 - k, &hangs);
        if (p != MD_TN_GO_ON)
            return hangs ? MD_TN_HANGS : p == MD_TN_PAUSE ? MD_TN_PAUSED : MD_TN_ENDED;
    }
    return MD_TN_ENDED;
}

md_tn_ending md_tn_tournament_run(md_tn_tournament *t)
{
    md_tn_ending e = t->has_looked ? MD_TN_ENDED : look_at_all(t);
    if (e == MD_TN_ENDED && !t->is_warm)
        e = warm_up(t);
    return e == MD_TN_ENDED ? run_rounds(t) : e;
}

md_tn_summary md_tn_tournament_result(const md_tn_tournament *t, int32_t i)
{
    const md_tn_competitor *c = &t->competitor[i];
    if (c->n)
        return md_tn_summarize(c->sample, c->n, t->policy.judge_by);
    return (md_tn_summary){.us = c->has_failed ? 0.0 : c->look_us};
}
