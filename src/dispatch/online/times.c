/* Hybrid: what the times of challengers lead to: next challenger, another incumbent, a demotion, a better model. */
#include "dispatch/online/times.h"

#include "base/status.h"
#include "dispatch/cache/plan_cache.h"
#include "dispatch/pool/correct.h"
#include "dispatch/select/stored.h"
#include "dispatch/select/plan.h"

md_status md_ds_switch(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t stage,
                       const md_ds_pick *pick)
{
    md_ds_plan *plan = NULL;
    MD_TRY(md_ds_plan_with(&plan, op, md_ds_plan_of(entry), shape, stage, pick));
    pthread_mutex_lock(&op->lock_of_entries);
    md_ds_shape_entry_put_plan(entry, plan, op->n_stages);
    pthread_mutex_unlock(&op->lock_of_entries);
    md_ds_plan_cache_renew(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op);
    return MD_OK;
}

void md_ds_make_incumbent(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t challenger)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const md_ds_challenger *next = &t->challenger[challenger], *now = &t->challenger[0];
    const bool is_idle = next->idle_us > 0.0 && now->idle_us > 0.0;
    const double us = is_idle ? next->idle_us : md_ds_challenger_summary(next).us,
                 before = is_idle ? now->idle_us : md_ds_challenger_summary(now).us;
    md_ds_pick pick = next->plan->stage[t->stage].pick;
    pick.source = MD_DS_MEASURED;
    pick.runner_up = md_ds_plan_of(entry)->stage[t->stage].pick.variant;
    pick.us = us;
    pick.margin = before > us && us > 0.0 ? before / us - 1.0 : 0.0;
    if (md_ds_switch(op, entry, shape, t->stage, &pick) != MD_OK)
        return;
    md_ds_trial_switch(t, challenger);
    md_ds_count_one(&op->count.switches);
}

void md_ds_keep_verdict(md_ds_op *op, const md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const md_ds_challenger *x = &t->challenger[0];
    if (!t->is_over || x->variant == t->stored || !entry->key || !md_ds_trial_is_sound(t))
        return;
    const md_ds_pick pick = {.variant = x->variant,
                             .us = x->idle_us > 0.0 ? x->idle_us : md_ds_challenger_summary(x).us};
    t->stored = x->variant;
    md_ds_stored_put(op, t->stage, md_hash128(entry->key, entry->key_bytes), &pick);
}

/* A call's time is that of all stages: it tells something of the model only where there is one stage. */
void md_ds_teach_model(struct md_ds_hybrid *h, const md_ds_trial *t, const md_ds_challenger *x)
{
    const bool is_idle = x->idle_us > 0.0;
    const md_ds_measured m = {.variant = x->variant,
                              .clock = is_idle ? MD_TN_CLOCK_IDLE : MD_TN_CLOCK_CALLS,
                              .us = is_idle ? x->idle_us : md_ds_challenger_summary(x).us,
                              .model_us = x->model_us};
    if (is_idle || h->op->n_stages == 1)
        md_ds_observe_at(&h->op->stage[t->stage], t->select_sizes, &m, false);
}

void md_ds_refresh_trial(struct md_ds_hybrid *h, md_ds_trial *t)
{
    md_ds_pool *pool = &h->op->stage[t->stage];
    double us[MD_DS_CHALLENGERS];
    int32_t variant[MD_DS_CHALLENGERS];
    t->version = md_tn_correction_version(pool->correction);
    for (int32_t i = 0; i < t->n_challengers; i++) {
        us[i] = t->challenger[i].model_us;
        variant[i] = t->challenger[i].variant;
    }
    md_ds_correct(us, pool, t->select_sizes, variant, t->n_challengers);
    for (int32_t i = 1; i < t->n_challengers; i++) {
        md_ds_challenger *x = &t->challenger[i];
        if (us[0] > 0.0)
            x->expected = us[i] / us[0];
        x->is_known = x->is_known || md_ds_is_measured(pool, x->variant);
    }
    if (t->step == 0)
        md_ds_trial_next(t);
}

void md_ds_drop_challenger(struct md_ds_hybrid *h, md_ds_trial *t, int32_t challenger)
{
    md_ds_teach_model(h, t, &t->challenger[challenger]);
    t->challenger[challenger].is_out = true;
    md_ds_trial_next(t);
}

void md_ds_judge_challenger(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const md_ds_verdict v = md_ds_trial_judge(t);
    if (v == MD_DS_SWITCH)
        md_ds_make_incumbent(h->op, entry, &t->shape, t->current);
    if (v != MD_DS_GO_ON)
        md_ds_drop_challenger(h, t, t->current);
}

/* After the trial: demotes the incumbent if it became slow. */
static void watch(struct md_ds_hybrid *h, md_ds_shape_entry *entry, double us)
{
    int32_t better = -1;
    if (!md_ds_trial_watch(&better, md_ds_trial_in(entry), us))
        return;
    md_ds_count_one(&h->op->count.demotions);
    if (better > 0)
        md_ds_make_incumbent(h->op, entry, &md_ds_trial_in(entry)->shape, better);
}

static void record_challenger(struct md_ds_hybrid *h, md_ds_trial *t, int32_t challenger, double us)
{
    const int32_t looks = md_ds_trial_looks(t);
    md_ds_budget_spend(&h->budget, us, md_ds_challenger_summary(&t->challenger[0]).us);
    if (t->challenger[challenger].n == looks && md_ds_trial_is_behind(t, challenger))
        md_ds_drop_challenger(h, t, challenger);
    else if (t->challenger[challenger].n == looks)
        md_ds_trial_next(t);
}

void md_ds_record_time(struct md_ds_hybrid *h, md_ds_shape_entry *entry, const md_ds_timing *timing, double us)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const int32_t i = timing->challenger;
    t->n_running--;
    h->n_tried -= i > 0;
    if (timing->generation != t->switches + t->demotions)
        return;
    if (t->is_over) {
        if (i == 0 && us > 0.0)
            watch(h, entry, us);
    } else if (!md_ds_challenger_add(&t->challenger[i], us)) {
        if (i > 0)
            md_ds_drop_challenger(h, t, i);
    } else if (i > 0) {
        record_challenger(h, t, i, us);
    } else if (t->challenger[0].n == MD_DS_OWN_TIMES) {
        md_ds_teach_model(h, t, &t->challenger[0]);
    }
}
