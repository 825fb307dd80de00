/* The measured search at the hints of an op, and for every stage of a formula without one. */
#include "dispatch/pool/internal.h"

#include "base/status.h"
#include "dispatch/pool/fill.h"
#include "dispatch/pool/pool.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

typedef struct allowed {
    const md_fa_target *target;
    const md_ds_policy *policy;
} allowed;

static bool allows(const void *user, const md_fa_family *family, const md_fa_config *config)
{
    const allowed *a = user;
    return md_ds_family_allowed(family, a->target, a->policy) &&
           (!config || md_ds_config_allowed(family, config, a->target, a->policy));
}

int32_t md_ds_extra_points(md_tn_point *out, const md_fa_target *target, const md_ds_policy *policy,
                           const md_ds_space *space)
{
    int32_t n = 0, n_stored = 0;
    for (int32_t h = 0; h < space->n_hints; h++)
        md_ds_hint_point(&out[n++], target, space, h, true);
    if (policy->has_default_hints)
        n += md_ds_corner_points(out + n, target, space);
    for (int32_t i = 0; i < n; i++) {
        bool is_new = true;
        for (int32_t k = 0; k < n_stored && is_new; k++)
            is_new = memcmp(&out[k], &out[i], sizeof *out) != 0;
        if (is_new)
            out[n_stored++] = out[i];
    }
    return n_stored;
}

static double budget_of(const md_tn_job *job, const md_ds_policy *policy)
{
    return job->budget_ms > 0.0           ? job->budget_ms
           : policy->tune_budget_ms > 0.0 ? policy->tune_budget_ms
                                          : MD_TN_BUDGET_MS;
}

md_status md_ds_tune_points(const md_tn_job *job, const md_fa_target *target, const md_ds_policy *policy,
                            const md_tn_point *point, int32_t n)
{
    const allowed families = {target, policy};
    md_tn_job all = *job;
    all.target = *target;
    all.wisdom = policy->wisdom;
    all.count = policy->tune_count;
    all.n_points = n;
    all.point = point;
    all.allows = allows;
    all.allows_user = &families;
    return md_tn_tune(&all);
}

/* Searches one stage at the hints, and at the extra points where asked for and on a GPU, with half of the time for
 * each. `job` says all but target, points, wisdom and counters; its budget is of all stages. */
static md_status tune_stage(const md_tn_job *job, const md_fa_target *target, const md_ds_policy *policy,
                            const md_ds_space *space, bool off_hints)
{
    const bool has_extra = off_hints && target->facts->capability > 0;
    md_tn_point *point = calloc((size_t)(space->n_hints + MD_DS_MAX_CORNERS), sizeof *point);
    if (!point)
        return md_fail_memory();
    for (int32_t h = 0; h < space->n_hints; h++)
        md_ds_hint_point(&point[h], target, space, h, false);
    md_tn_job part = *job;
    part.budget_ms = budget_of(job, policy) / target->program->n_stages / (has_extra ? 2 : 1);
    md_status s = md_ds_tune_points(&part, target, policy, point, space->n_hints);
    if (s == MD_OK && has_extra)
        s = md_ds_tune_points(&part, target, policy, point, md_ds_extra_points(point, target, policy, space));
    free(point);
    return s;
}

/* ---- For a pool */

/* Starts builds that the pool asks for later. Failures are ignored: the pool tries again. */
static void prebuild(void *user)
{
    md_ds_prebuilt *p = user;
    const md_ds_pool *pool = p->pool;
    md_tn_point point[MD_DS_MAX_HINTS + MD_DS_MAX_CORNERS];
    int32_t n = 0;
    for (int32_t h = 0; h + 1 < pool->space->n_hints; h++)
        md_ds_hint_point(&point[n++], &pool->target, pool->space, h, true);
    n += md_ds_corner_points(point + n, &pool->target, pool->space);
    for (int32_t i = 0; i < n; i++) {
        const md_fa_family *best = NULL;
        md_fa_config config;
        if (md_ds_best_at(&best, &config, pool, &point[i]) == MD_OK && best &&
            md_bd_variant_create(&p->variant[p->n], pool->builder, &pool->target, best, &config) == MD_OK)
            p->n++;
    }
}

