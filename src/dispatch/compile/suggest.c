/* Suggests hints by clustering. Shapes within a quarter of an octave of each other are one point, with the sizes of the
 * heaviest. The heaviest points and the hints of today are the places where hints may lie. The model says which configs
 * a hint at each place would bring, and what they cost at every point. Then places are added greedily, and exchanged
 * while that lowers the regret (PAM: Kaufman and Rousseeuw, Finding Groups in Data, 1990). */
#include "dispatch/compile/suggest.h"

#include "base/hash.h"
#include "base/status.h"
#include "dispatch/space/space.h"
#include "dispatch/space/points.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 256, MAX_PLACES = MD_DS_MAX_HINTS, MAX_OFFERS = 32, MAX_SWEEPS = 8 };

/* Weights count up to this, so that sums of weighted regrets stay finite. */
#define MOST_WEIGHT 1e200

typedef struct point {
    int64_t size[MD_FX_MAX_DIMS];
    int64_t cell[MD_DS_MAX_DYNAMIC];
    double weight, heaviest; /* of all its shapes; of its heaviest shape, whose sizes the point has */
    double best_us;
} point;

/* What one hint would bring to one stage: the best configs of each family, best first. */
typedef struct offer {
    int32_t n;
    double us[MAX_OFFERS];
    const md_fa_family *family[MAX_OFFERS];
    md_fa_config config[MAX_OFFERS];
} offer;

typedef struct suggest {
    const md_ds_suggest_options *options;
    md_ds_compiled *compiled;
    md_ds_space space; /* the formula's, but its hints are the places */
    int32_t n_today; /* the first places: hints of today */
    int32_t n_points;
    point *points;
    double *us; /* [point][place]: sum over stages; infinite where nothing fits some stage */
} suggest;

/* ---- Points */

typedef struct reader {
    const md_fx_formula *formula;
    int64_t *size;
    md_fx_named named;
} reader;

static md_status take_size(void *user, const char *name, int64_t lo, int64_t hi)
{
    reader *r = user;
    int32_t d = -1;
    MD_TRY(md_fx_name_dim(&d, &r->named, r->formula, name, strlen(name)));
    r->size[d] = lo;
    return lo == hi ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "sizes: '%s' needs one size, not a range", name);
}

static md_status read_point(point *out, const suggest *s, const md_met_shape *met)
{
    memset(out, 0, sizeof *out);
    md_ds_hint_sizes(out->size, &s->space, 0);
    for (int32_t k = 0; k < s->space.n; k++)
        out->size[s->space.dim[k]] = -1;
    MD_TRY(md_fx_sizes_parse(met->sizes, take_size, &(reader){s->compiled->formula, out->size, {.source = "sizes"}}));
    for (int32_t k = 0; k < s->space.n; k++) {
        int64_t v = out->size[s->space.dim[k]];
        if (v < 0)
            return md_fail(MD_INVALID_ARGUMENT, "sizes '%s': the size of dim '%s' is missing", met->sizes,
                           s->compiled->formula->dim[s->space.dim[k]].name);
        out->cell[k] = v > 0 ? llround(MD_DS_GRID_STEPS * log2((double)v)) : -1;
    }
    if (!(met->weight > 0.0) || !isfinite(met->weight))
        return md_fail(MD_INVALID_ARGUMENT, "sizes '%s': the weight %g is not above 0", met->sizes, met->weight);
    out->weight = out->heaviest = MD_MIN(met->weight, MOST_WEIGHT);
    return MD_OK;
}

static int by_cell(const void *a, const void *b)
{
    return memcmp(((const point *)a)->cell, ((const point *)b)->cell, sizeof((const point *)a)->cell);
}

/* Heaviest first. Points of equal weight come in an order unrelated to their sizes, since only the first are places. */
static int by_weight(const void *a, const void *b)
{
    const point *p = a, *q = b;
    const uint64_t x = md_hash64(p->cell, sizeof p->cell), y = md_hash64(q->cell, sizeof q->cell);
    return p->weight != q->weight ? (p->weight < q->weight ? 1 : -1) : x != y ? (x < y ? -1 : 1) : 0;
}

