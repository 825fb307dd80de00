/* Times a tuning point's new configs against the best so far, and at the end the best few once more. */
#include "tune/search/internal.h"

#include "base/status.h"
#include "tune/bench/tournament.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Only configs within this factor of the best compete once more at the end. */
static const double FINALIST_FACTOR = 1.25;
/* Differences below the first part are always noise, above the second never. */
static const double LEAST_TIE = 0.005, MOST_TIE = 0.02;
enum { FINALISTS = 5, POLL_US = 200 };

static double known_us(const md_tn_entry *e)
{
    return e->n ? e->us : e->first_us;
}

static bool is_timed(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t i)
{
    return i >= 0 && i < w->n_trials && i < tuning_point->capacity && tuning_point->entry[i].is_there &&
           tuning_point->entry[i].first_us > 0.0 && !w->trial[i].is_out;
}

static double least_us(const md_tn_work *w, const md_tn_tuning_point *tuning_point)
{
    double least = INFINITY;
    for (int32_t i = 0; i < w->n_trials; i++)
        if (is_timed(w, tuning_point, i))
            least = fmin(least, known_us(&tuning_point->entry[i]));
    return least;
}

/* ---- Waiting for builds */

/* `list`: names separated by ';'. */
static bool is_excluded(const char *list, const char *name)
{
    for (const char *at = list; at && *at;) {
        const size_t length = strcspn(at, ";");
        if (length == strlen(name) && !memcmp(at, name, length))
            return true;
        at += length + (at[length] == ';');
    }
    return false;
}

static void put_out(md_tn_work *w, md_tn_trial *t, md_tn_verdict verdict)
{
    t->is_out = true;
    t->verdict = verdict;
    md_tn_counters *c = w->job->count;
    if (c)
        atomic_fetch_add(verdict == MD_TN_UNBUILT ? &c->unbuilt : verdict == MD_TN_WRONG ? &c->wrong : &c->failed, 1);
}

/* Waits for builds while others go on. Builds that would end too late are given up. */
void md_tn_await(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++) {
        if (!tuning_point->entry[i].is_there || tuning_point->entry[i].first_us > 0.0)
            continue;
        while (atomic_load(&w->trial[i].variant->state) == MD_BD_QUEUED && md_tn_now_ns(w->dev) < w->builds_ns)
            nanosleep(&(struct timespec){0, POLL_US * 1000L}, NULL);
        md_tn_observe(w);
    }
}

/* Built, and not known to be bad. */
static bool get_ready(md_tn_work *w, md_tn_tuning_point *tuning_point, md_tn_trial *t)
{
    if (t->is_out)
        return false;
    if (atomic_load(&t->variant->state) == MD_BD_QUEUED) {
        tuning_point->is_cut = true;
        return false;
    }
    const bool is_fresh = !t->source.lo && !t->source.hi;
    if (md_bd_variant_wait(t->variant) != MD_OK) {
        put_out(w, t, MD_TN_UNBUILT);
        return false;
    }
    if (!is_fresh)
        return true;
    (void)md_bd_variant_digest(&t->source, t->variant);
    if (is_excluded(w->job->exclude, t->variant->name)) {
        (void)md_tn_wisdom_quarantine(w->job->wisdom, t->variant->name, t->source, "did not end");
        put_out(w, t, MD_TN_ENDLESS);
    } else if (md_tn_wisdom_is_quarantined(w->job->wisdom, t->variant->name, t->source)) {
        put_out(w, t, MD_TN_WRONG);
    } else if (t->family->custom) {
        (void)md_tn_verify_small(w, tuning_point, t); /* a user's own kernel may write anywhere */
    }
    return !t->is_out;
}

/* ---- Samples */

typedef struct contest {
    md_tn_work *w;
    md_tn_tuning_point *tuning_point;
    int32_t n;
    int32_t *trial; /* of each competitor */
    md_tn_competitor *competitor;
    bool has_looked;
} contest;

