/* Background races: a tournament that runs in quiet moments only, and what its times lead to. */
#include "dispatch/hybrid/internal.h"

#include "base/clock.h"
#include "base/status.h"
#include "dispatch/cache/plan_cache.h"
#include "tune/bench/bench.h"
#include "tune/bench/tournament.h"

#include <math.h>
#include <stdlib.h>

/* ---- What a race is */

/* MOST_WASTED: samples of a run that calls may disturb before it ends. MOST_RUNS: of a race with idle_tune. */
enum { MOST_WASTED = 64, MOST_RUNS = 12, SAMPLES = MD_DS_CHALLENGER_TIMES };

typedef struct racer {
    int32_t variant;
    md_kn_geometries geometry;
    double expected_us;
    double sample[SAMPLES];
} racer;

struct md_ds_idle_bench {
    md_ds_op *op;
    md_ds_idle_memory memory;
    md_tn_tournament tournament;
    md_ds_quiet quiet;
    uint64_t quiet_ns; /* time without calls that counts as quiet */
    int32_t n_wasted;
    double spent_us; /* GPU time that the whole race took */
    md_tn_competitor competitor[MD_DS_CHALLENGERS];
    racer racer[MD_DS_CHALLENGERS];
};

/* ---- The tournament's callbacks */

/* Before a sample of this competitor. In a cheap race a long one waits for a long quiet moment. */
static uint64_t least_quiet_ns(const md_ds_idle_bench *bench, int32_t i)
{
    const double us = bench->racer[i].expected_us;
    const bool is_long = bench->op->policy.races_cheaply && us > MD_DS_CHEAP_US;
    return is_long ? MD_MAX(bench->quiet_ns, (uint64_t)(us / MD_DS_CALM_PART * 1e3)) : bench->quiet_ns;
}

static md_tn_permission proceed(void *user, md_tn_moment moment, int32_t i)
{
    md_ds_idle_bench *bench = user;
    if (moment == MD_TN_BEFORE_ROUND || moment == MD_TN_BEFORE_SECOND_LOOK)
        return MD_TN_GO_ON;
    bench->quiet.least_ns = least_quiet_ns(bench, i);
    return bench->n_wasted < MOST_WASTED && md_ds_quiet_wait(&bench->quiet) ? MD_TN_GO_ON : MD_TN_PAUSE;
}

/* True in a cheap race for a variant whose run takes longer than this quiet moment allows. The first run may take
 * longer: it pays for cold code and page faults. */
static bool is_too_long(const md_ds_idle_bench *bench, double us, md_tn_step step)
{
    static const double cold = 10.0, error = 2.0;
    const double quiet_us = (double)(md_clock_ns() - bench->quiet.seen_ns) * 1e-3;
    const double most_us = fmax(MD_DS_CHEAP_US, error * MD_DS_CALM_PART * quiet_us);
    return bench->op->policy.races_cheaply && us > (step == MD_TN_FIRST_LOOK ? cold : 1.0) * most_us;
}

/* A sample may have been delayed by a call that came meanwhile. */
static md_tn_outcome sample(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step)
{
    md_ds_idle_bench *bench = user;
    md_ds_runtime *runtime = bench->op->runtime;
    const racer *rival = &bench->racer[i];
    md_tn_runs runs = {.dev = runtime->dev,
                       .variant = bench->op->stage[bench->memory.stage].variant[rival->variant],
                       .geometry = &rival->geometry,
                       .next = md_ds_idle_memory_next,
                       .user = &bench->memory,
                       .n = repeats};
    /* in this quiet moment a library may load its kernel */
    if (step == MD_TN_FIRST_LOOK &&
        md_bd_variant_load(runs.variant, &bench->memory.shape, MD_BD_LOAD_WAIT) != MD_BD_LOADED)
        return MD_TN_RUN_FAILED;
    pthread_mutex_lock(&runtime->lock_of_tuning);
    md_status s = md_ds_idle_memory_get(&bench->memory);
    if (s == MD_OK)
        s = md_tn_time_runs(us, &runs);
    pthread_mutex_unlock(&runtime->lock_of_tuning);
    if (s != MD_OK)
        return MD_TN_RUN_FAILED;
    bench->spent_us += *us * repeats;
    if (is_too_long(bench, *us, step))
        return MD_TN_RUN_FAILED;
    if (step != MD_TN_SAMPLE || !md_ds_quiet_is_over(&bench->quiet))
        return MD_TN_SAMPLED;
    bench->n_wasted++;
    return MD_TN_DISTURBED;
}

