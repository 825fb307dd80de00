/* Chooses the configs of a hint, by wisdom or model. */
#include "dispatch/pool/hints.h"

#include "base/status.h"
#include "dispatch/pool/correct.h"
#include "dispatch/pool/decide.h"
#include "dispatch/pool/points.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>

/* A family whose best is so many times slower than that of another one is left out: of families of rows at hints of
 * choosy pools, of the other families in frugal pools. */
static const double MAX_BEHIND = 1.5;
/* In frugal pools, a variant that is at most so many times slower than a hint's best serves that hint, too. */
static const double NEAR = 1.05;
/* Off the hints another variant is added only for so many times the best one's time. */
static const double FAR_BEHIND = 1.15;

/* GPU pools of default hints, or of many, keep every family's best at the last hint only. */
static bool is_choosy_at(const md_ds_pool *c, int32_t hint)
{
    return c->target.facts->capability > 0 && (c->policy.has_default_hints || c->space->n_hints > MD_DS_FEW_HINTS) &&
           hint + 1 < c->space->n_hints;
}

static md_status add_decision(md_ds_pool *c, const md_fa_family *f, const md_tn_decision *d, int32_t hint,
                              const md_tn_point *point, const md_kn_shape *shape)
{
    const md_ds_candidate candidate = {
        .family = f, .config = d->config, .limit = c->policy.max_variants + (point->is_ragged ? MD_DS_MAX_EXTRA : 0)};
    const bool is_measured = d->is_measured && !point->is_ragged; /* at the hint itself */
    int32_t slot;
    MD_TRY(md_ds_pool_add(&slot, c, &candidate));
    if (slot < 0)
        return MD_OK;
    const double model_us = is_measured ? md_tn_predict_us(&c->target, f, &d->config, shape->size) : 0.0;
    md_ds_rank_observed(c, hint, (md_ds_ranked){.variant = slot, .us = d->us, .model_us = model_us});
    return MD_OK;
}

md_status md_ds_add_hint(md_ds_pool *c, int32_t hint, bool last_resort, bool is_ragged)
{
    md_tn_point point;
    md_kn_shape shape;
    md_ds_hint_point(&point, &c->target, c->space, hint, is_ragged);
    md_ds_point_shape(&shape, &c->target, &point);
    double least = 0.0;
    const md_fa_family *f;
    for (int32_t i = 0; (f = md_fa_of(&c->target, i)) != NULL; i++) {
        md_tn_decision d = {.us = 0.0};
        if (f->is_last_resort != last_resort || !md_ds_family_allowed(f, &c->target, &c->policy))
            continue;
        const md_status s = md_ds_decide(&d, c, f, &point, &shape, c->policy.tune);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        if (is_choosy_at(c, hint) && f->is_reduction && least > 0 && d.us > least * MAX_BEHIND)
            continue;
        least = least > 0 ? MD_MIN(least, d.us) : d.us;
        MD_TRY(add_decision(c, f, &d, hint, &point, &shape));
    }
    return MD_OK;
}

/* ---- Frugal pools */

bool md_ds_is_frugal(const md_ds_pool *c)
{
    return c->target.facts->kind == MD_DEV_HOST && c->policy.has_default_hints && !c->numeric &&
           c->policy.tune < MD_TUNE_MEASURE;
}

enum { MAX_FAMILIES = 32 };

/* Every family's best at a hint. */
typedef struct menu {
    md_tn_point point;
    md_kn_shape shape;
    int32_t n, best; /* best: -1 if n is 0 */
    const md_fa_family *family[MAX_FAMILIES];
    md_tn_decision decision[MAX_FAMILIES];
} menu;

