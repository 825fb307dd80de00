/* Verifies each family's best at a point and puts it into the wisdom. */
#include "tune/search/internal.h"

#include "base/status.h"

#include <math.h>
#include <string.h>
#include <time.h>

int32_t md_tn_best_of_family(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t family)
{
    int32_t best = -1;
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++) {
        const md_tn_entry *e = &tuning_point->entry[i];
        if (w->trial[i].family_at != family || !e->is_there || e->first_us <= 0.0 || w->trial[i].is_out)
            continue;
        if (best < 0 || md_tn_is_better(w, tuning_point, i, best))
            best = i;
    }
    return best;
}

/* The family's best whose results are right. */
static int32_t accept(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t family)
{
    for (;;) {
        const int32_t best = md_tn_best_of_family(w, tuning_point, family);
        if (best < 0 || w->dev->ops->is_simulated || md_tn_verify(w, tuning_point, best))
            return best;
        if (tuning_point->best == best)
            tuning_point->best = -1;
    }
}

static md_status list_candidates(md_tn_record *r, const md_tn_work *w, const md_tn_tuning_point *tuning_point,
                                 int32_t family)
{
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++) {
        const md_tn_trial *t = &w->trial[i];
        const md_tn_entry *e = &tuning_point->entry[i];
        if (t->family_at != family || !e->is_there || (e->first_us <= 0.0 && !t->is_out))
            continue;
        md_tn_candidate c = {.verdict = t->is_out ? t->verdict : e->verdict,
                             .us = e->n ? e->us : e->first_us,
                             .spread = e->spread,
                             .count = e->n};
        memcpy(c.name, t->variant->name, sizeof c.name);
        MD_TRY(md_tn_record_add(r, &c));
    }
    return MD_OK;
}

static void keep_earlier(md_tn_record *r, const md_tn_record *before)
{
    for (int32_t i = 0; i < before->n_candidates; i++) {
        bool is_there = false;
        for (int32_t k = 0; k < r->n_candidates; k++)
            is_there = is_there || !strcmp(r->candidate[k].name, before->candidate[i].name);
        if (!is_there)
            (void)md_tn_record_add(r, &before->candidate[i]);
    }
}

/* A family of which nothing was measured gets a record of the model's estimate, so that it counts as searched. */
static md_status put_family(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t family)
{
    const md_tn_space *space = &tuning_point->space[family];
    const int32_t best = accept(w, tuning_point, family);
    if (best < 0 && !space->n)
        return MD_OK; /* no record: see md_tn_has_config */
    md_tn_record r = {.rigor = w->job->rigor, .is_complete = !tuning_point->is_cut, .date = (int64_t)time(NULL)};
    r.key = strdup(tuning_point->key);
    if (!r.key)
        return md_fail_memory();
    snprintf(r.family, sizeof r.family, "%s", w->family[family]->name);
    if (best >= 0) {
        const md_tn_entry *e = &tuning_point->entry[best];
        memcpy(r.variant, w->trial[best].variant->name, sizeof r.variant);
        r.us = e->n ? e->us : e->first_us;
        r.spread = e->spread;
        r.count = MD_MAX(e->n, 1);
        r.source = w->trial[best].source;
    } else if (space->n) {
        md_fa_name(r.variant, w->family[family], &space->choice[0].config);
        r.us = isfinite(space->choice[0].model_us) ? space->choice[0].model_us : 0.0;
    }
    md_status s = list_candidates(&r, w, tuning_point, family);
    keep_earlier(&r, &tuning_point->before[family]);
    if (s == MD_OK)
        s = md_tn_wisdom_put(w->job->wisdom, &r);
    if (space->n)
        md_tn_log_winner(w, tuning_point, &r);
    md_tn_record_finish(&r);
    return s;
}

void md_tn_keep_results(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    const bool is_measured = tuning_point->n_looks > 0;
    if (!tuning_point->is_open ||
        (is_measured && !tuning_point->has_bench && !md_tn_tuning_point_measure(w, tuning_point)))
        return;
    for (int32_t f = 0; f < w->n_families; f++)
        if (put_family(w, tuning_point, f) != MD_OK)
            md_tn_log_point(w, tuning_point, "skipped", md_last_error());
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++)
        if (tuning_point->entry[i].is_there && (tuning_point->entry[i].first_us > 0.0 || w->trial[i].is_out))
            md_tn_log_candidate(w, tuning_point, i);
    if (tuning_point->is_cut)
        MD_TN_COUNT(w, cut);
}
