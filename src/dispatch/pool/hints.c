/* Chooses the configs of a hint, by wisdom or model. */
#include "dispatch/pool/internal.h"

#include "base/status.h"
#include "dispatch/pool/pool.h"
#include "dispatch/space/points.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>

/* A family whose best is so many times slower than that of another one is left out: of families of rows at hints of
 * choosy pools, of the other families in frugal pools. */
static const double MAX_BEHIND = 1.5;
/* In frugal pools, a variant that is at most so many times slower than a hint's best serves that hint, too. */
static const double NEAR = 1.05;
/* A variant of the pool that is at most so many times slower than a hint's best of the kind is listed in its place. */
static const double NEAR_KIND = 1.25;
/* Off the hints a variant is added where the fastest of the pool takes more than this times as long. */
static const double FAR_BEHIND = 1.15;

/* GPU pools of default hints, or of many, keep every family's best at the last hint only. */
static bool is_choosy_at(const md_ds_pool *pool, int32_t hint)
{
    return pool->target.facts->capability > 0 &&
           (pool->policy.has_default_hints || pool->space->n_hints > MD_DS_FEW_HINTS) &&
           hint + 1 < pool->space->n_hints;
}

static md_status add_decision(md_ds_pool *pool, const md_fa_family *f, const md_tn_decision *d, int32_t hint,
                              const md_tn_point *point, const md_kn_shape *shape)
{
    const md_ds_candidate candidate = {.family = f,
                                       .config = d->config,
                                       .limit = pool->policy.max_variants + (point->is_ragged ? MD_DS_MAX_EXTRA : 0)};
    /* measured at the hint itself, not at its ragged twin */
    const bool is_measured = d->is_measured && !point->is_ragged;
    int32_t number;
    MD_TRY(md_ds_pool_add(&number, pool, &candidate));
    if (number < 0)
        return MD_OK;
    const double model_us = is_measured ? md_tn_predict_us(&pool->target, f, &d->config, shape->size) : 0.0;
    md_ds_rank_observed(pool, hint, (md_ds_ranked){.variant = number, .us = d->us, .model_us = model_us});
    return MD_OK;
}

enum { MAX_FAMILIES = 32 };

/* Of families of reductions: variants that keep rows on chip, and those that do not. */
typedef enum kind { OF_ANY_KIND, NOT_PERSISTENT, PERSISTENT } kind;

static bool is_of(kind wanted, const md_ds_pool *pool, const md_fa_family *f, const md_fa_config *config)
{
    return wanted == OF_ANY_KIND ||
           (f->is_reduction && md_fa_is_persistent(&pool->target, f, config) == (wanted == PERSISTENT));
}

/* Every family's best at a hint. */
typedef struct menu {
    md_tn_point point;
    md_kn_shape shape;
    int32_t n, best; /* best: -1 if n is 0 */
    const md_fa_family *family[MAX_FAMILIES];
    md_tn_decision decision[MAX_FAMILIES];
} menu;

/* Lists every family's best at m->point. */
static md_status list_families(menu *m, const md_ds_pool *pool, bool last_resorts)
{
    const md_fa_family *f;
    m->n = 0;
    m->best = -1;
    md_ds_point_shape(&m->shape, &pool->target, &m->point);
    for (int32_t i = 0; (f = md_fa_of(&pool->target, i)) != NULL && m->n < MAX_FAMILIES; i++) {
        md_tn_decision *d = &m->decision[m->n];
        if (f->is_last_resort != last_resorts || !md_ds_family_allowed(f, &pool->target, &pool->policy))
            continue;
        const md_status s = md_ds_decide(d, pool, f, &m->point, &m->shape, pool->policy.tune);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        m->family[m->n] = f;
        if (m->best < 0 || d->us < m->decision[m->best].us)
            m->best = m->n;
        m->n++;
    }
    return MD_OK;
}

static md_status add_listed(md_ds_pool *pool, const menu *m, int32_t i, int32_t hint)
{
    return add_decision(pool, m->family[i], &m->decision[i], hint, &m->point, &m->shape);
}

/* The pool's fastest at a point, among variants of a kind. */
static md_ds_ranked fastest(const md_ds_pool *pool, const menu *m, kind wanted)
{
    md_ds_ranked served = {.variant = -1, .us = INFINITY};
    for (int32_t i = 0; i < atomic_load_explicit(&pool->n_variants, memory_order_relaxed); i++) {
        const md_bd_variant *v = pool->variant[i];
        if (!is_of(wanted, pool, v->family, &v->config) || md_kn_envelope_miss(&v->envelope, &m->shape))
            continue;
        const double us = md_tn_form_us(&pool->target, v->family, &v->config, m->shape.size);
        if (us < served.us)
            served = (md_ds_ranked){.variant = i, .us = us};
    }
    return served;
}

