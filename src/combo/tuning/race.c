/* Ways to run a combo, timed against each other by the benchmark engine. */
#include "base/clock.h"
#include "base/status.h"
#include "combo/tuning/tuning.h"
#include "tune/bench/bench.h"
#include "tune/bench/tournament.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 15 };
/* A way is faster by this part at least, and by so many times the spread. */
static const double LEAST_GAIN = 0.02, SPREADS = 2.0;

typedef struct race {
    md_cb *cb;
    md_stream stream;
    md_cb_way *const *way;
    uint64_t deadline_ns;
    int32_t running, repeats;
    md_status status; /* of the last run that failed; MD_OK if none did */
} race;

/* ---- Ways */

static void put(md_cb *cb, const md_cb_way *way)
{
    cb->plan = way->plan;
    cb->loops = way->loops;
    cb->merged = way->merged;
}

/* Moves what the combo runs by into `way`; the combo has nothing to run by then. */
static void take(md_cb_way *way, md_cb *cb)
{
    way->plan = cb->plan;
    way->loops = cb->loops;
    way->merged = cb->merged;
    put(cb, &(md_cb_way){NULL});
}

static md_status make(md_cb *cb)
{
    MD_TRY(md_cb_prepare(cb));
    if (!cb->plan)
        return md_fail(MD_UNSUPPORTED, "the items of combos run by calls of their own on this device");
    if (cb->plan->awaits_choices) {
        md_cb_choices_wait(cb);
        MD_TRY(md_cb_prepare(cb)); /* prepared once more, since kernels are built by now */
    }
    md_bd_wait_all(cb->runtime->builder);
    return MD_OK;
}

md_status md_cb_way_make(md_cb_way *out, md_cb *cb)
{
    cb->decision.is_current = false; /* the decision was made for another plan */
    const md_status status = make(cb);
    memset(out, 0, sizeof *out);
    out->how = cb->decision.how;
    memcpy(out->choice, cb->choices.choice, sizeof out->choice);
    out->n_choices = cb->choices.n;
    take(out, cb);
    if (status != MD_OK)
        md_cb_way_free(out, cb);
    return status;
}

void md_cb_way_free(md_cb_way *way, md_cb *cb)
{
    put(cb, way);
    md_cb_schedule_free(cb);
    memset(way, 0, sizeof *way);
}

/* ---- Races */

bool md_cb_is_faster(const md_cb_way *trial, const md_cb_way *than)
{
    const double spread = MD_MAX(trial->spread_us, than->spread_us), gain = than->us - trial->us;
    return trial->us > 0 && gain > LEAST_GAIN * than->us && gain > SPREADS * spread;
}

static md_status run(void *user)
{
    const race *r = user;
    const md_cb_way *way = r->way[r->running];
    for (int32_t i = 0; i < r->repeats; i++)
        MD_TRY(way->plan ? md_cb_run_schedule(r->cb, r->stream, way->how) : md_cb_run_apart(r->cb, r->stream));
    return MD_OK;
}

static md_tn_outcome sample(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step)
{
    race *r = user;
    double all = 0;
    (void)step;
    r->running = i;
    r->repeats = repeats;
    put(r->cb, r->way[i]);
    const md_status status = md_tn_time(&all, r->cb->runtime->dev, r->stream, run, r);
    take(r->way[i], r->cb);
    *us = all / repeats;
    r->status = status == MD_OK ? r->status : status;
    return status == MD_OK ? MD_TN_SAMPLED : MD_TN_RUN_FAILED;
}

static md_tn_permission proceed(void *user, md_tn_moment moment, int32_t i)
{
    const race *r = user;
    (void)i;
    return moment == MD_TN_BEFORE_ROUND && md_clock_ns() >= r->deadline_ns ? MD_TN_STOP : MD_TN_GO_ON;
}

md_status md_cb_race(md_cb_way *const *way, int32_t n, md_cb *cb, md_stream stream, uint64_t deadline_ns)
{
    double samples[MD_CB_MAX_WAYS][SAMPLES];
    md_tn_competitor competitor[MD_CB_MAX_WAYS];
    race r = {.cb = cb, .stream = stream, .way = way, .deadline_ns = deadline_ns};
    const md_tn_sampler sampler = {sample, proceed, &r};
    for (int32_t i = 0; i < n; i++)
        competitor[i] = (md_tn_competitor){.is_in = true, .never_drops = true, .sample = samples[i], .room = SAMPLES};
    md_tn_tournament t = md_tn_tournament_make(MD_TN_FOR_BENCH, &sampler, competitor, n);
    t.policy.samples = t.policy.least_samples = SAMPLES;
    t.policy.warm_up_us /= 10; /* the device is warm from the race before */
    (void)md_tn_tournament_run(&t);
    for (int32_t i = 0; i < n; i++) {
        const md_tn_summary s = md_tn_tournament_result(&t, i);
        if (r.status != MD_OK)
            return md_fail_more(r.status, " (while the combo was tuned)");
        if (competitor[i].has_failed)
            return md_fail(MD_DEVICE, "a run of the combo gave no time");
        way[i]->us = s.us;
        /* with one sample there is no spread, so nothing is decided */
        way[i]->spread_us = s.n > 1 ? s.spread : INFINITY;
    }
    return MD_OK;
}
