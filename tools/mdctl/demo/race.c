/* Times an op of the block as dispatched, built for single hints, and as each of its variants. */
#include "demo/demo.h"
#include "common/timing.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* So many times of a variant, at least, are split into halves. */
enum { LEAST_TIMES = 4 };
/* GPU: variants slower than the best by so much in a first look are not timed further. */
static const double far_behind = 1.5;

typedef struct build {
    md_op *op;
    demo_total *total;
    md_launch *launch; /* at the sample at hand; NULL where it does not fit */
    char variant[256]; /* that the launch runs */
    /* the first build that runs the same variant: only that one is timed */
    int same;
    timing time, half[2];
} build;

typedef struct builds {
    md_context *context;
    const cli_options *o;
    const block *block;
    bool is_gpu;
    int i, n;
    build build[DEMO_MAX_BUILDS];
} builds;

static md_status add_build(builds *b, demo_race *r, demo_kind kind, const char *label, const char *hints,
                           const char *pin)
{
    if (r->n == DEMO_MAX_BUILDS)
        return MD_OK;
    md_op_options o = b->o->op;
    block_options(&o, b->block, b->i);
    if (hints)
        o.hints = hints;
    if (pin)
        o.pin = pin;
    if (kind == DEMO_BY_MODEL)
        o.select = MD_SELECT_MODEL;
    cli_progress("%s: building %s", block_table[b->i].label, label);
    md_status s = md_op_create(&b->build[b->n].op, b->context, block_table[b->i].formula, &o);
    if (s != MD_OK)
        return s;
    demo_total *t = &r->total[r->n++];
    snprintf(t->label, sizeof t->label, "%s", label);
    t->kind = kind;
    b->build[b->n++].total = t;
    return MD_OK;
}

/* Adds a build for each number of a diagonal list. Hints by name are not taken apart. */
static md_status add_single_hints(builds *b, demo_race *r, const char *hints)
{
    for (const char *at = hints; *at && isdigit((unsigned char)*at);) {
        char one[24], label[48];
        size_t n = strspn(at, "0123456789");
        snprintf(one, sizeof one, "%.*s", (int)(n > 20 ? 20 : n), at);
        snprintf(label, sizeof label, "hint %s alone", one);
        md_status s = add_build(b, r, DEMO_SINGLE_HINT, label, one, NULL);
        if (s != MD_OK)
            return s;
        at += n;
        at += strspn(at, ", ");
    }
    return MD_OK;
}

static md_status add_variants(builds *b, demo_race *r, const md_op *op)
{
    for (int32_t v = 0; md_op_n_stages(op) == 1 && v < md_op_n_variants(op, 0); v++) {
        const char *name = md_op_variant(op, 0, v);
        md_status s = add_build(b, r, DEMO_VARIANT, name, NULL, name);
        if (s != MD_OK && s != MD_COMPILE) /* a variant that cannot be built is never picked */
            return s;
    }
    return MD_OK;
}

static md_status name_variant(build *x)
{
    md_choice choice;
    md_status s = md_launch_choice(&choice, x->launch);
    x->variant[0] = 0;
    for (int32_t i = 0; s == MD_OK && i < choice.n_stages; i++) {
        size_t n = strlen(x->variant);
        snprintf(x->variant + n, sizeof x->variant - n, "%s;", choice.variant[i]);
    }
    return s;
}

static md_status resolve_all(builds *b, demo_op *op)
{
    for (int k = 0; k < b->n; k++) {
        build *x = &b->build[k];
        x->launch = NULL;
        x->time.n = 0;
        x->same = k;
        md_status s = md_resolve(&x->launch, x->op, op->data.arg, op->data.most.n);
        if (s == MD_UNSUPPORTED)
            continue;
        if (s == MD_OK)
            s = name_variant(x);
        if (s != MD_OK)
            return s;
        for (int i = k - 1; i >= 0; i--)
            if (b->build[i].launch && !strcmp(b->build[i].variant, x->variant))
                x->same = i;
    }
    return MD_OK;
}

typedef struct comparison {
    int n, build[DEMO_MAX_BUILDS]; /* of each competitor */
    builds *b;
    md_bench_competitor competitor[DEMO_MAX_BUILDS];
} comparison;

static md_status sample(double *us, void *user, int32_t i, int32_t repeats)
{
    const comparison *c = user;
    double sum = 0.0, one = 0.0;
    for (int32_t k = 0; k < repeats; k++) {
        md_status s = md_launch_time(&one, c->b->build[c->build[i]].launch, NULL);
        if (s != MD_OK)
            return s;
        sum += one;
    }
    *us = sum / repeats;
    return MD_OK;
}

static md_status time_all(builds *b, double until_us)
{
    const double left_ms = (until_us - cli_now_us()) / 1e3;
    const md_bench_options o = {.samples = DEMO_ROUNDS,
                                .sample_us = 200.0,
                                .warm_up_us = 1.0,
                                .look_factor = b->is_gpu ? far_behind : 0.0,
                                .budget_ms = left_ms > 0.001 ? left_ms : 0.001};
    comparison c = {.b = b};
    for (int k = 0; k < b->n; k++)
        if (b->build[k].launch && b->build[k].same == k) {
            c.build[c.n] = k;
            c.competitor[c.n].never_drops = b->build[k].total->kind != DEMO_VARIANT;
            c.competitor[c.n++].us = b->build[k].time.us;
        }
    md_status s = md_bench(c.competitor, c.n, &o, sample, &c);
    for (int i = 0; i < c.n && s == MD_OK; i++) {
        build *x = &b->build[c.build[i]];
        x->time.n = c.competitor[i].n;
        x->half[0].n = x->half[1].n = 0;
        for (int k = 0; k < x->time.n; k++)
            timing_add(&x->half[k % 2], x->time.us[k]);
        s = c.competitor[i].status;
    }
    return s;
}

