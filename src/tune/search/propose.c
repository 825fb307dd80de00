/* Proposes the configs to try next: first the best by the model and the defaults of families, then the best by the
 * model corrected by measured times, and neighbours of the best (coordinate descent; all neighbours of a step at a
 * time, so that they build in parallel). */
#include "tune/search/internal.h"

#include "base/grow.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Families whose best config is so many times slower than the best of all, by the model, are not measured. */
static const double HOPELESS_FAMILY = 3.0;
/* Configs built for other points are measured here, too, unless they are so many times slower by the model. */
static const double FREE_LIMIT = 1.6;
enum { MAX_FREE = 12 };
/* Every other guess of the first round is so many steps from all others: the model may be wrong for a whole
 * neighbourhood. */
enum { FAR = 3 };

/* ---- Trials and entries */

static int32_t find_trial(const md_tn_work *w, int32_t family, const md_fa_config *config)
{
    for (int32_t i = 0; i < w->n_trials; i++)
        if (w->trial[i].family_at == family && md_tn_same_config(w->family[family], &w->trial[i].config, config))
            return i;
    return -1;
}

/* The trial of a config, made (and its build started) where there is none; -1 in *at where memory is short. */
static md_status try_config(int32_t *at, bool *is_new, md_tn_work *w, int32_t family, const md_fa_config *config)
{
    *is_new = false;
    *at = find_trial(w, family, config);
    if (*at >= 0)
        return MD_OK;
    if (!md_grow(&w->trial, (size_t)w->n_trials, sizeof *w->trial))
        return md_fail_memory();
    md_tn_trial t = {.family = w->family[family], .family_at = family, .config = *config};
    MD_TRY(md_bd_variant_create(&t.variant, w->job->builder, &w->job->target, t.family, config));
    t.was_queued = true;
    *is_new = true;
    *at = w->n_trials;
    w->trial[w->n_trials++] = t;
    return MD_OK;
}

/* The entry of a trial at a point. NULL where memory is short. */
static md_tn_entry *entry_at(md_tn_tuning_point *tuning_point, int32_t trial)
{
    if (trial >= tuning_point->capacity) {
        const int32_t more = MD_MAX(2 * tuning_point->capacity, trial + 32);
        md_tn_entry *grown = realloc(tuning_point->entry, (size_t)more * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + tuning_point->capacity, 0, (size_t)(more - tuning_point->capacity) * sizeof *grown);
        tuning_point->entry = grown;
        tuning_point->capacity = more;
    }
    return &tuning_point->entry[trial];
}

static const md_tn_entry *timed_entry(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t trial)
{
    const md_tn_entry *e = trial < tuning_point->capacity ? &tuning_point->entry[trial] : NULL;
    return e && e->is_there && e->first_us > 0.0 && !w->trial[trial].is_out ? e : NULL;
}

static double best_us(const md_tn_entry *e)
{
    return e->n ? e->us : e->first_us;
}

/* ---- Lists of configs to try */

typedef struct list {
    md_tn_work *w;
    md_tn_tuning_point *tuning_point;
    int32_t n, most, n_new;
    md_status status;
} list;

/* Time per build: the time in which builds were queued, over how many ended. */
void md_tn_observe(md_tn_work *w)
{
    const uint64_t now = md_tn_now_ns(w->dev);
    if (w->n_queued > 0)
        w->busy_ns += now - w->last_ns;
    w->last_ns = now;
    w->n_queued = w->n_built = 0;
    for (int32_t i = 0; i < w->n_trials; i++) {
        const bool is_queued = atomic_load(&w->trial[i].variant->state) == MD_BD_QUEUED;
        w->n_queued += is_queued;
        w->n_built += !is_queued && w->trial[i].was_queued;
    }
}

/* True if the queued builds and one more would end in time. */
static bool fits_in_time(md_tn_work *w)
{
    md_tn_observe(w);
    const double seen = w->n_built > 0 ? (double)w->busy_ns * 1e-6 / w->n_built : w->build_ms;
    /* the first builds to end say little: those of other threads end soon after */
    const double each = w->n_built < MD_MAX(md_pool_threads(w->dev->pool), 1) ? fmin(seen, w->build_ms) : seen;
    return w->last_ns + (uint64_t)((w->n_queued + 1) * each * 1e6) < w->builds_ns;
}

static bool is_tried(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t family,
                     const md_fa_config *config)
{
    int32_t i = find_trial(w, family, config);
    return i >= 0 && i < tuning_point->capacity && tuning_point->entry[i].is_there;
}

