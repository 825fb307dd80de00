/* Adds variants for shapes that are called often and for which the pool has nothing good: it follows the traffic. */
#include "dispatch/pool/fill.h"

#include "base/status.h"
#include "dispatch/pool/internal.h"
#include "family/numeric.h"
#include "tune/tune.h"

/* The best that a family could have at a shape. */
typedef struct best {
    const md_fa_family *family;
    md_fa_config config;
    double us;
} best;

bool md_ds_pool_may_follow(const md_ds_pool *pool)
{
    return pool->pinned < 0 && !pool->numeric && pool->target.facts->can_compile && !md_bd_is_bundled(pool->builder) &&
           md_fa_stage(&pool->target)->kind != MD_ST_CHAIN;
}

/* Of the families that may serve the stage; with `class` only configs of that numeric class. */
static bool find_best(best *out, const md_ds_pool *pool, const md_kn_shape *shape, uint64_t class)
{
    best b = {.family = NULL};
    *out = b;
    for (int32_t i = 0; (b.family = md_fa_of(&pool->target, i)) != NULL; i++) {
        md_fa_numeric numeric;
        if (b.family->custom || b.family->is_last_resort || b.family->is_library ||
            !md_ds_family_allowed(b.family, &pool->target, &pool->policy) ||
            md_ds_numeric_best(&b.config, &b.us, pool, b.family, shape) != MD_OK)
            continue;
        md_fa_numeric_of(&numeric, &pool->target, b.family, &b.config);
        if ((!class || numeric.id == class) && (!out->family || b.us < out->us))
            *out = b;
    }
    return out->family != NULL;
}

/* The best of a numeric class, or of all, where it gains enough beside own_us. */
static md_status add_best(bool *has_added, md_ds_pool *pool, const md_kn_shape *shape, uint64_t class, double own_us)
{
    best b;
    char name[MD_FA_NAME];
    int32_t added = -1;
    if (atomic_load_explicit(&pool->n_followed, memory_order_relaxed) >= MD_DS_MOST_FOLLOWED ||
        !find_best(&b, pool, shape, class) || !(own_us > MD_DS_FOLLOW_GAIN * b.us))
        return MD_OK;
    md_fa_name(name, b.family, &b.config);
    if (md_ds_pool_find(pool, name) >= 0)
        return MD_OK;
    const md_ds_candidate candidate = {b.family, b.config, MD_DS_MAX_VARIANTS - MD_DS_LAST_RESORTS};
    MD_TRY(md_ds_pool_add(&added, pool, &candidate));
    if (added >= 0)
        atomic_fetch_add_explicit(&pool->n_followed, 1, memory_order_relaxed);
    *has_added |= added >= 0;
    return MD_OK;
}

md_status md_ds_pool_follow(bool *has_added, md_ds_pool *pool, const md_kn_shape *shape, int32_t own, bool keeps_bits)
{
    const md_bd_variant *v = pool->variant[own];
    const md_fa_target target = md_bd_variant_target(v, &pool->target);
    const double own_us = md_tn_form_us(&target, v->family, &v->config, shape->size);
    *has_added = false;
    MD_TRY(add_best(has_added, pool, shape, 0, own_us));
    return keeps_bits ? add_best(has_added, pool, shape, v->numeric_class, own_us) : MD_OK;
}

md_status md_ds_pool_follow_name(int32_t *added, md_ds_pool *pool, const char *name)
{
    md_ds_candidate candidate = {.limit = MD_DS_MAX_VARIANTS - MD_DS_LAST_RESORTS};
    *added = -1;
    if (!md_ds_pool_may_follow(pool) ||
        atomic_load_explicit(&pool->n_followed, memory_order_relaxed) >= MD_DS_MOST_FOLLOWED ||
        md_ds_pool_find(pool, name) >= 0)
        return MD_OK;
    MD_TRY(md_fa_parse_for(&candidate.family, &candidate.config, &pool->target, name));
    if (!md_ds_family_allowed(candidate.family, &pool->target, &pool->policy) ||
        !md_ds_config_allowed(candidate.family, &candidate.config, &pool->target, &pool->policy))
        return MD_OK;
    MD_TRY(md_ds_pool_add(added, pool, &candidate));
    if (*added >= 0)
        atomic_fetch_add_explicit(&pool->n_followed, 1, memory_order_relaxed);
    return MD_OK;
}
