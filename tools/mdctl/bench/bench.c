/* bench: kernel times of boards, of one op, or of all its variants.
 *
 * On a GPU: the kernels of k launches on k sets of tensors run one after the other between two events, after other
 * memory of 2.5 times the cache was read, so that every one finds a cold cache and no time of the host is in the
 * figure. */
#include "bench/bench.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HOST_SETS = 8, DEFAULT_REPEAT = 15, MAX_PASSES = 64, SAMPLE_US = 1000, WARM_UP_US = 50000, VERY_FAR = 3 };
static const double cold_bytes = 192e6; /* the sets together outgrow the caches where one alone does not */
/* how long a sample is, about, and the most memory that sets take */
static const double gpu_us = 300, gpu_bytes_per_us = 4e6, gpu_bytes = 6e9;

static md_status make_op(md_op **out, bench *b, const char *formula, md_dtype dtype, const char *pin)
{
    md_op_options o = b->o->op;
    o.dtype = dtype;
    if (pin)
        o.pin = pin;
    cli_progress("building %s", pin ? pin : formula);
    return md_op_create(out, b->context, formula, &o);
}

/* *is_own: it could not be kept for other lines. */
static md_status get_op(md_op **out, bool *is_own, bench *b, const char *formula, md_dtype dtype)
{
    *is_own = false;
    for (int i = 0; i < b->n_ops; i++)
        if (b->op[i].dtype == dtype && !strcmp(b->op[i].formula, formula)) {
            *out = b->op[i].op;
            return MD_OK;
        }
    md_status s = make_op(out, b, formula, dtype, NULL);
    if (s != MD_OK)
        return s;
    char *copy = b->n_ops < BENCH_OPS ? strdup(formula) : NULL;
    *is_own = copy == NULL;
    if (copy)
        b->op[b->n_ops++] = (bench_op){copy, dtype, *out};
    return MD_OK;
}

/* Resolves a contender on every set; UNSUPPORTED where a pinned variant does not fit the shape. */
md_status bench_add(bench_case *c, md_op *op, bool is_own)
{
    contender *w = &c->who[c->n];
    *w = (contender){.peer = "md", .op = op, .is_own = is_own};
    for (int k = 0; k < c->n_sets; k++) {
        md_status s = md_resolve(&w->launch[k], op, c->set[k].arg, c->set[k].n);
        if (s != MD_OK) {
            for (int i = 0; i < k; i++)
                md_launch_destroy(&w->launch[i]);
            return s;
        }
    }
    c->n++;
    return md_launch_choice(&w->choice, w->launch[0]);
}

/* --quick leaves the variants out; several stages would need all combinations. */
static md_status add_variants(bench *b, bench_case *c, const char *formula, md_op *op)
{
    if (b->o->quick || md_op_n_stages(op) != 1 || b->o->op.pin)
        return MD_OK;
    for (int32_t i = 0; i < md_op_n_variants(op, 0) && c->n + 1 < BENCH_CONTENDERS; i++) {
        md_op *pinned = NULL;
        md_status s = make_op(&pinned, b, formula, c->dtype, md_op_variant(op, 0, i));
        if (s == MD_COMPILE) /* one that cannot be built is in the pool, but nobody's pick */
            continue;
        if (s != MD_OK)
            return s;
        s = bench_add(c, pinned, true);
        if (s == MD_OK)
            continue;
        md_op_destroy(&pinned);
        if (s != MD_UNSUPPORTED)
            return s;
    }
    return MD_OK;
}

/* The same bytes moved by the simplest op there is, made without the options of what is compared with it: no pin of
 * theirs is for it. */
static md_status add_gpu_copy(bench *b, bench_case *c)
{
    char sizes[64];
    contender *w = &c->who[c->n];
    md_status s =
        b->copy ? MD_OK
                : md_op_create(&b->copy, b->context, "Y[n] = X[n]", &(md_op_options){.name = "copy", .dtype = MD_F32});
    *w = (contender){.peer = "copy", .op = b->copy};
    snprintf(sizes, sizeof sizes, "n=%.0f", c->bytes / 8 > 1 ? c->bytes / 8 : 1);
    if (s == MD_OK)
        s = data_make(&c->copy[0], b->context, b->copy, sizes, 1);
    for (int k = 1; k < c->n_sets && s == MD_OK; k++)
        s = data_clone(&c->copy[k], &c->copy[0]);
    for (int k = 0; k < c->n_sets && s == MD_OK; k++)
        s = md_resolve(&w->launch[k], b->copy, c->copy[k].arg, c->copy[k].n);
    c->n++;
    return s;
}

