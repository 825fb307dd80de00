/* Fills pools: chooses which variants of a stage are built. */
#include "dispatch/pool/fill.h"

#include "base/status.h"
#include "dispatch/pool/pool.h"
#include "dispatch/pool/internal.h"
#include "dispatch/numeric.h"
#include "dispatch/space/points.h"
#include "family/numeric.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* Configs of a user's own kernel. */
enum { CUSTOM_CONFIGS = 8 };

/* ---- GPUs: extra points off the hints */

static md_status add_best(md_ds_pool *c, const md_tn_point *point)
{
    md_ds_candidate best = {.limit = c->policy.max_variants + MD_DS_MAX_EXTRA};
    int32_t number;
    MD_TRY(md_ds_best_at(&best.family, &best.config, c, point));
    return best.family ? md_ds_pool_add(&number, c, &best) : MD_OK;
}

/* Starts libraries and begins to load their kernels for a point, so that first calls near it do not wait. */
static void start_loads(const md_ds_pool *c, const md_tn_point *point)
{
    md_kn_shape shape;
    md_ds_point_shape(&shape, &c->target, point);
    for (int32_t i = 0; i < c->n_variants; i++)
        if (c->variant[i]->family->load_library_call)
            (void)md_bd_variant_load(c->variant[i], &shape, MD_BD_LOAD_START);
}

/* Wide loads need boundaries that odd sizes do not have, and a few long rows need other kernels than many of medium
 * length. Without variants for those, many new shapes would wait for a compiler or run slowly. */
static md_status add_extra_points(md_ds_pool *c)
{
    md_tn_point point[MD_DS_MAX_CORNERS];
    for (int32_t h = 0; h < c->space->n_hints; h++) {
        md_ds_hint_point(&point[0], &c->target, c->space, h, true);
        if (c->policy.has_default_hints &&
            h + 1 < c->space->n_hints) /* at the last hint the best of each family is added */
            MD_TRY(add_best(c, &point[0]));
        else
            MD_TRY(md_ds_add_hint(c, h, false, true));
    }
    const int32_t n = c->policy.has_default_hints ? md_ds_corner_points(point, &c->target, c->space) : 0;
    for (int32_t i = 0; i < n; i++)
        MD_TRY(add_best(c, &point[i]));
    return MD_OK;
}

/* Libraries have other kernels at other sizes: those of every quarter octave between the hints of one dim load. */
static void load_between_hints(const md_ds_pool *c)
{
    static const double STEP = 1.189207115; /* 2^(1/4) */
    const int32_t dim = c->space->dim[0];
    const double last = (double)c->space->hint[c->space->n_hints - 1][0];
    md_tn_point point;
    for (double size = (double)c->space->hint[0][0]; size < last; size *= STEP) {
        md_ds_hint_point(&point, &c->target, c->space, 0, false);
        point.size[dim] = MD_MAX(point.size[dim], (int64_t)(size + 0.5));
        start_loads(c, &point);
    }
}

static void load_libraries(const md_ds_pool *c)
{
    md_tn_point point[MD_DS_MAX_CORNERS];
    const int32_t n = c->policy.has_default_hints ? md_ds_corner_points(point, &c->target, c->space) : 0;
    for (int32_t i = 0; i < n; i++)
        start_loads(c, &point[i]);
    for (int32_t h = 0; h < c->space->n_hints; h++) {
        md_ds_hint_point(&point[0], &c->target, c->space, h, false);
        start_loads(c, &point[0]);
    }
    if (c->space->n == 1)
        load_between_hints(c);
}

/* ---- Pins, own kernels, libraries, numeric classes */

static bool take_first(void *user, const md_fa_config *config)
{
    *(md_fa_config *)user = *config;
    return false;
}

/* A family's name alone, whose usual config this device or stage has no use for, means its first that is legal. */
static void make_legal(md_fa_config *config, const md_ds_pool *c, const md_fa_family *family)
{
    md_tn_point point;
    md_ds_hint_point(&point, &c->target, c->space, 0, false);
    if (!strchr(c->policy.pin, '/') && !family->legal(&c->target, config, point.size))
        md_fa_each(&c->target, family, point.size, take_first, config);
}

