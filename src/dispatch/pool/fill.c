/* Fills pools: chooses which variants of a stage are built. */
#include "dispatch/pool/fill.h"

#include "base/status.h"
#include "dispatch/pool/pool.h"
#include "dispatch/pool/internal.h"
#include "dispatch/numeric/numeric.h"
#include "dispatch/space/points.h"
#include "family/numeric.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* Configs of a user's own kernel. */
enum { CUSTOM_CONFIGS = 8 };

/* ---- GPUs: extra points off the hints */

static md_status add_best(md_ds_pool *pool, const md_tn_point *point)
{
    md_ds_candidate best = {.limit = pool->policy.max_variants + MD_DS_MAX_EXTRA};
    int32_t number;
    MD_TRY(md_ds_best_at(&best.family, &best.config, pool, point));
    return best.family ? md_ds_pool_add(&number, pool, &best) : MD_OK;
}

/* The best of each family whose configs are for such points alone, whichever the model finds slow: no hint asks for
 * one, and the model decides at each shape. */
static md_status add_for_points(md_ds_pool *pool, const md_tn_point *point)
{
    md_ds_candidate one = {.limit = pool->policy.max_variants + MD_DS_MAX_EXTRA};
    md_kn_shape shape;
    md_ds_point_shape(&shape, &pool->target, point);
    for (int32_t i = 0; (one.family = md_fa_of(&pool->target, i)) != NULL; i++) {
        md_tn_decision d;
        int32_t number;
        if (!one.family->is_for_points || !md_ds_family_allowed(one.family, &pool->target, &pool->policy) ||
            md_ds_decide(&d, pool, one.family, point, &shape, MD_MAX(pool->policy.tune, MD_TUNE_ESTIMATE)) != MD_OK)
            continue;
        one.config = d.config;
        MD_TRY(md_ds_pool_add(&number, pool, &one));
    }
    return MD_OK;
}

/* Starts libraries and begins to load their kernels for a point, so that first calls near it do not wait. */
static void start_loads(const md_ds_pool *pool, const md_tn_point *point)
{
    md_kn_shape shape;
    md_ds_point_shape(&shape, &pool->target, point);
    for (int32_t i = 0; i < pool->n_variants; i++)
        if (pool->variant[i]->family->load_library_call)
            (void)md_bd_variant_load(pool->variant[i], &shape, MD_BD_LOAD_START);
}

/* Wide loads need boundaries that odd sizes do not have, and a few long rows need other kernels than many of medium
 * length. Without variants for those, many new shapes would wait for a compiler or run slowly. */
static md_status add_extra_points(md_ds_pool *pool)
{
    md_tn_point point[MD_DS_MAX_CORNERS];
    for (int32_t h = 0; h < pool->space->n_hints; h++) {
        md_ds_hint_point(&point[0], &pool->target, pool->space, h, true);
        if (pool->policy.has_default_hints &&
            h + 1 < pool->space->n_hints) /* for the last hint the best of every family is in the pool anyway */
            MD_TRY(add_best(pool, &point[0]));
        else
            MD_TRY(md_ds_add_hint(pool, h, false, true));
    }
    const int32_t n = pool->policy.has_default_hints ? md_ds_corner_points(point, &pool->target, pool->space) : 0;
    for (int32_t i = 0; i < n; i++) {
        MD_TRY(add_best(pool, &point[i]));
        MD_TRY(add_for_points(pool, &point[i]));
    }
    return MD_OK;
}

/* Libraries have other kernels at other sizes: those of every quarter octave between the hints of one dim load. */
static void load_between_hints(const md_ds_pool *pool)
{
    static const double STEP = 1.189207115; /* 2^(1/4) */
    const int32_t dim = pool->space->dim[0];
    const double last = (double)pool->space->hint[pool->space->n_hints - 1][0];
    md_tn_point point;
    for (double size = (double)pool->space->hint[0][0]; size < last; size *= STEP) {
        md_ds_hint_point(&point, &pool->target, pool->space, 0, false);
        point.size[dim] = MD_MAX(point.size[dim], (int64_t)(size + 0.5));
        start_loads(pool, &point);
    }
}

static void load_libraries(const md_ds_pool *pool)
{
    md_tn_point point[MD_DS_MAX_CORNERS];
    const int32_t n = pool->policy.has_default_hints ? md_ds_corner_points(point, &pool->target, pool->space) : 0;
    for (int32_t i = 0; i < n; i++)
        start_loads(pool, &point[i]);
    for (int32_t h = 0; h < pool->space->n_hints; h++) {
        md_ds_hint_point(&point[0], &pool->target, pool->space, h, false);
        start_loads(pool, &point[0]);
    }
    if (pool->space->n == 1)
        load_between_hints(pool);
}

