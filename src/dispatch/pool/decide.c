/* Decides by numeric policy, wisdom and model which config serves a point. */
#include "dispatch/pool/internal.h"

#include "base/status.h"
#include "dispatch/numeric/numeric.h"
#include "family/numeric.h"
#include "tune/search/search.h"
#include "tune/tune.h"
#include "dispatch/space/points.h"

typedef struct wanted {
    const md_ds_pool *pool;
    const md_fa_family *family;
    uint64_t id;
} wanted;

static bool is_of_class(void *user, const md_fa_config *config)
{
    const wanted *w = user;
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, &w->pool->target, w->family, config);
    return numeric.id == w->id && md_ds_config_allowed(w->family, config, &w->pool->target, &w->pool->policy);
}

md_status md_ds_numeric_best(md_fa_config *out, double *us, const md_ds_pool *pool, const md_fa_family *family,
                             const md_kn_shape *shape)
{
    if (!pool->numeric) {
        MD_TRY(md_tn_estimate(out, us, pool->estimates, &pool->target, family, shape));
        return md_ds_config_allowed(family, out, &pool->target, &pool->policy)
                   ? MD_OK
                   : md_ds_best_allowed(out, us, family, &pool->target, &pool->policy, shape);
    }
    wanted w = {pool, family, md_ds_numeric_class(pool->numeric, shape)};
    return md_tn_best_of(out, us, &pool->target, family, shape, &(md_tn_filter){is_of_class, &w});
}

md_status md_ds_decide(md_tn_decision *out, const md_ds_pool *pool, const md_fa_family *family,
                       const md_tn_point *point, const md_kn_shape *shape, md_tune rigor)
{
    if (pool->numeric) {
        out->is_measured = false;
        return md_ds_numeric_best(&out->config, &out->us, pool, family, shape);
    }
    const md_tn_query query = {.target = &pool->target,
                               .point = point,
                               .shape = shape,
                               .rigor = rigor,
                               .wisdom = pool->policy.wisdom,
                               .estimates = pool->estimates};
    MD_TRY(md_tn_decide(out, &query, family));
    if (md_ds_config_allowed(family, &out->config, &pool->target, &pool->policy))
        return MD_OK;
    out->is_measured = false;
    return md_ds_best_allowed(&out->config, &out->us, family, &pool->target, &pool->policy, shape);
}

/* A measured time beats every estimate. */
static bool is_better(const md_tn_decision *a, const md_tn_decision *b)
{
    return a->is_measured == b->is_measured ? a->us < b->us : a->is_measured;
}

md_status md_ds_best_at(const md_fa_family **best, md_fa_config *config, const md_ds_pool *pool,
                        const md_tn_point *point)
{
    md_tn_decision least = {.us = 0.0};
    md_kn_shape shape;
    const md_fa_family *f;
    *best = NULL;
    md_ds_point_shape(&shape, &pool->target, point);
    for (int32_t i = 0; (f = md_fa_of(&pool->target, i)) != NULL; i++) {
        md_tn_decision d;
        if (f->is_last_resort || f->is_library || !md_ds_family_allowed(f, &pool->target, &pool->policy))
            continue;
        const md_status s = md_ds_decide(&d, pool, f, point, &shape, MD_MAX(pool->policy.tune, MD_TUNE_ESTIMATE));
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        if (*best && !is_better(&d, &least))
            continue;
        *best = f;
        least = d;
    }
    if (*best)
        *config = least.config;
    return MD_OK;
}