/* ---- The race */

static md_kn_geometries plan_racers(md_ds_idle_bench *bench, const md_ds_trial *trial)
{
    md_kn_geometries most = {0};
    for (int32_t i = 0; i < trial->n_challengers; i++) {
        racer *rival = &bench->racer[i];
        rival->variant = trial->challenger[i].variant;
        rival->expected_us = trial->own_us * trial->challenger[i].expected;
        rival->geometry = trial->challenger[i].plan->stage[trial->stage].geometry;
        most.workspace_bytes = MD_MAX(most.workspace_bytes, rival->geometry.workspace_bytes);
        most.packed_bytes = MD_MAX(most.packed_bytes, rival->geometry.packed_bytes);
        bench->competitor[i] = (md_tn_competitor){.is_in = rival->variant >= 0, /* a chain's parts are several stages */
                                                  .sample = rival->sample,
                                                  .room = SAMPLES};
    }
    return most;
}

/* Among the trial's challengers, which are ready and agree. Errors as md_ds_idle_memory_plan. */
static md_status idle_bench_create(md_ds_idle_bench **out, struct md_ds_hybrid *h, const md_ds_trial *trial)
{
    static const double usual_us = 200.0;
    const double wanted_us = h->op->policy.quiet_us;
    md_ds_op *op = h->op;
    md_ds_idle_bench *bench = calloc(1, sizeof *bench);
    if (!bench)
        return md_fail_memory();
    const md_tn_sampler sampler = {sample, proceed, bench};
    bench->op = op;
    bench->quiet.hybrid = h;
    bench->quiet_ns = (uint64_t)((wanted_us > 0.0 ? wanted_us : usual_us) * 1e3);
    bench->tournament = md_tn_tournament_make(MD_TN_FOR_BACKGROUND, &sampler, bench->competitor, trial->n_challengers);
    if (op->policy.races_cheaply)
        bench->tournament.policy.sample_us = fmin(bench->tournament.policy.sample_us, MD_DS_CHEAP_US);
    const md_kn_geometries most = plan_racers(bench, trial);
    md_status s = md_ds_idle_memory_plan(&bench->memory, op, trial->stage, &trial->shape, &most);
    if (s != MD_OK) {
        free(bench);
        return s;
    }
    *out = bench;
    return MD_OK;
}

void md_ds_idle_bench_destroy(md_ds_idle_bench **idle)
{
    if (*idle)
        md_ds_idle_memory_finish(&(*idle)->memory);
    free(*idle);
    *idle = NULL;
}

/* Runs while it is quiet. True when the race is over; false where calls kept it waiting for too long: ask again later.
 * A device has one race at a time: false at once for a second one. */
static bool idle_bench_run(md_ds_idle_bench *bench)
{
    md_ds_runtime *runtime = bench->op->runtime;
    if (atomic_exchange_explicit(&runtime->is_racing, true, memory_order_acquire))
        return false;
    bench->n_wasted = 0;
    md_ds_quiet_begin(&bench->quiet);
    const bool is_over = md_tn_tournament_run(&bench->tournament) == MD_TN_ENDED;
    atomic_store_explicit(&runtime->is_racing, false, memory_order_release);
    return is_over;
}

/* The variant's time: the median of the lower half of its samples, since other work on the GPU only adds to them.
 * us = 0: none. Variants that were dropped early have one or two samples. */
static md_tn_summary idle_bench_result(const md_ds_idle_bench *bench, int32_t variant)
{
    for (int32_t i = 0; i < bench->tournament.n; i++)
        if (bench->racer[i].variant == variant && bench->competitor[i].n > 0)
            return md_tn_tournament_result(&bench->tournament, i);
    return (md_tn_summary){0};
}

/* ---- When a race starts, and what follows from it */

typedef struct race {
    struct md_ds_hybrid *h;
    md_ds_shape_entry *entry; /* held */
} race;

