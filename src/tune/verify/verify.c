/* Verifies a candidate against the f64 evaluator: all of its results on a small ragged shape, samples at the tuned one.
 * Outputs are poisoned first, and the memory around them must not change. A wrong candidate is quarantined. */
#include "tune/verify/internal.h"

/* Not verifiable: a scatter with `=`, of which any writer of an element may win. */
static bool is_verifiable(const md_st_program *program, int32_t stage)
{
    const md_st_stage *s = &program->stage[stage];
    for (int32_t i = 0; i < s->n_stores; i++)
        if (s->has_scatter && s->store[i].assign == MD_FX_SET)
            return false;
    return true;
}

static void reject(md_tn_work *w, md_tn_tuning_point *tuning_point, md_tn_trial *t, const char *why)
{
    t->is_out = true;
    t->verdict = MD_TN_WRONG;
    if (w->job->count)
        atomic_fetch_add(&w->job->count->wrong, 1);
    (void)md_tn_wisdom_quarantine(w->job->wisdom, t->variant->name, t->source, why);
    md_log_at(w->dev->log, MD_LOG_WARN, "a kernel gave wrong results and is not used: %s: %s", t->variant->name, why);
    md_tn_log_point(w, tuning_point, "wrong", why);
}

bool md_tn_verify_small(md_tn_work *w, md_tn_tuning_point *tuning_point, md_tn_trial *t)
{
    char why[192] = "";
    if (t->is_verified || w->dev->ops->is_simulated || !is_verifiable(w->job->target.program, w->job->target.stage))
        return true;
    t->is_verified = md_tn_check_small(why, sizeof why, w, t);
    if (!t->is_verified)
        reject(w, tuning_point, t, why);
    return t->is_verified;
}

bool md_tn_verify(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t trial)
{
    md_tn_trial *t = &w->trial[trial];
    md_tn_entry *e = &tuning_point->entry[trial];
    char why[192] = "";
    if (e->is_verified || !is_verifiable(w->job->target.program, w->job->target.stage))
        return true;
    if (!md_tn_verify_small(w, tuning_point, t))
        return false;
    if (!md_tn_check_samples(why, sizeof why, w, tuning_point, t, e)) {
        reject(w, tuning_point, t, why);
        return false;
    }
    e->is_verified = true;
    return true;
}
