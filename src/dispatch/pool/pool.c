#include "dispatch/pool/pool.h"

#include "base/task/fork.h"
#include "base/status.h"
#include "dispatch/pool/points.h"
#include "dispatch/pool/numeric.h"
#include "dispatch/pool/tune.h"
#include "family/numeric.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* The slot of a variant, made and queued if the pool has none of that name. */
static md_status add_variant(int32_t *slot, md_ds_pool *c, md_bd *builder, const md_fa_family *f,
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

/* Others may add, too, while a pool grows. */
static md_status add_to_pool(int32_t *slot, md_ds_pool *c, md_bd *builder, const md_fa_family *f,
                             const md_fa_config *config, int32_t hint, int32_t limit)
{
    pthread_mutex_lock(&c->lock_of_variants);
    md_status s = add_variant(slot, c, builder, f, config, hint, limit);
    pthread_mutex_unlock(&c->lock_of_variants);
    return s;
}

static bool is_ranked(const md_ds_ranks *r, int32_t hint, int32_t variant)
{
    for (int32_t i = 0; i < r->n[hint]; i++)
        if (r->of[hint][i].variant == variant)
            return true;
    return false;
}

void md_ds_rank(md_ds_pool *c, int32_t hint, int32_t variant, double us, double model_us)
{
    md_ds_ranks *r = c->draft;
    int32_t n = r->n[hint];
    if (n == MD_COUNT(r->of[hint]) || is_ranked(r, hint, variant))
        return;
    int32_t at = n;
    while (at > 0 && r->of[hint][at - 1].us > us) {
        r->of[hint][at] = r->of[hint][at - 1];
        at--;
    }
    r->of[hint][at] = (md_ds_ranked){variant, us, model_us};
    r->n[hint] = n + 1;
}

static md_status decide(md_fa_config *config, double *us, bool *is_measured, const md_ds_pool *c, const md_fa_family *f,
                        const md_tn_point *point, const md_kn_shape *shape, md_tune rigor)
{
    *is_measured = false;
    return c->numeric ? md_ds_numeric_best(config, us, c, f, shape)
                      : md_tn_decide(config, us, is_measured, c->policy.wisdom, c->estimates, rigor, &c->target, f,
                                     point, shape);
}

/* Of default hints, and of many, the last has the best of each family of a GPU; at the others a family of rows that
 * is so much slower than one before it would only be compiled. */
static const double far_behind = 1.5;

static bool are_choosy(const md_ds_pool *c, const md_ds_space *space)
{
    return c->target.facts->capability > 0 && (c->policy.off_hints || space->n_hints > MD_DS_FEW_HINTS);
}

enum { MAX_CORNERS = 20 }; /* and what is beside hints: above the pool's limit, which leaves MD_DS_SPARE_VARIANTS */
_Static_assert((int)MAX_CORNERS + (int)MD_DS_LAST_RESORTS <= (int)MD_DS_SPARE_VARIANTS,
               "places are left for last resorts");

/* `is_ragged`: rows and data lie at no boundary, as those of odd lengths do. */
static md_status add_hint(md_ds_pool *c, md_bd *builder, const md_ds_space *space, int32_t hint, bool last_resort,
                          bool is_ragged)
{
    md_tn_point point;
    md_kn_shape shape;
    md_ds_hint_point(&point, &c->target, space, hint, is_ragged);
    md_ds_point_shape(&shape, &c->target, &point);
    const bool is_choosy = are_choosy(c, space) && hint + 1 < space->n_hints;
    double least = 0.0;
    const md_fa_family *f;
    for (int32_t i = 0; (f = md_fa_of(&c->target, i)) != NULL; i++) {
        md_fa_config config;
        double us = 0.0;
        int32_t slot;
        if (f->is_last_resort != last_resort || !md_ds_family_allowed(f, &c->target, &c->policy))
            continue;
        bool is_measured = false;
        md_status s = decide(&config, &us, &is_measured, c, f, &point, &shape, c->policy.tune);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        if (is_choosy && f->is_reduction && least > 0 && us > least * far_behind)
            continue;
        least = least > 0 ? MD_MIN(least, us) : us;
        MD_TRY(
            add_to_pool(&slot, c, builder, f, &config, hint, c->policy.max_variants + (is_ragged ? MAX_CORNERS : 0)));
        if (slot >= 0 && is_measured && c->from_hint[slot] == hint && !is_ragged)
            atomic_store_explicit(&c->measured_us[slot], us, memory_order_relaxed);
        const double model_us = is_measured && !is_ragged ? md_tn_predict_us(&c->target, f, &config, shape.size) : 0.0;
        if (slot >= 0)
            md_ds_rank(c, hint, slot, us, model_us);
    }
    return MD_OK;
}

/* ---- GPUs: what diagonal hints do not see */

md_status md_ds_best_at(const md_fa_family **best, md_fa_config *best_config, const md_ds_pool *c,
                        const md_tn_point *point)
{
    const md_fa_family *f;
    md_fa_config config;
    md_kn_shape shape;
    double us = 0.0, least = 0.0;
    bool is_measured, is_best_measured = false;
    *best = NULL;
    md_ds_point_shape(&shape, &c->target, point);
    for (int32_t i = 0; (f = md_fa_of(&c->target, i)) != NULL; i++) {
        if (f->is_last_resort || f->is_library || !md_ds_family_allowed(f, &c->target, &c->policy))
            continue;
        md_status s = decide(&config, &us, &is_measured, c, f, point, &shape, MD_MAX(c->policy.tune, MD_TUNE_ESTIMATE));
        if (s == MD_NOT_FOUND ||
            (s == MD_OK && *best && (is_measured == is_best_measured ? us >= least : is_best_measured)))
            continue;
        MD_TRY(s);
        *best = f;
        *best_config = config;
        least = us;
        is_best_measured = is_measured;
    }
    return MD_OK;
}

static md_status add_best(md_ds_pool *c, md_bd *builder, const md_tn_point *point)
{
    const md_fa_family *best;
    md_fa_config config;
    int32_t slot;
    MD_TRY(md_ds_best_at(&best, &config, c, point));
    return best ? add_to_pool(&slot, c, builder, best, &config, -1, c->policy.max_variants + MAX_CORNERS) : MD_OK;
}

/* Wide loads need boundaries that odd sizes do not have, and a few long rows need other kernels than many of
 * middling length: without candidates for those, many a new shape would wait for a compiler or be served badly. */
static md_status add_beside_hints(md_ds_pool *c, md_bd *builder, const md_ds_space *space)
{
    md_tn_point point[MD_DS_MAX_CORNERS];
    for (int32_t h = 0; h < space->n_hints; h++) {
        md_ds_hint_point(&point[0], &c->target, space, h, true);
        if (c->policy.off_hints && h + 1 < space->n_hints) /* the last one has each family's */
            MD_TRY(add_best(c, builder, &point[0]));
        else
            MD_TRY(add_hint(c, builder, space, h, false, true));
    }
    const int32_t n = c->policy.off_hints ? md_ds_corner_points(point, &c->target, space) : 0;
    for (int32_t i = 0; i < n; i++)
        MD_TRY(add_best(c, builder, &point[i]));
    return MD_OK;
}

static md_status add_pinned(md_ds_pool *c, md_bd *builder)
{
    const md_fa_family *family;
    md_fa_config config;
    const md_status status = md_fa_parse_for(&family, &config, &c->target, c->policy.pin);
    if (status != MD_OK)
        return md_fail_more(status, "; '%s' is pinned, by an option or MD_PIN", c->policy.pin);
    if (!family->applies(&c->target))
        return md_fail(MD_INVALID_ARGUMENT, "pinned variant '%s': the family does not apply to the stage",
                       c->policy.pin);
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, &c->target, family, &config);
    if (!md_fa_numeric_allows(c->policy.numeric, &numeric))
        return md_fail(MD_INVALID_ARGUMENT, "pinned variant '%s': not under the numeric policy %s", c->policy.pin,
                       md_ds_numeric_name(c->policy.numeric));
    MD_TRY(add_variant(&c->pinned, c, builder, family, &config, -1, MD_DS_MAX_VARIANTS));
    return md_bd_variant_wait(c->variant[c->pinned]);
}

