/* demo: a transformer block under changing batch sizes, every call through md_call. */
#include "common/compare.h"
#include "demo/demo.h"
#include "common/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 300, QUICK_STEPS = 40, MATRIX_TOKENS = 4096 };
/* Of all ops together, builds not counted. A GPU's pools are larger, and so is their data. */
static const double host_race_us = 30e6, gpu_race_us = 15e6;

typedef struct demo {
    const cli_options *o;
    md_context *context;
    cli_device device;
    block block;
    trace trace;
    demo_op op[DEMO_OPS];
    int n_samples; /* steps of the trace that are timed */
    int64_t sample[DEMO_SAMPLES][2]; /* tokens and context of each */
    int64_t lopsided[DEMO_SAMPLES][2]; /* rows and length of each */
    demo_race race[DEMO_OPS], matrix;
    demo_new_shapes new_shapes;
    double build_us, replay_us, worst_error;
    int n_verified, n_wrong;
    FILE *output; /* NULL: not asked for */
} demo;

/* The sizes whose memory is enough for all that the op is timed at. */
static void largest_sizes(char out[64], const block *b, int i)
{
    if (i == BLOCK_LOPSIDED)
        block_sizes(out, b, i, 2 * b->elements, 1);
    else
        block_sizes(out, b, i, i == BLOCK_PRODUCT ? MATRIX_TOKENS : b->most_tokens, b->most_context);
}

