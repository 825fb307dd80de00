#include "tune/tune.h"

#include "base/clock.h"
#include "base/status.h"
#include "tune/bench/bench.h"
#include "tune/bench/copies.h"
#include "tune/bench/settle.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 30, SAMPLE_US = 50, MAX_REPEATS = 512, MAX_SETS = 32, SWEPT_SETS = 16 };
/* Slower than the best by more than this at the first look: not worth more of the budget. */
static const double HOPELESS = 3.0;

typedef struct racer {
    const md_bd_variant *variant;
    md_kn_plan_geometry geometry;
    bool is_running; /* takes part in the rounds */
    int32_t repeats; /* runs in one sample, so that the clock's grain does not matter */
    int32_t n_samples;
    double first_us; /* of the first look; <= 0: failed, or not reached */
    double sample[MAX_SAMPLES];
} racer;

/* On a GPU kernels meet memory that is not in its cache, as they do where other work runs in between: before each
 * sample COLD times as much as the cache holds is copied, and each run of a sample has a set of copies for itself.
 * (Sets that take turns would have to be thousands where tensors are small.) Where memory is short nothing is swept,
 * and sets take turns that together are COLD times as large as the cache. */
static const double COLD = 2.5;

typedef struct race {
    md_dev *dev;
    md_tn_copies set[MAX_SETS];
    int32_t n_sets, turn;
    void *swept; /* NULL: nothing is swept */
    racer *racers;
    int32_t n;
    uint64_t deadline_ns;
    int32_t hung; /* racer, or -1 */
} race;

static md_kn_call *next_set(void *user)
{
    race *r = user;
    md_kn_call *call = &r->set[r->turn].call;
    r->turn = (r->turn + 1) % r->n_sets;
    return call;
}

static md_tn_runs runs_of(race *r, const racer *who, int32_t n)
{
    return (md_tn_runs){r->dev, who->variant, &who->geometry, next_set, r, n};
}

static bool is_cold(const race *r)
{
    return r->dev->ops->time && r->dev->ops->copy_tensor && !r->dev->ops->is_simulated;
}

static int64_t swept_elements(const race *r)
{
    return (int64_t)(COLD * (double)r->dev->facts.l2_bytes) / (2 * (int64_t)sizeof(float));
}

static md_status sweep(const race *r)
{
    const int64_t n = swept_elements(r);
    const md_tensor from = md_tensor_make(r->swept, MD_F32, 1, &n),
                    to = md_tensor_make((float *)r->swept + n, MD_F32, 1, &n);
    return r->swept ? r->dev->ops->copy_tensor(r->dev, r->dev->tuning, &to, &from) : MD_OK;
}

/* Time of one run in us, averaged over `repeats`; negative where it fails. */
static double time_runs(race *r, const racer *who, int32_t repeats)
{
    md_tn_runs runs = runs_of(r, who, repeats);
    double us = 0.0;
    return sweep(r) == MD_OK && md_tn_time_runs(&us, &runs) == MD_OK ? us : -1.0;
}

static bool is_late(const race *r)
{
    return md_clock_ns() >= r->deadline_ns;
}

/* Whether the first run ends at all. */
static bool ends(race *r, int32_t i)
{
    md_tn_runs runs = runs_of(r, &r->racers[i], 1);
    if (!r->dev->ops->mark_time)
        return true;
    if (md_tn_run_all(&runs) == MD_OK && md_tn_settle(r->dev) == MD_TIMEOUT)
        r->hung = i;
    return r->hung < 0;
}

/* Two runs each: one that pays for page faults and cold caches, one that says how long a sample must be. */
static void look(race *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        racer *who = &r->racers[i];
        if ((i > 0 && is_late(r)) || !ends(r, i))
            return;
        who->first_us = time_runs(r, who, 1);
        if (who->first_us > 0.0 && !is_late(r))
            who->first_us = time_runs(r, who, 1);
    }
}

static void choose_runners(race *r)
{
    double best = 0.0;
    for (int32_t i = 0; i < r->n; i++) {
        double us = r->racers[i].first_us;
        if (us > 0.0 && (best <= 0.0 || us < best))
            best = us;
    }
    for (int32_t i = 0; i < r->n; i++) {
        racer *who = &r->racers[i];
        who->is_running = who->first_us > 0.0 && who->first_us <= best * HOPELESS;
        if (who->is_running)
            who->repeats = (int32_t)MD_MAX(1.0, MD_MIN(SAMPLE_US / who->first_us, r->swept ? r->n_sets : MAX_REPEATS));
    }
}