static md_tn_outcome take_time(double *us, contest *c, int32_t trial, int32_t repeats)
{
    md_tn_trial *t = &c->w->trial[trial];
    md_tn_tuning_point *p = c->tuning_point;
    if (md_tn_bench_time(us, &p->bench, t->variant, &p->entry[trial].geometry, repeats) == MD_OK)
        return MD_TN_SAMPLED;
    put_out(c->w, t, MD_TN_FAILED);
    return MD_TN_RUN_FAILED;
}

/* Logged before the run, so that a reader of the log knows which config did not end. */
static md_tn_outcome look(double *us, contest *c, int32_t trial)
{
    md_tn_tuning_point *p = c->tuning_point;
    const uint64_t start = md_tn_now_ns(c->w->dev);
    md_tn_log_try(c->w, p, "try", trial);
    const md_tn_outcome o = take_time(us, c, trial, 1);
    p->look_ns = MD_MAX(p->look_ns, md_tn_now_ns(c->w->dev) - start);
    p->n_looks++;
    c->w->n_looks++;
    md_tn_log_try(c->w, p, "tried", trial);
    if (c->w->job->count)
        atomic_fetch_add(&c->w->job->count->timed, 1);
    return o;
}

static md_tn_outcome sample(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step)
{
    contest *c = user;
    return step == MD_TN_FIRST_LOOK ? look(us, c, c->trial[i]) : take_time(us, c, c->trial[i], repeats);
}

/* The first round needs budget; later ones must stay within the share of this contest. */
static md_tn_permission proceed(void *user, md_tn_moment moment, int32_t i)
{
    contest *c = user;
    switch (moment) {
    case MD_TN_BEFORE_LOOK:
        if (c->has_looked && md_tn_is_late(c->w)) {
            c->tuning_point->is_cut = true;
            return MD_TN_STOP;
        }
        c->has_looked = true;
        return MD_TN_GO_ON;
    case MD_TN_BEFORE_ROUND:
        return (i == 0 ? md_tn_is_late(c->w) : md_tn_is_over(c->w)) ? MD_TN_STOP : MD_TN_GO_ON;
    default:
        return MD_TN_GO_ON;
    }
}

static md_status open_contest(contest *c, md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    const size_t n = (size_t)MD_MAX(MD_MIN(w->n_trials, tuning_point->capacity), 1);
    *c = (contest){.w = w, .tuning_point = tuning_point};
    c->trial = calloc(n, sizeof *c->trial);
    c->competitor = calloc(n, sizeof *c->competitor);
    if (c->trial && c->competitor)
        return MD_OK;
    free(c->trial);
    free(c->competitor);
    return md_fail_memory();
}

static void enter(contest *c, int32_t trial)
{
    md_tn_entry *e = &c->tuning_point->entry[trial];
    c->trial[c->n] = trial;
    c->competitor[c->n++] = (md_tn_competitor){.is_in = true,
                                               .looks_twice = c->w->trial[trial].family->is_library,
                                               .look_us = e->first_us,
                                               .repeats = e->repeats,
                                               .n = e->n,
                                               .sample = e->sample,
                                               .room = MD_TN_MAX_SAMPLES};
}

/* Runs the tournament, copies what it found into the point's entries, and frees the contest. */
static void run_contest(contest *c, md_tn_purpose purpose)
{
    const md_tn_sampler sampler = {sample, proceed, c};
    md_tn_tournament t = md_tn_tournament_make(purpose, &sampler, c->competitor, c->n);
    (void)md_tn_tournament_run(&t);
    for (int32_t i = 0; i < c->n; i++) {
        const md_tn_competitor *x = &c->competitor[i];
        md_tn_entry *e = &c->tuning_point->entry[c->trial[i]];
        e->first_us = x->look_us;
        e->repeats = x->repeats;
        e->n = x->n;
        if (x->look_us > 0.0 || x->has_failed)
            e->verdict = MD_TN_SLOW; /* this holds until it has samples */
        if (x->n == 0)
            continue;
        const md_tn_summary s = md_tn_tournament_result(&t, i);
        e->us = s.us;
        e->spread = s.spread;
        e->verdict = MD_TN_TIMED;
    }
    free(c->trial);
    free(c->competitor);
}

