#include "tune/search.h"

#include "base/status.h"
#include "tune/job.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* From so many on, points have enough of each other. */
enum { MANY_POINTS = 4 };
/* Steps of a search: what each may add of the new configs. */
static const double share_of_round[] = {0.5, 0.25, 0.25};
enum { N_ROUNDS = sizeof share_of_round / sizeof *share_of_round };
/* Building takes about so long, before anything was built. */
static const double HOST_BUILD_MS = 80.0, CUDA_BUILD_MS = 250.0;
/* NVRTC's threads wait for each other in a part of each compile. */
static const double CUDA_TURN_MS = 35.0;
/* The part of the budget after which nothing is waited for. */
static const double BUILDING = 0.85;

bool md_tn_is_late(const md_tn_work *w)
{
    return md_tn_now_ns(w->dev) >= w->deadline_ns;
}

bool md_tn_is_over(const md_tn_work *w)
{
    return md_tn_now_ns(w->dev) >= MD_MIN(w->soft_ns, w->deadline_ns);
}

static void count(md_tn_counters *c, _Atomic uint64_t *which)
{
    if (c)
        atomic_fetch_add_explicit(which, 1, memory_order_relaxed);
}
#define COUNT(w, what) count((w)->job->count, (w)->job->count ? &(w)->job->count->what : NULL)

/* ---- Spaces */

typedef struct listing {
    md_tn_work *w;
    md_tn_spot *spot;
    md_tn_space *space;
    const md_fa_family *family;
} listing;

static bool list_config(void *user, const md_fa_config *config)
{
    listing *l = user;
    const md_fa_target *target = &l->w->job->target;
    md_kn_envelope envelope = {0};
    l->family->envelope(&envelope, target, config);
    if (md_kn_envelope_miss(&envelope, &l->spot->shape))
        return true;
    if (l->space->n == l->space->capacity) {
        const int32_t more = MD_MAX(64, 2 * l->space->capacity);
        md_tn_choice *grown = realloc(l->space->choice, (size_t)more * sizeof *grown);
        l->space->failed = !grown;
        if (!grown)
            return false;
        l->space->choice = grown;
        l->space->capacity = more;
    }
    l->space->choice[l->space->n++] = (md_tn_choice){*config, md_tn_predict_us(target, l->family, config, l->spot->shape.size)};
    return true;
}

static int by_model(const void *a, const void *b)
{
    const md_tn_choice *x = a, *y = b;
    if (x->model_us != y->model_us)
        return x->model_us < y->model_us ? -1 : 1;
    return memcmp(&x->config, &y->config, sizeof x->config); /* equal runs give equal lists */
}

static void list_family(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane, (void)scratch;
    md_tn_work *w = context;
    for (int64_t i = first; i < last; i++) {
        md_tn_spot *spot = &w->spot[i / w->n_families];
        listing l = {w, spot, &spot->space[i % w->n_families], w->family[i % w->n_families]};
        if (!spot->is_open)
            continue;
        md_fa_each(&w->job->target, l.family, spot->shape.size, list_config, &l);
        if (l.space->n)
            qsort(l.space->choice, (size_t)l.space->n, sizeof *l.space->choice, by_model);
    }
}

static md_status list_spaces(md_tn_work *w)
{
    MD_TRY(md_pool_loop(w->dev->pool, (int64_t)w->n_spots * w->n_families, 1, 0, list_family, w));
    for (int32_t i = 0; i < w->n_spots; i++)
        for (int32_t f = 0; f < w->n_families; f++)
            if (w->spot[i].space[f].failed)
                return md_fail_memory();
    return MD_OK;
}

/* ---- Families and points */

static bool is_allowed(const md_tn_job *job, const md_fa_family *f)
{
    return f->applies(&job->target) && (!job->allows || job->allows(job->allows_user, f));
}

static void choose_families(md_tn_work *w)
{
    for (int32_t pass = 0; pass < 2 && w->n_families == 0; pass++)
        for (int32_t i = 0; md_fa_of(&w->job->target, i); i++) {
            const md_fa_family *f = md_fa_of(&w->job->target, i);
            if (f->is_last_resort == (pass == 1) && w->n_families < MD_TN_MAX_FAMILIES && is_allowed(w->job, f))
                w->family[w->n_families++] = f;
        }
}

typedef struct existence {
    const md_fa_target *target;
    const md_fa_family *family;
    const md_kn_shape *shape;
    bool is_there;
} existence;

