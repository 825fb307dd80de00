/* Prepares trials: chooses challengers by the corrected model, checks that they agree, and makes their plans. */
#include "dispatch/hybrid/internal.h"

#include "base/status.h"
#include "dispatch/pool/fill.h"
#include "dispatch/select/select.h"
#include "dispatch/select/plan.h"
#include "tune/verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* MOST_TRIALS of an op are in memory at a time, each with a shape and some plans. */
enum { MOST_FAMILIES = 4, MOST_TRIALS = 2048 };
/* Variants that the corrected model expects to take this x the incumbent's time are not tried. */
static const double hopeless = 4.0;
/* On an idle stream the marks around a kernel time its launch, too. That varies by so much (us), and by more for a
 * library. */
static const double resolution_us = 1.0, library_us = 8.0;

typedef struct job {
    _Atomic int32_t *n_jobs;
    md_ds_op *op;
    md_ds_shape_entry *entry; /* held */
    md_kn_shape shape;
    int64_t select_sizes[MD_FX_MAX_DIMS];
} job;

static bool is_settled(const md_ds_pool *pool)
{
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    for (int32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&pool->variant[i]->state, memory_order_acquire) == MD_BD_QUEUED)
            return false;
    return true;
}

/* Inserts by expected time; if the list is full, the last one is dropped. list[0] stays. */
static void insert(md_ds_challenger *list, int32_t *n, const md_ds_challenger *challenger)
{
    int32_t at = *n < MD_DS_CHALLENGERS ? (*n)++ : MD_DS_CHALLENGERS;
    for (; at > 1 && list[at - 1].expected > challenger->expected; at--)
        if (at < MD_DS_CHALLENGERS)
            list[at] = list[at - 1];
    if (at < MD_DS_CHALLENGERS)
        list[at] = *challenger;
}

static bool is_listed(const md_ds_challenger *list, int32_t n, int32_t variant)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i].variant == variant)
            return true;
    return false;
}

/* True if no other variant of its family is faster by the model. us < 0: the variant does not fit. */
static bool is_best_of_family(const md_ds_pool *pool, const double *us, int32_t n, int32_t variant)
{
    for (int32_t i = 0; i < n; i++)
        if (us[i] >= 0.0 && pool->variant[i]->family == pool->variant[variant]->family &&
            (us[i] < us[variant] || (us[i] == us[variant] && i < variant)))
            return false;
    return true;
}

/* Challengers may be of libraries that did not load their kernel yet; finding out loads nothing. */
static const char *reject_reason(const md_ds_pool *pool, int32_t i, const md_kn_shape *shape)
{
    const char *why = md_ds_reject_reason(pool, i, shape);
    return why && md_bd_variant_load(pool->variant[i], shape, MD_BD_LOAD_LOOK) == MD_BD_DEFERRED
               ? md_ds_misfit(pool, i, shape)
               : why;
}

/* With idle_tune: the model's best few, if their times differ by less than its error. The longest must not take more
 * than most_us. */
static int32_t keep_doubtful(const md_ds_challenger *list, int32_t n, double own_us, double most_us)
{
    enum { FEW = 6 };
    n = MD_MIN(n, FEW);
    while (n > 1 && list[n - 1].expected > fmin(1.0 + MD_DS_MODEL_ERROR, most_us / own_us))
        n--;
    return n;
}

/* What serves a stage: a variant of it; for a chain whose parts do, BY_PARTS. */
static int32_t own_of(const md_ds_op *op, const md_ds_plan *plan, int32_t stage)
{
    const md_ds_stage_choice *s = &plan->stage[stage];
    const bool is_chain = op->program->stage[stage].kind == MD_ST_CHAIN;
    return !s->is_idle ? s->pick.variant : is_chain ? MD_DS_BY_PARTS : -1;
}

/* True if there is nothing to find out about a stage. */
static bool is_known(const md_ds_op *op, const md_ds_plan *plan, int32_t stage)
{
    const int32_t own = own_of(op, plan, stage);
    const int32_t by = own == MD_DS_BY_PARTS ? op->program->stage[stage].chain->part[0] : stage;
    const md_ds_source source = plan->stage[by].pick.source;
    return own == -1 || op->stage[stage].pinned >= 0 || source == MD_DS_STORED || source == MD_DS_MEASURED ||
           (source == MD_DS_GIVEN && !op->policy.agrees);
}