static void sample(race *r, racer *who)
{
    if (!who->is_running)
        return;
    double us = time_runs(r, who, who->repeats);
    if (us > 0.0) {
        who->sample[who->n_samples++] = us;
    } else if (us < 0.0) {
        who->is_running = false;
        who->n_samples = 0;
        who->first_us = -1.0;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the samples so far. */
static double median(racer *who)
{
    const int32_t n = who->n_samples;
    qsort(who->sample, (size_t)n, sizeof *who->sample, by_value);
    return n % 2 ? who->sample[n / 2] : 0.5 * (who->sample[n / 2 - 1] + who->sample[n / 2]);
}

/* Those that are behind by more than noise get no more of the budget. Whether several are left. */
static bool narrow(race *r, double factor)
{
    double best = 0.0;
    int32_t n = 0;
    for (int32_t i = 0; i < r->n; i++)
        if (r->racers[i].n_samples > 0 && (best <= 0.0 || median(&r->racers[i]) < best))
            best = median(&r->racers[i]);
    for (int32_t i = 0; i < r->n; i++) {
        racer *who = &r->racers[i];
        who->is_running = who->is_running && who->n_samples > 0 && median(who) <= factor * best;
        n += who->is_running;
    }
    return n > 1;
}

/* A B C C B A: what drifts (clock rate, other load) meets all alike. Whole rounds only, but for a variant that fails.
 */
static void run_rounds(race *r)
{
    static const struct {
        int32_t round;
        double factor;
    } narrowing[] = {{1, 1.3}, {2, 1.15}, {4, 1.08}, {7, 1.04}};
    for (int32_t round = 0, k = 0; round < MAX_SAMPLES / 2 && !is_late(r); round++) {
        if (k < MD_COUNT(narrowing) && round == narrowing[k].round && !narrow(r, narrowing[k++].factor))
            return;
        for (int32_t i = 0; i < r->n; i++)
            sample(r, &r->racers[i]);
        for (int32_t i = r->n; i-- > 0;)
            sample(r, &r->racers[i]);
    }
}

/* The median, or the first look where there was no time for more; negative where it failed. */
static double result(racer *who)
{
    if (who->n_samples > 0)
        return median(who);
    return who->first_us > 0.0 ? who->first_us : -1.0;
}

static int64_t plan(race *r, md_bd_variant *const *variants, const md_kn_call *call)
{
    int64_t workspace_bytes = 0;
    for (int32_t i = 0; i < r->n; i++) {
        racer *who = &r->racers[i];
        const md_bd_variant *v = variants[i];
        who->variant = v;
        v->family->geometry(&who->geometry, &v->target, &v->config, call->shape);
        workspace_bytes = MD_MAX(workspace_bytes, who->geometry.workspace_bytes);
    }
    return workspace_bytes;
}

static void make_swept(race *r, int64_t *left)
{
    const int64_t n_bytes = 2 * swept_elements(r) * (int64_t)sizeof(float);
    if (is_cold(r) && n_bytes > 0 && n_bytes <= *left / 2 &&
        r->dev->ops->alloc(&r->swept, r->dev, (size_t)n_bytes) == MD_OK)
        *left -= n_bytes;
}

/* Bytes that one set takes decide how many there are; fewer where memory is short. */
static md_status make_sets(race *r, const md_fa_target *target, const md_kn_call *call, int64_t workspace_bytes)
{
    const int64_t limit = md_tn_copies_limit(r->dev);
    int64_t left = limit;
    MD_TRY(r->dev->ops->sync(r->dev, call->stream)); /* what is to be copied may be under way */
    MD_TRY(md_tn_copies_make(&r->set[0], r->dev, target->program, target->stage, call, workspace_bytes, &left));
    r->n_sets = 1;
    if (!r->dev->ops->time)
        return MD_OK;
    const double wanted = COLD * (double)r->dev->facts.l2_bytes, each = (double)MD_MAX(limit - left, 1);
    make_swept(r, &left);
    const int32_t most = r->swept ? SWEPT_SETS : MAX_SETS;
    while (r->n_sets < most && r->n_sets * each < wanted &&
           md_tn_copies_make(&r->set[r->n_sets], r->dev, target->program, target->stage, call, workspace_bytes,
                             &left) == MD_OK)
        r->n_sets++;
    return MD_OK;
}

static void trace_race(const race *r, const double *us, uint64_t start_ns)
{
    md_trace_arg *args = r->dev->trace ? calloc((size_t)r->n + 1, sizeof *args) : NULL;
    if (!args)
        return;
    for (int32_t i = 0; i < r->n; i++)
        args[i] = (md_trace_arg){.name = r->racers[i].variant->name, .number = us[i]};
    md_trace_span(r->dev->trace, "measure", "measure (us)", start_ns, md_clock_ns(), args);
    free(args);
}

static md_status hold(double *us, race *r)
{
    look(r);
    for (int32_t i = 0; i < r->n && r->hung >= 0; i++)
        us[i] = i == r->hung ? MD_TN_HUNG : -1.0;
    if (r->hung >= 0)
        return MD_TIMEOUT;
    choose_runners(r);
    run_rounds(r);
    for (int32_t i = 0; i < r->n; i++)
        us[i] = result(&r->racers[i]);
    return MD_OK;
}

md_status md_tn_race(double *us, md_bd_variant *const *variants, int32_t n, const md_kn_call *call, double budget_ms)
{
    if (n <= 0)
        return MD_OK;
    const uint64_t start_ns = md_clock_ns();
    race *r = calloc(1, sizeof *r);
    if (!r || !(r->racers = calloc((size_t)n, sizeof *r->racers))) {
        free(r);
        return md_fail_memory();
    }
    r->n = n;
    r->hung = -1;
    r->dev = md_bd_device(variants[0]->builder);
    int64_t workspace_bytes = plan(r, variants, call);
    md_status status =
        md_tn_is_stuck(r->dev) ? md_fail(MD_TIMEOUT, "an earlier kernel that was measured does not end") : MD_OK;
    if (status == MD_OK)
        status = make_sets(r, &variants[0]->target, call, workspace_bytes);
    if (status == MD_OK) {
        r->deadline_ns = md_clock_ns() + (uint64_t)(MD_MAX(budget_ms, 0.0) * 1e6);
        status = hold(us, r);
        trace_race(r, us, start_ns);
    }
    for (int32_t i = 0; i < r->n_sets && r->hung < 0; i++) /* what hangs still uses them */
        md_tn_copies_finish(&r->set[i]);
    if (r->swept && r->hung < 0)
        r->dev->ops->free(r->dev, r->swept);
    free(r->racers);
    free(r);
    return status;
}