/* Adds a variant for the shape if none fits it. Its build goes before all others. */
static md_status adopt_exact(bool *is_added, md_ds_pool *pool, const md_kn_shape *shape)
{
    int32_t number = -1;
    pthread_mutex_lock(&pool->lock_of_variants);
    bool fits = false;
    for (int32_t i = 0; i < pool->n_variants && !fits; i++)
        fits = !md_kn_envelope_miss(&pool->variant[i]->envelope, shape) &&
               atomic_load_explicit(&pool->variant[i]->state, memory_order_acquire) != MD_BD_FAILED;
    const md_status s = fits ? MD_OK : md_ds_pool_add_fallback(&number, pool, shape);
    pthread_mutex_unlock(&pool->lock_of_variants);
    *is_added = number >= 0;
    if (*is_added)
        md_bd_variant_hasten(pool->variant[number]);
    return s;
}

md_status md_ds_pool_adopt(bool *has_fallback, md_ds_pool *pool, const md_kn_shape *shape)
{
    md_tn_point point[MD_DS_CHAIN_POINTS];
    MD_TRY(adopt_exact(has_fallback, pool, shape));
    if (!pool->policy.has_default_hints || !pool->target.facts->can_compile || md_bd_is_bundled(pool->builder))
        return MD_OK;
    const int32_t n = md_ds_chain_points(point, &pool->target, pool->space, shape->size);
    for (int32_t i = 0; i < n; i++)
        MD_TRY(add_best(pool, &point[i]));
    return MD_OK;
}

/* ---- Pins, own kernels, libraries, numeric classes */

static bool take_first(void *user, const md_fa_config *config)
{
    *(md_fa_config *)user = *config;
    return false;
}

/* A family's name alone, whose usual config this device or stage has no use for, means its first that is legal. */
static void make_legal(md_fa_config *config, const md_ds_pool *pool, const md_fa_family *family)
{
    md_tn_point point;
    md_ds_hint_point(&point, &pool->target, pool->space, 0, false);
    if (!strchr(pool->policy.pin, '/') && !md_fa_legal(family, &pool->target, config, point.size))
        md_fa_each(&pool->target, family, point.size, take_first, config);
}

static md_status add_pinned(md_ds_pool *pool)
{
    md_ds_candidate pin = {.limit = MD_DS_MAX_VARIANTS};
    const md_status status = md_fa_parse_for(&pin.family, &pin.config, &pool->target, pool->policy.pin);
    if (status != MD_OK)
        return md_fail_more(status, "; '%s' is pinned, by an option or MD_PIN", pool->policy.pin);
    if (!md_fa_applies(pin.family, &pool->target))
        return md_fail(MD_INVALID_ARGUMENT, "pinned variant '%s': the family does not apply to the stage",
                       pool->policy.pin);
    make_legal(&pin.config, pool, pin.family);
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, &pool->target, pin.family, &pin.config);
    if (!md_fa_numeric_allows(pool->policy.numeric, &numeric))
        return md_fail(MD_INVALID_ARGUMENT, "pinned variant '%s': not under the numeric policy %s", pool->policy.pin,
                       md_ds_numeric_name(pool->policy.numeric));
    MD_TRY(md_ds_pool_add(&pool->pinned, pool, &pin));
    return md_bd_variant_wait(pool->variant[pool->pinned]);
}

/* Configs of a family, of which every step-th is added. */
typedef struct spread {
    md_ds_pool *pool;
    const md_fa_family *family;
    int32_t limit;
    int32_t n, step; /* seen; 0: only counts */
    md_status status;
} spread;

static bool add_spread(void *user, const md_fa_config *config)
{
    spread *s = user;
    int32_t number;
    if (s->step && s->n % s->step == 0) {
        const md_ds_candidate one = {.family = s->family, .config = *config, .limit = s->limit};
        s->status = md_ds_pool_add(&number, s->pool, &one);
    }
    s->n++;
    return s->status == MD_OK;
}

/* A user's own kernels are in the pool whatever the hints. The model cannot tell their configs apart: some of each are
 * added for measuring to choose from. */
