/* Who competes in a trial: of the stage that takes the most time, the variants that the corrected model expects to be
 * fast. */
#include "dispatch/hybrid/internal.h"

#include "dispatch/select/select.h"
#include "dispatch/select/plan.h"

#include <math.h>
#include <string.h>

enum { MOST_FAMILIES = 4 };
/* Variants that the corrected model expects to take this x the incumbent's time are not tried. */
static const double hopeless = 4.0;

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

bool md_ds_is_listed(const md_ds_challenger *list, int32_t n, int32_t variant)
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

/* With idle_tune: the model's best few, if their times differ by less than its error. Neither they nor the incumbent
 * may take more than most_us. */
static int32_t keep_doubtful(const md_ds_challenger *list, int32_t n, double own_us, double most_us)
{
    enum { FEW = 6 };
    n = own_us > most_us ? 1 : MD_MIN(n, FEW);
    while (n > 1 && list[n - 1].expected > fmin(1.0 + MD_DS_MODEL_ERROR, most_us / own_us))
        n--;
    return n;
}

/* What serves a stage: a variant of it; where its parts do, BY_PARTS. */
static int32_t own_of(const md_ds_op *op, const md_ds_plan *plan, int32_t stage)
{
    const md_ds_stage_choice *s = &plan->stage[stage];
    const bool has_parts = op->program->stage[stage].n_parts > 0;
    return !s->is_idle ? s->pick.variant : has_parts ? MD_DS_BY_PARTS : -1;
}

/* True if there is nothing to find out about a stage. */
static bool is_known(const md_ds_op *op, const md_ds_plan *plan, int32_t stage)
{
    const int32_t own = own_of(op, plan, stage);
    const int32_t by = own == MD_DS_BY_PARTS ? op->program->stage[stage].part[0] : stage;
    const md_ds_source source = plan->stage[by].pick.source;
    return own == -1 || op->stage[stage].pinned >= 0 || source == MD_DS_STORED || source == MD_DS_MEASURED ||
           (source == MD_DS_GIVEN && !op->policy.agrees);
}

/* The parts of a stage, beside its variants. Races do not run several stages; under a numeric policy the stage serves
 * wherever it fits. */
static double time_of_parts(const md_ds_op *op, const md_ds_plan *plan, int32_t stage, const md_ds_trial_job *j)
{
    if (op->program->stage[stage].n_parts == 0 || op->hybrid->is_idle_only ||
        op->policy.numeric >= MD_NUMERIC_DETERMINISTIC)
        return 0.0;
    return md_ds_time_of_parts(plan, op, stage, j->select_sizes);
}

/* Corrected times of a pool's variants, the model's too; us < 0: the variant does not fit. */
static void predict(double *us, double *model_us, md_ds_op *op, int32_t stage, int32_t n, const md_ds_trial_job *j)
{
    md_ds_pool *pool = &op->stage[stage];
    const int32_t own = own_of(op, md_ds_plan_of(j->entry), stage);
    md_ds_predict_us(model_us, op, stage, j->select_sizes, n, NULL);
    for (int32_t i = 0; i < n; i++)
        us[i] = i != own && reject_reason(pool, i, &j->shape) ? -1.0 : model_us[i];
    md_ds_correct(us, pool, j->select_sizes, NULL, n);
    md_ds_take_answers(us, op, stage, &j->shape, j->select_sizes, n);
}

static bool is_queued(const md_ds_pool *pool, int32_t i)
{
    return atomic_load_explicit(&pool->variant[i]->state, memory_order_acquire) == MD_BD_QUEUED;
}

/* True if a variant that is being built may be faster at the shape than what serves, by the model and its error. */
static bool awaits(const md_ds_trial_job *j, int32_t stage)
{
    md_ds_pool *pool = &j->op->stage[stage];
    const int32_t own = own_of(j->op, md_ds_plan_of(j->entry), stage);
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    double us[MD_DS_MAX_VARIANTS];
    int32_t n_queued = 0;
    for (int32_t i = 0; i < n; i++)
        n_queued += is_queued(pool, i);
    if (n_queued == 0 || own == -1)
        return false;
    md_ds_predict_us(us, j->op, stage, j->select_sizes, n, NULL);
    md_ds_correct(us, pool, j->select_sizes, NULL, n);
    for (int32_t i = 0; i < n; i++)
        if (is_queued(pool, i) && !md_kn_envelope_miss(&pool->variant[i]->envelope, &j->shape) &&
            (own < 0 || us[i] < us[own] * (1.0 + MD_DS_MODEL_ERROR)))
            return true;
    return false;
}

bool md_ds_awaits(const md_ds_trial_job *j)
{
    for (int32_t s = 0; s < j->op->n_stages; s++)
        if (awaits(j, s))
            return true;
    return false;
}

static double longest_us(const md_ds_op *op)
{
    return op->policy.races_cheaply ? MD_DS_CALM_US : HUGE_VAL;
}

/* Lists the incumbent, and challengers by expected time: first the best of other families and a stage's parts, where
 * the model errs most, then the fastest others. Returns how many, or 0 if there is no challenger. */
static int32_t list_challengers(md_ds_challenger *out, double *own_us, md_ds_op *op, int32_t stage,
                                const md_ds_trial_job *j)
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
        if (!md_ds_is_listed(out, n_challengers, other[i].variant))
            insert(out, &n_challengers, &other[i]);
    if (op->hybrid->is_idle_only)
        n_challengers = keep_doubtful(out, n_challengers, *own_us, longest_us(op));
    return n_challengers > 1 ? n_challengers : 0;
}

int32_t md_ds_choose_challengers(md_ds_trial *t, const md_ds_trial_job *j)
{
    double most = 0.0;
    for (int32_t s = 0; s < j->op->n_stages; s++) {
        md_ds_challenger challenger[MD_DS_CHALLENGERS] = {{0}};
        double us = 0.0;
        int32_t n = list_challengers(challenger, &us, j->op, s, j);
        if (n == 0 || us <= most)
            continue;
        most = t->own_us = us;
        t->stage = s;
        t->n_challengers = n;
        memcpy(t->challenger, challenger, sizeof challenger);
    }
    return t->n_challengers;
}

int32_t md_ds_find_sure(md_ds_pick *out, const md_ds_trial_job *j, int32_t stage, bool own_bits)
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
            (!own_bits || pool->variant[i]->numeric_class == pool->variant[own]->numeric_class))
            best = i;
    *out = plan->stage[stage].pick;
    out->variant = best;
    out->runner_up = own;
    out->us = best >= 0 ? us[best] : 0.0;
    out->margin = best >= 0 ? us[own] / us[best] - 1.0 : 0.0;
    return best;
}