/* At m->point. */
static md_status list_families(menu *m, const md_ds_pool *c)
{
    const md_fa_family *f;
    m->n = 0;
    m->best = -1;
    md_ds_point_shape(&m->shape, &c->target, &m->point);
    for (int32_t i = 0; (f = md_fa_of(&c->target, i)) != NULL && m->n < MAX_FAMILIES; i++) {
        md_tn_decision *d = &m->decision[m->n];
        if (f->is_last_resort || !md_ds_family_allowed(f, &c->target, &c->policy))
            continue;
        const md_status s = md_ds_decide(d, c, f, &m->point, &m->shape, c->policy.tune);
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

static md_status add_listed(md_ds_pool *c, const menu *m, int32_t i, int32_t hint)
{
    return add_decision(c, m->family[i], &m->decision[i], hint, &m->point, &m->shape);
}

/* The pool's fastest at a point. */
static md_ds_ranked fastest(const md_ds_pool *c, const menu *m)
{
    md_ds_ranked served = {.variant = -1, .us = INFINITY};
    for (int32_t i = 0; i < atomic_load_explicit(&c->n_variants, memory_order_relaxed); i++) {
        const md_bd_variant *v = c->variant[i];
        if (md_kn_envelope_miss(&v->envelope, &m->shape))
            continue;
        const double us = md_tn_predict_us(&c->target, v->family, &v->config, m->shape.size);
        if (us < served.us)
            served = (md_ds_ranked){.variant = i, .us = us};
    }
    return served;
}

/* Ranks the pool's best for a hint, if it comes near the best of all. */
static bool is_served(md_ds_pool *c, const menu *m, int32_t hint)
{
    const md_tn_decision *d = &m->decision[m->best];
    const md_ds_ranked served = fastest(c, m);
    if (d->is_measured || served.us > NEAR * d->us)
        return false;
    md_ds_rank_observed(c, hint, served);
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
static md_status add_each_family(md_ds_pool *c, const menu *of)
{
    const md_fa_family *f;
    for (int32_t k = 0; (f = md_fa_of(&c->target, k)) != NULL; k++) {
        int32_t i = 0;
        const int32_t h = strong_point(of, c->space->n_hints, f, &i);
        if (h >= 0)
            MD_TRY(add_listed(c, &of[h], i, h));
    }
    return MD_OK;
}

static md_status add_by_menus(md_ds_pool *c, menu *of)
{
    for (int32_t h = 0; h < c->space->n_hints; h++) {
        md_ds_hint_point(&of[h].point, &c->target, c->space, h, false);
        MD_TRY(list_families(&of[h], c));
    }
    MD_TRY(add_each_family(c, of));
    for (int32_t h = c->space->n_hints - 1; h >= 0; h--) {
        const menu *m = &of[h];
        for (int32_t i = 0; i < m->n; i++)
            if (m->family[i]->is_library ||
                (m->decision[i].is_measured && m->decision[i].us <= MAX_BEHIND * m->decision[m->best].us))
                MD_TRY(add_listed(c, m, i, h));
        if (m->best >= 0 && !is_served(c, m, h))
            MD_TRY(add_listed(c, m, m->best, h));
    }
    return MD_OK;
}

/* Adds the best at a point off the hints, if all of the pool are far behind it there. */
static md_status add_where_slow(md_ds_pool *c, const md_tn_point *point)
{
    menu m = {.point = *point};
    int32_t slot;
    MD_TRY(list_families(&m, c));
    if (m.best < 0 || fastest(c, &m).us <= FAR_BEHIND * m.decision[m.best].us)
        return MD_OK;
    const md_ds_candidate best = {
        .family = m.family[m.best], .config = m.decision[m.best].config, .limit = c->policy.max_variants};
    return md_ds_pool_add(&slot, c, &best);
}

md_status md_ds_add_frugally(md_ds_pool *c)
{
    md_tn_point point[MD_DS_MAX_BETWEEN];
    menu *of = calloc((size_t)c->space->n_hints, sizeof *of);
    if (!of)
        return md_fail_memory();
    md_status s = add_by_menus(c, of);
    free(of);
    const int32_t n = md_ds_points_between(point, &c->target, c->space);
    for (int32_t i = 0; i < n && s == MD_OK; i++)
        s = add_where_slow(c, &point[i]);
    return s;
}

md_status md_ds_add_first(md_ds_pool *c)
{
    menu m;
    const int32_t middle = c->space->n_hints / 2; /* at the smallest sizes the best is one for those alone */
    md_ds_hint_point(&m.point, &c->target, c->space, middle, false);
    MD_TRY(list_families(&m, c));
    for (int32_t i = 0; i < m.n; i++)
        if (m.family[i]->is_library || i == m.best)
            MD_TRY(add_listed(c, &m, i, middle));
    return MD_OK;
}