static md_status add_copy(bench *b, bench_case *c)
{
    if (b->device.is_gpu)
        return add_gpu_copy(b, c);
    size_t half = (size_t)(c->bytes / 2);
    c->copier = copier_create(b->device.threads);
    if (!c->copier)
        return MD_OUT_OF_MEMORY;
    md_status s = md_alloc(&c->from, b->context, half + 64);
    if (s == MD_OK)
        s = md_alloc(&c->to, b->context, half + 64);
    if (s != MD_OK)
        return s;
    memset(c->from, 1, half);
    memset(c->to, 0, half);
    c->who[c->n++] = (contender){.peer = "copy"};
    return MD_OK;
}

/* One pass over the sets; *us is the mean time of a kernel. */
static md_status pass_kernels(double *us, const bench_case *c, const contender *w)
{
    double sum = 0.0;
    md_status s = c->sweeper ? md_launch_run(c->sweeper, NULL, NULL, 0) : MD_OK;
    if (s == MD_OK)
        s = md_launch_time_all(&sum, (const md_launch *const *)w->launch, c->n_sets, NULL);
    *us = sum / c->n_sets;
    return s;
}

static md_status pass_calls(double *us, const bench_case *c, const contender *w)
{
    double start = cli_now_us();
    for (int k = 0; k < c->n_sets; k++) {
        md_status s = md_call(w->op, NULL, c->set[k].arg, c->set[k].n);
        if (s != MD_OK)
            return s;
    }
    *us = (cli_now_us() - start) / c->n_sets;
    return MD_OK;
}

static md_status pass_copy(double *us, const bench_case *c, const contender *w)
{
    (void)w;
    *us = copier_run(c->copier, c->to, c->from, (size_t)(c->bytes / 2));
    return MD_OK;
}

typedef md_status (*bench_pass)(double *us, const bench_case *c, const contender *w);

/* Short kernels are run again until a sample is long enough for the clock and for one interruption not to decide it. */
static md_status add_sample(timing *to, bench_pass pass, const bench_case *c, const contender *w)
{
    const double least = c->is_brief && c->sweeper ? 0.0 : SAMPLE_US;
    double sum = 0.0, us = 0.0;
    int n = 0;
    do {
        md_status s = pass(&us, c, w);
        if (s != MD_OK)
            return s;
        sum += us;
        n++;
    } while (n < MAX_PASSES && sum * c->n_sets < least);
    timing_add(to, sum / n);
    return MD_OK;
}

static md_status run_once(const bench_case *c, contender *w)
{
    if (!w->op)
        return add_sample(&w->kernel, pass_copy, c, w);
    md_status s = add_sample(&w->kernel, pass_kernels, c, w);
    const bool is_called = !c->is_brief && !(c->sweeper && !strcmp(w->peer, "copy"));
    return s == MD_OK && is_called ? add_sample(&w->call, pass_calls, c, w) : s;
}

/* The first sample warms up, unless it takes so long that what came before it does not matter. */
static md_status look_at(const bench_case *c, contender *w, double *least)
{
    md_status s = run_once(c, w);
    w->is_far = s == MD_OK && *least > 0.0 && w->kernel.us[0] > VERY_FAR * *least;
    if (s != MD_OK || w->is_far)
        return s;
    w->kernel.n = w->call.n = 0;
    s = run_once(c, w);
    if (s == MD_OK && (*least == 0.0 || w->kernel.us[0] < *least))
        *least = w->kernel.us[0];
    return s;
}

