/* bench table and bench sweep: the matrix hint x size of TorchInductor's multi-kernel for a matrix product with all sizes dynamic.
 *
 * "hint h" is what an op with that hint alone picks; "distance" and "model" dispatch among the hints of the table, "model, default hints" among the library's own,
 * "measure" among the hints by timing at the size, and "tuned" times all that is generated for the size itself. Columns that pick one variant share one
 * measurement; all variants of a size are timed interleaved. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static const char *const product = "Y[m,n] = sum[k](X[m,k] * W[k,n])";
enum { MAX_SIZES = 128, DEFAULT_LAST = 4096, DEFAULT_STEP = 64, LABEL = 32, MAX_COLUMNS = MAX_SIZES + 8 };

typedef struct column {
    char label[LABEL];
    int hint; /* of "hint h"; 0 */
    md_op *op; /* NULL where it could not be made: "tuned" is made a size */
    int contender; /* of the size at hand; -1: none */
} column;

typedef struct table {
    bench *b;
    md_dtype dtype;
    int n_sizes, n_columns;
    int64_t size[MAX_SIZES];
    column column[MAX_COLUMNS];
    int n_timed[MAX_COLUMNS]; /* sizes */
    double sum[MAX_COLUMNS], worst[MAX_COLUMNS]; /* of time over the least of the size, minus 1 */
} table;

static int step_of(const cli_options *o)
{
    return o->step ? o->step : DEFAULT_STEP;
}

static int last_of(const cli_options *o)
{
    return o->last ? o->last : DEFAULT_LAST;
}

/* Every size is a hint, too. */
static void set_sizes(table *t, bool is_sweep)
{
    static const int64_t seed[] = {64, 256, 4096};
    const int step = step_of(t->b->o), last = last_of(t->b->o);
    for (int i = 0; i < 3 && !is_sweep; i++)
        t->size[t->n_sizes++] = seed[i];
    for (int v = step; v <= last && is_sweep; v += step)
        t->size[t->n_sizes++] = v;
}

static md_status add_column(table *t, const char *label, int hint, const char *hints, md_select select)
{
    column *c = &t->column[t->n_columns];
    md_op_options o = t->b->o->op;
    *c = (column){.hint = hint};
    snprintf(c->label, sizeof c->label, "%s", label);
    o.dtype = t->dtype;
    o.hints = hints;
    o.select = select;
    cli_progress("building %s, %s", md_dtype_name(t->dtype), label);
    md_status s = hints || select != MD_SELECT_MEASURE ? md_op_create(&c->op, t->b->context, product, &o) : MD_OK;
    t->n_columns += s == MD_OK;
    return s;
}

static md_status add_columns(table *t)
{
    static const char *const seed = "64,256,4096";
    md_status s = MD_OK;
    for (int i = 0; i < t->n_sizes && s == MD_OK; i++) {
        char label[LABEL], hints[24];
        snprintf(label, sizeof label, "hint %lld", (long long)t->size[i]);
        snprintf(hints, sizeof hints, "%lld", (long long)t->size[i]);
        s = add_column(t, label, (int)t->size[i], hints, MD_SELECT_DISTANCE);
    }
    s = s == MD_OK ? add_column(t, "distance", 0, seed, MD_SELECT_DISTANCE) : s;
    s = s == MD_OK ? add_column(t, "model", 0, seed, MD_SELECT_MODEL) : s;
    s = s == MD_OK ? add_column(t, "model, default hints", 0, NULL, MD_SELECT_MODEL) : s;
    s = s == MD_OK ? add_column(t, "measure", 0, seed, MD_SELECT_MEASURE) : s;
    return s == MD_OK ? add_column(t, "tuned", 0, NULL, MD_SELECT_MEASURE) : s;
}

static bool is_same(const md_choice *a, const md_choice *b)
{
    bool same = a->n_stages == b->n_stages;
    for (int i = 0; i < a->n_stages && same; i++)
        same = !strcmp(a->variant[i], b->variant[i]);
    return same;
}

/* The contender that runs what the column picks, made where no other column did. */
static md_status place(bench_case *c, column *k, bool is_own)
{
    md_choice choice;
    md_status s = md_choice_of(&choice, k->op, c->set[0].arg, c->set[0].n);
    k->contender = -1;
    for (int i = 0; i < c->n && s == MD_OK && k->contender < 0; i++)
        if (is_same(&choice, &c->who[i].choice))
            k->contender = i;
    if (s != MD_OK || k->contender >= 0 || c->n == BENCH_CONTENDERS) {
        if (is_own)
            md_op_destroy(&k->op);
        return s;
    }
    s = bench_add(c, k->op, is_own);
    k->contender = s == MD_OK ? c->n - 1 : -1;
    if (is_own) {
        if (s != MD_OK)
            md_op_destroy(&k->op);
        k->op = NULL; /* the case owns it */
    }
    return s;
}

