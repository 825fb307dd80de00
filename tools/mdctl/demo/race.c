/* Times an op of the block as dispatched, by each way of picking, for single hints, and as each of its variants. */
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

/* How a build differs from what is dispatched; NULL and 0: not at all. */
typedef struct change {
    const char *hints, *pin;
    md_select select;
} change;

static md_status add_build(builds *b, demo_race *r, demo_kind kind, const char *label, change by)
{
    if (r->n == DEMO_MAX_BUILDS)
        return MD_OK;
    md_op_options o = b->o->op;
    block_options(&o, b->block, b->i);
    if (by.hints)
        o.hints = by.hints;
    if (by.pin)
        o.pin = by.pin;
    if (by.select)
        o.select = by.select;
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

static md_status add_ways(builds *b, demo_race *r)
{
    static const struct {
        const char *label;
        md_select select;
    } way[] = {{"by distance", MD_SELECT_DISTANCE}, {"by the model", MD_SELECT_MODEL}, {"measured", MD_SELECT_MEASURE}};
    md_status s = MD_OK;
    for (size_t i = 0; i < sizeof way / sizeof *way && s == MD_OK; i++)
        s = add_build(b, r, DEMO_WAY, way[i].label, (change){.select = way[i].select});
    return s;
}

typedef md_status add_hint_fn(builds *b, demo_race *r, demo_op *op, const char *hint);

static md_status add_single_hint(builds *b, demo_race *r, demo_op *op, const char *hint)
{
    char label[48];
    (void)op;
    snprintf(label, sizeof label, "hint %s alone", hint);
    return add_build(b, r, DEMO_SINGLE_HINT, label, (change){.hints = hint});
}

/* What an op with this hint alone picks at the hint. */
static md_status kernel_of_hint(char variant[128], const builds *b, demo_op *op, const char *hint)
{
    char sizes[64];
    md_op_options o = b->o->op;
    md_op *alone = NULL;
    md_choice choice;
    block_options(&o, b->block, b->i);
    o.hints = hint;
    o.select = MD_SELECT_MODEL;
    block_sizes(sizes, b->block, b->i, strtoll(hint, NULL, 10), b->block->most_context);
    md_status s = md_op_create(&alone, b->context, block_table[b->i].formula, &o);
    if (s == MD_OK)
        s = block_shape(&op->data, op->op, sizes);
    if (s == MD_OK)
        s = md_choice_of(&choice, alone, op->data.arg, op->data.most.n);
    if (s == MD_OK)
        snprintf(variant, 128, "%s", choice.variant[0]);
    md_op_destroy(&alone);
    return s;
}

static md_status add_hint_kernel(builds *b, demo_race *r, demo_op *op, const char *hint)
{
    char variant[128], label[48];
    snprintf(label, sizeof label, "kernel of hint %s", hint);
    md_status s = kernel_of_hint(variant, b, op, hint);
    if (s == MD_OK)
        s = add_build(b, r, DEMO_HINT_KERNEL, label, (change){.hints = hint, .pin = variant});
    if (s == MD_OK)
        snprintf(r->total[r->n - 1].variant, sizeof r->total->variant, "%s", variant);
    return s;
}

/* Adds a build for each number of a diagonal list. Hints by name are not taken apart. */
static md_status add_hints(builds *b, demo_race *r, demo_op *op, const char *hints, add_hint_fn *add)
{
    for (const char *at = hints; *at && isdigit((unsigned char)*at);) {
        char one[24];
        size_t n = strspn(at, "0123456789");
        snprintf(one, sizeof one, "%.*s", (int)(n > 20 ? 20 : n), at);
        md_status s = add(b, r, op, one);
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
        md_status s = add_build(b, r, DEMO_VARIANT, name, (change){.pin = name});
        if (s != MD_OK && s != MD_COMPILE) /* a variant that cannot be built is never picked */
            return s;
    }
    return MD_OK;
}

static md_status name_variant(build *b)
{
    md_choice choice;
    md_status s = md_launch_choice(&choice, b->launch);
    b->variant[0] = 0;
    for (int32_t i = 0; s == MD_OK && i < choice.n_stages; i++) {
        size_t n = strlen(b->variant);
        snprintf(b->variant + n, sizeof b->variant - n, "%s;", choice.variant[i]);
    }
    return s;
}

static md_status resolve_all(builds *b, demo_op *op)
{
    for (int k = 0; k < b->n; k++) {
        build *made = &b->build[k];
        made->launch = NULL;
        made->time.n = 0;
        made->same = k;
        md_status s = md_resolve(&made->launch, made->op, op->data.arg, op->data.most.n);
        if (s == MD_UNSUPPORTED)
            continue;
        if (s == MD_OK)
            s = name_variant(made);
        if (s != MD_OK)
            return s;
        for (int i = k - 1; i >= 0; i--)
            if (b->build[i].launch && !strcmp(b->build[i].variant, made->variant))
                made->same = i;
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
        build *made = &b->build[c.build[i]];
        made->time.n = c.competitor[i].n;
        made->half[0].n = made->half[1].n = 0;
        for (int k = 0; k < made->time.n; k++)
            timing_add(&made->half[k % 2], made->time.us[k]);
        s = c.competitor[i].status;
    }
    return s;
}

/* What else runs on a CPU only adds to times: the least says most. A GPU's clock moves both ways. */
static double time_of(const builds *b, const timing *t)
{
    return timing_quantile(t, b->is_gpu ? 0.5 : 0.0);
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
        const build *made = &b->build[b->build[k].same];
        if (is_rival(b, k, least_times) && time_of(b, &made->half[half]) < time_of(b, &best->half[half]))
            best = made;
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
        best_us += time_of(b, &fastest(b, h, LEAST_TIMES)->half[1 - h]);
        picked_us += time_of(b, &pick->half[1 - h]);
    }
    return best_us > 0.0 && best_us < picked_us ? best_us / picked_us : 1.0;
}