static void take_times(struct md_ds_hybrid *h, md_ds_trial *t)
{
    h->budget.spent_us += t->idle->spent_us;
    for (int32_t i = 0; i < t->n_challengers; i++) {
        md_ds_challenger *challenger = &t->challenger[i];
        challenger->idle_us = idle_bench_result(t->idle, challenger->variant).us;
        challenger->is_out = i > 0 && challenger->variant >= 0;
        challenger->is_unloaded = false;
        md_ds_teach_model(h, t, challenger);
    }
}

static bool has_own_bits(const md_ds_op *op, const md_ds_trial *t, int32_t challenger)
{
    const md_ds_pool *pool = &op->stage[t->stage];
    const int32_t own = t->challenger[0].variant, other = t->challenger[challenger].variant;
    return own >= 0 && other >= 0 && pool->variant[own]->numeric_class == pool->variant[other]->numeric_class;
}

/* The least gain that is worth a switch. Threads of a host that is busy with other work are often interrupted. */
static double least_gain(const md_ds_op *op)
{
    static const double asked_for = 0.01, of_hosts = 0.05;
    return !op->policy.races_cheaply ? asked_for : md_ds_is_async(op->runtime) ? MD_DS_SWITCH_GAIN : of_hosts;
}

/* The challenger that is faster than the incumbent by the most, of those with its bits or of all; 0: none. */
static int32_t find_fastest(const md_ds_op *op, const md_ds_trial *t, bool with_own_bits)
{
    const double gain = least_gain(op);
    const md_tn_summary own = idle_bench_result(t->idle, t->challenger[0].variant);
    int32_t best = 0;
    for (int32_t i = 1; i < t->n_challengers && own.us > 0.0; i++) {
        const md_tn_summary s = idle_bench_result(t->idle, t->challenger[i].variant);
        if (s.us > 0.0 && own.us - s.us > 2.0 * MD_MAX(s.error, own.error) &&
            s.us < (best > 0 ? t->challenger[best].idle_us : (1.0 - gain) * own.us) &&
            (!with_own_bits || has_own_bits(op, t, i)))
            best = i;
    }
    return best;
}

/* Frees what a trial needs to switch; reports need its times alone. With idle_tune there is no other race. */
static void free_means(md_ds_trial *t)
{
    md_ds_idle_bench_destroy(&t->idle);
    for (int32_t i = 0; i < t->n_challengers; i++) {
        free(t->challenger[i].plan);
        t->challenger[i].plan = NULL;
    }
}

/* The fastest becomes the incumbent. After a cheap race the fastest of those with the incumbent's bits does, unless no
 * call was served by the plan so far; if another one is faster, the next process begins with it. */
static void serve_fastest(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const bool is_cheap = h->op->policy.races_cheaply;
    const int32_t fastest = find_fastest(h->op, t, false), own = is_cheap ? find_fastest(h->op, t, true) : fastest,
                  variant = t->challenger[fastest].variant;
    if (fastest != own && md_ds_make_incumbent(h->op, entry, &t->shape, fastest, true))
        return;
    if (fastest != own)
        t->fastest = variant;
    if (own > 0)
        (void)md_ds_make_incumbent(h->op, entry, &t->shape, own, false);
}

/* The trial is over. The lock is held. */
static void finish_race(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    static const double hopeless = 1000.0;
    md_ds_trial *t = md_ds_trial_in(entry);
    md_tn_take_clock(h->op->runtime->dev);
    const md_tn_summary own = idle_bench_result(t->idle, t->challenger[0].variant);
    take_times(h, t);
    serve_fastest(h, entry);
    for (int32_t i = 1; i < t->n_challengers && t->challenger[0].idle_us > 0.0; i++)
        if (t->challenger[i].idle_us > 0.0)
            t->challenger[i].expected = t->challenger[i].idle_us / t->challenger[0].idle_us;
        else if (h->op->policy.races_cheaply) /* it took too long, or does not run */
            t->challenger[i].expected = hopeless;
    if (!t->is_over && own.us > 0.0)
        md_ds_trial_next(t);
    md_ds_keep_verdict(h->op, entry);
}