/* A user's own kernels are there, whatever the hints. The model cannot tell their configurations apart: some of all
 * are there for the clock to choose from. */
enum { CUSTOM_CONFIGS = 8 };
typedef struct spread {
    md_ds_pool *c;
    md_bd *builder;
    const md_fa_family *family;
    int32_t n, step; /* seen; every step-th is added, 0: none */
    md_status status;
} spread;

static bool add_spread(void *user, const md_fa_config *config)
{
    spread *s = user;
    int32_t slot;
    if (s->step && s->n % s->step == 0)
        s->status = add_variant(&slot, s->c, s->builder, s->family, config, -1, s->c->policy.max_variants);
    s->n++;
    return s->status == MD_OK;
}

static md_status add_customs(md_ds_pool *c, md_bd *builder, const md_ds_space *space)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, space, space->n_hints - 1);
    spread s = {.c = c, .builder = builder};
    for (int32_t i = 0; (s.family = md_fa_of(&c->target, i)) != NULL && s.family->custom; i++) {
        const md_fa_config first = md_fa_default(s.family);
        s.n = s.step = 0;
        md_fa_each(&c->target, s.family, size, add_spread, &s);
        s.step = (s.n + CUSTOM_CONFIGS - 1) / CUSTOM_CONFIGS;
        s.n = 0;
        int32_t slot;
        MD_TRY(add_variant(&slot, c, builder, s.family, &first, -1, MD_DS_MAX_VARIANTS));
        md_fa_each(&c->target, s.family, size, add_spread, &s);
        MD_TRY(s.status);
    }
    return MD_OK;
}