static bool stop_at_first(void *user, const md_fa_config *config)
{
    existence *e = user;
    md_kn_envelope envelope = {0};
    e->family->envelope(&envelope, e->target, config);
    e->is_there = !md_kn_envelope_miss(&envelope, e->shape);
    return !e->is_there;
}

/* A family without a legal config at the point leaves no record, and must not make it look unknown in every process. */
static bool has_config(const md_tn_work *w, const md_tn_spot *spot, const md_fa_family *family)
{
    existence e = {&w->job->target, family, &spot->shape, false};
    md_fa_each(e.target, family, spot->shape.size, stop_at_first, &e);
    return e.is_there;
}

/* Whether all that the point can give is known; keeps what there is to go on from. */
static bool is_known(md_tn_work *w, md_tn_spot *spot)
{
    bool is_complete = true;
    for (int32_t f = 0; f < w->n_families; f++) {
        md_tn_record *r = &spot->before[f];
        md_tn_record_finish(r);
        const bool is_there = md_tn_wisdom_find(r, w->job->wisdom, spot->key, w->family[f]->name, w->job->rigor) == MD_OK;
        if (is_there ? !r->is_complete : is_complete && has_config(w, spot, w->family[f]))
            is_complete = false;
    }
    return is_complete;
}

static md_status open_spot(md_tn_work *w, md_tn_spot *spot)
{
    spot->best = -1;
    spot->lease = -1;
    MD_TRY(md_tn_key(&spot->key, &w->job->target, spot->point->size, spot->point->is_ragged));
    COUNT(w, points);
    md_tn_shape(&spot->shape, w->job->target.program, spot->point->size);
    if (spot->point->is_ragged)
        spot->shape.aligned = spot->shape.aligned16 = 0;
    if (is_known(w, spot)) {
        COUNT(w, found);
        md_tn_log_known(w, spot);
        return MD_OK;
    }
    spot->has_lease = md_tn_wisdom_lease(&spot->lease, w->job->wisdom, spot->key);
    if (!spot->has_lease) {
        COUNT(w, busy);
        md_tn_log_spot(w, spot, "busy", "another process tunes it");
        return MD_OK;
    }
    if (is_known(w, spot)) { /* meanwhile */
        COUNT(w, found);
        md_tn_log_known(w, spot);
        return MD_OK;
    }
    spot->is_open = true;
    return MD_OK;
}

/* Memory of a point lives only while it is raced. */
static bool open_bench(md_tn_work *w, md_tn_spot *spot)
{
    const md_tn_job *job = w->job;
    const int64_t limit = md_tn_bench_limit(w->dev);
    md_kn_report *report = w->dev->ops->report_create ? w->report.kernel : NULL;
    md_status s = md_tn_data_make(&spot->data, &w->patterns, job->target.program, job->target.stage, spot->point->size, spot->point->is_ragged, limit);
    if (s == MD_OK) {
        s = md_tn_bench_make(&spot->bench, w->dev, &spot->data, report, limit);
        if (s != MD_OK)
            md_tn_data_finish(&spot->data);
    }
    if (s != MD_OK) {
        COUNT(w, out_of_memory);
        md_tn_log_spot(w, spot, "skipped", md_last_error());
        spot->is_open = false;
        return false;
    }
    spot->has_bench = true;
    return true;
}

static void close_bench(md_tn_spot *spot)
{
    if (!spot->has_bench)
        return;
    md_tn_bench_finish(&spot->bench);
    md_tn_data_finish(&spot->data);
    spot->has_bench = false;
}

static void close_spot(md_tn_work *w, md_tn_spot *spot)
{
    close_bench(spot);
    md_tn_verify_leave(spot);
    if (spot->has_lease)
        md_tn_wisdom_unlease(w->job->wisdom, spot->lease);
    for (int32_t f = 0; f < MD_TN_MAX_FAMILIES; f++) {
        free(spot->space[f].choice);
        md_tn_record_finish(&spot->before[f]);
    }
    free(spot->entry);
    free(spot->key);
}

/* ---- Rounds */

static md_status race_spot(md_tn_work *w, md_tn_spot *spot, int32_t n_left, bool is_last)
{
    const uint64_t now = md_tn_now_ns(w->dev);
    w->soft_ns = now + (w->deadline_ns > now ? (w->deadline_ns - now) / (uint64_t)MD_MAX(n_left, 1) : 0);
    if (!spot->has_bench && !open_bench(w, spot))
        return MD_OK;
    md_tn_await(w, spot);
    if (!md_tn_lock(w)) {
        spot->is_cut = true;
        COUNT(w, busy);
        close_bench(spot);
        return MD_OK;
    }
    md_status s = md_tn_contest(w, spot);
    if (s == MD_OK && is_last)
        s = md_tn_final(w, spot);
    md_tn_unlock(w);
    return s;
}

