/* The race at a point: first looks that reject early, halving, and a last one in pairs. A B C C B A throughout, so
 * that what drifts (clock rate, other load) meets all alike. */
#include "tune/search/job.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of the best first look: beyond it, not worth a second; beyond the other, no samples. */
static const double CUT = 8.0, HOPELESS = 2.0;
/* What is over soon is looked at twice in any case: the first run pays for more than itself. */
static const double CHEAP_US = 1000.0;
/* After some rounds only those this near to the best go on. */
static const double NEAR = 1.25, NEARER = 1.08;
/* Differences below one, or above the other, are never taken for noise. */
static const double LEAST_TIE = 0.005, MOST_TIE = 0.02;
enum { SAMPLE_US = 50, MAX_REPEATS = 256, FINALISTS = 5, POLL_US = 200 };

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

static bool is_excluded(const char *list, const char *name)
{
    for (const char *at = list; at && *at;) {
        const size_t length = strcspn(at, ";");
        char one[MD_FA_NAME], current[MD_FA_NAME];
        snprintf(one, sizeof one, "%.*s", (int)MD_MIN(length, sizeof one - 1), at);
        md_fa_current_name(current, one);
        if (!strcmp(current, name))
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

static void digest_source(md_tn_trial *t)
{
    md_strbuf b = {0};
    if (md_bd_variant_source(&b, t->variant) == MD_OK)
        t->source = md_hash128(md_strbuf_text(&b), b.size);
    md_strbuf_finish(&b);
}

/* Builds go on beside; those that would end too late are given up. */
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
    digest_source(t);
    if (is_excluded(w->job->exclude, t->variant->name)) {
        (void)md_tn_wisdom_quarantine(w->job->wisdom, t->variant->name, t->source, "did not end");
        put_out(w, t, MD_TN_ENDLESS);
    } else if (md_tn_wisdom_is_quarantined(w->job->wisdom, t->variant->name, t->source)) {
        put_out(w, t, MD_TN_WRONG);
    } else if (t->family->custom) {
        (void)md_tn_verify_small(w, tuning_point, t); /* somebody else's: it may write anywhere */
    }
    return !t->is_out;
}

/* ---- Samples */

static void take_time(double *us, md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t i, int32_t repeats)
{
    md_tn_trial *t = &w->trial[i];
    *us = 0.0;
    if (t->is_out)
        return;
    if (md_tn_bench_time(us, &tuning_point->bench, t->variant, &tuning_point->entry[i].geometry, repeats) != MD_OK) {
        tuning_point->entry[i].is_running = false;
        put_out(w, t, MD_TN_FAILED);
    }
}

/* One run that pays for page faults and cold caches, one that says how long a sample must be. */
static void look(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t i)
{
    md_tn_entry *e = &tuning_point->entry[i];
    const double least = least_us(w, tuning_point);
    const uint64_t start = md_tn_now_ns(w->dev);
    md_tn_log_try(w, tuning_point, "try", i); /* whoever reads along sees what did not end */
    take_time(&e->first_us, w, tuning_point, i, 1);
    tuning_point->look_ns = MD_MAX(tuning_point->look_ns, md_tn_now_ns(w->dev) - start);
    tuning_point->n_looks++;
    w->n_looks++;
    md_tn_log_try(w, tuning_point, "tried", i);
    /* a library's first call loads it */
    if (e->first_us > 0.0 && (e->first_us <= fmax(CUT * least, CHEAP_US) || w->trial[i].family->is_library)) {
        double again = 0.0;
        take_time(&again, w, tuning_point, i, 1);
        e->first_us = again > 0.0 ? again : e->first_us;
    }
    e->repeats = e->first_us > 0.0 ? (int32_t)fmax(1.0, fmin(SAMPLE_US / e->first_us, MAX_REPEATS)) : 1;
    e->verdict = MD_TN_SLOW; /* until it has samples */
    if (w->job->count)
        atomic_fetch_add(&w->job->count->timed, 1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_part(const double *sorted, int32_t n, double part)
{
    const double at = part * (n - 1);
    const int32_t i = (int32_t)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

static void sum_up(md_tn_entry *e)
{
    double sorted[MD_TN_MAX_SAMPLES];
    memcpy(sorted, e->sample, (size_t)e->n * sizeof *sorted);
    qsort(sorted, (size_t)e->n, sizeof *sorted, by_value);
    e->us = at_part(sorted, e->n, 0.5);
    e->spread = 0.5 * (at_part(sorted, e->n, 0.75) - at_part(sorted, e->n, 0.25));
    e->verdict = MD_TN_TIMED;
}

static void sample(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t i)
{
    md_tn_entry *e = &tuning_point->entry[i];
    double us = 0.0;
    if (!e->is_running || e->n == MD_TN_MAX_SAMPLES)
        return;
    take_time(&us, w, tuning_point, i, e->repeats);
    if (us > 0.0)
        e->sample[e->n++] = us;
}

/* Forward and back over all that run. */
static void run_rounds(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t rounds)
{
    for (int32_t round = 0; round < rounds && !(round == 0 ? md_tn_is_late(w) : md_tn_is_over(w)); round++) {
        for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++)
            sample(w, tuning_point, i);
        for (int32_t i = MD_MIN(w->n_trials, tuning_point->capacity); i-- > 0;)
            sample(w, tuning_point, i);
    }
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++)
        if (tuning_point->entry[i].is_running && tuning_point->entry[i].n)
            sum_up(&tuning_point->entry[i]);
}

/* ---- The race */

static void keep_near(md_tn_work *w, md_tn_tuning_point *tuning_point, double near)
{
    const double least = least_us(w, tuning_point);
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++) {
        md_tn_entry *e = &tuning_point->entry[i];
        if (e->is_running && known_us(e) > near * least)
            e->is_running = false;
    }
}

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
    const md_tn_entry *x = &tuning_point->entry[a], *y = &tuning_point->entry[b];
    const double ux = known_us(x), uy = known_us(y), less = fmin(ux, uy);
    double noise = MOST_TIE * less;
    if (x->n > 2 && y->n > 2) /* twice the standard error of the difference of two medians */
        noise = fmin(noise, 3.7 * sqrt(x->spread * x->spread / x->n + y->spread * y->spread / y->n));
    noise = fmax(noise, LEAST_TIE * less);
    if (fabs(ux - uy) > noise)
        return ux < uy;
    if (tuning_point->best == a || tuning_point->best == b) /* a tie keeps the incumbent */
        return tuning_point->best == a;
    return is_named_before(&w->trial[a], &w->trial[b]);
}

