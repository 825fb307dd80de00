/* Feeds the correction of a stage with measured times of its candidates, and with what installed wisdom knows of them
 * at other points than the hints; applies it. */
#include "dispatch/pool/pool.h"

#include "base/status.h"
#include "dispatch/space/points.h"
#include "tune/tune.h"
#include "tune/wisdom/wisdom.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert((int)MD_DS_MAX_DYNAMIC <= (int)MD_TN_MAX_AXES, "every dynamic dim is an axis");

static void sizes_of(int64_t size[MD_TN_MAX_AXES], const md_ds_space *space, const int64_t *select_sizes)
{
    for (int32_t i = 0; i < space->n; i++)
        size[i] = select_sizes[space->dim[i]];
}

static md_tn_observation observation_of(const md_ds_pool *pool, const int64_t *size, const md_ds_measured *m)
{
    md_tn_observation o = {.subject = md_tn_subject_of(pool->variant[m->variant]),
                           .ratio = m->us > 0.0 && m->model_us > 0.0 ? m->us / m->model_us : 0.0,
                           .clock = m->clock};
    for (int32_t i = 0; i < pool->space->n; i++)
        o.size[i] = size[i];
    return o;
}

void md_ds_observe(md_ds_pool *pool, const int64_t *size, const md_ds_measured *m, bool may_wait)
{
    md_tn_observation o = observation_of(pool, size, m);
    o.mhz = md_bd_device(pool->builder)->mhz;
    o.date = (int64_t)time(NULL);
    md_tn_correction_add(pool->correction, &o, may_wait);
    if (pool->settled && m->clock == MD_TN_CLOCK_TUNING)
        md_tn_correction_add(pool->settled, &o, may_wait);
}

/* At sizes by dim id, what an earlier process measured at `date`: it is not written to the store again. */
static void observe_stored(md_ds_pool *pool, const int64_t *select_sizes, const md_ds_measured *m, int64_t date)
{
    int64_t size[MD_TN_MAX_AXES] = {0};
    sizes_of(size, pool->space, select_sizes);
    md_tn_observation o = observation_of(pool, size, m);
    o.date = date;
    o.is_stored = true;
    md_tn_correction_add(pool->correction, &o, true);
    if (pool->settled)
        md_tn_correction_add(pool->settled, &o, true);
}

void md_ds_observe_at(md_ds_pool *pool, const int64_t *select_sizes, const md_ds_measured *m, bool may_wait)
{
    int64_t size[MD_TN_MAX_AXES] = {0};
    sizes_of(size, pool->space, select_sizes);
    md_ds_observe(pool, size, m, may_wait);
}

void md_ds_rank_observed(md_ds_pool *pool, int32_t hint, md_ds_ranked variant)
{
    const md_ds_measured measured = {variant.variant, MD_TN_CLOCK_TUNING, variant.us, variant.model_us};
    if (variant.model_us > 0.0)
        md_ds_observe(pool, pool->space->hint[hint], &measured, true);
    md_ds_rank(pool, hint, variant);
}

static void apply(double *us, md_ds_pool *pool, md_tn_correction *correction, const int64_t *select_sizes,
                  const int32_t *variant, int32_t n)
{
    int64_t size[MD_TN_MAX_AXES] = {0};
    md_tn_subject subject[MD_DS_MAX_VARIANTS];
    if (md_tn_correction_version(correction) == 0)
        return;
    sizes_of(size, pool->space, select_sizes);
    for (int32_t i = 0; i < n; i++)
        subject[i] = md_tn_subject_of(pool->variant[variant ? variant[i] : i]);
    md_tn_correction_apply(us, correction, size, subject, n);
}

void md_ds_correct(double *us, md_ds_pool *pool, const int64_t *select_sizes, const int32_t *variant, int32_t n)
{
    apply(us, pool, pool->correction, select_sizes, variant, n);
}

void md_ds_correct_picks(double *us, md_ds_pool *pool, const int64_t *select_sizes, int32_t n)
{
    apply(us, pool, md_ds_pick_correction(pool), select_sizes, NULL, n);
}

bool md_ds_is_measured(md_ds_pool *pool, int32_t variant)
{
    return md_tn_correction_knows(pool->correction, md_tn_subject_of(pool->variant[variant]));
}

/* ---- Installed wisdom */

enum { MOST_FAMILIES = 64 };

typedef struct lesson {
    md_ds_pool *pool;
    int32_t n_families;
    const md_fa_family *family[MOST_FAMILIES]; /* that were looked at */
    bool is_same[MOST_FAMILIES]; /* its kernels have the text that was measured */
} lesson;

/* True if the family's kernels have the text that the record was measured with. Asked once a family: all its records
 * have one text. */
static bool is_unchanged(lesson *l, const md_fa_family *family, const md_tn_record *r)
{
    int32_t i = 0;
    while (i < l->n_families && l->family[i] != family)
        i++;
    if (i == l->n_families && i < MOST_FAMILIES) {
        l->family[i] = family;
        l->is_same[i] = md_tn_has_text_of(l->pool->policy.wisdom, &l->pool->target, r);
        l->n_families++;
    }
    return i < MOST_FAMILIES && l->is_same[i];
}

static void learn_variant(lesson *l, int32_t v, const md_tn_record *r, const int64_t *size)
{
    md_ds_pool *pool = l->pool;
    const md_bd_variant *variant = pool->variant[v];
    const md_tn_clock clock = r->rigor >= MD_TUNE_MEASURE ? MD_TN_CLOCK_TUNING : MD_TN_CLOCK_ESTIMATE;
    for (int32_t i = 0; i < r->n_candidates; i++) {
        const md_tn_candidate *candidate = &r->candidate[i];
        if (candidate->verdict != MD_TN_TIMED || strcmp(candidate->name, variant->name) != 0 ||
            !is_unchanged(l, variant->family, r))
            continue;
        const double model_us = md_tn_predict_us(&pool->target, variant->family, &variant->config, size);
        observe_stored(pool, size, &(md_ds_measured){v, clock, candidate->us, model_us}, r->date);
    }
}

static void learn(void *user, const md_tn_record *r)
{
    lesson *l = user;
    const md_ds_pool *pool = l->pool;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    if (!md_tn_key_sizes(size, &pool->target, r->key) || !(md_ds_work(&pool->target, size) <= MD_DS_MOST_WORK))
        return;
    for (int32_t v = 0; v < pool->n_variants; v++)
        if (!strcmp(pool->variant[v]->family->name, r->family))
            learn_variant(l, v, r, size);
}

void md_ds_note_elsewhere(md_ds_pool *pool)
{
    lesson l = {.pool = pool};
    char *beginning = NULL;
    if (!pool->policy.wisdom || pool->policy.tune == MD_TUNE_OFF ||
        md_tn_key_beginning(&beginning, &pool->target) != MD_OK)
        return;
    md_tn_wisdom_each_text(pool->policy.wisdom, beginning, learn, &l);
    free(beginning);
}