static bool add_answer(void *user, const md_fa_config *config)
{
    spread *s = user;
    int32_t slot;
    s->status = add_variant(&slot, s->c, s->builder, s->family, config, -1, MD_DS_MAX_VARIANTS - MD_DS_LAST_RESORTS);
    return s->status == MD_OK;
}

/* All that a library offers: its kernels are there, so that more of them cost nothing but the clock, which alone can
 * tell them apart. */
static md_status add_library(md_ds_pool *c, md_bd *builder, const md_ds_space *space)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, space, space->n_hints - 1);
    spread s = {.c = c, .builder = builder};
    for (int32_t i = 0; (s.family = md_fa_of(&c->target, i)) != NULL; i++)
        if (s.family->is_library && md_ds_family_allowed(s.family, &c->target, &c->policy)) {
            md_fa_each(&c->target, s.family, size, add_answer, &s);
            MD_TRY(s.status);
        }
    return MD_OK;
}

/* What represents the classes of a policy: in the pool before all else, and built, so that it is known from the
 * start which serve. */
static md_status add_representatives(md_ds_pool *c, md_bd *builder, const md_ds_space *space)
{
    MD_TRY(md_ds_numeric_create(&c->numeric, &c->target, space, &c->policy));
    for (int32_t i = 0; i < c->numeric->n_representatives; i++) {
        md_ds_representative *l = &c->numeric->representative[i];
        int32_t slot;
        MD_TRY(add_variant(&slot, c, builder, l->family, &l->config, -1, MD_DS_MAX_VARIANTS));
        l->variant = c->variant[slot];
    }
    for (int32_t i = 0; i < c->numeric->n_representatives; i++)
        (void)md_bd_variant_wait(c->numeric->representative[i].variant);
    return MD_OK;
}

/* All hints but those before `first`; the last resorts where there is nothing else. */
static md_status add_hints(md_ds_pool *c, md_bd *builder, const md_ds_space *space, int32_t first)
{
    const int32_t n_before = c->n_variants;
    for (int32_t pass = 0; pass < (first > 0 ? 1 : 2) && c->n_variants == n_before; pass++)
        for (int32_t h = first; h < space->n_hints; h++)
            MD_TRY(add_hint(c, builder, space, h, pass == 1, false));
    if (c->target.facts->capability > 0)
        MD_TRY(add_beside_hints(c, builder, space));
    if (c->policy.select == MD_SELECT_MEASURE && !c->numeric)
        MD_TRY(add_library(c, builder, space));
    return md_ds_note_measured(c, space);
}

static md_status add_pool(md_ds_pool *c, md_bd *builder, const md_ds_space *space, const md_ds_policy *policy,
                          bool only_first, md_ds_ahead *ahead)
{
    MD_TRY(add_customs(c, builder, space));
    if (policy->numeric >= MD_NUMERIC_DETERMINISTIC)
        MD_TRY(add_representatives(c, builder, space));
    else
        MD_TRY(md_ds_tune_hints(ahead, c, builder, space));
    const int32_t n_before = c->n_variants;
    if (only_first) {
        MD_TRY(add_hint(c, builder, space, 0, false, false));
        c->is_partial = c->n_variants > n_before;
    }
    return c->is_partial ? MD_OK : add_hints(c, builder, space, 0);
}