static int32_t builds_of_round(const md_tn_work *w, const md_tn_spot *spot, int32_t round)
{
    const int32_t usual = w->n_spots < MANY_POINTS ? MD_TN_BUILDS : MD_TN_BUILDS / 2; /* what is built for one point races at the others */
    const int32_t most = w->job->max_builds > 0 ? w->job->max_builds : usual;
    double part = 0.0;
    for (int32_t r = 0; r <= round; r++)
        part += share_of_round[r];
    return w->job->rigor == MD_TUNE_EXHAUSTIVE ? INT32_MAX : MD_MAX((int32_t)(part * most + 0.5) - spot->n_builds, 0);
}

static void finish_spot(md_tn_work *w, md_tn_spot *spot);

/* In each round every point says what it wants built, then they are raced one after the other while the rest is built. */
static md_status search(md_tn_work *w)
{
    const int32_t n_rounds = N_ROUNDS; /* also where all are wanted: what did not seem to fit into the budget may fit after all */
    for (w->round = 0; w->round < n_rounds; w->round++) {
        for (int32_t i = 0; i < w->n_spots; i++) {
            md_tn_spot *spot = &w->spot[i];
            int32_t n_new;
            if (!spot->is_open)
                continue;
            spot->is_cut = false; /* what was left undone is proposed again */
            MD_TRY(md_tn_propose(&n_new, w, spot, builds_of_round(w, spot, w->round)));
        }
        for (int32_t i = 0; i < w->n_spots; i++) {
            const bool is_last = w->round == n_rounds - 1;
            if (!w->spot[i].is_open)
                continue;
            MD_TRY(race_spot(w, &w->spot[i], (n_rounds - w->round) * w->n_spots - i, is_last));
            if (is_last)
                finish_spot(w, &w->spot[i]);
            close_bench(&w->spot[i]);
        }
    }
    return MD_OK;
}

/* ---- Results */

static int32_t best_of_family(const md_tn_work *w, const md_tn_spot *spot, int32_t family)
{
    int32_t best = -1;
    for (int32_t i = 0; i < w->n_trials && i < spot->capacity; i++) {
        const md_tn_entry *e = &spot->entry[i];
        if (w->trial[i].family_at != family || !e->is_there || e->first_us <= 0.0 || w->trial[i].is_out)
            continue;
        if (best < 0 || md_tn_is_better(w, spot, i, best))
            best = i;
    }
    return best;
}

/* The family's best whose results are right. */
static int32_t accept(md_tn_work *w, md_tn_spot *spot, int32_t family)
{
    for (;;) {
        const int32_t best = best_of_family(w, spot, family);
        if (best < 0 || w->dev->ops->is_simulated || md_tn_verify(w, spot, best))
            return best;
        if (spot->best == best)
            spot->best = -1;
    }
}

static md_status list_candidates(md_tn_record *r, const md_tn_work *w, const md_tn_spot *spot, int32_t family)
{
    for (int32_t i = 0; i < w->n_trials && i < spot->capacity; i++) {
        const md_tn_trial *t = &w->trial[i];
        const md_tn_entry *e = &spot->entry[i];
        if (t->family_at != family || !e->is_there || (e->first_us <= 0.0 && !t->is_out))
            continue;
        md_tn_candidate c = {.verdict = t->is_out ? t->verdict : e->verdict, .us = e->n ? e->us : e->first_us, .spread = e->spread, .count = e->n};
        memcpy(c.name, t->variant->name, sizeof c.name);
        MD_TRY(md_tn_record_add(r, &c));
    }
    return MD_OK;
}

static void keep_earlier(md_tn_record *r, const md_tn_record *before)
{
    for (int32_t i = 0; i < before->n_candidates; i++) {
        bool is_there = false;
        for (int32_t k = 0; k < r->n_candidates; k++)
            is_there = is_there || !strcmp(r->candidate[k].name, before->candidate[i].name);
        if (!is_there)
            (void)md_tn_record_add(r, &before->candidate[i]);
    }
}