static md_status make_ops(demo *d)
{
    double start = cli_now_us();
    for (int i = 0; i < DEMO_OPS; i++) {
        char sizes[64];
        md_op_options o = d->o->op;
        block_options(&o, &d->block, i);
        cli_progress("building %s", block_table[i].label);
        md_status s = md_op_create(&d->op[i].op, d->context, block_table[i].formula, &o);
        largest_sizes(sizes, &d->block, i);
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
    demo_op *op = &d->op[i];
    data_set want = {0};
    int out = output_of(&op->data.most);
    block_sizes(sizes, &d->block, i, tokens, context);
    md_status s = data_make(&want, d->context, op->op, sizes, d->o->seed);
    if (s == MD_OK)
        s = block_shape(&op->data, op->op, sizes);
    md_arg args[DATA_MAX_ARGS];
    memcpy(args, want.arg, sizeof args);
    if (s == MD_OK) {
        args[out] = op->data.arg[out];
        s = md_call(op->op, NULL, args, want.n);
    }
    if (s == MD_OK)
        s = md_reference(op->op, want.arg, want.n);
    if (s == MD_OK)
        s = data_fetch(&want, out);
    data_set got = want; /* same shape; the values are those that the op left in the large memory */
    got.tensor[out].data = op->data.most.tensor[out].data;
    got.image[out] = op->data.most.image[out];
    if (s == MD_OK)
        s = data_fetch(&got, out);
    double additions = 0.0;
    if (s == MD_OK)
        s = compare_additions(&additions, op->op, sizes);
    if (s == MD_OK)
        *result = compare_tensors(&got, &want, out, additions);
    data_free(&want);
    return s;
}

static md_status verify(demo *d)
{
    static const int64_t at[][2] = {{1, 1}, {3, 65}, {16, 257}, {33, 1000}};
    const int all = d->o->quick ? 2 : (int)(sizeof at / sizeof *at);
    for (int i = 0; i < DEMO_OPS; i++) {
        const bool is_slow =
            d->device.is_gpu && strstr(block_table[i].formula, "sum[k]"); /* for the reference, at this width */
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

static void count_served(demo_op *op, const md_choice *c, int64_t rows)
{
    char name[128] = "";
    for (int32_t s = 0; s < c->n_stages; s++)
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", s ? " + " : "", c->variant[s]);
    demo_served *to = NULL;
    for (int k = 0; k < op->n_served; k++)
        if (!strcmp(op->served[k].variant, name))
            to = &op->served[k];
    if (!to && op->n_served < DEMO_MAX_SERVED) {
        to = &op->served[op->n_served++];
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
            demo_op *op = &d->op[i];
            block_sizes(sizes, &d->block, i, d->trace.tokens[step], d->trace.context[step]);
            md_status s = block_shape(&op->data, op->op, sizes);
            double start = cli_now_us();
            if (s == MD_OK)
                s = md_call(op->op, NULL, op->data.arg, op->data.most.n);
            double us = cli_now_us() - start;
            if (s == MD_OK)
                s = md_choice_of(&choice, op->op, op->data.arg, op->data.most.n);
            if (s != MD_OK)
                return s;
            op->replay_us += us;
            d->replay_us += us;
            count_served(op, &choice,
                         block_table[i].rule == BLOCK_BY_CONTEXT ? d->trace.context[step] : d->trace.tokens[step]);
        }
    }
    cli_progress_part(0, 0);
    double start = cli_now_us(); /* a GPU has only been told what to do */
    md_status s = md_sync(d->context, NULL);
    d->replay_us += cli_now_us() - start;
    return s;
}

static demo_race_job job_of(const demo *d, int i)
{
    return (demo_race_job){.block = &d->block,
                           .is_gpu = d->device.is_gpu,
                           .o = d->o,
                           .context = d->context,
                           .op = (demo_op *)&d->op[i],
                           .i = i,
                           .n_samples = d->n_samples,
                           .sample = i == BLOCK_LOPSIDED ? d->lopsided : d->sample,
                           .budget_us = (d->device.is_gpu ? gpu_race_us : host_race_us) / DEMO_OPS};
}

/* From few long rows to many short ones, about as many elements each. */
static void draw_lopsided(demo *d)
{
    for (int k = 0; k < d->n_samples; k++) {
        const double octaves = log2((double)d->block.elements) * (k + 0.5) / d->n_samples;
        d->lopsided[k][0] = (int64_t)exp2(octaves);
        d->lopsided[k][1] = d->block.elements / d->lopsided[k][0] + 1;
    }
}

static md_status race(demo *d)
{
    md_status s = MD_OK;
    d->n_samples = trace_sample(d->sample, d->o->quick ? DEMO_SAMPLES / 4 : DEMO_SAMPLES, &d->trace);
    draw_lopsided(d);
    for (int i = 0; i < DEMO_OPS && s == MD_OK; i++) {
        const demo_race_job job = job_of(d, i);
        s = demo_race_run(&d->race[i], &job);
    }
    return s;
}

/* The kernel of each hint at the others' sizes. */
static md_status race_hints(demo *d)
{
    static const int64_t sizes[][2] = {{1, 1}, {64, 1}, {256, 1}, {MATRIX_TOKENS, 1}};
    demo_race_job job = job_of(d, BLOCK_PRODUCT);
    job.is_matrix = true;
    job.n_samples = sizeof sizes / sizeof *sizes;
    job.sample = sizes;
    return demo_race_run(&d->matrix, &job);
}

static demo_story story_of(const demo *d)
{
    return (demo_story){.device = &d->device,
                        .dtype = md_dtype_name(d->o->op.dtype == MD_DTYPE_DEFAULT ? d->block.dtype : d->o->op.dtype),
                        .block = &d->block,
                        .trace = &d->trace,
                        .op = d->op,
                        .race = d->race,
                        .matrix = &d->matrix,
                        .new_shapes = &d->new_shapes,
                        .build_us = d->build_us,
                        .replay_us = d->replay_us,
                        .worst_error = d->worst_error,
                        .n_verified = d->n_verified};
}

static int run_demo(demo *d)
{
    d->device = device_of(d->context);
    block_make(&d->block, d->device.is_gpu);
    const trace_limits most = {d->o->quick ? QUICK_STEPS : STEPS, d->block.most_tokens, d->block.most_context};
    if (d->o->trace && !trace_read(&d->trace, d->o->trace, d->o->seed, &most))
        return CLI_FAILED;
    if (!d->o->trace)
        trace_generate(&d->trace, d->o->seed, &most);
    if (make_ops(d) != MD_OK || verify(d) != MD_OK || replay(d) != MD_OK || race(d) != MD_OK || race_hints(d) != MD_OK)
        return cli_fail_md();
    const demo_race_job job = job_of(d, BLOCK_PRODUCT);
    if (demo_new_shapes_run(&d->new_shapes, &job) != MD_OK)
        return cli_fail_md();
    cli_progress(NULL);
    const demo_story story = story_of(d);
    if (d->output)
        demo_print_json(d->output, &story);
    if (d->o->json)
        demo_print_json(stdout, &story);
    else
        demo_print_text(&story);
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
    for (int i = 0; i < DEMO_OPS; i++) {
        data_free(&d->op[i].data.most);
        md_op_destroy(&d->op[i].op);
    }
    cli_close_context(&d->context);
    status = cli_close_output(d->output, o->output, status);
    free(d);
    return status;
}
