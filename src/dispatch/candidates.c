#include "dispatch/candidates.h"

#include "base/status.h"
#include "tune/tune.h"

#include <string.h>

static bool family_allowed(const md_fa_family *f, const md_fa_target *target, const md_ds_policy *policy)
{
    if (!f->applies(target) || (policy->without_library && f->is_library))
        return false;
    if (!f->is_reduction)
        return true;
    return !(policy->persistent == MD_PERSISTENT_ONLY && !f->is_persistent) &&
           !(policy->persistent == MD_PERSISTENT_NEVER && f->is_persistent);
}

/* The slot of a variant, made and queued if the pool has none of that name. */
static md_status add_variant(int32_t *slot, md_ds_candidates *c, md_bd *builder, const md_fa_family *f,
                             const md_fa_config *config, int32_t hint, int32_t limit)
{
    char name[MD_FA_NAME];
    md_fa_name(name, f, config);
    int32_t n = atomic_load_explicit(&c->n_variants, memory_order_relaxed);
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(c->variant[i]->name, name)) {
            *slot = i;
            return MD_OK;
        }
    *slot = -1;
    if (n >= limit)
        return MD_OK;
    MD_TRY(md_bd_variant_create(&c->variant[n], builder, &c->target, f, config));
    c->from_hint[n] = hint;
    atomic_store_explicit(&c->n_variants, n + 1, memory_order_release);
    *slot = n;
    return MD_OK;
}

static void insert_ranked(md_ds_candidates *c, int32_t hint, int32_t variant, double us)
{
    int32_t n = c->n_ranked[hint];
    if (n == MD_COUNT(c->ranked[hint]))
        return;
    int32_t at = n;
    while (at > 0 && c->ranked[hint][at - 1].us > us) {
        c->ranked[hint][at] = c->ranked[hint][at - 1];
        at--;
    }
    c->ranked[hint][at] = (md_ds_ranked){variant, us};
    c->n_ranked[hint] = n + 1;
}

static bool is_ranked(const md_ds_candidates *c, int32_t hint, int32_t variant)
{
    for (int32_t i = 0; i < c->n_ranked[hint]; i++)
        if (c->ranked[hint][i].variant == variant)
            return true;
    return false;
}

double md_ds_work(const md_fa_target *target, const int64_t *size)
{
    double flops = 0.0, bytes = 0.0;
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    return flops + bytes;
}

/* Models and geometries count in 64 bits. A hint beyond every machine stands for "large" as well after halving its largest size, again
 * and again. Sizes of a hint are no limits, so that static ones may be halved too. */
static void bring_into_reach(int64_t size[MD_FX_MAX_DIMS], const md_fa_target *target)
{
    static const double most = 1e15;
    while (!(md_ds_work(target, size) <= most)) {
        int32_t largest = 0;
        for (int32_t d = 1; d < target->program->formula->n_dims; d++)
            if (size[d] > size[largest])
                largest = d;
        if (size[largest] <= 1)
            return;
        size[largest] /= 2;
    }
}

/* `is_ragged`: rows and data lie at no boundary, as those of odd lengths do. */
static md_status add_hint(md_ds_candidates *c, md_bd *builder, const md_ds_space *space, int32_t hint, bool last_resort, bool is_ragged)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_kn_shape shape;
    md_ds_hint_sizes(size, space, hint);
    bring_into_reach(size, &c->target);
    md_tn_shape(&shape, c->target.program, size);
    if (is_ragged)
        shape.aligned = shape.aligned16 = 0;
    for (const md_fa_family *const *f = md_fa_families(c->target.facts->kind); *f; f++) {
        md_fa_config config;
        double us = 0.0;
        int32_t slot;
        if ((*f)->is_last_resort != last_resort || !family_allowed(*f, &c->target, &c->policy))
            continue;
        md_status s = md_tn_best(&config, &us, &c->target, *f, size, &shape);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        MD_TRY(add_variant(&slot, c, builder, *f, &config, hint, c->policy.max_variants));
        if (slot >= 0 && !is_ranked(c, hint, slot))
            insert_ranked(c, hint, slot, us);
    }
    return MD_OK;
}