/* A family that nothing was measured of has the model's word, and is as well known as the search wants. */
static md_status put_family(md_tn_work *w, md_tn_spot *spot, int32_t family)
{
    const md_tn_space *space = &spot->space[family];
    const int32_t best = accept(w, spot, family);
    if (best < 0 && !space->n)
        return MD_OK; /* nothing to remember: see has_config */
    md_tn_record r = {.rigor = w->job->rigor, .is_complete = !spot->is_cut, .date = (int64_t)time(NULL)};
    r.key = strdup(spot->key);
    if (!r.key)
        return md_fail_memory();
    snprintf(r.family, sizeof r.family, "%s", w->family[family]->name);
    if (best >= 0) {
        const md_tn_entry *e = &spot->entry[best];
        memcpy(r.variant, w->trial[best].variant->name, sizeof r.variant);
        r.us = e->n ? e->us : e->first_us;
        r.spread = e->spread;
        r.count = MD_MAX(e->n, 1);
        r.source = w->trial[best].source;
    } else if (space->n) {
        md_fa_name(r.variant, w->family[family], &space->choice[0].config);
        r.us = isfinite(space->choice[0].model_us) ? space->choice[0].model_us : 0.0;
    }
    md_status s = list_candidates(&r, w, spot, family);
    keep_earlier(&r, &spot->before[family]);
    if (s == MD_OK)
        s = md_tn_wisdom_put(w->job->wisdom, &r);
    if (space->n)
        md_tn_log_winner(w, spot, &r);
    md_tn_record_finish(&r);
    return s;
}

static void finish_spot(md_tn_work *w, md_tn_spot *spot)
{
    if (!spot->has_bench)
        return;
    for (int32_t f = 0; f < w->n_families; f++)
        if (put_family(w, spot, f) != MD_OK)
            md_tn_log_spot(w, spot, "skipped", md_last_error());
    for (int32_t i = 0; i < w->n_trials && i < spot->capacity; i++)
        if (spot->entry[i].is_there && (spot->entry[i].first_us > 0.0 || w->trial[i].is_out))
            md_tn_log_candidate(w, spot, i);
    if (spot->is_cut)
        COUNT(w, cut);
}

/* ---- The job */

static md_status open_work(md_tn_work *w)
{
    const md_tn_job *job = w->job;
    w->dev = md_bd_device(job->builder);
    w->lock = -1;
    w->patterns.indices = job->indices;
    w->patterns.seed = job->seed;
    w->start_ns = md_tn_now_ns(w->dev);
    w->deadline_ns = w->start_ns + (uint64_t)((job->budget_ms > 0.0 ? job->budget_ms : MD_TN_BUDGET_MS) * 1e6);
    w->soft_ns = w->deadline_ns;
    w->builds_ns = w->start_ns + (uint64_t)(BUILDING * (double)(w->deadline_ns - w->start_ns));
    const int32_t threads = MD_MAX(md_pool_threads(w->dev->pool), 1);
    w->build_ms = w->dev->facts.kind == MD_DEV_CUDA ? fmax(CUDA_BUILD_MS / threads, CUDA_TURN_MS) : HOST_BUILD_MS / threads;
    choose_families(w);
    w->spot = calloc((size_t)MD_MAX(job->n_points, 1), sizeof *w->spot);
    if (!w->spot)
        return md_fail_memory();
    for (int32_t i = 0; i < job->n_points; i++) {
        w->spot[i].point = &job->point[i];
        w->n_spots = i + 1;
        MD_TRY(open_spot(w, &w->spot[i]));
    }
    return MD_OK;
}

static bool has_work(const md_tn_work *w)
{
    for (int32_t i = 0; i < w->n_spots; i++)
        if (w->spot[i].is_open)
            return true;
    return false;
}

static void close_work(md_tn_work *w)
{
    md_tn_unlock(w);
    for (int32_t i = 0; i < w->n_spots; i++)
        close_spot(w, &w->spot[i]);
    md_tn_verify_finish(w);
    for (int32_t i = 0; i < w->n_trials; i++)
        md_bd_variant_destroy(&w->trial[i].variant);
    md_tn_patterns_finish(&w->patterns);
    if (w->job->count)
        atomic_fetch_add(&w->job->count->measured_ns, md_tn_now_ns(w->dev) - w->start_ns);
    free(w->trial);
    free(w->spot);
    free(w);
}

md_status md_tn_tune(const md_tn_job *job)
{
    md_tn_work *w = calloc(1, sizeof *w);
    if (!w)
        return md_fail_memory();
    w->job = job;
    md_status s = open_work(w);
    if (s == MD_OK && has_work(w) && w->n_families > 0) {
        if (w->dev->ops->report_create)
            s = w->dev->ops->report_create(&w->report, w->dev);
        if (s == MD_OK)
            s = list_spaces(w);
        if (s == MD_OK)
            s = search(w);
    }
    close_work(w);
    return s;
}