/* New ones are compared with the best so far, which runs along. */
md_status md_tn_tournament(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    int32_t n_new = 0;
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++) {
        md_tn_entry *e = &tuning_point->entry[i];
        e->is_running = i == tuning_point->best;
        if (!e->is_there || e->first_us > 0.0 || !get_ready(w, tuning_point, &w->trial[i]))
            continue;
        if (n_new && md_tn_is_late(w)) {
            tuning_point->is_cut = true;
            continue;
        }
        look(w, tuning_point, i);
        e->is_running = e->first_us > 0.0;
        n_new++;
    }
    if (n_new == 0)
        return MD_OK;
    keep_near(w, tuning_point, HOPELESS);
    run_rounds(w, tuning_point, 2);
    keep_near(w, tuning_point, NEAR);
    run_rounds(w, tuning_point, 2);
    tuning_point->best = best_of(w, tuning_point);
    return MD_OK;
}

/* The fastest few run again with fresh samples. */
md_status md_tn_final(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++)
        tuning_point->entry[i].is_running = false;
    const double least = least_us(w, tuning_point);
    for (int32_t k = 0; k < FINALISTS; k++) {
        int32_t next = -1;
        for (int32_t i = 0; i < w->n_trials; i++)
            if (is_timed(w, tuning_point, i) && !tuning_point->entry[i].is_running &&
                known_us(&tuning_point->entry[i]) <= NEAR * least &&
                (next < 0 || known_us(&tuning_point->entry[i]) < known_us(&tuning_point->entry[next])))
                next = i;
        if (next < 0)
            break;
        tuning_point->entry[next].is_running = true;
        n++;
    }
    if (n < 2 || md_tn_is_late(w)) {
        tuning_point->best = best_of(w, tuning_point);
        return MD_OK;
    }
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++)
        if (tuning_point->entry[i].is_running)
            tuning_point->entry[i].n = 0;
    run_rounds(w, tuning_point, 3);
    keep_near(w, tuning_point, NEARER);
    run_rounds(w, tuning_point, 5);
    tuning_point->best = best_of(w, tuning_point);
    return MD_OK;
}
