#include "dispatch/pool/tune.h"

#include "base/status.h"
#include "dispatch/pool/points.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

typedef struct asker {
    const md_fa_target *target;
    const md_ds_policy *policy;
} asker;

static bool allows(const void *user, const md_fa_family *family, const md_fa_config *config)
{
    (void)config;
    const asker *r = user;
    return md_ds_family_allowed(family, r->target, r->policy);
}

/* Ragged twins of all hints, and corners where hints are the defaults; none twice. */
static int32_t points_beside(md_tn_point *out, const md_fa_target *target, const md_ds_policy *policy,
                             const md_ds_space *space)
{
    int32_t n = 0, n_kept = 0;
    for (int32_t h = 0; h < space->n_hints; h++)
        md_ds_hint_point(&out[n++], target, space, h, true);
    if (policy->off_hints)
        n += md_ds_corner_points(out + n, target, space);
    for (int32_t i = 0; i < n; i++) {
        bool is_new = true;
        for (int32_t k = 0; k < n_kept && is_new; k++)
            is_new = memcmp(&out[k], &out[i], sizeof *out) != 0;
        if (is_new)
            out[n_kept++] = out[i];
    }
    return n_kept;
}

md_status md_ds_tune_stage(const md_tn_job *job, const md_fa_target *target, const md_ds_policy *policy,
                           const md_ds_space *space, bool off_hints)
{
    const asker r = {target, policy};
    const bool is_twofold = off_hints && target->facts->capability > 0;
    md_tn_point *point = calloc((size_t)(space->n_hints + MD_DS_MAX_CORNERS), sizeof *point);
    if (!point)
        return md_fail_memory();
    for (int32_t h = 0; h < space->n_hints; h++)
        md_ds_hint_point(&point[h], target, space, h, false);
    md_tn_job all = *job;
    all.target = *target;
    all.wisdom = policy->wisdom;
    all.count = policy->tune_count;
    all.n_points = space->n_hints;
    all.point = point;
    all.allows = allows;
    all.allows_user = &r;
    all.budget_ms = (job->budget_ms > 0.0           ? job->budget_ms
                     : policy->tune_budget_ms > 0.0 ? policy->tune_budget_ms
                                                    : MD_TN_BUDGET_MS) /
                    target->program->n_stages / (is_twofold ? 2 : 1);
    md_status s = md_tn_tune(&all);
    if (s == MD_OK && is_twofold) {
        all.n_points = points_beside(point, target, policy, space);
        s = md_tn_tune(&all);
    }
    free(point);
    return s;
}

/* Nothing that fails here is missed: the pool tries again. */
static void build_ahead(void *user)
{
    md_ds_ahead *a = user;
    const md_fa_target *target = &a->c->target;
    md_tn_point point[MD_DS_MAX_HINTS + MD_DS_MAX_CORNERS];
    int32_t n = 0;
    for (int32_t h = 0; h + 1 < a->space->n_hints; h++)
        md_ds_hint_point(&point[n++], target, a->space, h, true);
    n += md_ds_corner_points(point + n, target, a->space);
    for (int32_t i = 0; i < n; i++) {
        const md_fa_family *best = NULL;
        md_fa_config config;
        if (md_ds_best_at(&best, &config, a->c, &point[i]) == MD_OK && best &&
            md_bd_variant_create(&a->variant[a->n], a->builder, target, best, &config) == MD_OK)
            a->n++;
    }
}

void md_ds_ahead_finish(md_ds_ahead *ahead)
{
    for (int32_t i = 0; i < ahead->n; i++)
        md_bd_variant_destroy(&ahead->variant[i]);
    ahead->n = 0;
}

md_status md_ds_tune_hints(md_ds_ahead *ahead, const md_ds_pool *c, md_bd *builder, const md_ds_space *space)
{
    const bool has_more = c->policy.off_hints && c->target.facts->capability > 0;
    *ahead = (md_ds_ahead){.c = c, .builder = builder, .space = space};
    const md_tn_job job = {.builder = builder,
                           .rigor = c->policy.tune,
                           .seed = 1,
                           .meanwhile = has_more ? build_ahead : NULL,
                           .meanwhile_user = ahead};
    if (c->policy.tune < MD_TUNE_MEASURE || !c->policy.wisdom || !c->target.facts->can_compile)
        return MD_OK;
    return md_ds_tune_stage(&job, &c->target, &c->policy, space, false); /* creation has no time for more */
}

static int32_t slot_of(const md_ds_pool *c, const char *variant)
{
    for (int32_t i = 0; i < c->n_variants; i++)
        if (!strcmp(c->variant[i]->name, variant))
            return i;
    return -1;
}

static void note_record(md_ds_pool *c, int32_t hint, const md_tn_record *r, const int64_t *size)
{
    for (int32_t i = 0; i < r->n_candidates; i++) {
        const md_tn_candidate *t = &r->candidate[i];
        const int32_t slot = t->verdict == MD_TN_TIMED && t->us > 0.0 ? slot_of(c, t->name) : -1;
        if (slot >= 0)
            md_ds_rank(c, hint, slot, t->us,
                       md_tn_predict_us(&c->target, c->variant[slot]->family, &c->variant[slot]->config, size));
    }
}

md_status md_ds_note_measured(md_ds_pool *c, const md_ds_space *space)
{
    const md_fa_family *f;
    for (int32_t h = 0; h < space->n_hints; h++) {
        int64_t size[MD_FX_MAX_DIMS];
        bool is_measured = false;
        char *key = NULL;
        for (int32_t k = 0; k < c->draft->n[h]; k++)
            is_measured = is_measured || c->draft->of[h][k].model_us > 0.0;
        if (!is_measured)
            continue;
        md_ds_hint_sizes(size, space, h);
        md_ds_bring_into_reach(size, &c->target);
        MD_TRY(md_tn_key(&key, &c->target, size, false));
        for (int32_t i = 0; (f = md_fa_of(&c->target, i)) != NULL; i++) {
            md_tn_record r;
            if (f->is_last_resort || !f->applies(&c->target) ||
                md_tn_wisdom_find(&r, c->policy.wisdom, key, f->name, MD_TUNE_MEASURE) != MD_OK)
                continue;
            note_record(c, h, &r, size);
            md_tn_record_finish(&r);
        }
        free(key);
    }
    return MD_OK;
}