static void merge(point *to, const point *from)
{
    if (from->heaviest > to->heaviest) {
        memcpy(to->size, from->size, sizeof to->size);
        to->heaviest = from->heaviest;
    }
    to->weight += from->weight;
}

/* Empty calls cost nothing with any hints. */
static bool is_empty(const suggest *s, const point *p)
{
    for (int32_t k = 0; k < s->space.n; k++)
        if (p->size[s->space.dim[k]] == 0)
            return true;
    return false;
}

static md_status make_points(suggest *s)
{
    const int32_t n_met = s->options->n_shapes;
    int32_t n = 0, stored = 0;
    s->points = calloc((size_t)MD_MAX(n_met, 1), sizeof *s->points);
    if (!s->points)
        return md_fail_memory();
    for (int32_t i = 0; i < n_met; i++) {
        MD_TRY(read_point(&s->points[n], s, &s->options->shape[i]));
        n += !is_empty(s, &s->points[n]);
    }
    if (n == 0)
        return md_fail(MD_INVALID_ARGUMENT, "no shape was given to suggest hints for");
    qsort(s->points, (size_t)n, sizeof *s->points, by_cell);
    for (int32_t i = 1; i < n; i++) {
        if (by_cell(&s->points[stored], &s->points[i]) == 0)
            merge(&s->points[stored], &s->points[i]);
        else
            s->points[++stored] = s->points[i];
    }
    qsort(s->points, (size_t)stored + 1, sizeof *s->points, by_weight);
    s->n_points = MD_MIN(stored + 1, (int32_t)MAX_POINTS);
    return MD_OK;
}

static void add_places(suggest *s)
{
    s->n_today = s->space.n_hints;
    for (int32_t i = 0; i < s->n_points && s->space.n_hints < MAX_PLACES; i++) {
        int64_t at[MD_DS_MAX_DYNAMIC] = {0};
        bool is_new = true;
        for (int32_t k = 0; k < s->space.n; k++)
            at[k] = MD_MIN(s->points[i].size[s->space.dim[k]], MD_DS_MOST_HINT);
        for (int32_t h = 0; h < s->space.n_hints && is_new; h++)
            is_new = memcmp(s->space.hint[h], at, sizeof at) != 0;
        if (is_new)
            memcpy(s->space.hint[s->space.n_hints++], at, sizeof at);
    }
}

/* ---- Costs */

static void insert_offer(offer *out, const md_fa_family *f, const md_fa_config *config, double us)
{
    int32_t at = out->n++;
    for (; at > 0 && out->us[at - 1] > us; at--) {
        out->us[at] = out->us[at - 1];
        out->family[at] = out->family[at - 1];
        out->config[at] = out->config[at - 1];
    }
    out->us[at] = us;
    out->family[at] = f;
    out->config[at] = *config;
}

static md_status add_offers(offer *out, const md_fa_target *target, const md_ds_policy *policy,
                            const md_kn_shape *shape, bool last_resorts)
{
    for (int32_t i = 0; md_fa_of(target, i) && out->n < MAX_OFFERS; i++) {
        const md_fa_family *f = md_fa_of(target, i);
        md_fa_config config;
        double us;
        if (f->is_last_resort != last_resorts || !md_ds_family_allowed(f, target, policy))
            continue;
        md_status s = md_ds_best_allowed(&config, &us, f, target, policy, shape);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        insert_offer(out, f, &config, us);
    }
    return MD_OK;
}