static void add(list *l, int32_t family, const md_tn_choice *c)
{
    int32_t at;
    bool is_new;
    if (l->status != MD_OK || l->n_new >= l->most || is_tried(l->w, l->tuning_point, family, &c->config))
        return;
    if (find_trial(l->w, family, &c->config) < 0 && !fits_in_time(l->w) && l->w->n_trials > 0) {
        l->tuning_point->is_cut = true;
        return;
    }
    l->status = try_config(&at, &is_new, l->w, family, &c->config);
    if (l->status != MD_OK)
        return;
    l->w->n_queued += is_new; /* counted although its build may end before anyone looks */
    md_tn_entry *e = entry_at(l->tuning_point, at);
    if (!e) {
        l->status = md_fail_memory();
        return;
    }
    const md_tn_trial *t = &l->w->trial[at];
    *e = (md_tn_entry){.is_there = true, .model_us = c->model_us};
    md_fa_geometry_of(&e->geometry, t->family, &l->w->job->target, &t->config, &l->tuning_point->shape);
    l->n++;
    l->n_new += is_new;
}

/* ---- The model, corrected by measured times */

/* Model time, corrected by the measured over modelled times of what was tried in the family, the nearer the more. */
static double corrected_us(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t family,
                           const md_tn_choice *c)
{
    static const double DECAY = 0.7, PRIOR = 0.15;
    const md_fa_family *f = w->family[family];
    double sum = 0.0, weights = 0.0, all = 0.0;
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_trials; i++) {
        const md_tn_entry *e = timed_entry(w, tuning_point, i);
        if (!e || w->trial[i].family_at != family)
            continue;
        const double off = log(best_us(e) / e->model_us),
                     weight = exp(-DECAY * md_tn_steps(f, &w->trial[i].config, &c->config));
        sum += weight * off;
        weights += weight;
        all += off;
        n++;
    }
    if (n == 0)
        return c->model_us;
    return c->model_us * exp((sum + PRIOR * all / n) / (weights + PRIOR));
}

/* ---- Proposals */

static double least_model(const md_tn_work *w, const md_tn_tuning_point *tuning_point)
{
    double least = INFINITY;
    for (int32_t f = 0; f < w->n_families; f++)
        if (tuning_point->space[f].n)
            least = fmin(least, tuning_point->space[f].choice[0].model_us);
    return least;
}

static void add_named(list *l, int32_t family, const char *variant)
{
    const md_fa_family *f = NULL;
    md_fa_config config;
    if (!variant[0] || md_fa_parse_for(&f, &config, &l->w->job->target, variant) != MD_OK || f != l->w->family[family])
        return;
    const md_tn_choice *c = md_tn_find_choice(&l->tuning_point->space[family], f, &config);
    if (c)
        add(l, family, c);
}

/* The result of an earlier search, each family's best by the model, and each family's default. */
static void add_first(list *l)
{
    const double least = least_model(l->w, l->tuning_point);
    for (int32_t f = 0; f < l->w->n_families; f++)
        add_named(l, f, l->tuning_point->before[f].variant);
    for (int32_t f = 0; f < l->w->n_families; f++) {
        const md_tn_space *s = &l->tuning_point->space[f];
        if (s->n && s->choice[0].model_us <= HOPELESS_FAMILY * least)
            add(l, f, &s->choice[0]);
    }
    for (int32_t f = 0; f < l->w->n_families; f++) {
        const md_tn_space *s = &l->tuning_point->space[f];
        const md_fa_config usual = md_fa_default(l->w->family[f]);
        const md_tn_choice *c = s->n ? md_tn_find_choice(s, l->w->family[f], &usual) : NULL;
        if (c && s->choice[0].model_us <= HOPELESS_FAMILY * least)
            add(l, f, c);
    }
}

/* True if fields that the model ignores have their initial values: others are tried next to the best config only. */
static bool is_plain(const md_fa_family *f, const md_fa_config *c)
{
    for (int32_t i = 0; i < f->n_fields; i++)
        if (f->field[i].n == 1 && c->value[i] != f->field[i].initial)
            return false;
    return true;
}

/* Steps to the nearest config of the family that was tried at the point. */
static int32_t novelty(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t family,
                       const md_fa_config *c)
{
    int32_t least = INT32_MAX;
    for (int32_t i = 0; i < w->n_trials && i < tuning_point->capacity; i++)
        if (w->trial[i].family_at == family && tuning_point->entry[i].is_there)
            least = MD_MIN(least, md_tn_steps(w->family[family], &w->trial[i].config, c));
    return least;
}

/* Adds the untried config that is best by the corrected model and below `limit` us: of those at most `apart` steps from
 * `near`, or (NULL) of plain ones at least `apart` steps from all that were tried. */
