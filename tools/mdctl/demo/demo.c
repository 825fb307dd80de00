/* demo: a transformer block under changing batch sizes, every call through md_call. */
#include "common/compare.h"
#include "demo/demo.h"
#include "common/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 300, QUICK_STEPS = 40 };
/* Of all ops together, builds not counted. A GPU's pools are larger, and so is their data. */
static const double host_race_us = 50e6, gpu_race_us = 15e6;

typedef struct demo {
    const cli_options *o;
    md_context *context;
    bool is_gpu;
    block block;
    trace trace;
    demo_op op[BLOCK_OPS];
    demo_race race[BLOCK_OPS];
    int64_t most_tokens; /* of a step of the trace, and of what is verified */
    double build_us, replay_us, worst_error;
    int n_verified, n_wrong;
    FILE *output; /* NULL: not asked for */
} demo;

static md_status make_ops(demo *d)
{
    double start = cli_now_us();
    for (int i = 0; i < BLOCK_OPS; i++) {
        char sizes[64];
        md_op_options o = d->o->op;
        block_options(&o, &d->block, i);
        cli_progress("building %s", block_table[i].label);
        md_status s = md_op_create(&d->op[i].op, d->context, block_table[i].formula, &o);
        block_sizes(sizes, &d->block, i, d->most_tokens, d->block.most_context);
        if (s == MD_OK)
            s = data_make(&d->op[i].data.most, d->context, d->op[i].op, sizes, d->o->seed);
        if (s != MD_OK)
            return s;
    }
    d->build_us = cli_now_us() - start;
    return MD_OK;
}

static int output_of(const data_set *set)
{
    int i = 0;
    while (i + 1 < set->n && !set->info[i].is_output)
        i++;
    return i;
}

/* Compares the output at a shape with the reference. */
static md_status verify_at(comparison *result, demo *d, int i, int64_t tokens, int64_t context)
{
    char sizes[64];
    demo_op *x = &d->op[i];
    data_set want = {0};
    int out = output_of(&x->data.most);
    block_sizes(sizes, &d->block, i, tokens, context);
    md_status s = data_make(&want, d->context, x->op, sizes, d->o->seed);
    if (s == MD_OK)
        s = block_shape(&x->data, x->op, sizes);
    md_arg args[DATA_MAX_ARGS];
    memcpy(args, want.arg, sizeof args);
    if (s == MD_OK) {
        args[out] = x->data.arg[out];
        s = md_call(x->op, NULL, args, want.n);
    }
    if (s == MD_OK)
        s = md_reference(x->op, want.arg, want.n);
    if (s == MD_OK)
        s = data_fetch(&want, out);
    data_set got = want; /* same shape; the values are those that the op left in the large memory */
    got.tensor[out].data = x->data.most.tensor[out].data;
    got.image[out] = x->data.most.image[out];
    if (s == MD_OK)
        s = data_fetch(&got, out);
    if (s == MD_OK)
        *result = compare_tensors(&got, &want, out);
    data_free(&want);
    return s;
}

static md_status verify(demo *d)
{
    static const int64_t at[][2] = {{1, 1}, {3, 65}, {16, 257}, {33, 1000}};
    const int all = d->o->quick ? 2 : (int)(sizeof at / sizeof *at);
    for (int i = 0; i < BLOCK_OPS; i++) {
        const bool is_slow =
            d->is_gpu && strstr(block_table[i].formula, "sum[k]"); /* for the reference, at this width */
        for (int k = 0; k < (is_slow ? 1 : all); k++) {
            comparison c = {0};
            cli_progress("checking %s against the reference", block_table[i].label);
            md_status s = verify_at(&c, d, i, at[k][0], at[k][1]);
            if (s != MD_OK)
                return s;
            d->worst_error = fmax(d->worst_error, c.worst);
            d->n_wrong += !(c.worst <= c.allowed);
            d->n_verified++;
        }
    }
    return MD_OK;
}

static void count_served(demo_op *x, const md_choice *c, int64_t rows)
{
    char name[128] = "";
    for (int32_t s = 0; s < c->n_stages; s++)
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", s ? " + " : "", c->variant[s]);
    demo_served *to = NULL;
    for (int k = 0; k < x->n_served; k++)
        if (!strcmp(x->served[k].variant, name))
            to = &x->served[k];
    if (!to && x->n_served < DEMO_MAX_SERVED) {
        to = &x->served[x->n_served++];
        *to = (demo_served){.lo = rows, .hi = rows};
        memcpy(to->variant, name, sizeof name);
        snprintf(to->why, sizeof to->why, "%s", c->source[0]);
    }
    if (!to)
        return;
    to->lo = rows < to->lo ? rows : to->lo;
    to->hi = rows > to->hi ? rows : to->hi;
    to->calls++;
}

