/* Prepares trials on threads of the pool: checks that the challengers agree, and makes their plans. */
#include "dispatch/hybrid/internal.h"

#include "base/clock.h"
#include "base/status.h"
#include "dispatch/pool/fill.h"
#include "dispatch/select/select.h"
#include "dispatch/select/plan.h"
#include "tune/verify/verify.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* MOST_TRIALS of an op are in memory at a time, each with a shape and some plans. */
enum { MOST_TRIALS = 2048 };
/* On an idle stream the marks around a kernel time its launch, too. That varies by so much (us), and by more for a
 * library. */
static const double resolution_us = 1.0, library_us = 8.0;

/* Keeps the challengers that agree with most variants. Only they are checked: the GPU is at work. */
static void check(md_ds_trial *t, md_ds_trial_job *j)
{
    md_ds_pool *pool = &j->op->stage[t->stage];
    const int32_t n_variants = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    int32_t variant[MD_DS_MAX_VARIANTS], n_fit = 0, n = 1;
    for (int32_t i = 0; i < n_variants; i++) {
        const bool is_unsure = atomic_load_explicit(&pool->agreement[i], memory_order_relaxed) == MD_TN_UNSURE;
        if ((!is_unsure || md_ds_is_listed(t->challenger, t->n_challengers, i)) &&
            !md_ds_reject_reason(pool, i, &j->shape))
            variant[n_fit++] = i;
    }
    md_ds_agree(j->op, t->stage, variant, n_fit, &j->shape);
    for (int32_t i = 1; i < t->n_challengers; i++)
        if (t->challenger[i].variant < 0 ||
            atomic_load_explicit(&pool->agreement[t->challenger[i].variant], memory_order_relaxed) == MD_TN_AGREES)
            t->challenger[n++] = t->challenger[i];
    t->n_challengers = n;
}

static md_status make_plans(md_ds_trial *t, const md_ds_trial_job *j)
{
    const md_ds_plan *plan = md_ds_plan_of(j->entry);
    for (int32_t i = 0; i < t->n_challengers; i++) {
        const int32_t variant = t->challenger[i].variant;
        const bool is_library = variant >= 0 && j->op->stage[t->stage].variant[variant]->family->is_library;
        t->challenger[i].resolution_us = !md_ds_is_async(j->op->runtime) ? 0.0
                                         : is_library                    ? library_us
                                                                         : resolution_us;
        md_ds_pick pick = plan->stage[t->stage].pick;
        pick.variant = variant;
        MD_TRY(md_ds_plan_with(&t->challenger[i].plan, j->op, plan, &j->shape, t->stage, &pick));
    }
    return MD_OK;
}

/* Loading holds the driver's lock for milliseconds, so that calls of all threads wait. So challengers of libraries
 * whose kernels are not loaded are out at first. */
static void find_unloaded(md_ds_trial *t, const md_ds_trial_job *j)
{
    md_ds_pool *pool = &j->op->stage[t->stage];
    for (int32_t i = 1; i < t->n_challengers; i++) {
        md_ds_challenger *challenger = &t->challenger[i];
        if (challenger->variant < 0)
            continue;
        const md_bd_load_state state =
            md_bd_variant_load(pool->variant[challenger->variant], &j->shape, MD_BD_LOAD_FIND);
        challenger->is_unloaded = state == MD_BD_NOT_LOADED || state == MD_BD_DEFERRED;
        challenger->is_out = state != MD_BD_LOADED;
    }
}

void md_ds_load_challengers(md_ds_op *op, md_ds_trial *t)
{
    const double own_us = t->challenger[0].n ? md_ds_challenger_summary(&t->challenger[0]).us : 0.0;
    bool has_new = false;
    for (int32_t i = 1; i < t->n_challengers; i++) {
        md_ds_challenger *challenger = &t->challenger[i];
        if (!challenger->is_unloaded)
            continue;
        const md_bd_variant *v = op->stage[t->stage].variant[challenger->variant];
        const md_bd_load_state state = md_bd_variant_load(v, &t->shape, MD_BD_LOAD_LOOK);
        challenger->is_unloaded = state == MD_BD_NOT_LOADED || state == MD_BD_DEFERRED;
        challenger->is_out = state != MD_BD_LOADED;
        has_new |= state == MD_BD_LOADED;
        if (state == MD_BD_DEFERRED && (1.0 - challenger->expected) * own_us * (double)t->n_calls >= MD_DS_LOAD_US)
            (void)md_bd_variant_load(v, &t->shape, MD_BD_LOAD_START);
    }
    if (has_new && t->step == 0)
        md_ds_trial_next(t);
}