md_status md_ds_pool_init(md_ds_pool *c, md_bd *builder, const md_fa_target *target, const md_ds_space *space,
                          const md_ds_policy *policy, bool only_first)
{
    memset(c, 0, sizeof *c);
    c->target = *target;
    c->policy = *policy;
    c->pinned = -1;
    md_mutex_init(&c->lock_of_variants);
    c->draft = calloc(1, sizeof *c->draft);
    if (!c->draft)
        return md_fail_memory();
    atomic_init(&c->ranks, c->draft);
    if (policy->pin)
        return add_pinned(c, builder);
    MD_TRY(md_tn_estimates_open(&c->estimates, policy->wisdom, target));
    md_ds_ahead ahead = {0};
    md_status s = add_pool(c, builder, space, policy, only_first, &ahead);
    md_ds_ahead_finish(&ahead);
    if (!c->is_partial || s != MD_OK)
        md_tn_estimates_close(&c->estimates);
    return s;
}

md_status md_ds_pool_fill(md_ds_pool *c, md_bd *builder, const md_ds_space *space)
{
    if (!c->is_partial)
        return MD_OK;
    md_ds_ranks *seen = c->draft, *draft = malloc(sizeof *draft);
    if (!draft)
        return md_fail_memory();
    *draft = *seen;
    draft->older = seen;
    c->draft = draft;
    md_status s = add_hints(c, builder, space, 1);
    atomic_store_explicit(&c->ranks, draft, memory_order_release);
    md_tn_estimates_close(&c->estimates);
    return s;
}

void md_ds_pool_finish(md_ds_pool *c)
{
    if (!c->target.program)
        return;
    for (int32_t i = 0; i < c->n_variants; i++)
        md_bd_variant_destroy(&c->variant[i]);
    free(c->numeric);
    md_tn_estimates_close(&c->estimates);
    for (md_ds_ranks *r = c->draft; r;) {
        md_ds_ranks *older = r->older;
        free(r);
        r = older;
    }
    md_mutex_finish(&c->lock_of_variants);
    memset(c, 0, sizeof *c);
}

void md_ds_pool_wait(md_ds_pool *c)
{
    int32_t n = atomic_load_explicit(&c->n_variants, memory_order_acquire);
    for (int32_t i = 0; i < n; i++)
        (void)md_bd_variant_wait(c->variant[i]);
}

/* One family's best for a shape: who is better by the model comes first. A user's own kernels are in the pool from
 * the start, or not: they are verified there. */
typedef struct offer {
    const md_fa_family *family;
    md_fa_config config;
    double us;
} offer;

enum { MOST_OFFERS = 32 };

static md_status list_offers(offer out[MOST_OFFERS], int32_t *n, const md_ds_pool *c, const md_kn_shape *shape,
                             bool last_resorts)
{
    *n = 0;
    const md_fa_family *f;
    for (int32_t i = 0; (f = md_fa_of(&c->target, i)) != NULL && *n < MOST_OFFERS; i++) {
        offer o = {.family = f};
        if (f->custom || f->is_last_resort != last_resorts || !md_ds_family_allowed(f, &c->target, &c->policy))
            continue;
        md_status s = md_ds_numeric_best(&o.config, &o.us, c, f, shape);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        int32_t at = (*n)++;
        for (; at > 0 && out[at - 1].us > o.us; at--)
            out[at] = out[at - 1];
        out[at] = o;
    }
    return MD_OK;
}

/* The first one that has not failed before; -1 where there is none. */
static md_status add_offer(int32_t *slot, md_ds_pool *c, md_bd *builder, const offer *list, int32_t n,
                           const md_kn_shape *shape)
{
    int32_t made;
    *slot = -1;
    for (int32_t i = 0; i < n && *slot < 0; i++) {
        int32_t limit = MD_DS_MAX_VARIANTS - (list[i].family->is_last_resort ? 0 : MD_DS_LAST_RESORTS);
        MD_TRY(add_variant(&made, c, builder, list[i].family, &list[i].config, -1, limit));
        if (made >= 0 && atomic_load_explicit(&c->variant[made]->state, memory_order_acquire) != MD_BD_FAILED &&
            !md_kn_envelope_miss(&c->variant[made]->envelope, shape))
            *slot = made;
    }
    return MD_OK;
}

md_status md_ds_pool_add_fallback(int32_t *variant, md_ds_pool *c, md_bd *builder, const md_kn_shape *shape)
{
    int32_t slot = -1, n = 0;
    offer list[MOST_OFFERS];
    for (int32_t pass = 0; pass < 2 && slot < 0; pass++) {
        MD_TRY(list_offers(list, &n, c, shape, pass == 1));
        MD_TRY(add_offer(&slot, c, builder, list, n, shape));
    }
    if (slot < 0)
        return md_fail(MD_NOT_FOUND, "no variant fits the shape");
    *variant = slot;
    return MD_OK;
}
