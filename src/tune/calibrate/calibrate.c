/* Builds and times the kernels that a device is calibrated by. */
#include "tune/calibrate/calibrate.h"

#include "base/status.h"
#include "stage/stage.h"
#include "tune/bench/bench.h"
#include "tune/calibrate/probes.h"
#include "tune/tune.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* A time is the least of a few samples of about SAMPLE_US; more than LEAST_SAMPLES where the two best do not agree. */
enum { LEAST_SAMPLES = 4, MOST_SAMPLES = 12, MOST_REPEATS = 64 };
static const double SAMPLE_US = 500, AGREES = 1.1;
/* Of all times so many may be unsure. */
static const double MOST_UNSURE = 0.15;

typedef struct calibrator {
    md_tn_calibration *result;
    md_bd *builder;
    md_dev *dev;
    md_dev_facts facts; /* without factors */
    const md_tn_calibrate_options *options;
    md_tn_patterns patterns;
    uint64_t start_ns;
    int32_t n_timed, n_unsure;
} calibrator;

/* A family at the sizes of a probe. */
typedef struct rival {
    const md_fa_family *family;
    int32_t n;
    md_fa_config config[MD_TN_PROBE_SIZES];
    double model_us[MD_TN_PROBE_SIZES]; /* 0: it has nothing there */
    md_bd_variant *variant[MD_TN_PROBE_SIZES]; /* NULL: as at the size before */
} rival;

enum { MOST_RIVALS = 24 };

static double spent_ms(const calibrator *c)
{
    return (double)(md_tn_now_ns(c->dev) - c->start_ns) * 1e-6;
}

static bool is_over(const calibrator *c)
{
    return (c->options->is_over && c->options->is_over(c->options->user)) || spent_ms(c) > c->options->budget_ms;
}

/* Adds a time to what is known of the family. */
static void note(calibrator *c, const md_fa_family *family, double us, double model_us)
{
    md_tn_calibration *r = c->result;
    int32_t i = 0;
    while (i < r->n && r->off[i].family != family)
        i++;
    if (i == MD_DEV_MOST_FACTORS || !(us > 0) || !(model_us > 0))
        return;
    r->n = MD_MAX(r->n, i + 1);
    md_tn_off *off = &r->off[i];
    const double x = log(us / model_us), squares = off->n * off->spread * off->spread, step = x - off->mean;
    off->family = family;
    off->mean += step / ++off->n;
    off->spread = sqrt((squares + step * (x - off->mean)) / off->n); /* Welford 1962 */
}