/* ---- Both kinds at every hint */

static bool has_kind(const md_ds_pool *pool, int32_t hint, kind wanted)
{
    for (int32_t i = 0; i < pool->draft->n[hint]; i++) {
        const md_bd_variant *v = pool->variant[pool->draft->of[hint][i].variant];
        if (is_of(wanted, pool, v->family, &v->config))
            return true;
    }
    return false;
}

typedef struct search {
    const md_ds_pool *pool;
    const md_fa_family *family;
    kind wanted;
} search;

static bool is_wanted(void *user, const md_fa_config *config)
{
    const search *s = user;
    return is_of(s->wanted, s->pool, s->family, config);
}

/* Replaces a family's decision by its best config of the kind, if it has one. */
static bool decide_again(md_tn_decision *d, const md_ds_pool *pool, const menu *m, int32_t i, kind wanted)
{
    search s = {pool, m->family[i], wanted};
    d->is_measured = false;
    return m->family[i]->reads_again && !pool->numeric &&
           md_tn_best_of(&d->config, &d->us, &pool->target, m->family[i], &m->shape, &(md_tn_filter){is_wanted, &s}) ==
               MD_OK;
}

/* The fastest of a kind at the hint; -1: there is none. Families that have both kinds are asked again. */
static int32_t best_of_kind(md_tn_decision *out, const md_ds_pool *pool, const menu *m, kind wanted)
{
    int32_t best = -1;
    for (int32_t i = 0; i < m->n; i++) {
        md_tn_decision d = m->decision[i];
        if (!m->family[i]->is_reduction ||
            (!is_of(wanted, pool, m->family[i], &d.config) && !decide_again(&d, pool, m, i, wanted)))
            continue;
        if (best >= 0 && d.us >= out->us)
            continue;
        best = i;
        *out = d;
    }
    return best;
}

/* Lists the best of each kind for the hint, however slow the model finds it: measuring may find otherwise. A variant of
 * the pool that comes near it serves. `only_listed`: none is added. */
static md_status add_kinds(md_ds_pool *pool, const menu *m, int32_t hint, bool only_listed)
{
    static const kind kinds[] = {PERSISTENT, NOT_PERSISTENT};
    for (int32_t k = 0; k < MD_COUNT(kinds); k++) {
        md_tn_decision d;
        if (pool->policy.persistent >= MD_PERSISTENT_ONLY || has_kind(pool, hint, kinds[k]))
            continue;
        const md_ds_ranked served = fastest(pool, m, kinds[k]);
        if (only_listed) {
            if (served.variant >= 0)
                md_ds_rank_observed(pool, hint, served);
            continue;
        }
        const int32_t i = best_of_kind(&d, pool, m, kinds[k]);
        if (i >= 0 && served.us <= NEAR_KIND * d.us)
            md_ds_rank_observed(pool, hint, served);
        else if (i >= 0)
            MD_TRY(add_decision(pool, m->family[i], &d, hint, &m->point, &m->shape));
    }
    return MD_OK;
}

md_status md_ds_add_hint(md_ds_pool *pool, int32_t hint, bool last_resort, bool is_ragged)
{
    menu m;
    double least = 0.0;
    md_ds_hint_point(&m.point, &pool->target, pool->space, hint, is_ragged);
    MD_TRY(list_families(&m, pool, last_resort));
    for (int32_t i = 0; i < m.n; i++) {
        const double us = m.decision[i].us;
        if (is_choosy_at(pool, hint) && m.family[i]->is_reduction && least > 0 && us > least * MAX_BEHIND)
            continue;
        least = least > 0 ? MD_MIN(least, us) : us;
        MD_TRY(add_listed(pool, &m, i, hint));
    }
    return is_ragged || last_resort ? MD_OK : add_kinds(pool, &m, hint, false);
}

/* ---- Frugal pools */

bool md_ds_is_frugal(const md_ds_pool *pool)
{
    return pool->target.facts->kind == MD_DEV_HOST && pool->policy.has_default_hints && !pool->numeric &&
           pool->policy.tune < MD_TUNE_MEASURE;
}

