/* Background races: a tournament that runs in quiet moments only. */
#include "dispatch/online/idle_bench.h"

#include "base/clock.h"
#include "base/status.h"
#include "dispatch/online/idle_memory.h"
#include "tune/bench/bench.h"
#include "tune/bench/drain.h"
#include "tune/bench/tournament.h"

#include <stdlib.h>
#include <time.h>

/* LOOK_NS: between two looks whether it is quiet; BUSY_LOOK_NS: after one that found calls. PATIENCE_NS: a run of the
 * race waits no longer for a quiet moment. MOST_WASTED: samples of one run that calls may disturb. */
enum {
    LOOK_NS = 50000,
    BUSY_LOOK_NS = 200000,
    PATIENCE_NS = 100000000,
    MOST_WASTED = 64,
    SAMPLES = MD_DS_CHALLENGER_TIMES
};

typedef struct racer {
    int32_t variant;
    md_kn_geometries geometry;
    double sample[SAMPLES];
} racer;

struct md_ds_idle_bench {
    md_ds_op *op;
    md_ds_idle_memory memory;
    md_tn_tournament tournament;
    const md_ds_idle_bench_watch *watch; /* of the run under way */
    uint64_t deadline_ns, seen_ns, n_calls; /* end of patience; when calls were seen last, and how many by then */
    int32_t n_wasted;
    double spent_us;
    md_tn_competitor competitor[MD_DS_CHALLENGERS];
    racer racer[MD_DS_CHALLENGERS];
};

/* ---- Quiet moments */

/* False where another thread holds the list of ops. */
static bool count_calls(uint64_t *out, md_ds_runtime *runtime)
{
    if (pthread_mutex_trylock(&runtime->lock_of_ops) != 0)
        return false;
    *out = 0;
    for (md_ds_op *op = runtime->ops; op; op = op->next)
        if (op->is_made)
            *out += md_ds_calls_of(op);
    pthread_mutex_unlock(&runtime->lock_of_ops);
    return true;
}

/* True if an op of the context was called since this was asked last. */
static bool has_been_called(md_ds_idle_bench *r)
{
    uint64_t n = 0;
    if (count_calls(&n, r->op->runtime) && n == r->n_calls)
        return false;
    r->n_calls = n;
    r->seen_ns = md_clock_ns();
    return true;
}

static bool is_quiet(md_ds_idle_bench *r)
{
    if (has_been_called(r))
        return false;
    const uint64_t quiet_ns = md_clock_ns() - r->seen_ns;
    return quiet_ns >= r->watch->quiet_ns && !r->watch->is_busy(r->watch->user, quiet_ns);
}

static bool is_ending(const md_ds_idle_bench *r)
{
    return atomic_load_explicit(r->watch->is_ending, memory_order_acquire);
}

/* False when patience ends, or the op does. */
static bool wait_until_quiet(md_ds_idle_bench *r)
{
    while (!is_quiet(r)) {
        if (md_clock_ns() >= r->deadline_ns || is_ending(r))
            return false;
        const bool is_called = md_clock_ns() - r->seen_ns < LOOK_NS;
        nanosleep(&(struct timespec){.tv_nsec = is_called ? BUSY_LOOK_NS : LOOK_NS}, NULL);
    }
    r->deadline_ns = md_clock_ns() + PATIENCE_NS;
    return !is_ending(r) && !md_tn_is_stuck(r->op->runtime->dev);
}

/* ---- The tournament's callbacks */

static md_tn_permission proceed(void *user, md_tn_moment moment, int32_t i)
{
    md_ds_idle_bench *r = user;
    (void)i;
    if (moment == MD_TN_BEFORE_ROUND || moment == MD_TN_BEFORE_SECOND_LOOK)
        return MD_TN_GO_ON;
    return r->n_wasted < MOST_WASTED && wait_until_quiet(r) ? MD_TN_GO_ON : MD_TN_PAUSE;
}