md_status bench_screen(bench_case *c, double far, int samples)
{
    double least = 0.0;
    md_status s = MD_OK;
    for (int i = 0; i < c->n && s == MD_OK; i++)
        s = look_at(c, &c->who[i], &least);
    for (int i = 0; i < c->n && s == MD_OK; i++) {
        contender *w = &c->who[i];
        if (w->is_far)
            continue;
        w->is_far = w->kernel.us[0] > far * least;
        for (int k = 1; w->is_far && k < samples && s == MD_OK; k++)
            s = run_once(c, w);
    }
    return s;
}

/* One sample of everybody, the other way round every other time. */
static md_status run_round(bench_case *c, int round)
{
    for (int i = 0; i < c->n; i++) {
        contender *w = &c->who[round % 2 ? i : c->n - 1 - i];
        md_status s = w->is_far ? MD_OK : run_once(c, w);
        if (s != MD_OK)
            return s;
    }
    return MD_OK;
}

/* A round, and on a GPU as many as it takes to be as hot as in those that count. */
static md_status warm_up(bench_case *c)
{
    const double start = cli_now_us();
    md_status s = MD_OK;
    do {
        s = run_round(c, 1);
        for (int i = 0; i < c->n; i++)
            if (!c->who[i].is_far)
                c->who[i].kernel.n = c->who[i].call.n = 0;
    } while (s == MD_OK && c->sweeper && cli_now_us() - start < WARM_UP_US);
    return s;
}

/* A B C C B A: drift of the clock falls on all alike. */
md_status bench_race(bench *b, bench_case *c)
{
    int repeat = b->o->repeat ? b->o->repeat : DEFAULT_REPEAT;
    md_status s = warm_up(c);
    for (int r = 0; r < repeat && s == MD_OK; r++) {
        cli_progress("%s %s: run %d of %d, %d contenders", c->name, c->sizes, r + 1, repeat, c->n);
        s = run_round(c, r);
    }
    return s;
}

void bench_free(bench *b, bench_case *c)
{
    for (int i = 0; i < c->n; i++) {
        for (int k = 0; k < c->n_sets; k++)
            md_launch_destroy(&c->who[i].launch[k]);
        if (c->who[i].is_own)
            md_op_destroy(&c->who[i].op);
    }
    for (int k = 0; k < BENCH_SETS; k++) {
        data_free(&c->set[k]);
        data_free(&c->copy[k]);
    }
    copier_destroy(c->copier);
    md_free(b->context, c->from);
    md_free(b->context, c->to);
}

static int count_sets(const bench *b, double bytes)
{
    double sets = cold_bytes / (bytes + 1.0), most = MAX_HOST_SETS;
    if (b->device.is_gpu) {
        sets = gpu_us / (bytes / gpu_bytes_per_us + 2.0) + 1.0;
        most = gpu_bytes / (bytes + 1.0);
        most = most > BENCH_SETS ? BENCH_SETS : most < 3.0 ? 3.0 : most;
        sets = sets < 3.0 ? 3.0 : sets;
    }
    sets = sets > most ? most : sets;
    return sets < 1.0 ? 1 : (int)sets;
}

md_status bench_fill(bench *b, bench_case *c, md_op *op)
{
    md_status s = md_op_work(&c->flops, &c->bytes, op, c->sizes);
    int sets = s == MD_OK ? count_sets(b, c->bytes) : 0;
    c->sweeper = b->sweeper;
    for (; s == MD_OK && c->n_sets < sets; c->n_sets++) {
        int k = c->n_sets;
        s = k && b->device.is_gpu ? data_clone(&c->set[k], &c->set[0])
                                  : data_make(&c->set[k], b->context, op, c->sizes, b->o->seed + (uint64_t)k);
    }
    return s;
}

static md_status fill_case(bench *b, bench_case *c, const char *formula)
{
    md_op *op = NULL;
    bool is_own;
    md_status s = get_op(&op, &is_own, b, formula, c->dtype);
    if (s == MD_OK)
        s = bench_fill(b, c, op);
    if (s == MD_OK)
        s = bench_add(c, op, is_own);
    if (s != MD_OK && is_own)
        md_op_destroy(&op);
    if (s == MD_OK)
        s = add_variants(b, c, formula, op);
    if (s == MD_OK)
        s = add_copy(b, c);
    return s;
}