/* Ranks the pool's best for a hint, if it comes near the best of all. */
static bool is_served(md_ds_pool *pool, const menu *m, int32_t hint)
{
    const md_tn_decision *d = &m->decision[m->best];
    const md_ds_ranked served = fastest(pool, m, OF_ANY_KIND);
    if (d->is_measured || served.us > NEAR * d->us)
        return false;
    md_ds_rank_observed(pool, hint, served);
    return true;
}

/* The hint where a family (by its place among the target's) comes nearest the best of all, the larger one of equals;
 * -1 where it serves none. */
static int32_t strong_point(const menu *of, int32_t n_hints, const md_fa_family *f, int32_t *at)
{
    double least = INFINITY;
    int32_t hint = -1;
    for (int32_t h = n_hints - 1; h >= 0; h--)
        for (int32_t i = 0; i < of[h].n; i++) {
            const double behind = of[h].decision[i].us / of[h].decision[of[h].best].us;
            if (of[h].family[i] != f || behind >= least)
                continue;
            least = behind;
            hint = h;
            *at = i;
        }
    return hint;
}

/* Hints are alike in all dims. Families differ elsewhere: in lopsided shapes and other layouts. */
static md_status add_each_family(md_ds_pool *pool, const menu *of)
{
    const md_fa_family *f;
    for (int32_t k = 0; (f = md_fa_of(&pool->target, k)) != NULL; k++) {
        int32_t i = 0;
        const int32_t h = strong_point(of, pool->space->n_hints, f, &i);
        if (h >= 0)
            MD_TRY(add_listed(pool, &of[h], i, h));
    }
    return MD_OK;
}

static md_status add_by_menus(md_ds_pool *pool, menu *of)
{
    for (int32_t h = 0; h < pool->space->n_hints; h++) {
        md_ds_hint_point(&of[h].point, &pool->target, pool->space, h, false);
        MD_TRY(list_families(&of[h], pool, false));
    }
    MD_TRY(add_each_family(pool, of));
    for (int32_t h = pool->space->n_hints - 1; h >= 0; h--) {
        const menu *m = &of[h];
        for (int32_t i = 0; i < m->n; i++)
            if (m->family[i]->is_library ||
                (m->decision[i].is_measured && m->decision[i].us <= MAX_BEHIND * m->decision[m->best].us))
                MD_TRY(add_listed(pool, m, i, h));
        if (m->best >= 0 && !is_served(pool, m, h))
            MD_TRY(add_listed(pool, m, m->best, h));
        MD_TRY(add_kinds(pool, m, h, true));
    }
    return MD_OK;
}

/* Adds the best at a point off the hints, if all of the pool are far behind it there. */
static md_status add_where_slow(md_ds_pool *pool, const md_tn_point *point)
{
    menu m = {.point = *point};
    int32_t number;
    MD_TRY(list_families(&m, pool, false));
    if (m.best < 0 || fastest(pool, &m, OF_ANY_KIND).us <= FAR_BEHIND * m.decision[m.best].us)
        return MD_OK;
    const md_ds_candidate best = {
        .family = m.family[m.best], .config = m.decision[m.best].config, .limit = pool->policy.max_variants};
    return md_ds_pool_add(&number, pool, &best);
}

md_status md_ds_add_frugally(md_ds_pool *pool)
{
    md_tn_point point[MD_DS_MAX_BETWEEN], corner[MD_DS_MAX_CORNERS];
    menu *of = calloc((size_t)pool->space->n_hints, sizeof *of);
    if (!of)
        return md_fail_memory();
    md_status s = add_by_menus(pool, of);
    free(of);
    const int32_t n = md_ds_points_between(point, &pool->target, pool->space);
    for (int32_t i = 0; i < n && s == MD_OK; i++)
        s = add_where_slow(pool, &point[i]);
    const int32_t n_corners =
        md_fa_stage(&pool->target)->kind == MD_ST_CHAIN ? md_ds_corner_points(corner, &pool->target, pool->space) : 0;
    for (int32_t i = 0; i < n_corners && s == MD_OK; i++)
        s = add_where_slow(pool, &corner[i]);
    return s;
}

md_status md_ds_add_first(md_ds_pool *pool, int32_t hint)
{
    menu m;
    md_ds_hint_point(&m.point, &pool->target, pool->space, hint, false);
    MD_TRY(list_families(&m, pool, false));
    for (int32_t i = 0; i < m.n; i++)
        if (m.family[i]->is_library || i == m.best)
            MD_TRY(add_listed(pool, &m, i, hint));
    return MD_OK;
}