/* With idle_tune: the trial has nothing more to do. The lock is held. */
static void settle(md_ds_trial *t)
{
    t->is_raced = true;
    free_means(t);
    atomic_store_explicit(&t->is_settled, true, memory_order_relaxed);
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
}

static md_status run_while_quiet(bool *is_done, struct md_ds_hybrid *h, md_ds_trial *t)
{
    md_status s = MD_OK;
    pthread_mutex_lock(&h->lock);
    if (!t->idle)
        s = idle_bench_create(&t->idle, h, t);
    pthread_mutex_unlock(&h->lock);
    *is_done = s == MD_OK && idle_bench_run(t->idle);
    return s;
}

static void run_until_busy(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    enum { FIRST_WAIT_NS = 5000000, DOUBLINGS = 8 };
    md_ds_trial *t = md_ds_trial_in(entry);
    bool is_done = false;
    md_status s = run_while_quiet(&is_done, h, t);
    pthread_mutex_lock(&h->lock);
    if (is_done)
        finish_race(h, entry);
    t->is_raced = is_done || s != MD_OK;
    t->race_ns = md_clock_ns() + ((uint64_t)FIRST_WAIT_NS << MD_MIN(t->n_races, DOUBLINGS));
    t->n_races++;
    if (h->is_idle_only && (t->is_raced || t->n_races >= MOST_RUNS))
        settle(t);
    pthread_mutex_unlock(&h->lock);
}

/* One race of an op runs at a time. */
bool md_ds_race(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    int32_t none = 0;
    if (!atomic_compare_exchange_strong(&h->n_races, &none, 1))
        return true;
    pthread_mutex_lock(&h->lock);
    const bool may =
        h->op->policy.quiet_us >= 0.0 && !t->is_raced && h->budget.spent_us < h->op->policy.hybrid_cap_ms * 1e3;
    pthread_mutex_unlock(&h->lock);
    if (may && md_clock_ns() >= t->race_ns)
        run_until_busy(h, entry);
    const bool is_left = may && !t->is_raced;
    atomic_fetch_sub_explicit(&h->n_races, 1, memory_order_release);
    return is_left;
}

static void run_race(void *user)
{
    race *r = user;
    run_until_busy(r->h, r->entry);
    md_ds_shape_entry_release(r->entry);
    atomic_fetch_sub_explicit(&r->h->n_races, 1, memory_order_release);
    free(r);
}

/* A race may wait long for a quiet moment, so it has a thread of its own. */
static void start_race(void *user)
{
    const race *r = user;
    md_jobs_submit(md_pool_jobs(r->h->op->runtime->dev->pool), run_race, user);
}

/* True if a trial is being made, or may be soon, that a race follows at once. */
static bool is_awaited(const struct md_ds_hybrid *h, const md_ds_shape_entry *entry)
{
    return h->is_idle_only && (atomic_load_explicit(&entry->trial_state, memory_order_relaxed) == MD_DS_TRIAL_ASKED ||
                               md_ds_plan_of(entry)->is_stand_in);
}

void md_ds_request_race(struct md_ds_hybrid *h, md_ds_shape_entry *entry, md_stream stream)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    md_dev *dev = h->op->runtime->dev;
    const bool is_late = !h->tail && md_ds_is_async(h->op->runtime); /* nobody could tell when calls are done */
    if ((!t && !is_awaited(h, entry)) || is_late || h->op->policy.quiet_us < 0.0 ||
        pthread_mutex_trylock(&h->lock) != 0)
        return;
    const bool is_racing = atomic_load_explicit(&h->n_races, memory_order_relaxed) != 0,
               is_wanted = (!t || !t->is_raced) && h->budget.spent_us < h->op->policy.hybrid_cap_ms * 1e3;
    if (is_wanted || is_racing)
        md_ds_put_tail(h, entry, stream);
    race *r = t && is_wanted && (h->has_tail || !h->tail) && !is_racing && md_clock_ns() >= t->race_ns
                  ? malloc(sizeof *r)
                  : NULL;
    if (r) {
        *r = (race){h, entry};
        md_ds_shape_entry_hold(entry);
        atomic_fetch_add_explicit(&h->n_races, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&h->lock);
    if (r)
        md_jobs_submit_later(md_pool_jobs(dev->pool), start_race, r);
}