static int bench_case_run(bench *b, const char *formula, md_dtype dtype, const char *sizes)
{
    bench_case *c = calloc(1, sizeof *c);
    if (!c)
        return cli_fail("out of memory");
    c->name = formula;
    c->sizes = sizes;
    c->dtype = dtype ? dtype : MD_F32;
    md_status s = fill_case(b, c, formula);
    if (s == MD_OK)
        s = bench_race(b, c);
    int status = s == MD_OK ? CLI_OK : cli_fail("%s %s: %s", formula, sizes, md_last_error());
    if (s == MD_OK)
        bench_print(b, c);
    bench_free(b, c);
    free(c);
    return status;
}

/* "op dtype name=size ...". */
static int bench_line(bench *b, char *line, const char *path, int number)
{
    char *rest = NULL;
    line[strcspn(line, "#\n")] = 0;
    char *op = strtok_r(line, " \t", &rest);
    if (!op)
        return CLI_OK;
    char *dtype = strtok_r(NULL, " \t", &rest);
    md_dtype t = dtype ? md_dtype_parse(dtype) : MD_DTYPE_DEFAULT;
    if (t == MD_DTYPE_DEFAULT)
        return cli_usage("%s:%d: expected \"op dtype name=size ...\", with a dtype as second word", path, number);
    while (rest && isspace((unsigned char)*rest))
        rest++;
    return bench_case_run(b, op, t, rest ? rest : "");
}

static int bench_board(bench *b, const char *path)
{
    char line[1024];
    int status = CLI_OK;
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_usage("cannot open the board '%s'", path);
    for (int number = 1; status == CLI_OK && fgets(line, sizeof line, f); number++)
        status = strlen(line) + 1 == sizeof line ? cli_usage("%s:%d: the line is too long", path, number)
                                                 : bench_line(b, line, path, number);
    fclose(f);
    return status;
}

/* Reads more memory than the GPU's cache holds. */
static md_status make_sweep(bench *b)
{
    char sizes[64];
    if (!b->device.is_gpu)
        return MD_OK;
    snprintf(sizes, sizeof sizes, "i=4096, j=%.0f", 2.5 * b->device.l2_bytes / 4096 / 4 + 1.0);
    md_status s = md_op_create(&b->sweep, b->context, "Y[i] = sum[j](X[i,j])", NULL);
    if (s == MD_OK)
        s = data_make(&b->swept, b->context, b->sweep, sizes, 1);
    return s == MD_OK ? md_resolve(&b->sweeper, b->sweep, b->swept.arg, b->swept.n) : s;
}

static int run_bench(bench *b)
{
    if (b->o->n && (!strcmp(b->o->arg[0], "table") || !strcmp(b->o->arg[0], "sweep")))
        return bench_table(b, !strcmp(b->o->arg[0], "sweep"));
    if (b->o->sizes || b->o->n == 0) {
        if (b->o->n != 1)
            return cli_usage("bench takes boards, or one formula or op with --sizes");
        return bench_case_run(b, b->o->arg[0], b->o->op.dtype, b->o->sizes);
    }
    int status = CLI_OK;
    for (int i = 0; status == CLI_OK && i < b->o->n; i++)
        status = bench_board(b, b->o->arg[i]);
    return status;
}

int cli_bench(const cli_options *o)
{
    bench b = {.o = o};
    if (o->output && !(b.output = fopen(o->output, "w")))
        return cli_fail("cannot write '%s'", o->output);
    int status = CLI_FAILED;
    bool is_open = md_context_create(&b.context, &o->context) == MD_OK;
    if (is_open)
        b.device = device_of(b.context);
    if (is_open && make_sweep(&b) == MD_OK)
        status = run_bench(&b);
    else
        cli_fail_md();
    md_launch_destroy(&b.sweeper);
    data_free(&b.swept);
    md_op_destroy(&b.sweep);
    md_op_destroy(&b.copy);
    for (int i = 0; i < b.n_ops; i++) {
        md_op_destroy(&b.op[i].op);
        free(b.op[i].formula);
    }
    md_context_destroy(&b.context);
    return cli_close_output(b.output, o->output, status);
}