/* What a pool would have for the hint: on GPUs variants for rows at no boundary, too. */
static md_status offer_of_hint(offer *out, const suggest *s, const md_fa_target *target, int32_t hint)
{
    md_tn_point at;
    md_kn_shape shape;
    out->n = 0;
    for (int32_t is_ragged = 0; is_ragged < 1 + (target->facts->capability > 0); is_ragged++) {
        md_ds_hint_point(&at, target, &s->space, hint, is_ragged != 0);
        md_ds_point_shape(&shape, target, &at);
        MD_TRY(add_offers(out, target, &s->compiled->policy, &shape, false));
    }
    return out->n ? MD_OK : add_offers(out, target, &s->compiled->policy, &shape, true);
}

/* What an offer costs at a shape: that of its configs which is the best at sizes `by`. */
static double offer_us(const offer *o, const md_fa_target *target, const int64_t *by, const md_kn_shape *shape)
{
    double least = INFINITY, us = INFINITY;
    for (int32_t i = 0; i < o->n; i++) {
        md_kn_envelope envelope = {0};
        md_fa_envelope_of(&envelope, o->family[i], target, &o->config[i]);
        if (md_kn_envelope_miss(&envelope, shape))
            continue;
        const double by_us = md_tn_form_us(target, o->family[i], &o->config[i], by);
        if (by_us >= least)
            continue;
        least = by_us;
        us = by == shape->size ? by_us : md_tn_form_us(target, o->family[i], &o->config[i], shape->size);
    }
    return us;
}

/* The time at a shape of the config that the hint's offer serves it with. Distance goes by sizes near the hint. */
static double hint_us(const suggest *s, const offer *o, const md_fa_target *target, int32_t hint,
                      const md_kn_shape *shape)
{
    int64_t by[MD_FX_MAX_DIMS];
    if (s->compiled->policy.select != MD_SELECT_DISTANCE)
        return offer_us(o, target, shape->size, shape);
    (void)md_ds_sizes_at_hint(by, &s->space, shape->size, s->space.hint[hint]);
    md_ds_bring_into_reach(by, target);
    return offer_us(o, target, by, shape);
}

static md_status add_stage(suggest *s, int32_t stage)
{
    const md_fa_target target = md_ds_target_of(s->compiled, stage);
    const int32_t n = s->space.n_hints;
    offer *offers = calloc((size_t)n + 1, sizeof *offers);
    md_status status = offers ? MD_OK : md_fail_memory();
    for (int32_t h = 0; h < n && status == MD_OK; h++) {
        status = offer_of_hint(&offers[h], s, &target, h);
    }
    for (int32_t i = 0; i < s->n_points && status == MD_OK; i++) {
        point *p = &s->points[i];
        int64_t size[MD_FX_MAX_DIMS];
        md_kn_shape shape;
        memcpy(size, p->size, sizeof size);
        md_ds_bring_into_reach(size, &target);
        md_tn_shape(&shape, s->compiled->program, size);
        offers[n].n = 0;
        for (int32_t pass = 0; pass < 2 && offers[n].n == 0 && status == MD_OK; pass++)
            status = add_offers(&offers[n], &target, &s->compiled->policy, &shape, pass == 1);
        double best = offer_us(&offers[n], &target, shape.size, &shape);
        for (int32_t h = 0; h < n; h++) {
            double us = hint_us(s, &offers[h], &target, h, &shape);
            s->us[i * n + h] += us;
            best = MD_MIN(best, us);
        }
        p->best_us += best;
    }
    free(offers);
    return status;
}

/* ---- Sets of places */

/* `chosen` has a bit for each place. A point that no hint serves needs a build when it is met: it counts as twice its
 * best time. */
static md_ds_regret regret_of(const suggest *s, uint64_t chosen)
{
    md_ds_regret r = {.n_hints = __builtin_popcountll(chosen)};
    const int32_t n = s->space.n_hints;
    const bool by_distance = s->compiled->policy.select == MD_SELECT_DISTANCE;
    double all = 0.0;
    for (int32_t i = 0; i < s->n_points; i++) {
        const point *p = &s->points[i];
        double us = INFINITY, nearest = INFINITY;
        for (int32_t h = 0; h < n; h++) {
            const double at = s->us[i * n + h];
            if (!(chosen >> h & 1) || !isfinite(at))
                continue;
            const double d =
                by_distance ? md_ds_distance(&s->space, s->compiled->policy.metric, p->size, s->space.hint[h]) : at;
            if (d < nearest) {
                nearest = d;
                us = at;
            }
        }
        const double regret = isfinite(us) ? MD_MAX(us / p->best_us - 1.0, 0.0) : 1.0;
        r.mean += p->weight * regret;
        r.worst = MD_MAX(r.worst, regret);
        all += p->weight;
    }
    r.mean /= all;
    return r;
}