/* The parts of a chain, beside its variants. Races do not run several stages; under a numeric policy the chain serves
 * wherever it fits. */
static double time_of_parts(const md_ds_op *op, const md_ds_plan *plan, int32_t stage, const job *j)
{
    if (op->program->stage[stage].kind != MD_ST_CHAIN || op->hybrid->is_idle_only ||
        op->policy.numeric >= MD_NUMERIC_DETERMINISTIC)
        return 0.0;
    return md_ds_time_of_parts(plan, op, stage, j->select_sizes);
}

/* Corrected times of a pool's variants, the model's too; us < 0: the variant does not fit. */
static void predict(double *us, double *model_us, md_ds_op *op, int32_t stage, int32_t n, const job *j)
{
    md_ds_pool *pool = &op->stage[stage];
    const int32_t own = own_of(op, md_ds_plan_of(j->entry), stage);
    md_ds_predict_us(model_us, op, stage, j->select_sizes, n, NULL);
    for (int32_t i = 0; i < n; i++)
        us[i] = i != own && reject_reason(pool, i, &j->shape) ? -1.0 : model_us[i];
    md_ds_correct(us, pool, j->select_sizes, NULL, n);
    md_ds_take_answers(us, op, stage, &j->shape, j->select_sizes, n);
}

static double longest_us(const md_ds_op *op)
{
    return op->policy.races_cheaply ? MD_DS_CHEAP_US : HUGE_VAL;
}

/* Lists the incumbent, and challengers by expected time: first the best of other families and a chain's parts, where
 * the model errs most, then the fastest others. Returns how many, or 0 if there is no challenger. */
static int32_t list_challengers(md_ds_challenger *out, double *own_us, md_ds_op *op, int32_t stage, const job *j)
{
    const md_ds_pool *pool = &op->stage[stage];
    const md_ds_plan *plan = md_ds_plan_of(j->entry);
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire), own = own_of(op, plan, stage);
    const md_fa_family *own_family = own >= 0 ? pool->variant[own]->family : NULL;
    double us[MD_DS_MAX_VARIANTS], model_us[MD_DS_MAX_VARIANTS];
    md_ds_challenger family[MD_DS_CHALLENGERS] = {{0}}, other[MD_DS_CHALLENGERS] = {{0}};
    int32_t n_families = 1, n_others = 1, n_challengers = 1;
    const double parts = time_of_parts(op, plan, stage, j);
    if (is_known(op, plan, stage) || (own < 0 && parts <= 0.0))
        return 0;
    predict(us, model_us, op, stage, n, j);
    *own_us = own >= 0 ? us[own] : parts;
    out[0] = family[0] = other[0] =
        (md_ds_challenger){.variant = own, .model_us = own >= 0 ? model_us[own] : parts, .expected = 1.0};
    /* parts are challengers even where they seem too slow to be among the first */
    if (own >= 0 && parts > 0.0 && parts <= hopeless * *own_us)
        insert(family, &n_families,
               &(md_ds_challenger){
                   .variant = MD_DS_BY_PARTS, .model_us = parts, .expected = fmin(parts / *own_us, MD_DS_TOO_RISKY)});
    for (int32_t i = 0; i < n; i++) {
        const md_ds_challenger challenger = {.variant = i, .model_us = model_us[i], .expected = us[i] / *own_us};
        if (i == own || us[i] < 0.0)
            continue;
        if (challenger.expected <= MD_DS_TOO_SLOW && pool->variant[i]->family != own_family &&
            is_best_of_family(pool, us, n, i))
            insert(family, &n_families, &challenger);
        if (challenger.expected <= hopeless)
            insert(other, &n_others, &challenger);
    }
    for (int32_t i = 1; i < n_families && i <= MOST_FAMILIES; i++)
        insert(out, &n_challengers, &family[i]);
    for (int32_t i = 1; i < n_others && n_challengers < MD_DS_CHALLENGERS; i++)
        if (!is_listed(out, n_challengers, other[i].variant))
            insert(out, &n_challengers, &other[i]);
    if (op->hybrid->is_idle_only)
        n_challengers = keep_doubtful(out, n_challengers, *own_us, longest_us(op));
    return n_challengers > 1 ? n_challengers : 0;
}