/* Replaces an incumbent whose results differ from most variants'. */
static void replace_incumbent(md_ds_trial *t, const md_ds_trial_job *j)
{
    md_ds_pool *pool = &j->op->stage[t->stage];
    if (t->challenger[0].variant < 0 || t->n_challengers < 2 ||
        atomic_load_explicit(&pool->agreement[t->challenger[0].variant], memory_order_relaxed) < MD_TN_DIFFERS)
        return;
    md_ds_pick pick = t->challenger[1].plan->stage[t->stage].pick;
    pick.variant = t->challenger[1].variant;
    if (md_ds_switch(j->op, j->entry, &j->shape, t->stage, &pick, false) != MD_OK)
        return;
    md_ds_trial_switch(t, 1);
    const int32_t last = --t->n_challengers;
    free(t->challenger[1].plan); /* its plan is that of the former incumbent */
    t->challenger[1] = last > 1 ? t->challenger[last] : (md_ds_challenger){.is_out = true};
    if (last > 1)
        t->challenger[last].plan = NULL;
}

static void free_trial(md_ds_trial *trial)
{
    for (int32_t i = 0; i < MD_DS_CHALLENGERS; i++)
        free(trial->challenger[i].plan);
    md_ds_idle_bench_destroy(&trial->idle);
    atomic_fetch_sub_explicit(trial->count, 1, memory_order_relaxed);
    free(trial);
}

/* With idle_tune: kernels that are too long for a race are not timed. One that was built for the traffic serves where
 * it is surely better, once its results were compared. */
static void switch_by_model(const md_ds_trial_job *j)
{
    md_ds_op *op = j->op;
    for (int32_t s = 0; s < op->n_stages && op->hybrid->is_idle_only; s++) {
        md_ds_pick pick;
        const bool is_unused = op->policy.races_cheaply && md_ds_plan_is_unused(md_ds_plan_of(j->entry));
        const int32_t best = md_ds_find_sure(&pick, j, s, op->policy.races_cheaply && !is_unused);
        if (best < 0 || op->policy.agrees)
            continue;
        const int32_t both[] = {best, pick.runner_up};
        md_ds_agree(op, s, both, MD_COUNT(both), &j->shape);
        if (atomic_load_explicit(&op->stage[s].agreement[best], memory_order_relaxed) < MD_TN_DIFFERS &&
            md_ds_switch(op, j->entry, &j->shape, s, &pick, is_unused) == MD_OK)
            atomic_fetch_add_explicit(&op->count.switches, 1, memory_order_relaxed);
    }
}

static bool make_trial(md_ds_trial_job *j)
{
    int32_t version[MD_ST_MAX_STAGES]; /* read before the times, so that a later correction makes the trial stale */
    for (int32_t s = 0; s < j->op->n_stages; s++)
        version[s] = md_tn_correction_version(j->op->stage[s].correction);
    md_ds_trial *t = calloc(1, sizeof *t);
    if (!t || md_ds_choose_challengers(t, j) == 0) {
        free(t);
        switch_by_model(j);
        return false;
    }
    t->count = &j->op->n_trials;
    atomic_fetch_add_explicit(t->count, 1, memory_order_relaxed);
    t->shape = j->shape;
    memcpy(t->select_sizes, j->select_sizes, sizeof t->select_sizes);
    t->version = version[t->stage];
    t->looks = md_ds_is_async(j->op->runtime) ? 1 : MD_DS_HOST_LOOKS;
    t->every = t->published_every = t->previous_every = MD_DS_TRIAL_EVERY;
    t->is_careful = md_ds_is_async(j->op->runtime);
    for (int32_t i = 1; i < t->n_challengers; i++)
        t->challenger[i].is_known =
            t->challenger[i].variant >= 0 && md_ds_is_measured(&j->op->stage[t->stage], t->challenger[i].variant);
    t->is_raced = (!md_ds_is_async(j->op->runtime) && !j->op->hybrid->is_idle_only) || t->challenger[0].variant < 0;
    t->stored = t->fastest = -1;
    check(t, j);
    if (t->n_challengers < 2 || make_plans(t, j) != MD_OK) {
        free_trial(t);
        return false;
    }
    replace_incumbent(t, j);
    find_unloaded(t, j);
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
    md_ds_trial_next(t);
    j->entry->free_trial = free_trial;
    atomic_store_explicit(&j->entry->trial, t, memory_order_release);
    return true;
}