static md_status replay(demo *d)
{
    for (int step = 0; step < d->trace.n; step++) {
        cli_progress_part(step, d->trace.n);
        cli_progress("step %d of %d", step + 1, d->trace.n);
        for (int i = 0; i < BLOCK_OPS; i++) {
            char sizes[64];
            md_choice choice;
            demo_op *x = &d->op[i];
            block_sizes(sizes, &d->block, i, d->trace.tokens[step], d->trace.context[step]);
            md_status s = block_shape(&x->data, x->op, sizes);
            double start = cli_now_us();
            if (s == MD_OK)
                s = md_call(x->op, NULL, x->data.arg, x->data.most.n);
            double us = cli_now_us() - start;
            if (s == MD_OK)
                s = md_choice_of(&choice, x->op, x->data.arg, x->data.most.n);
            if (s != MD_OK)
                return s;
            x->replay_us += us;
            d->replay_us += us;
            count_served(x, &choice, block_table[i].by_context ? d->trace.context[step] : d->trace.tokens[step]);
        }
    }
    cli_progress_part(0, 0);
    double start = cli_now_us(); /* a GPU has only been told what to do */
    md_status s = md_sync(d->context, NULL);
    d->replay_us += cli_now_us() - start;
    return s;
}

static md_status race(demo *d)
{
    for (int i = 0; i < BLOCK_OPS; i++) {
        md_status s = demo_race_run(
            &d->race[i], &(demo_race_job){.block = &d->block,
                                          .is_gpu = d->is_gpu,
                                          .o = d->o,
                                          .context = d->context,
                                          .op = &d->op[i],
                                          .i = i,
                                          .trace = &d->trace,
                                          .budget_us = (d->is_gpu ? gpu_race_us : host_race_us) / BLOCK_OPS});
        if (s != MD_OK)
            return s;
    }
    cli_progress(NULL);
    return MD_OK;
}

static void print_served(const demo *d)
{
    printf("\n%swho served what%s\n", cli_bold(), cli_plain());
    for (int i = 0; i < BLOCK_OPS; i++)
        for (int k = 0; k < d->op[i].n_served; k++) {
            const demo_served *v = &d->op[i].served[k];
            printf("  %-9s %-46s %s %5lld..%-5lld %4lld calls (%s)\n", k ? "" : block_table[i].label, v->variant,
                   block_table[i].by_context ? "context" : "tokens ", (long long)v->lo, (long long)v->hi,
                   (long long)v->calls, v->why);
        }
}

typedef struct sums {
    double dispatched, best, best_single;
} sums;

static void print_race(const demo *d, int i, sums *s)
{
    const demo_race *r = &d->race[i];
    double single = 0.0;
    printf("  %-9s dispatched %9.2f ms, best variant at every step %9.2f ms: regret %.1f%% (worst step %.0f%%)\n",
           block_table[i].label, r->total[0].us / 1e3, r->best_us / 1e3, 100.0 * (r->total[0].us / r->best_us - 1.0),
           100.0 * r->worst_regret);
    for (int k = 1; k < r->n; k++) {
        if (r->total[k].kind == DEMO_VARIANT)
            continue;
        printf("            %-18s %9.2f ms  %5.2fx\n", r->total[k].label, r->total[k].us / 1e3,
               r->total[k].us / r->total[0].us);
        if (r->total[k].kind == DEMO_SINGLE_HINT && (single == 0.0 || r->total[k].us < single))
            single = r->total[k].us;
    }
    s->dispatched += r->total[0].us;
    s->best += r->best_us;
    s->best_single += single;
}

static void print_single_totals(const demo *d, double dispatched)
{
    for (int k = 1; k < d->race[0].n && d->race[0].total[k].kind != DEMO_VARIANT; k++) {
        double sum = 0.0;
        for (int i = 0; i < BLOCK_OPS; i++)
            sum += d->race[i].total[k].us;
        printf("  whole block, %-18s %9.2f ms: dispatch is %.2fx as fast\n", d->race[0].total[k].label, sum / 1e3,
               sum / dispatched);
    }
}

static const char *dtype_of(const demo *d)
{
    return md_dtype_name(d->o->op.dtype == MD_DTYPE_DEFAULT ? d->block.dtype : d->o->op.dtype);
}

static void print_text(const demo *d)
{
    int64_t lo = d->trace.tokens[0], hi = lo, sum = 0;
    for (int i = 0; i < d->trace.n; i++) {
        lo = d->trace.tokens[i] < lo ? d->trace.tokens[i] : lo;
        hi = d->trace.tokens[i] > hi ? d->trace.tokens[i] : hi;
        sum += d->trace.tokens[i];
    }
    printf("%sA transformer block (%s, width %d, hidden %d, %d heads) under changing batch sizes%s\n", cli_bold(),
           dtype_of(d), d->block.width, d->block.hidden, d->block.heads, cli_plain());
    printf("  trace: %s\n  %d steps of %lld..%lld tokens, %.1f on average\n", d->trace.origin, d->trace.n,
           (long long)lo, (long long)hi, (double)sum / d->trace.n);
    for (int i = 0; i < BLOCK_OPS; i++)
        printf("  %-9s %s\n", block_table[i].label, md_op_formula(d->op[i].op));
    printf("  %d results checked against the f64 reference: largest error %.1e of the largest value\n", d->n_verified,
           d->worst_error);
    printf("  built in %.2f s; the trace through md_call took %.1f ms\n", d->build_us / 1e6, d->replay_us / 1e3);
    print_served(d);
    printf("\n%swhat dispatch brings%s, kernel times at %d of the steps, median of up to %d interleaved rounds\n",
           cli_bold(), cli_plain(), d->race[0].n_samples, DEMO_ROUNDS);
    sums s = {0};
    for (int i = 0; i < BLOCK_OPS; i++)
        print_race(d, i, &s);
    print_single_totals(d, s.dispatched);
    printf("  whole block: dispatched %.2f ms; the best single hint for each op, known in advance, %.2f ms; the best "
           "variant at every step %.2f ms "
           "(regret %.1f%%)\n",
           s.dispatched / 1e3, s.best_single / 1e3, s.best / 1e3, 100.0 * (s.dispatched / s.best - 1.0));
}