void md_ds_prebuilt_finish(md_ds_prebuilt *prebuilt)
{
    for (int32_t i = 0; i < prebuilt->n; i++)
        md_bd_variant_destroy(&prebuilt->variant[i]);
    prebuilt->n = 0;
}

md_status md_ds_tune_hints(md_ds_prebuilt *prebuilt, const md_ds_pool *pool)
{
    const bool has_extra = pool->policy.has_default_hints && pool->target.facts->capability > 0;
    *prebuilt = (md_ds_prebuilt){.pool = pool};
    const md_tn_job job = {.builder = pool->builder,
                           .rigor = pool->policy.tune,
                           .seed = 1,
                           .meanwhile = has_extra ? prebuild : NULL,
                           .meanwhile_user = prebuilt};
    if (pool->policy.tune < MD_TUNE_MEASURE || !pool->policy.wisdom || !pool->target.facts->can_compile)
        return MD_OK;
    /* no extra points: creating an op has no time for them */
    return tune_stage(&job, &pool->target, &pool->policy, pool->space, false);
}

static void rank_record(md_ds_pool *pool, int32_t hint, const md_tn_record *r, const int64_t *size)
{
    for (int32_t i = 0; i < r->n_candidates; i++) {
        const md_tn_candidate *candidate = &r->candidate[i];
        const int32_t number =
            candidate->verdict == MD_TN_TIMED && candidate->us > 0.0 ? md_ds_pool_find(pool, candidate->name) : -1;
        if (number < 0)
            continue;
        const md_bd_variant *v = pool->variant[number];
        md_ds_rank_observed(pool, hint,
                            (md_ds_ranked){.variant = number,
                                           .us = candidate->us,
                                           .model_us = md_tn_predict_us(&pool->target, v->family, &v->config, size)});
    }
}

static md_status note_at(md_ds_pool *pool, int32_t hint)
{
    const md_fa_family *f;
    int64_t size[MD_FX_MAX_DIMS];
    char *key = NULL;
    md_ds_hint_sizes(size, pool->space, hint);
    md_ds_bring_into_reach(size, &pool->target);
    MD_TRY(md_tn_key(&key, &pool->target, size, false));
    for (int32_t i = 0; (f = md_fa_of(&pool->target, i)) != NULL; i++) {
        md_tn_record r;
        if (f->is_last_resort || !md_fa_applies(f, &pool->target) ||
            md_tn_wisdom_find(&r, pool->policy.wisdom, key, f->name, MD_TUNE_MEASURE) != MD_OK)
            continue;
        rank_record(pool, hint, &r, size);
        md_tn_record_finish(&r);
    }
    free(key);
    return MD_OK;
}

md_status md_ds_note_measured(md_ds_pool *pool)
{
    for (int32_t h = 0; h < pool->space->n_hints; h++) {
        bool is_measured = false;
        for (int32_t k = 0; k < pool->draft->n[h]; k++)
            is_measured = is_measured || pool->draft->of[h][k].model_us > 0.0;
        if (is_measured)
            MD_TRY(note_at(pool, h));
    }
    return MD_OK;
}

/* ---- A formula without an op */

md_status md_ds_tune_formula(const md_ds_tune_request *request, const char *formula)
{
    const md_dev_facts *facts = &md_bd_device(request->builder)->facts;
    md_ds_compiled *c = NULL;
    md_status s = MD_OK;
    if (!facts->can_compile)
        return md_fail(MD_UNSUPPORTED, "nothing can be tuned: kernels cannot be compiled here");
    MD_TRY(md_ds_compile(&c, facts, formula, &request->compile));
    md_ds_warn(request->log, c);
    md_tn_job job = request->job;
    job.builder = request->builder;
    for (int32_t i = 0; s == MD_OK && i < c->program->n_stages; i++) {
        const md_fa_target target = md_ds_target_of(c, i);
        s = tune_stage(&job, &target, &c->policy, &c->space, request->off_hints);
    }
    md_ds_compiled_destroy(&c);
    return s;
}