/* Of the stages that have challengers, the one that takes the most time. */
static int32_t choose_stage(md_ds_trial *t, const job *j)
{
    double most = 0.0;
    for (int32_t s = 0; s < j->op->n_stages; s++) {
        md_ds_challenger challenger[MD_DS_CHALLENGERS] = {{0}};
        double us = 0.0;
        int32_t n = list_challengers(challenger, &us, j->op, s, j);
        if (n == 0 || us <= most)
            continue;
        most = us;
        t->stage = s;
        t->n_challengers = n;
        memcpy(t->challenger, challenger, sizeof challenger);
    }
    return t->n_challengers;
}

/* Keeps the challengers that agree with most variants. Only they are checked: the GPU is at work. */
static void check(md_ds_trial *t, job *j)
{
    md_ds_pool *pool = &j->op->stage[t->stage];
    const int32_t n_variants = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    int32_t variant[MD_DS_MAX_VARIANTS], n_fit = 0, n = 1;
    for (int32_t i = 0; i < n_variants; i++) {
        const bool is_unsure = atomic_load_explicit(&pool->agreement[i], memory_order_relaxed) == MD_TN_UNSURE;
        if ((!is_unsure || is_listed(t->challenger, t->n_challengers, i)) && !md_ds_reject_reason(pool, i, &j->shape))
            variant[n_fit++] = i;
    }
    md_ds_agree(j->op, t->stage, variant, n_fit, &j->shape);
    for (int32_t i = 1; i < t->n_challengers; i++)
        if (t->challenger[i].variant < 0 ||
            atomic_load_explicit(&pool->agreement[t->challenger[i].variant], memory_order_relaxed) == MD_TN_AGREES)
            t->challenger[n++] = t->challenger[i];
    t->n_challengers = n;
}

static md_status make_plans(md_ds_trial *t, const job *j)
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
static void find_unloaded(md_ds_trial *t, const job *j)
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
static void replace_incumbent(md_ds_trial *t, const job *j)
{
    md_ds_pool *pool = &j->op->stage[t->stage];
    if (t->challenger[0].variant < 0 || t->n_challengers < 2 ||
        atomic_load_explicit(&pool->agreement[t->challenger[0].variant], memory_order_relaxed) < MD_TN_DIFFERS)
        return;
    md_ds_pick pick = t->challenger[1].plan->stage[t->stage].pick;
    pick.variant = t->challenger[1].variant;
    if (md_ds_switch(j->op, j->entry, &j->shape, t->stage, &pick) != MD_OK)
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

/* The variant that is ahead of what serves the stage by more than the model errs, and gives its bits where that is
 * wanted; -1: none. */
static int32_t find_sure(md_ds_pick *out, const job *j, int32_t stage)
{
    md_ds_pool *pool = &j->op->stage[stage];
    const md_ds_plan *plan = md_ds_plan_of(j->entry);
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire), own = own_of(j->op, plan, stage);
    double us[MD_DS_MAX_VARIANTS], model_us[MD_DS_MAX_VARIANTS];
    int32_t best = -1;
    if (own < 0 || is_known(j->op, plan, stage))
        return -1;
    predict(us, model_us, j->op, stage, n, j);
    for (int32_t i = 0; i < n; i++)
        if (us[i] > 0.0 && us[i] * (1.0 + MD_DS_MODEL_ERROR) < us[own] && (best < 0 || us[i] < us[best]) &&
            (!j->op->policy.races_cheaply || pool->variant[i]->numeric_class == pool->variant[own]->numeric_class))
            best = i;
    *out = plan->stage[stage].pick;
    out->variant = best;
    out->runner_up = own;
    out->us = best >= 0 ? us[best] : 0.0;
    out->margin = best >= 0 ? us[own] / us[best] - 1.0 : 0.0;
    return best;
}

/* With idle_tune: kernels that are too long for a race are not timed. One that was built for the traffic serves where
 * it is surely better, once its results were compared. */