static md_status place_tuned(table *t, bench_case *c, column *k, int64_t size)
{
    char hints[24];
    md_op_options o = t->b->o->op;
    o.dtype = t->dtype;
    o.hints = hints;
    o.select = MD_SELECT_MEASURE;
    snprintf(hints, sizeof hints, "%lld", (long long)size);
    md_status s = md_op_create(&k->op, t->b->context, product, &o);
    return s == MD_OK ? place(c, k, true) : s;
}

static void print_size(table *t, const bench_case *c, int64_t size)
{
    double least = 0.0;
    FILE *to[] = {stdout, t->b->output};
    for (int i = 0; i < c->n; i++) {
        const double us = timing_quantile(&c->who[i].kernel, 0.5);
        least = i == 0 || us < least ? us : least;
    }
    cli_progress(NULL);
    for (int i = 0; i < t->n_columns; i++) {
        const column *k = &t->column[i];
        if (k->contender < 0)
            continue;
        const contender *w = &c->who[k->contender];
        const double us = timing_quantile(&w->kernel, 0.5), loss = us / least - 1.0;
        t->n_timed[i]++;
        t->sum[i] += loss;
        t->worst[i] = loss > t->worst[i] ? loss : t->worst[i];
        for (int f = 0; f < 2; f++)
            if (to[f])
                fprintf(to[f], "{\"bench\": \"table\", \"op\": \"matmul\", \"dtype\": \"%s\", \"device\": \"%s\", \"shape\": [%lld, %lld, %lld], \"column\": \"%s\", "
                               "\"hint\": %d, \"variant\": \"%s\", \"us\": %.3f, \"lo\": %.3f, \"hi\": %.3f, \"regret\": %.4f, \"timed\": %d}\n",
                        md_dtype_name(t->dtype), t->b->device.name, (long long)size, (long long)size, (long long)size, k->label, k->hint,
                        w->choice.variant[0], us, timing_quantile(&w->kernel, 0.1), timing_quantile(&w->kernel, 0.9), loss, c->n);
    }
    fflush(stdout);
}

static md_status run_size(table *t, int64_t size)
{
    char sizes[64];
    bench_case *c = calloc(1, sizeof *c);
    if (!c)
        return MD_OUT_OF_MEMORY;
    snprintf(sizes, sizeof sizes, "m=%lld, n=%lld, k=%lld", (long long)size, (long long)size, (long long)size);
    c->name = "matmul";
    c->sizes = sizes;
    c->dtype = t->dtype;
    md_status s = bench_fill(t->b, c, t->column[0].op);
    for (int i = 0; i < t->n_columns && s == MD_OK; i++)
        s = t->column[i].op ? place(c, &t->column[i], false) : place_tuned(t, c, &t->column[i], size);
    if (s == MD_OK)
        s = bench_race(t->b, c);
    if (s == MD_OK)
        print_size(t, c, size);
    bench_free(t->b, c);
    free(c);
    return s;
}

static void print_summary(const table *t)
{
    for (int i = 0; i < t->n_columns; i++)
        fprintf(stderr, "mdctl: %s %-22s loses %6.2f%% on average, %7.1f%% at worst, to the fastest of the size\n", md_dtype_name(t->dtype), t->column[i].label,
                100.0 * t->sum[i] / (t->n_timed[i] ? t->n_timed[i] : 1), 100.0 * t->worst[i]);
}

static md_status run_dtype(table *t)
{
    md_status s = add_columns(t);
    for (int i = 0; i < t->n_sizes && s == MD_OK; i++)
        s = run_size(t, t->size[i]);
    if (s == MD_OK)
        print_summary(t);
    for (int i = 0; i < t->n_columns; i++)
        md_op_destroy(&t->column[i].op);
    return s;
}

int bench_table(bench *b, bool is_sweep)
{
    static const md_dtype both[] = {MD_BF16, MD_F32};
    const int n = b->o->op.dtype ? 1 : 2;
    md_status s = MD_OK;
    if (b->o->n != 1)
        return cli_usage("bench %s takes no argument, but got '%s'", b->o->arg[0], b->o->arg[1]);
    if (is_sweep && (step_of(b->o) > last_of(b->o) || last_of(b->o) / step_of(b->o) > MAX_SIZES))
        return cli_usage("--step %d --last %d: bench sweep takes 1 to %d sizes, not %d", step_of(b->o), last_of(b->o), MAX_SIZES, last_of(b->o) / step_of(b->o));
    for (int i = 0; i < n && s == MD_OK; i++) {
        table *t = calloc(1, sizeof *t);
        if (!t)
            return cli_fail("out of memory");
        t->b = b;
        t->dtype = b->o->op.dtype ? b->o->op.dtype : both[i];
        set_sizes(t, is_sweep);
        s = run_dtype(t);
        free(t);
    }
    return s == MD_OK ? CLI_OK : cli_fail_md();
}