static md_status add_pinned(md_ds_pool *c)
{
    md_ds_candidate pin = {.limit = MD_DS_MAX_VARIANTS};
    const md_status status = md_fa_parse_for(&pin.family, &pin.config, &c->target, c->policy.pin);
    if (status != MD_OK)
        return md_fail_more(status, "; '%s' is pinned, by an option or MD_PIN", c->policy.pin);
    if (!md_fa_applies(pin.family, &c->target))
        return md_fail(MD_INVALID_ARGUMENT, "pinned variant '%s': the family does not apply to the stage",
                       c->policy.pin);
    make_legal(&pin.config, c, pin.family);
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, &c->target, pin.family, &pin.config);
    if (!md_fa_numeric_allows(c->policy.numeric, &numeric))
        return md_fail(MD_INVALID_ARGUMENT, "pinned variant '%s': not under the numeric policy %s", c->policy.pin,
                       md_ds_numeric_name(c->policy.numeric));
    MD_TRY(md_ds_pool_add(&c->pinned, c, &pin));
    return md_bd_variant_wait(c->variant[c->pinned]);
}

/* Configs of a family, of which every step-th is added. */
typedef struct spread {
    md_ds_pool *c;
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
        s->status = md_ds_pool_add(&number, s->c, &one);
    }
    s->n++;
    return s->status == MD_OK;
}

/* A user's own kernels are in the pool whatever the hints. The model cannot tell their configs apart: some of each are
 * added for measuring to choose from. */
static md_status add_customs(md_ds_pool *c)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, c->space, c->space->n_hints - 1);
    spread s = {.c = c, .limit = c->policy.max_variants};
    for (int32_t i = 0; (s.family = md_fa_of(&c->target, i)) != NULL && s.family->custom; i++) {
        const md_ds_candidate first = {
            .family = s.family, .config = md_fa_default(s.family), .limit = MD_DS_MAX_VARIANTS};
        int32_t number;
        s.n = s.step = 0;
        md_fa_each(&c->target, s.family, size, add_spread, &s);
        s.step = (s.n + CUSTOM_CONFIGS - 1) / CUSTOM_CONFIGS;
        s.n = 0;
        MD_TRY(md_ds_pool_add(&number, c, &first));
        md_fa_each(&c->target, s.family, size, add_spread, &s);
        MD_TRY(s.status);
    }
    return MD_OK;
}

/* All kernels that a library offers: they need no compiler, and only measuring can tell them apart. */
static md_status add_library(md_ds_pool *c)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, c->space, c->space->n_hints - 1);
    spread s = {.c = c, .step = 1, .limit = MD_DS_MAX_VARIANTS - MD_DS_LAST_RESORTS};
    for (int32_t i = 0; (s.family = md_fa_of(&c->target, i)) != NULL; i++)
        if (s.family->is_library && md_ds_family_allowed(s.family, &c->target, &c->policy)) {
            md_fa_each(&c->target, s.family, size, add_spread, &s);
            MD_TRY(s.status);
        }
    return MD_OK;
}

/* The representatives of numeric classes: added first and built at once, so that it is known from the start which of
 * them serve. */
static md_status add_representatives(md_ds_pool *c)
{
    MD_TRY(md_ds_numeric_create(&c->numeric, &c->target, c->space, &c->policy));
    for (int32_t i = 0; i < c->numeric->n_representatives; i++) {
        md_ds_representative *l = &c->numeric->representative[i];
        const md_ds_candidate one = {.family = l->family, .config = l->config, .limit = MD_DS_MAX_VARIANTS};
        int32_t number;
        MD_TRY(md_ds_pool_add(&number, c, &one));
        l->variant = c->variant[number];
    }
    for (int32_t i = 0; i < c->numeric->n_representatives; i++)
        (void)md_bd_variant_wait(c->numeric->representative[i].variant);
    return MD_OK;
}

/* ---- One variant for all shapes */

/* Numeric classes need their representatives. */
static bool is_single(const md_ds_pool *c)
{
    return c->policy.max_variants == 1 && !c->numeric;
}

/* How many hints, with their ragged twins, a candidate is correct at. */
static int32_t count_hints(const md_ds_pool *c, const md_ds_candidate *candidate)
{
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, candidate->family, &c->target, &candidate->config);
    int32_t n = 0;
    for (int32_t i = 0; i < 2 * c->space->n_hints; i++) {
        md_tn_point point;
        md_kn_shape shape;
        md_ds_hint_point(&point, &c->target, c->space, i / 2, i % 2);
        md_ds_point_shape(&shape, &c->target, &point);
        n += !md_kn_envelope_miss(&envelope, &shape);
    }
    return n;
}