/* A sample may have been delayed by a call that came meanwhile. */
static md_tn_outcome sample(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step)
{
    md_ds_idle_bench *r = user;
    md_ds_runtime *runtime = r->op->runtime;
    const racer *x = &r->racer[i];
    md_tn_runs runs = {.dev = runtime->dev,
                       .variant = r->op->stage[r->memory.stage].variant[x->variant],
                       .geometry = &x->geometry,
                       .next = md_ds_idle_memory_next,
                       .user = &r->memory,
                       .n = repeats};
    /* in this quiet moment a library may load its kernel */
    if (step == MD_TN_FIRST_LOOK && md_bd_variant_load(runs.variant, &r->memory.shape, MD_BD_LOAD_WAIT) != MD_BD_LOADED)
        return MD_TN_RUN_FAILED;
    pthread_mutex_lock(&runtime->lock_of_tuning);
    md_status s = md_ds_idle_memory_get(&r->memory);
    if (s == MD_OK)
        s = md_tn_time_runs(us, &runs);
    pthread_mutex_unlock(&runtime->lock_of_tuning);
    if (s != MD_OK)
        return MD_TN_RUN_FAILED;
    r->spent_us += *us * repeats;
    if (step != MD_TN_SAMPLE || !has_been_called(r))
        return MD_TN_SAMPLED;
    r->n_wasted++;
    return MD_TN_DISTURBED;
}

/* ---- The race */

static int64_t plan_racers(md_ds_idle_bench *r, const md_ds_trial *trial)
{
    int64_t workspace_bytes = 0;
    for (int32_t i = 0; i < trial->n_challengers; i++) {
        racer *x = &r->racer[i];
        x->variant = trial->challenger[i].variant;
        x->geometry = trial->challenger[i].plan->stage[trial->stage].geometry;
        workspace_bytes = MD_MAX(workspace_bytes, x->geometry.workspace_bytes);
        r->competitor[i] = (md_tn_competitor){.is_in = true, .sample = x->sample, .room = SAMPLES};
    }
    return workspace_bytes;
}

md_status md_ds_idle_bench_create(md_ds_idle_bench **out, md_ds_op *op, const md_ds_trial *trial)
{
    md_ds_idle_bench *r = calloc(1, sizeof *r);
    if (!r)
        return md_fail_memory();
    const md_tn_sampler sampler = {sample, proceed, r};
    r->op = op;
    r->tournament = md_tn_tournament_make(MD_TN_FOR_BACKGROUND, &sampler, r->competitor, trial->n_challengers);
    md_status s = md_ds_idle_memory_plan(&r->memory, op, trial->stage, &trial->shape, plan_racers(r, trial));
    if (s != MD_OK) {
        free(r);
        return s;
    }
    *out = r;
    return MD_OK;
}

void md_ds_idle_bench_destroy(md_ds_idle_bench **idle)
{
    free(*idle);
    *idle = NULL;
}

bool md_ds_idle_bench_run(md_ds_idle_bench *r, const md_ds_idle_bench_watch *watch)
{
    md_ds_runtime *runtime = r->op->runtime;
    if (atomic_exchange_explicit(&runtime->is_racing, true, memory_order_acquire))
        return false;
    r->watch = watch;
    r->deadline_ns = md_clock_ns() + PATIENCE_NS;
    r->n_calls = 0;
    r->n_wasted = 0;
    r->seen_ns = md_clock_ns();
    const bool is_over = md_tn_tournament_run(&r->tournament) == MD_TN_ENDED;
    atomic_store_explicit(&runtime->is_racing, false, memory_order_release);
    return is_over;
}

md_tn_summary md_ds_idle_bench_result(const md_ds_idle_bench *r, int32_t variant)
{
    for (int32_t i = 0; i < r->tournament.n; i++)
        if (r->racer[i].variant == variant && r->competitor[i].n > 0)
            return md_tn_tournament_result(&r->tournament, i);
    return (md_tn_summary){0};
}

double md_ds_idle_bench_spent_us(const md_ds_idle_bench *r)
{
    return r->spent_us;
}