static md_status add_pinned(md_ds_candidates *c, md_bd *builder)
{
    const md_fa_family *family;
    md_fa_config config;
    MD_TRY(md_fa_parse(&family, &config, c->target.facts->kind, c->policy.pin));
    if (!family->applies(&c->target))
        return md_fail(MD_INVALID_ARGUMENT, "pinned variant '%s': the family does not apply to the stage", c->policy.pin);
    MD_TRY(add_variant(&c->pinned, c, builder, family, &config, -1, MD_DS_MAX_VARIANTS));
    return md_bd_variant_wait(c->variant[c->pinned]);
}

md_status md_ds_candidates_init(md_ds_candidates *c, md_bd *builder, const md_fa_target *target, const md_ds_space *space,
                                const md_ds_policy *policy)
{
    memset(c, 0, sizeof *c);
    c->target = *target;
    c->policy = *policy;
    c->pinned = -1;
    pthread_mutex_init(&c->lock_of_variants, NULL);
    if (policy->pin)
        return add_pinned(c, builder);
    for (int32_t pass = 0; pass < 2 && c->n_variants == 0; pass++)
        for (int32_t h = 0; h < space->n_hints; h++)
            MD_TRY(add_hint(c, builder, space, h, pass == 1, false));
    /* On GPUs wide loads need boundaries that odd sizes do not have; without candidates for those, many a new shape would wait for a compiler. */
    for (int32_t h = 0; h < space->n_hints && target->facts->capability > 0; h++)
        MD_TRY(add_hint(c, builder, space, h, false, true));
    return MD_OK;
}

void md_ds_candidates_finish(md_ds_candidates *c)
{
    if (!c->target.program)
        return;
    for (int32_t i = 0; i < c->n_variants; i++)
        md_bd_variant_destroy(&c->variant[i]);
    pthread_mutex_destroy(&c->lock_of_variants);
    memset(c, 0, sizeof *c);
}

void md_ds_candidates_wait(md_ds_candidates *c)
{
    int32_t n = atomic_load_explicit(&c->n_variants, memory_order_acquire);
    for (int32_t i = 0; i < n; i++)
        (void)md_bd_variant_wait(c->variant[i]);
}

/* One family's best for a shape, built; *us stays where it does not fit. */
static md_status try_family(int32_t *slot, double *us, md_ds_candidates *c, md_bd *builder, const md_fa_family *f,
                            const md_kn_shape *shape)
{
    md_fa_config config;
    double t = 0.0;
    int32_t made;
    md_status s = md_tn_best(&config, &t, &c->target, f, shape->size, shape);
    if (s == MD_NOT_FOUND || (s == MD_OK && *slot >= 0 && t >= *us))
        return MD_OK;
    MD_TRY(s);
    int32_t limit = MD_DS_MAX_VARIANTS - (f->is_last_resort ? 0 : MD_DS_LAST_RESORTS);
    MD_TRY(add_variant(&made, c, builder, f, &config, -1, limit));
    if (made >= 0 && md_bd_variant_wait(c->variant[made]) == MD_OK &&
        !md_kn_envelope_miss(&c->variant[made]->envelope, shape)) {
        *slot = made;
        *us = t;
    }
    return MD_OK;
}

md_status md_ds_candidates_adopt(int32_t *variant, md_ds_candidates *c, md_bd *builder, const md_kn_shape *shape)
{
    md_status s = MD_OK;
    double us = 0.0;
    int32_t slot = -1;
    pthread_mutex_lock(&c->lock_of_variants);
    for (int32_t pass = 0; pass < 2 && slot < 0 && s == MD_OK; pass++)
        for (const md_fa_family *const *f = md_fa_families(c->target.facts->kind); *f && s == MD_OK; f++)
            if ((*f)->is_last_resort == (pass == 1) && family_allowed(*f, &c->target, &c->policy))
                s = try_family(&slot, &us, c, builder, *f, shape);
    pthread_mutex_unlock(&c->lock_of_variants);
    if (s == MD_OK && slot < 0)
        return md_fail(MD_NOT_FOUND, "no variant fits the shape");
    *variant = slot;
    return s;
}