/* Of the best ones at each hint, that which is correct at most hints; of equals that of the last hint. */
static md_status add_single(md_ds_pool *c)
{
    md_ds_candidate best = {.family = NULL};
    int32_t most = 0, number = -1;
    for (int32_t i = 2 * c->space->n_hints - 1; i >= 0; i--) {
        md_ds_candidate one = {.limit = 1};
        md_tn_point point;
        md_ds_hint_point(&point, &c->target, c->space, i / 2, i % 2 == 0);
        MD_TRY(md_ds_best_at(&one.family, &one.config, c, &point));
        const int32_t n = one.family ? count_hints(c, &one) : 0;
        if (n > most)
            best = one;
        most = MD_MAX(most, n);
    }
    if (best.family)
        MD_TRY(md_ds_pool_add(&number, c, &best));
    for (int32_t h = 0; h < c->space->n_hints && number >= 0; h++) {
        int64_t size[MD_FX_MAX_DIMS];
        md_ds_hint_sizes(size, c->space, h);
        md_ds_bring_into_reach(size, &c->target);
        const double us = md_tn_predict_us(&c->target, best.family, &best.config, size);
        md_ds_rank(c, h, (md_ds_ranked){.variant = number, .us = us});
    }
    return MD_OK;
}

/* ---- All of it */

/* All hints from `first` on; last resorts only where there is nothing else. */
static md_status add_hints(md_ds_pool *c, int32_t first)
{
    const int32_t n_before = c->n_variants;
    if (is_single(c))
        MD_TRY(add_single(c));
    else if (md_ds_is_frugal(c))
        MD_TRY(md_ds_add_frugally(c));
    for (int32_t pass = 0; pass < (first > 0 ? 1 : 2) && c->n_variants == n_before; pass++)
        for (int32_t h = first; h < c->space->n_hints; h++)
            MD_TRY(md_ds_add_hint(c, h, pass == 1, false));
    if (c->target.facts->capability > 0 && !is_single(c))
        MD_TRY(add_extra_points(c));
    if (c->policy.select == MD_SELECT_MEASURE && !c->numeric && !is_single(c))
        MD_TRY(add_library(c));
    load_libraries(c);
    md_ds_note_elsewhere(c);
    return md_ds_note_measured(c);
}

static md_status fill(md_ds_pool *c, bool only_first, md_ds_prebuilt *prebuilt)
{
    MD_TRY(add_customs(c));
    if (c->policy.numeric >= MD_NUMERIC_DETERMINISTIC)
        MD_TRY(add_representatives(c));
    else
        MD_TRY(md_ds_tune_hints(prebuilt, c));
    const int32_t n_before = c->n_variants;
    if (only_first && !is_single(c)) {
        MD_TRY(md_ds_is_frugal(c) ? md_ds_add_first(c) : md_ds_add_hint(c, 0, false, false));
        c->is_partial = c->n_variants > n_before;
    }
    return c->is_partial ? MD_OK : add_hints(c, 0);
}

md_status md_ds_pool_fill(md_ds_pool *c, bool only_first)
{
    if (c->policy.pin)
        return add_pinned(c);
    MD_TRY(md_tn_estimates_open(&c->estimates, c->policy.wisdom, &c->target));
    md_ds_prebuilt prebuilt = {0};
    const md_status s = fill(c, only_first, &prebuilt);
    md_ds_prebuilt_finish(&prebuilt);
    if (!c->is_partial || s != MD_OK)
        md_tn_estimates_close(&c->estimates);
    return s;
}

md_status md_ds_pool_fill_rest(md_ds_pool *c)
{
    if (!c->is_partial)
        return MD_OK;
    md_ds_ranks *seen = c->draft, *draft = malloc(sizeof *draft);
    if (!draft)
        return md_fail_memory();
    *draft = *seen;
    draft->older = seen;
    c->draft = draft;
    const md_status s = add_hints(c, 1);
    atomic_store_explicit(&c->ranks, draft, memory_order_release);
    md_tn_estimates_close(&c->estimates);
    return s;
}