static md_status add_customs(md_ds_pool *pool)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, pool->space, pool->space->n_hints - 1);
    spread s = {.pool = pool, .limit = pool->policy.max_variants};
    for (int32_t i = 0; (s.family = md_fa_of(&pool->target, i)) != NULL && s.family->custom; i++) {
        const md_ds_candidate first = {
            .family = s.family, .config = md_fa_default(s.family), .limit = MD_DS_MAX_VARIANTS};
        int32_t number;
        s.n = s.step = 0;
        md_fa_each(&pool->target, s.family, size, add_spread, &s);
        s.step = (s.n + CUSTOM_CONFIGS - 1) / CUSTOM_CONFIGS;
        s.n = 0;
        MD_TRY(md_ds_pool_add(&number, pool, &first));
        md_fa_each(&pool->target, s.family, size, add_spread, &s);
        MD_TRY(s.status);
    }
    return MD_OK;
}

/* All kernels that a library offers: they need no compiler, and only measuring can tell them apart. */
static md_status add_library(md_ds_pool *pool)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, pool->space, pool->space->n_hints - 1);
    spread s = {.pool = pool, .step = 1, .limit = MD_DS_MAX_VARIANTS - MD_DS_LAST_RESORTS};
    for (int32_t i = 0; (s.family = md_fa_of(&pool->target, i)) != NULL; i++)
        if (s.family->is_library && md_ds_family_allowed(s.family, &pool->target, &pool->policy)) {
            md_fa_each(&pool->target, s.family, size, add_spread, &s);
            MD_TRY(s.status);
        }
    return MD_OK;
}

/* Libraries that no hint took, since hints do not say how large an image is. They need no compiler. */
static md_status add_left_libraries(md_ds_pool *pool)
{
    const md_fa_family *f;
    for (int32_t i = 0; (f = md_fa_of(&pool->target, i)) != NULL; i++) {
        const md_ds_candidate one = {
            .family = f, .config = md_fa_default(f), .limit = pool->policy.max_variants + MD_DS_MAX_EXTRA};
        int32_t number = -1;
        for (int32_t v = 0; v < pool->n_variants && number < 0; v++)
            number = pool->variant[v]->family == f ? v : -1;
        if (number < 0 && f->is_library && md_ds_family_allowed(f, &pool->target, &pool->policy))
            MD_TRY(md_ds_pool_add(&number, pool, &one));
    }
    return MD_OK;
}

/* The representatives of numeric classes: added first and built at once, so that it is known from the start which of
 * them serve. */
static md_status add_representatives(md_ds_pool *pool)
{
    MD_TRY(md_ds_numeric_create(&pool->numeric, &pool->target, pool->space, &pool->policy));
    for (int32_t i = 0; i < pool->numeric->n_representatives; i++) {
        md_ds_representative *representative = &pool->numeric->representative[i];
        const md_ds_candidate one = {
            .family = representative->family, .config = representative->config, .limit = MD_DS_MAX_VARIANTS};
        int32_t number;
        MD_TRY(md_ds_pool_add(&number, pool, &one));
        representative->variant = pool->variant[number];
    }
    for (int32_t i = 0; i < pool->numeric->n_representatives; i++)
        (void)md_bd_variant_wait(pool->numeric->representative[i].variant);
    return MD_OK;
}

/* ---- One variant for all shapes */

/* True if one variant is to serve all shapes. With numeric classes each class has a representative. */
static bool is_single(const md_ds_pool *pool)
{
    return pool->policy.max_variants == 1 && !pool->numeric;
}

/* How many hints, with their ragged twins, a candidate is correct at. */
static int32_t count_hints(const md_ds_pool *pool, const md_ds_candidate *candidate)
{
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, candidate->family, &pool->target, &candidate->config);
    int32_t n = 0;
    for (int32_t i = 0; i < 2 * pool->space->n_hints; i++) {
        md_tn_point point;
        md_kn_shape shape;
        md_ds_hint_point(&point, &pool->target, pool->space, i / 2, i % 2);
        md_ds_point_shape(&shape, &pool->target, &point);
        n += !md_kn_envelope_miss(&envelope, &shape);
    }
    return n;
}