/* With idle_tune: starts to build variants for the shape where the pool is far behind. True if some were added. */
static bool follow(md_ds_trial_job *j)
{
    md_ds_op *op = j->op;
    const md_ds_plan *plan = md_ds_plan_of(j->entry);
    bool has_added = false;
    if (!op->hybrid->is_idle_only || j->has_followed ||
        atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN ||
        atomic_fetch_add_explicit(&op->hybrid->n_followed, 1, memory_order_relaxed) >= MD_DS_MOST_LOOKED_FOR)
        return false;
    j->has_followed = true;
    for (int32_t s = 0; s < op->n_stages; s++) {
        bool added = false;
        if (!plan->stage[s].is_idle && plan->stage[s].pick.source == MD_DS_MODEL &&
            md_ds_pool_may_follow(&op->stage[s]))
            (void)md_ds_pool_follow(&added, &op->stage[s], &j->shape, plan->stage[s].pick.variant,
                                    op->policy.races_cheaply);
        has_added |= added;
    }
    if (has_added)
        atomic_fetch_add_explicit(&op->count.adopted, 1, memory_order_relaxed);
    return has_added;
}

/* Filling pools uses what is not thread-safe. */
static bool is_early(md_ds_trial_job *j)
{
    return md_ds_is_filling(j->op) || md_ds_awaits(j) || follow(j);
}

/* What can be done by now. True if something is left, for which the job comes again. */
static bool work(md_ds_trial_job *j)
{
    md_ds_op *op = j->op;
    if (atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN || md_jobs_are_awaited())
        return false;
    if (!md_ds_trial_in(j->entry)) {
        if (is_early(j))
            return true;
        if (!make_trial(j)) {
            atomic_store_explicit(&j->entry->trial_state, MD_DS_TRIAL_VAIN, memory_order_relaxed);
            return false;
        }
    }
    return op->hybrid->is_idle_only && md_ds_race(op->hybrid, j->entry);
}

static bool is_ending(const md_ds_op *op)
{
    return atomic_load_explicit(&op->hybrid->is_ending, memory_order_acquire);
}

static void run_job(void *user);

/* False if nobody waits for it any longer, or it came too often. */
static bool comes_again(md_ds_trial_job *j)
{
    enum { MOST_RUNS = 20, FIRST_NS = 8000000, DOUBLINGS = 7 };
    const uint64_t ns = (uint64_t)FIRST_NS << MD_MIN(j->n_runs, DOUBLINGS);
    j->n_runs++;
    j->due_ns = md_clock_ns() + ns;
    return !is_ending(j->op) && j->n_runs < MOST_RUNS &&
           md_jobs_submit_after(md_pool_jobs(j->op->runtime->dev->pool), ns, run_job, j);
}

static void run_job(void *user)
{
    md_ds_trial_job *j = user;
    const uint64_t now_ns = md_clock_ns();
    /* hastened because another op ends */
    if (!is_ending(j->op) && now_ns < j->due_ns &&
        md_jobs_submit_after(md_pool_jobs(j->op->runtime->dev->pool), j->due_ns - now_ns, run_job, j))
        return;
    if (work(j) && comes_again(j))
        return;
    /* a later call asks for the trial again */
    int32_t asked = MD_DS_TRIAL_ASKED;
    if (!md_ds_trial_in(j->entry))
        atomic_compare_exchange_strong(&j->entry->trial_state, &asked, MD_DS_NO_TRIAL);
    md_ds_shape_entry_release(j->entry);
    _Atomic int32_t *n_jobs = j->n_jobs;
    free(j);
    atomic_fetch_sub_explicit(n_jobs, 1, memory_order_release);
}

void md_ds_prepare_trial(_Atomic int32_t *n_jobs, md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape,
                         const md_ds_as *as)
{
    if (atomic_load_explicit(&op->n_trials, memory_order_relaxed) >= MOST_TRIALS ||
        atomic_exchange_explicit(&entry->trial_state, MD_DS_TRIAL_ASKED, memory_order_relaxed) != MD_DS_NO_TRIAL)
        return;
    md_ds_trial_job *j = calloc(1, sizeof *j);
    if (!j)
        return;
    *j = (md_ds_trial_job){.n_jobs = n_jobs, .op = op, .entry = entry, .shape = *shape};
    md_ds_select_sizes(j->select_sizes, op, shape->size, as);
    md_ds_shape_entry_hold(entry);
    atomic_fetch_add_explicit(n_jobs, 1, memory_order_relaxed);
    md_jobs_submit_later(md_pool_jobs(op->runtime->dev->pool), run_job, j);
}

/* Jobs take milliseconds. One that waits to come again is hastened: it notices that its op ends. */
void md_ds_prepare_wait(const _Atomic int32_t *n_jobs, const md_ds_op *op)
{
    while (atomic_load_explicit(n_jobs, memory_order_acquire) > 0) {
        md_jobs_hasten_later(md_pool_jobs(op->runtime->dev->pool), run_job);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}