static bool add_next(list *l, double limit, int32_t only_family, const md_fa_config *near, int32_t apart)
{
    const md_tn_choice *best = NULL;
    int32_t family = -1;
    double least = limit;
    for (int32_t f = 0; f < l->w->n_families; f++) {
        const md_tn_space *s = &l->tuning_point->space[f];
        if (only_family >= 0 && f != only_family)
            continue;
        for (int32_t i = 0; i < s->n; i++) {
            const md_tn_choice *c = &s->choice[i];
            if (near ? md_tn_steps(l->w->family[f], near, &c->config) > apart : !is_plain(l->w->family[f], &c->config))
                continue;
            if (near ? is_tried(l->w, l->tuning_point, f, &c->config)
                     : novelty(l->w, l->tuning_point, f, &c->config) < apart)
                continue;
            const double us = corrected_us(l->w, l->tuning_point, f, c);
            if (us < least) {
                least = us;
                best = c;
                family = f;
            }
        }
    }
    if (!best)
        return false;
    const int32_t n = l->n;
    add(l, family, best);
    return l->n > n;
}

/* Configs that are built already. */
static void add_free(list *l)
{
    md_tn_work *w = l->w;
    int32_t n = 0;
    const double limit = FREE_LIMIT * least_model(w, l->tuning_point);
    const int32_t most = l->most;
    l->most = l->n_new + 1; /* these configs need no build */
    for (int32_t i = w->n_trials - 1; i >= 0 && n < MAX_FREE; i--) {
        const md_tn_trial *t = &w->trial[i];
        const md_tn_choice *c =
            t->is_out ? NULL : md_tn_find_choice(&l->tuning_point->space[t->family_at], t->family, &t->config);
        if (c && c->model_us <= limit && !is_tried(w, l->tuning_point, t->family_at, &t->config)) {
            add(l, t->family_at, c);
            n++;
        }
    }
    l->most = most;
}

/* Untried configs that may be faster: by turns the best guess of all, and a neighbour of the best so far. */
static void add_guesses(list *l)
{
    md_tn_work *w = l->w;
    const md_tn_tuning_point *tuning_point = l->tuning_point;
    const bool has_best = tuning_point->best >= 0;
    const md_tn_trial best = has_best ? w->trial[tuning_point->best] : (md_tn_trial){0}; /* proposals move the trials */
    const double us = has_best ? best_us(&tuning_point->entry[tuning_point->best]) : INFINITY;
    const int32_t apart = w->job->all_directions ? 2 : 1;
    bool more = true;
    for (int32_t turn = 0; more && l->n_new < l->most && l->status == MD_OK; turn++) {
        more = false;
        if (has_best && turn % 2 == 0)
            more = add_next(l, 1.5 * us, best.family_at, &best.config, apart);
        if (!more)
            more = add_next(l, w->round == 0 ? INFINITY : 1.6 * us, -1, NULL, w->round == 0 && turn % 2 ? FAR : 1);
        if (!more && has_best)
            more = add_next(l, 1.5 * us, best.family_at, &best.config, apart);
    }
}

/* ---- Coordinate descent */

/* First the model's best config, then one step both ways from the best so far, in one field a round. */
static void add_steps(list *l)
{
    const md_tn_work *w = l->w;
    const int32_t best = l->tuning_point->best;
    if (w->round == 0) {
        const double least = least_model(w, l->tuning_point);
        for (int32_t f = 0; f < w->n_families && l->n == 0; f++)
            if (l->tuning_point->space[f].n && l->tuning_point->space[f].choice[0].model_us <= least)
                add(l, f, &l->tuning_point->space[f].choice[0]);
    } else if (best >= 0 && w->step >= 0) {
        const md_tn_trial t = w->trial[best]; /* proposals move the trials */
        for (int32_t way = -1; way <= 1; way += 2) {
            const md_tn_choice *c = md_tn_neighbour(&l->tuning_point->space[t.family_at], t.family, t.config,
                                                    w->step % t.family->n_fields, way);
            if (c)
                add(l, t.family_at, c);
        }
    }
}

/* ---- All of them */

static void add_all(list *l)
{
    for (int32_t f = 0; f < l->w->n_families; f++)
        for (int32_t i = 0; i < l->tuning_point->space[f].n; i++)
            add(l, f, &l->tuning_point->space[f].choice[i]);
}

md_status md_tn_propose(int32_t *n_new, md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t n)
{
    list l = {.w = w, .tuning_point = tuning_point, .most = n};
    if (w->job->rigor == MD_TUNE_EXHAUSTIVE) {
        add_all(&l);
    } else if (w->job->strategy == MD_TUNE_DESCENT) {
        add_steps(&l);
    } else {
        if (w->round == 0)
            add_first(&l);
        add_free(&l);
        add_guesses(&l);
    }
    tuning_point->n_builds += l.n_new;
    *n_new = l.n_new;
    return l.status;
}