/* ---- The contests */

static int32_t best_of(const md_tn_work *w, const md_tn_tuning_point *tuning_point)
{
    int32_t best = -1;
    for (int32_t i = 0; i < w->n_trials; i++)
        if (is_timed(w, tuning_point, i) && (best < 0 || md_tn_is_better(w, tuning_point, i, best)))
            best = i;
    return best;
}

static bool is_named_before(const md_tn_trial *a, const md_tn_trial *b)
{
    if (a->family->is_library != b->family->is_library)
        return b->family->is_library;
    return strcmp(a->variant->name, b->variant->name) < 0;
}

bool md_tn_is_better(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t a, int32_t b)
{
    const md_tn_entry *entry = &tuning_point->entry[a], *y = &tuning_point->entry[b];
    const double ux = known_us(entry), uy = known_us(y), less = fmin(ux, uy);
    double noise = MOST_TIE * less;
    if (entry->n > 2 && y->n > 2) /* twice the standard error of the difference of two medians */
        noise = fmin(noise, 3.7 * sqrt(entry->spread * entry->spread / entry->n + y->spread * y->spread / y->n));
    noise = fmax(noise, LEAST_TIE * less);
    if (fabs(ux - uy) > noise)
        return ux < uy;
    if (tuning_point->best == a || tuning_point->best == b) /* a tie keeps the incumbent */
        return tuning_point->best == a;
    return is_named_before(&w->trial[a], &w->trial[b]);
}

md_status md_tn_compare_new(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    contest c;
    int32_t n_new = 0;
    MD_TRY(open_contest(&c, w, tuning_point));
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++) {
        const md_tn_entry *e = &tuning_point->entry[i];
        const bool is_new = e->is_there && !(e->first_us > 0.0) && get_ready(w, tuning_point, &w->trial[i]);
        if (is_new && n_new && md_tn_is_late(w))
            tuning_point->is_cut = true;
        else if (is_new || i == tuning_point->best)
            enter(&c, i);
        n_new += is_new;
    }
    if (n_new == 0)
        c.n = 0;
    run_contest(&c, MD_TN_FOR_TUNING);
    if (n_new > 0)
        tuning_point->best = best_of(w, tuning_point);
    return MD_OK;
}

/* The next finalist: the fastest that is not one yet; -1. */
static int32_t next_finalist(const contest *c, double least)
{
    int32_t next = -1;
    for (int32_t i = 0; i < c->w->n_trials; i++) {
        bool is_in = !is_timed(c->w, c->tuning_point, i);
        for (int32_t k = 0; k < c->n && !is_in; k++)
            is_in = c->trial[k] == i;
        const double us = is_in ? INFINITY : known_us(&c->tuning_point->entry[i]);
        if (isfinite(us) && us <= FINALIST_FACTOR * least && (next < 0 || us < known_us(&c->tuning_point->entry[next])))
            next = i;
    }
    return next;
}

static int by_number(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

md_status md_tn_compare_best(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    contest c;
    int32_t trial[FINALISTS], n = 0;
    const double least = least_us(w, tuning_point);
    MD_TRY(open_contest(&c, w, tuning_point));
    for (int32_t next; n < FINALISTS && (next = next_finalist(&c, least)) >= 0; n++) {
        trial[n] = next;
        enter(&c, next);
    }
    c.n = 0;
    qsort(trial, (size_t)n, sizeof *trial, by_number);
    for (int32_t k = 0; k < n && n > 1 && !md_tn_is_late(w); k++) {
        tuning_point->entry[trial[k]].n = 0;
        enter(&c, trial[k]);
    }
    run_contest(&c, MD_TN_FOR_TUNING_FINAL);
    tuning_point->best = best_of(w, tuning_point);
    return MD_OK;
}