/* Of the best ones at each hint, that which is correct at most hints; of equals that of the last hint. */
static md_status add_single(md_ds_pool *pool)
{
    md_ds_candidate best = {.family = NULL};
    int32_t most = 0, number = -1;
    for (int32_t i = 2 * pool->space->n_hints - 1; i >= 0; i--) {
        md_ds_candidate one = {.limit = 1};
        md_tn_point point;
        md_ds_hint_point(&point, &pool->target, pool->space, i / 2, i % 2 == 0);
        MD_TRY(md_ds_best_at(&one.family, &one.config, pool, &point));
        const int32_t n = one.family ? count_hints(pool, &one) : 0;
        if (n > most)
            best = one;
        most = MD_MAX(most, n);
    }
    if (best.family)
        MD_TRY(md_ds_pool_add(&number, pool, &best));
    for (int32_t h = 0; h < pool->space->n_hints && number >= 0; h++) {
        int64_t size[MD_FX_MAX_DIMS];
        md_ds_hint_sizes(size, pool->space, h);
        md_ds_bring_into_reach(size, &pool->target);
        const double us = md_tn_form_us(&pool->target, best.family, &best.config, size);
        md_ds_rank(pool, h, (md_ds_ranked){.variant = number, .us = us});
    }
    return MD_OK;
}

/* ---- All of it */

/* All hints; last resorts only where there is nothing else. */
static md_status add_hints(md_ds_pool *pool)
{
    const int32_t n_before = pool->n_variants;
    if (is_single(pool))
        MD_TRY(add_single(pool));
    else if (md_ds_is_frugal(pool))
        MD_TRY(md_ds_add_frugally(pool));
    for (int32_t pass = 0; pass < (pool->is_partial ? 1 : 2) && pool->n_variants == n_before; pass++)
        for (int32_t h = 0; h < pool->space->n_hints; h++)
            MD_TRY(md_ds_add_hint(pool, h, pass == 1, false));
    if (pool->target.facts->capability > 0 && !is_single(pool))
        MD_TRY(add_extra_points(pool));
    if (pool->target.facts->capability > 0 && !is_single(pool) && !pool->numeric)
        MD_TRY(add_left_libraries(pool));
    if (pool->policy.select == MD_SELECT_MEASURE && !pool->numeric && !is_single(pool))
        MD_TRY(add_library(pool));
    load_libraries(pool);
    md_ds_note_elsewhere(pool);
    return md_ds_note_measured(pool);
}

/* What serves first: the best at the smallest sizes is good at no others. One may fail, and then another is waited for;
 * the fastest is built before what other ops add besides theirs. */
static md_status add_first(md_ds_pool *pool)
{
    const int32_t middle = pool->space->n_hints / 2;
    const md_ds_ranks *ranks = pool->draft;
    MD_TRY(md_ds_is_frugal(pool) ? md_ds_add_first(pool, middle) : md_ds_add_hint(pool, middle, false, false));
    if (ranks->n[middle] > 0)
        md_bd_variant_hasten(pool->variant[ranks->of[middle][0].variant]);
    return MD_OK;
}

static md_status fill(md_ds_pool *pool, bool only_first, md_ds_prebuilt *prebuilt)
{
    MD_TRY(add_customs(pool));
    if (pool->policy.numeric >= MD_NUMERIC_DETERMINISTIC)
        MD_TRY(add_representatives(pool));
    else
        MD_TRY(md_ds_tune_hints(prebuilt, pool));
    const int32_t n_before = pool->n_variants;
    if (only_first && !is_single(pool)) {
        MD_TRY(add_first(pool));
        pool->is_partial = pool->n_variants > n_before;
    }
    return pool->is_partial ? MD_OK : add_hints(pool);
}

md_status md_ds_pool_fill(md_ds_pool *pool, bool only_first)
{
    if (pool->policy.pin)
        return add_pinned(pool);
    MD_TRY(md_tn_estimates_open(&pool->estimates, pool->policy.wisdom, &pool->target));
    md_ds_prebuilt prebuilt = {0};
    const md_status s = fill(pool, only_first, &prebuilt);
    md_ds_prebuilt_finish(&prebuilt);
    if (!pool->is_partial || s != MD_OK)
        md_tn_estimates_close(&pool->estimates);
    return s;
}

md_status md_ds_pool_fill_rest(md_ds_pool *pool)
{
    if (!pool->is_partial)
        return MD_OK;
    md_ds_ranks *seen = pool->draft, *draft = malloc(sizeof *draft);
    if (!draft)
        return md_fail_memory();
    *draft = *seen;
    draft->older = seen;
    pool->draft = draft;
    const md_status s = add_hints(pool);
    atomic_store_explicit(&pool->ranks, draft, memory_order_release);
    md_tn_estimates_close(&pool->estimates);
    return s;
}