/* Waits for the build, and gives up where time is over. */
static bool is_ready(const calibrator *c, const md_bd_variant *v)
{
    enum { STEP_NS = 1000000 };
    while (atomic_load_explicit(&v->state, memory_order_acquire) == MD_BD_QUEUED) {
        if (is_over(c))
            return false;
        if (!c->dev->ops->is_simulated)
            (void)nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    return atomic_load_explicit(&v->state, memory_order_acquire) == MD_BD_READY;
}

static const md_bd_variant *variant_at(const rival *r, int32_t size)
{
    while (size > 0 && !r->variant[size])
        size--;
    return r->variant[size];
}

/* A rival's times at one size. */
typedef struct timing {
    const md_bd_variant *variant; /* NULL: it is not timed */
    md_kn_geometries geometry;
    int32_t repeats; /* 0: no run yet */
    double best, second; /* us */
} timing;

static timing timing_of(const calibrator *c, const rival *r, int32_t size, const md_kn_shape *shape)
{
    const md_bd_variant *v = r->model_us[size] > 0 ? variant_at(r, size) : NULL;
    timing t = {.best = INFINITY, .second = INFINITY};
    if (!v || !is_ready(c, v) || md_kn_envelope_miss(&v->envelope, shape) ||
        md_bd_variant_load(v, shape, MD_BD_LOAD_WAIT) != MD_BD_LOADED)
        return t;
    t.variant = v;
    md_fa_geometry_of(&t.geometry, v->family, &v->target, &v->config, shape);
    return t;
}

/* The first run only says how many make a sample. */
static void take_sample(calibrator *c, md_tn_bench *bench, timing *t)
{
    double us = 0;
    if (c->options->lock)
        pthread_mutex_lock(c->options->lock);
    const bool has_run = !md_tn_is_stuck(c->dev) &&
                         md_tn_bench_time(&us, bench, t->variant, &t->geometry, MD_MAX(t->repeats, 1)) == MD_OK;
    if (c->options->lock)
        pthread_mutex_unlock(c->options->lock);
    if (!has_run) {
        t->variant = NULL;
    } else if (t->repeats == 0) {
        t->repeats = (int32_t)fmin(fmax(SAMPLE_US / us, 1), MOST_REPEATS);
    } else {
        t->second = fmin(t->second, fmax(us, t->best));
        t->best = fmin(t->best, us);
    }
}

static bool wants_sample(const timing *t, int32_t round)
{
    return t->variant && (round <= LEAST_SAMPLES || t->second > AGREES * t->best);
}

/* Samples are taken in turns, so that other work for a moment disturbs one of each at most. */
static void time_on(calibrator *c, md_tn_bench *bench, const rival *rivals, int32_t n, int32_t size)
{
    timing t[MOST_RIVALS];
    for (int32_t i = 0; i < n; i++)
        t[i] = timing_of(c, &rivals[i], size, &bench->data->shape);
    for (int32_t round = 0; round <= MOST_SAMPLES; round++)
        for (int32_t i = 0; i < n && !is_over(c); i++)
            if (wants_sample(&t[i], round))
                take_sample(c, bench, &t[i]);
    for (int32_t i = 0; i < n; i++)
        if (t[i].variant && t[i].second < INFINITY) {
            c->n_timed++;
            c->n_unsure += t[i].second > AGREES * t[i].best;
            note(c, rivals[i].family, t[i].best, rivals[i].model_us[size]);
        }
}

static void time_all(calibrator *c, const md_fa_target *target, const int64_t *size, const rival *rivals, int32_t n,
                     int32_t which)
{
    md_tn_data data;
    md_tn_bench bench;
    const int64_t limit = md_tn_bench_limit(c->dev);
    if (is_over(c) || md_tn_data_make(&data, &c->patterns, target, size, false, limit) != MD_OK)
        return;
    if (md_tn_bench_make(&bench, c->dev, &data, NULL, limit) == MD_OK) {
        time_on(c, &bench, rivals, n, which);
        md_tn_bench_finish(&bench);
    }
    md_tn_data_finish(&data);
}

/* Finds a family's configs, and begins to build them. */
static void begin_rival(rival *r, calibrator *c, const md_fa_target *target, const int64_t (*size)[MD_FX_MAX_DIMS])
{
    for (int32_t k = 0; k < MD_TN_PROBE_SIZES; k++) {
        r->model_us[k] = 0;
        if (md_tn_best(&r->config[k], NULL, target, r->family, size[k], NULL) != MD_OK)
            continue;
        r->model_us[k] = md_tn_predict_us(target, r->family, &r->config[k], size[k]);
        const bool is_same =
            k > 0 && r->model_us[k - 1] > 0 && !memcmp(&r->config[k], &r->config[k - 1], sizeof r->config[k]);
        if (!is_same && md_bd_variant_create(&r->variant[k], c->builder, target, r->family, &r->config[k]) != MD_OK)
            r->model_us[k] = 0;
    }
}

static void run_program(calibrator *c, const md_st_program *program, const md_tn_probe *probe)
{
    const md_fa_target target = {.program = program, .facts = &c->facts};
    int64_t size[MD_TN_PROBE_SIZES][MD_FX_MAX_DIMS] = {{0}};
    rival rivals[MOST_RIVALS];
    int32_t n = 0;
    for (int32_t k = 0; k < MD_TN_PROBE_SIZES; k++)
        for (int32_t d = 0; d < MD_TN_PROBE_DIMS; d++)
            size[k][d] = MD_MAX(probe->size[k][d], 1);
    for (const md_fa_family *const *f = md_fa_families(c->facts.kind); *f && n < MOST_RIVALS; f++)
        if (!(*f)->is_last_resort && md_fa_applies(*f, &target)) {
            rivals[n] = (rival){.family = *f};
            begin_rival(&rivals[n++], c, &target, (const int64_t(*)[MD_FX_MAX_DIMS])size);
        }
    for (int32_t k = 0; k < MD_TN_PROBE_SIZES; k++)
        time_all(c, &target, size[k], rivals, n, k);
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < MD_TN_PROBE_SIZES; k++)
            if (rivals[i].variant[k])
                md_bd_variant_destroy(&rivals[i].variant[k]);
}

static md_status run_probe(calibrator *c, const md_tn_probe *probe)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_status s = md_fx_formula_create(&formula, probe->text, NULL);
    if (s == MD_OK)
        s = md_st_program_create(&program, formula);
    if (s == MD_OK && program->n_stages == 1)
        run_program(c, program, probe);
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
    return s;
}

/* An operation that was interrupted counts if something was timed, or if nothing else was done: it would never end. */
static md_status run_probes(calibrator *c)
{
    md_tn_calibration *r = c->result;
    const int32_t first = r->n_probes;
    md_status s = MD_OK;
    int32_t at = 0;
    for (const md_tn_probe *p = md_tn_probes; p->text && s == MD_OK; p++) {
        if (p->device != c->facts.kind || at++ < r->n_probes)
            continue;
        if (is_over(c))
            return MD_OK;
        const int32_t n_timed = c->n_timed;
        s = run_probe(c, p);
        r->n_probes += !is_over(c) || c->n_timed > n_timed || r->n_probes == first;
    }
    r->is_whole = s == MD_OK && at == r->n_probes;
    return s;
}

md_status md_tn_calibrate(md_tn_calibration *out, md_bd *builder, const md_tn_calibrate_options *options)
{
    calibrator c = {.result = out, .builder = builder, .dev = md_bd_device(builder), .options = options};
    c.facts = c.dev->facts;
    c.facts.factors = NULL;
    c.start_ns = md_tn_now_ns(c.dev);
    *out = options->before ? *options->before : (md_tn_calibration){.is_sure = true};
    out->date = (int64_t)time(NULL);
    const md_status s = run_probes(&c);
    md_tn_patterns_finish(&c.patterns);
    md_tn_take_clock(c.dev);
    out->ms += spent_ms(&c);
    out->is_sure &= c.dev->mhz >= 0 && c.n_unsure <= MOST_UNSURE * c.n_timed;
    md_tn_calibration_check(out);
    return s;
}