static void switch_by_model(const job *j)
{
    md_ds_op *op = j->op;
    for (int32_t s = 0; s < op->n_stages && op->hybrid->is_idle_only; s++) {
        md_ds_pick pick;
        const int32_t best = find_sure(&pick, j, s);
        if (best < 0 || op->policy.agrees)
            continue;
        const int32_t both[] = {best, pick.runner_up};
        md_ds_agree(op, s, both, MD_COUNT(both), &j->shape);
        if (atomic_load_explicit(&op->stage[s].agreement[best], memory_order_relaxed) < MD_TN_DIFFERS &&
            md_ds_switch(op, j->entry, &j->shape, s, &pick) == MD_OK)
            atomic_fetch_add_explicit(&op->count.switches, 1, memory_order_relaxed);
    }
}

static bool make_trial(job *j)
{
    int32_t version[MD_ST_MAX_STAGES]; /* read before the times, so that a later correction makes the trial stale */
    for (int32_t s = 0; s < j->op->n_stages; s++)
        version[s] = md_tn_correction_version(j->op->stage[s].correction);
    md_ds_trial *t = calloc(1, sizeof *t);
    if (!t || choose_stage(t, j) == 0) {
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
static bool follow(const job *j)
{
    md_ds_op *op = j->op;
    const md_ds_plan *plan = md_ds_plan_of(j->entry);
    bool has_added = false;
    if (!op->hybrid->is_idle_only || atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN ||
        atomic_fetch_add_explicit(&op->hybrid->n_followed, 1, memory_order_relaxed) >= MD_DS_MOST_LOOKED_FOR)
        return false;
    for (int32_t s = 0; s < op->n_stages; s++) {
        int32_t added = -1;
        if (!plan->stage[s].is_idle && plan->stage[s].pick.source == MD_DS_MODEL &&
            md_ds_pool_may_follow(&op->stage[s]))
            (void)md_ds_pool_follow(&added, &op->stage[s], &j->shape, plan->stage[s].pick.variant,
                                    op->policy.races_cheaply);
        has_added |= added >= 0;
    }
    if (has_added)
        atomic_fetch_add_explicit(&op->count.adopted, 1, memory_order_relaxed);
    return has_added;
}

static void run_job(void *user)
{
    job *j = user;
    bool is_early = md_ds_is_filling(j->op); /* filling pools uses what is not thread-safe */
    for (int32_t s = 0; s < j->op->n_stages; s++)
        is_early |= !is_settled(&j->op->stage[s]);
    if (is_early || follow(j))
        /* a later call asks for the trial again, when all is built */
        atomic_store_explicit(&j->entry->trial_state, MD_DS_NO_TRIAL, memory_order_relaxed);
    else if (!make_trial(j))
        atomic_store_explicit(&j->entry->trial_state, MD_DS_TRIAL_VAIN, memory_order_relaxed);
    else if (j->op->hybrid->is_idle_only)
        md_ds_race(j->op->hybrid, j->entry);
    md_ds_shape_entry_release(j->entry);
    _Atomic int32_t *n_jobs = j->n_jobs;
    free(j);
    atomic_fetch_sub_explicit(n_jobs, 1, memory_order_release);
}

void md_ds_prepare_trial(_Atomic int32_t *n_jobs, md_ds_op *op, md_ds_shape_entry *entry, const md_ds_bound *bound)
{
    if (atomic_load_explicit(&op->n_trials, memory_order_relaxed) >= MOST_TRIALS ||
        atomic_exchange_explicit(&entry->trial_state, MD_DS_TRIAL_ASKED, memory_order_relaxed) != MD_DS_NO_TRIAL)
        return;
    job *j = calloc(1, sizeof *j);
    if (!j)
        return;
    *j = (job){.n_jobs = n_jobs, .op = op, .entry = entry, .shape = bound->shape};
    md_ds_select_sizes(j->select_sizes, op, bound->shape.size, &bound->as);
    md_ds_shape_entry_hold(entry);
    atomic_fetch_add_explicit(n_jobs, 1, memory_order_relaxed);
    md_jobs_submit_later(md_pool_jobs(op->runtime->dev->pool), run_job, j);
}

/* Jobs take milliseconds. */
void md_ds_prepare_wait(const _Atomic int32_t *n_jobs)
{
    while (atomic_load_explicit(n_jobs, memory_order_acquire) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}