static bool is_rival(const builds *b, int k, int least_times)
{
    return b->build[k].launch && b->build[k].total->kind == DEMO_VARIANT &&
           b->build[b->build[k].same].time.n >= least_times;
}

/* The fastest variant by one half of the samples; the pick if none is faster. */
static const build *fastest(const builds *b, int half, int least_times)
{
    const build *best = &b->build[b->build[0].same];
    for (int k = 0; k < b->n; k++) {
        const build *x = &b->build[b->build[k].same];
        if (is_rival(b, k, least_times) &&
            timing_quantile(&x->half[half], 0.5) < timing_quantile(&best->half[half], 0.5))
            best = x;
    }
    return best;
}

/* Time of the best variant over that of the pick, at most 1. One half of the samples says which variant is best, the
 * other half by how much: the least of many noisy times would be too short. Ops of several stages have no variants
 * here. */
static double best_over_picked(const builds *b)
{
    const build *pick = &b->build[b->build[0].same];
    double best_us = 0.0, picked_us = 0.0;
    for (int h = 0; h < 2 && pick->time.n >= LEAST_TIMES; h++) {
        best_us += timing_quantile(&fastest(b, h, LEAST_TIMES)->half[1 - h], 0.5);
        picked_us += timing_quantile(&pick->half[1 - h], 0.5);
    }
    return best_us > 0.0 && best_us < picked_us ? best_us / picked_us : 1.0;
}

static void add_regret(const builds *b, demo_race *r)
{
    const double ratio = best_over_picked(b);
    r->best_us += timing_quantile(&b->build[b->build[0].same].time, 0.5) * ratio;
    r->worst_regret = 1.0 / ratio - 1.0 > r->worst_regret ? 1.0 / ratio - 1.0 : r->worst_regret;
}

static void add_sample(builds *b, demo_race *r)
{
    add_regret(b, r);
    for (int k = 0; k < b->n; k++) {
        build *x = &b->build[k];
        if (!x->launch)
            continue;
        x->total->us += timing_quantile(&b->build[x->same].time, 0.5);
        x->total->n_samples++;
        md_launch_destroy(&x->launch);
    }
}

static int by_tokens(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* Steps evenly spread over the trace sorted by size: each stands for an equal share of the steps. */
static int choose_samples(int64_t out[DEMO_SAMPLES][2], const trace *t, bool quick)
{
    int64_t(*step)[2] = calloc((size_t)t->n, sizeof *step);
    int n = quick ? DEMO_SAMPLES / 4 : DEMO_SAMPLES;
    if (!step)
        return 0;
    for (int i = 0; i < t->n; i++) {
        step[i][0] = t->tokens[i];
        step[i][1] = t->context[i];
    }
    qsort(step, (size_t)t->n, sizeof *step, by_tokens);
    n = n < t->n ? n : t->n;
    for (int i = 0; i < n; i++)
        memcpy(out[i], step[(size_t)((2 * i + 1) * t->n / (2 * n))], sizeof out[i]);
    free(step);
    return n;
}

static md_status race_samples(builds *b, demo_race *r, demo_op *op, const trace *t, double budget_us)
{
    r->n_samples = choose_samples(r->sample, t, b->o->quick);
    double start = cli_now_us();
    for (int k = 0; k < r->n_samples; k++) {
        char sizes[64];
        cli_progress_part(b->i + (double)k / r->n_samples, BLOCK_OPS);
        cli_progress("%s: %d builds at step %d of %d", block_table[b->i].label, b->n, k + 1, r->n_samples);
        block_sizes(sizes, b->block, b->i, r->sample[k][0], r->sample[k][1]);
        md_status s = block_shape(&op->data, op->op, sizes);
        if (s == MD_OK)
            s = resolve_all(b, op);
        if (s == MD_OK)
            s = time_all(b, start + budget_us * (k + 1) / r->n_samples);
        if (s != MD_OK)
            return s;
        add_sample(b, r);
    }
    return MD_OK;
}

md_status demo_race_run(demo_race *out, const demo_race_job *job)
{
    const char *env = getenv("MD_HINTS");
    const char *hints = job->o->op.hints ? job->o->op.hints
                        : env && *env    ? env
                        : job->is_gpu    ? "64,256,4096" /* each builds a pool of its own */
                                         : "1,16,64,256,1024,4096";
    builds *b = calloc(1, sizeof *b);
    if (!b)
        return MD_OUT_OF_MEMORY;
    memset(out, 0, sizeof *out);
    *b = (builds){.context = job->context, .o = job->o, .block = job->block, .is_gpu = job->is_gpu, .i = job->i};
    md_status s = add_build(b, out, DEMO_DISPATCHED, "dispatched", NULL, NULL);
    if (s == MD_OK && job->block->select == MD_SELECT_MEASURE)
        s = add_build(b, out, DEMO_BY_MODEL, "by the model", NULL, NULL);
    if (s == MD_OK)
        s = add_single_hints(b, out, hints);
    if (s == MD_OK)
        s = add_variants(b, out, job->op->op);
    if (s == MD_OK)
        s = race_samples(b, out, job->op, job->trace, job->budget_us);
    for (int k = 0; k < b->n; k++) {
        md_launch_destroy(&b->build[k].launch);
        md_op_destroy(&b->build[k].op);
    }
    free(b);
    return s;
}