static void print_json(FILE *f, const demo *d)
{
    fprintf(f,
            "{\"device\": \"%s\", \"dtype\": \"%s\", \"width\": %d, \"hidden\": %d, \"heads\": %d, \"steps\": %d, "
            "\"build_us\": %.0f, \"replay_us\": %.1f, \"verified\": %d, "
            "\"worst_error\": %.3g, \"ops\": [",
            device_of(d->context).name, dtype_of(d), d->block.width, d->block.hidden, d->block.heads, d->trace.n,
            d->build_us, d->replay_us, d->n_verified, fmin(d->worst_error, 1e300));
    for (int i = 0; i < BLOCK_OPS; i++) {
        const demo_race *r = &d->race[i];
        fprintf(f,
                "%s{\"op\": \"%s\", \"replay_us\": %.1f, \"samples\": %d, \"best_us\": %.2f, \"regret\": %.4f, "
                "\"worst_regret\": %.4f, \"builds\": [",
                i ? ", " : "", block_table[i].label, d->op[i].replay_us, r->n_samples, r->best_us,
                r->total[0].us / r->best_us - 1.0, r->worst_regret);
        for (int k = 0; k < r->n; k++)
            fprintf(f, "%s{\"build\": \"%s\", \"us\": %.2f, \"samples\": %d}", k ? ", " : "", r->total[k].label,
                    r->total[k].us, r->total[k].n_samples);
        fprintf(f, "], \"sampled\": [");
        for (int k = 0; k < r->n_samples; k++)
            fprintf(f, "%s[%lld, %lld]", k ? ", " : "", (long long)r->sample[k][0], (long long)r->sample[k][1]);
        fprintf(f, "], \"served\": [");
        for (int k = 0; k < d->op[i].n_served; k++)
            fprintf(f, "%s{\"variant\": \"%s\", \"why\": \"%s\", \"lo\": %lld, \"hi\": %lld, \"calls\": %lld}",
                    k ? ", " : "", d->op[i].served[k].variant, d->op[i].served[k].why, (long long)d->op[i].served[k].lo,
                    (long long)d->op[i].served[k].hi, (long long)d->op[i].served[k].calls);
        fprintf(f, "]}");
    }
    fprintf(f, "]}\n");
}

static int run_demo(demo *d)
{
    d->is_gpu = device_of(d->context).is_gpu;
    block_make(&d->block, d->is_gpu);
    const trace_limits most = {d->o->quick ? QUICK_STEPS : STEPS, d->block.most_tokens, d->block.most_context};
    if (d->o->trace && !trace_read(&d->trace, d->o->trace, d->o->seed, &most))
        return CLI_FAILED;
    if (!d->o->trace)
        trace_generate(&d->trace, d->o->seed, &most);
    d->most_tokens = 33; /* verify() */
    for (int i = 0; i < d->trace.n; i++)
        d->most_tokens = d->trace.tokens[i] > d->most_tokens ? d->trace.tokens[i] : d->most_tokens;
    if (make_ops(d) != MD_OK || verify(d) != MD_OK || replay(d) != MD_OK || race(d) != MD_OK)
        return cli_fail_md();
    if (d->output)
        print_json(d->output, d);
    if (d->o->json)
        print_json(stdout, d);
    else
        print_text(d);
    return d->n_wrong ? cli_fail("%d results are wrong: largest error %.3g", d->n_wrong, d->worst_error) : CLI_OK;
}

int cli_demo(const cli_options *o)
{
    if (o->n)
        return cli_usage("demo takes no argument, but got '%s'", o->arg[0]);
    demo *d = calloc(1, sizeof *d);
    if (!d)
        return cli_fail("out of memory");
    d->o = o;
    if (o->output && !(d->output = fopen(o->output, "w"))) {
        free(d);
        return cli_fail("cannot write '%s'", o->output);
    }
    int status = cli_open_context(&d->context, o) == MD_OK ? run_demo(d) : cli_fail_md();
    for (int i = 0; i < BLOCK_OPS; i++) {
        data_free(&d->op[i].data.most);
        md_op_destroy(&d->op[i].op);
    }
    cli_close_context(&d->context);
    status = cli_close_output(d->output, o->output, status);
    free(d);
    return status;
}