static void add_regret(const builds *b, demo_race *r, int sample)
{
    const double ratio = best_over_picked(b);
    r->best_at[sample] = time_of(b, &b->build[b->build[0].same].time) * ratio;
    r->best_us += r->best_at[sample];
    r->worst_regret = 1.0 / ratio - 1.0 > r->worst_regret ? 1.0 / ratio - 1.0 : r->worst_regret;
}

static void add_sample(builds *b, demo_race *r, int sample)
{
    add_regret(b, r, sample);
    for (int k = 0; k < b->n; k++) {
        build *made = &b->build[k];
        if (!made->launch)
            continue;
        made->total->at[sample] = time_of(b, &b->build[made->same].time);
        made->total->us += made->total->at[sample];
        made->total->n_samples++;
        md_launch_destroy(&made->launch);
    }
}

static md_status race_samples(builds *b, demo_race *r, demo_op *op, double budget_us)
{
    double start = cli_now_us();
    for (int k = 0; k < r->n_samples; k++) {
        char sizes[64];
        cli_progress_part(b->i + (double)k / r->n_samples, DEMO_OPS);
        cli_progress("%s: %d builds at step %d of %d", block_table[b->i].label, b->n, k + 1, r->n_samples);
        block_sizes(sizes, b->block, b->i, r->sample[k][0], r->sample[k][1]);
        md_status s = block_shape(&op->data, op->op, sizes);
        if (s == MD_OK)
            s = resolve_all(b, op);
        if (s == MD_OK)
            s = time_all(b, start + budget_us * (k + 1) / r->n_samples);
        if (s != MD_OK)
            return s;
        add_sample(b, r, k);
    }
    return MD_OK;
}

static const char *hints_of(const demo_race_job *job)
{
    const char *env = getenv("MD_HINTS");
    return job->is_matrix     ? "1,64,256,4096" /* one token, and the hints of TorchInductor's multi-kernel */
           : job->o->op.hints ? job->o->op.hints
           : env && *env      ? env
           : job->is_gpu      ? "64,256,4096" /* each builds a pool of its own */
                              : "1,16,64,256,1024,4096";
}

static md_status add_all(builds *b, demo_race *r, const demo_race_job *job)
{
    md_status s = add_build(b, r, DEMO_DISPATCHED, "dispatched", (change){0});
    if (s == MD_OK && job->is_matrix)
        return add_hints(b, r, job->op, hints_of(job), add_hint_kernel);
    if (s == MD_OK)
        s = add_ways(b, r);
    if (s == MD_OK)
        s = add_hints(b, r, job->op, hints_of(job), add_single_hint);
    return s == MD_OK ? add_variants(b, r, job->op->op) : s;
}

md_status demo_race_run(demo_race *out, const demo_race_job *job)
{
    builds *b = calloc(1, sizeof *b);
    if (!b)
        return MD_OUT_OF_MEMORY;
    memset(out, 0, sizeof *out);
    out->n_samples = job->n_samples;
    memcpy(out->sample, job->sample, (size_t)job->n_samples * sizeof *job->sample);
    *b = (builds){.context = job->context, .o = job->o, .block = job->block, .is_gpu = job->is_gpu, .i = job->i};
    md_status s = add_all(b, out, job);
    if (s == MD_OK)
        s = race_samples(b, out, job->op, job->budget_us);
    for (int k = 0; k < b->n; k++) {
        md_launch_destroy(&b->build[k].launch);
        md_op_destroy(&b->build[k].op);
    }
    free(b);
    return s;
}
