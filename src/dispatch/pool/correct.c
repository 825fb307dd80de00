/* Feeds the correction of a stage with measured times of its candidates, and applies it. */
#include "dispatch/pool/correct.h"

#include "base/status.h"

#include <time.h>

_Static_assert((int)MD_DS_MAX_DYNAMIC <= (int)MD_TN_MAX_AXES, "every dynamic dim is an axis");

static void sizes_of(int64_t size[MD_TN_MAX_AXES], const md_ds_space *space, const int64_t *select_sizes)
{
    for (int32_t i = 0; i < space->n; i++)
        size[i] = select_sizes[space->dim[i]];
}

static md_tn_observation observation_of(const md_ds_pool *c, const int64_t *size, const md_ds_measured *m)
{
    md_tn_observation o = {.subject = md_tn_subject_of(c->variant[m->variant]),
                           .ratio = m->us > 0.0 && m->model_us > 0.0 ? m->us / m->model_us : 0.0,
                           .clock = m->clock};
    for (int32_t i = 0; i < c->space->n; i++)
        o.size[i] = size[i];
    return o;
}

void md_ds_observe(md_ds_pool *c, const int64_t *size, const md_ds_measured *m, bool may_wait)
{
    md_tn_observation o = observation_of(c, size, m);
    o.mhz = md_bd_device(c->builder)->mhz;
    o.date = (int64_t)time(NULL);
    md_tn_correction_add(c->correction, &o, may_wait);
}

void md_ds_observe_kept(md_ds_pool *c, const int64_t *select_sizes, const md_ds_measured *m, int64_t date)
{
    int64_t size[MD_TN_MAX_AXES] = {0};
    sizes_of(size, c->space, select_sizes);
    md_tn_observation o = observation_of(c, size, m);
    o.date = date;
    o.is_kept = true;
    md_tn_correction_add(c->correction, &o, true);
}

void md_ds_observe_at(md_ds_pool *c, const int64_t *select_sizes, const md_ds_measured *m, bool may_wait)
{
    int64_t size[MD_TN_MAX_AXES] = {0};
    sizes_of(size, c->space, select_sizes);
    md_ds_observe(c, size, m, may_wait);
}

void md_ds_rank_observed(md_ds_pool *c, int32_t hint, md_ds_ranked variant)
{
    const md_ds_measured measured = {variant.variant, MD_TN_CLOCK_TUNING, variant.us, variant.model_us};
    if (variant.model_us > 0.0)
        md_ds_observe(c, c->space->hint[hint], &measured, true);
    md_ds_rank(c, hint, variant);
}

void md_ds_correct(double *us, md_ds_pool *c, const int64_t *select_sizes, const int32_t *variant, int32_t n)
{
    int64_t size[MD_TN_MAX_AXES] = {0};
    md_tn_subject subject[MD_DS_MAX_VARIANTS];
    if (md_tn_correction_version(c->correction) == 0)
        return;
    sizes_of(size, c->space, select_sizes);
    for (int32_t i = 0; i < n; i++)
        subject[i] = md_tn_subject_of(c->variant[variant ? variant[i] : i]);
    md_tn_correction_apply(us, c->correction, size, subject, n);
}

bool md_ds_is_measured(md_ds_pool *c, int32_t variant)
{
    return md_tn_correction_knows(c->correction, md_tn_subject_of(c->variant[variant]));
}