static bool is_better(const md_ds_regret *a, const md_ds_regret *b)
{
    return a->mean < b->mean * (1.0 - 1e-9) - 1e-12;
}

/* The best set that differs from this one by one place added, or by one place exchanged. */
static bool improve(const suggest *s, uint64_t *chosen, md_ds_regret *regret, bool adds)
{
    uint64_t best = *chosen;
    for (int32_t in = 0; in < s->space.n_hints; in++) {
        if (*chosen >> in & 1)
            continue;
        for (int32_t out = 0; out < (adds ? 1 : s->space.n_hints); out++) {
            if (!adds && !(*chosen >> out & 1))
                continue;
            const uint64_t trial = (adds ? *chosen : *chosen & ~(UINT64_C(1) << out)) | UINT64_C(1) << in;
            const md_ds_regret r = regret_of(s, trial);
            if (is_better(&r, regret)) {
                best = trial;
                *regret = r;
            }
        }
    }
    const bool changed = best != *chosen;
    *chosen = best;
    return changed;
}

static uint64_t search(const suggest *s, md_ds_regret *regret)
{
    uint64_t chosen = 0;
    *regret = (md_ds_regret){.mean = INFINITY, .worst = INFINITY};
    for (int32_t n = 0; n < s->options->n_hints; n++) {
        if (!improve(s, &chosen, regret, true))
            break; /* one more hint would not help */
        for (int32_t sweep = 0; sweep < MAX_SWEEPS && improve(s, &chosen, regret, false); sweep++)
            ;
    }
    return chosen;
}

static md_status run(suggest *s, md_strbuf *text, md_ds_suggestion *out)
{
    const md_ds_suggest_options *o = s->options;
    s->space = s->compiled->space;
    if (s->space.n == 0)
        return md_fail(MD_INVALID_ARGUMENT, "the formula has no dynamic dim: it needs no hints");
    if (o->n_hints < 1 || o->n_hints > MD_DS_MAX_HINTS)
        return md_fail(MD_INVALID_ARGUMENT, "%d hints: expected 1..%d", o->n_hints, MD_DS_MAX_HINTS);
    MD_TRY(make_points(s));
    add_places(s);
    s->us = calloc((size_t)s->n_points * (size_t)s->space.n_hints, sizeof *s->us);
    if (!s->us)
        return md_fail_memory();
    for (int32_t stage = 0; stage < s->compiled->program->n_stages; stage++)
        MD_TRY(add_stage(s, stage));
    const uint64_t today = s->n_today == 64 ? ~UINT64_C(0) : (UINT64_C(1) << s->n_today) - 1;
    out->n_shapes = s->n_points;
    out->today = regret_of(s, today);
    md_ds_print_hints(text, &s->space, search(s, &out->suggested));
    return text->failed ? md_fail_memory() : MD_OK;
}

md_status md_ds_suggest(md_strbuf *text, md_ds_suggestion *out, const md_dev_facts *facts, const char *formula,
                        const md_ds_suggest_options *options)
{
    suggest *s = calloc(1, sizeof *s);
    if (!s)
        return md_fail_memory();
    s->options = options;
    md_status status = md_ds_compile(&s->compiled, facts, formula, &options->compile);
    if (status == MD_OK)
        status = run(s, text, out);
    md_ds_compiled_destroy(&s->compiled);
    free(s->points);
    free(s->us);
    free(s);
    return status;
}
