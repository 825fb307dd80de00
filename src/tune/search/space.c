/* The search space: the families of a stage, and the legal configs of each at a point. */
#include "tune/search/internal.h"

#include "base/grow.h"
#include "base/status.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* ---- Families */

static bool is_allowed(const md_tn_job *job, const md_fa_family *f, const md_fa_config *config)
{
    return (!job->only || f == job->only) && (config || md_fa_applies(f, &job->target)) &&
           (!job->allows || job->allows(job->allows_user, f, config));
}

void md_tn_choose_families(md_tn_work *w)
{
    for (int32_t pass = 0; pass < 2 && w->n_families == 0; pass++)
        for (int32_t i = 0; md_fa_of(&w->job->target, i); i++) {
            const md_fa_family *f = md_fa_of(&w->job->target, i);
            if (f->is_last_resort == (pass == 1) && w->n_families < MD_TN_MAX_FAMILIES && is_allowed(w->job, f, NULL))
                w->family[w->n_families++] = f;
        }
}

/* ---- Configs */

typedef struct listing {
    md_tn_work *w;
    md_tn_tuning_point *tuning_point;
    md_tn_space *space;
    const md_fa_family *family;
    md_fa_target target; /* the job's, with a memo of this point and family */
} listing;

static bool list_config(void *user, const md_fa_config *config)
{
    listing *l = user;
    const md_fa_target *target = &l->target;
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, l->family, target, config);
    if (md_kn_envelope_miss(&envelope, &l->tuning_point->shape) || !is_allowed(l->w->job, l->family, config))
        return true;
    l->space->failed = !md_grow(&l->space->choice, (size_t)l->space->n, sizeof *l->space->choice);
    if (l->space->failed)
        return false;
    l->space->choice[l->space->n++] =
        (md_tn_choice){*config, md_tn_form_us(target, l->family, config, l->tuning_point->shape.size)};
    return true;
}

static int by_model(const void *a, const void *b)
{
    const md_tn_choice *x = a, *y = b;
    if (x->model_us != y->model_us)
        return x->model_us < y->model_us ? -1 : 1;
    return memcmp(&x->config, &y->config, sizeof x->config); /* equal runs give equal lists */
}

static void list_family(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane, (void)scratch;
    md_tn_work *w = context;
    for (int64_t i = first; i < last; i++) {
        md_tn_tuning_point *tuning_point = &w->tuning_point[i / w->n_families];
        md_fa_memo memo;
        listing l = {w, tuning_point, &tuning_point->space[i % w->n_families], w->family[i % w->n_families],
                     w->job->target};
        md_fa_memo_begin(&memo);
        l.target.memo = &memo;
        if (!tuning_point->is_open)
            continue;
        md_fa_each_all(&w->job->target, l.family, tuning_point->shape.size, list_config, &l);
        if (l.space->n)
            qsort(l.space->choice, (size_t)l.space->n, sizeof *l.space->choice, by_model);
    }
}

md_status md_tn_list_spaces(md_tn_work *w)
{
    MD_TRY(md_pool_loop(w->dev->pool, (int64_t)w->n_tuning_points * w->n_families, 1, 0, list_family, w));
    for (int32_t i = 0; i < w->n_tuning_points; i++)
        for (int32_t f = 0; f < w->n_families; f++)
            if (w->tuning_point[i].space[f].failed)
                return md_fail_memory();
    return MD_OK;
}

typedef struct existence {
    const md_fa_target *target;
    const md_fa_family *family;
    const md_kn_shape *shape;
    bool is_there;
} existence;

static bool stop_at_first(void *user, const md_fa_config *config)
{
    existence *e = user;
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, e->family, e->target, config);
    e->is_there = !md_kn_envelope_miss(&envelope, e->shape);
    return !e->is_there;
}

bool md_tn_has_config(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const md_fa_family *family)
{
    existence e = {&w->job->target, family, &tuning_point->shape, false};
    md_fa_each_all(e.target, family, tuning_point->shape.size, stop_at_first, &e);
    return e.is_there;
}
