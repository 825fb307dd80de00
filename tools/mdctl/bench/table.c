/* bench table and bench sweep: the matrix hint x size of TorchInductor's multi-kernel for a matrix product with all
 * sizes dynamic.
 *
 * "hint h" is what an op with that hint alone picks; "distance", "model" and "measure" (by timing at the size)
 * dispatch among the hints 64, 256 and 4096, and those with "default hints" among the library's own; "tuned" times
 * all that is generated for the size itself. Columns that pick one variant share one measurement; all variants of a
 * size are timed interleaved, and with them those of the pools that were dispatched from, so that a pick's loss to
 * the best of its pool is known. */
#include "bench/table.h"

#include <stdlib.h>
#include <string.h>

static const char *const product = "Y[m,n] = sum[k](X[m,k] * W[k,n])", *const tuned = BENCH_LAST_COLUMN;
enum { DEFAULT_LAST = 4096, DEFAULT_STEP = 64 };
static const double far = 1.2; /* variants slower than this factor x the best in a first sample are not timed further */

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
    o.async = 1; /* all columns are built at a time */
    md_status s = strcmp(label, tuned) ? md_op_create(&c->op, t->b->context, product, &o) : MD_OK;
    t->n_columns += s == MD_OK;
    return s;
}

static md_status add_columns(table *t)
{
    static const char *const seed = "64,256,4096";
    const struct {
        const char *label, *hints;
        md_select select;
    } list[] = {{"distance", seed, MD_SELECT_DISTANCE},
                {"model", seed, MD_SELECT_MODEL},
                {"measure", seed, MD_SELECT_MEASURE},
                {"distance, default hints", NULL, MD_SELECT_DISTANCE},
                {"model, default hints", NULL, MD_SELECT_MODEL},
                {"measure, default hints", NULL, MD_SELECT_MEASURE},
                {tuned, NULL, MD_SELECT_MEASURE}};
    md_status s = MD_OK;
    cli_progress("building %s", md_dtype_name(t->dtype));
    for (int i = 0; i < t->n_sizes && s == MD_OK; i++) {
        char label[TABLE_LABEL], hints[24];
        snprintf(label, sizeof label, "hint %lld", (long long)t->size[i]);
        snprintf(hints, sizeof hints, "%lld", (long long)t->size[i]);
        s = add_column(t, label, (int)t->size[i], hints, MD_SELECT_DISTANCE);
    }
    for (size_t i = 0; i < sizeof list / sizeof *list && s == MD_OK; i++)
        s = add_column(t, list[i].label, 0, list[i].hints, list[i].select);
    for (int i = 0; i < t->n_columns && s == MD_OK; i++)
        s = t->column[i].op ? md_op_wait(t->column[i].op) : MD_OK;
    return s;
}

static md_status add_pooled(table *t, const char *variant)
{
    md_op_options o = t->b->o->op;
    pooled *p = &t->pool[t->n_pooled];
    for (int i = 0; i < t->n_pooled; i++)
        if (!strcmp(t->pool[i].variant, variant))
            return MD_OK;
    if (t->n_pooled == TABLE_POOL)
        return MD_OK;
    snprintf(p->variant, sizeof p->variant, "%s", variant);
    o.dtype = t->dtype;
    o.pin = p->variant;
    o.async = 1;
    md_status s = md_op_create(&p->op, t->b->context, product, &o);
    t->n_pooled += s == MD_OK;
    return s;
}

/* A variant that cannot be built is never picked. */
static md_status wait_for_pools(table *t)
{
    for (int i = 0; i < t->n_pooled; i++) {
        md_status s = md_op_wait(t->pool[i].op);
        if (s == MD_COMPILE)
            md_op_destroy(&t->pool[i].op);
        else if (s != MD_OK)
            return s;
    }
    return MD_OK;
}

static md_status add_pools(table *t)
{
    md_status s = MD_OK;
    for (int c = 0; c < t->n_columns; c++)
        for (int32_t i = 0; table_has_pool(&t->column[c]) && i < md_op_n_variants(t->column[c].op, 0) && s == MD_OK;
             i++)
            s = add_pooled(t, md_op_variant(t->column[c].op, 0, i));
    return s == MD_OK ? wait_for_pools(t) : s;
}

static bool is_same(const md_choice *a, const md_choice *b)
{
    bool same = a->n_stages == b->n_stages;
    for (int i = 0; i < a->n_stages && same; i++)
        same = !strcmp(a->variant[i], b->variant[i]);
    return same;
}

/* Finds the contender that runs the column's pick, or adds it. */
static md_status place(bench_case *c, column *col, bool is_own)
{
    md_choice choice;
    md_status s = md_choice_of(&choice, col->op, c->set[0].arg, c->set[0].n);
    col->contender = -1;
    for (int i = 0; i < c->n && s == MD_OK && col->contender < 0; i++)
        if (is_same(&choice, &c->who[i].choice))
            col->contender = i;
    if (s != MD_OK || col->contender >= 0 || c->n == BENCH_CONTENDERS) {
        if (is_own)
            md_op_destroy(&col->op);
        return s;
    }
    s = bench_add(c, col->op, is_own);
    col->contender = s == MD_OK ? c->n - 1 : -1;
    if (is_own) {
        if (s != MD_OK)
            md_op_destroy(&col->op);
        col->op = NULL; /* the case owns it */
    }
    return s;
}

static md_status make_tuned(table *t, int i)
{
    char hints[24];
    md_op_options o = t->b->o->op;
    o.dtype = t->dtype;
    o.hints = hints;
    o.select = MD_SELECT_MEASURE;
    o.async = 1;
    snprintf(hints, sizeof hints, "%lld", (long long)t->size[i]);
    return md_op_create(&t->tuned[i], t->b->context, product, &o);
}

static md_status place_tuned(table *t, bench_case *c, column *col, int i)
{
    col->op = t->tuned[i];
    t->tuned[i] = NULL;
    md_status s = md_op_wait(col->op);
    if (s != MD_OK)
        md_op_destroy(&col->op);
    return s == MD_OK ? place(c, col, true) : s;
}

/* Adds variants of the pools that no column picks at this size. */
static md_status place_pools(table *t, bench_case *c)
{
    for (int i = 0; i < t->n_pooled && c->n < BENCH_CONTENDERS; i++) {
        bool is_there = t->pool[i].op == NULL;
        for (int w = 0; w < c->n && !is_there; w++)
            is_there = c->who[w].choice.n_stages == 1 && !strcmp(c->who[w].choice.variant[0], t->pool[i].variant);
        md_status s = is_there ? MD_OK : bench_add(c, t->pool[i].op, false);
        if (s != MD_OK && s != MD_UNSUPPORTED) /* it does not fit */
            return s;
    }
    return MD_OK;
}

static md_status place_all(table *t, bench_case *c, int at)
{
    md_status s = MD_OK;
    for (int i = 0; i < t->n_columns && s == MD_OK; i++)
        s = t->column[i].op ? place(c, &t->column[i], false) : place_tuned(t, c, &t->column[i], at);
    return s == MD_OK ? place_pools(t, c) : s;
}

static md_status run_size(table *t, int i)
{
    char sizes[64];
    const int64_t size = t->size[i];
    bench_case *c = calloc(1, sizeof *c);
    if (!c)
        return MD_OUT_OF_MEMORY;
    snprintf(sizes, sizeof sizes, "m=%lld, n=%lld, k=%lld", (long long)size, (long long)size, (long long)size);
    c->name = "matmul";
    c->sizes = sizes;
    c->dtype = t->dtype;
    c->is_brief = true;
    md_status s = bench_fill(t->b, c, t->column[0].op);
    if (s == MD_OK)
        s = place_all(t, c, i);
    if (s == MD_OK)
        s = bench_race(t->b, c, far);
    if (s == MD_OK)
        table_print_size(t, c, size);
    bench_free(t->b, c);
    free(c);
    return s;
}

/* True if size i belongs to this part and was not timed by an earlier run. */
static bool is_due(const table *t, int i)
{
    char key[BENCH_KEY];
    bench_key_of_size(key, t->dtype, t->size[i]);
    return i % t->b->o->n_parts == t->b->o->part - 1 && !bench_is_done(&t->b->done, key);
}

/* True if nothing is left to do for the type. */
static bool is_finished(const table *t)
{
    for (int i = 0; i < t->n_sizes; i++)
        if (is_due(t, i))
            return bench_is_late(t->b);
    return true;
}

/* The ops of all sizes are built in the background, while the first sizes are timed. */
static md_status run_sizes(table *t)
{
    md_status s = MD_OK;
    for (int i = 0; i < t->n_sizes && s == MD_OK; i++)
        s = is_due(t, i) ? make_tuned(t, i) : MD_OK;
    for (int i = 0; i < t->n_sizes && s == MD_OK && !bench_is_late(t->b); i++) {
        cli_progress_part(i, t->n_sizes);
        s = is_due(t, i) ? run_size(t, i) : MD_OK;
    }
    return s;
}

static md_status run_dtype(table *t)
{
    md_status s = is_finished(t) ? MD_OK : add_columns(t);
    if (s == MD_OK)
        s = add_pools(t);
    if (s == MD_OK)
        s = run_sizes(t);
    if (s == MD_OK)
        table_print_summary(t);
    for (int i = 0; i < t->n_sizes; i++)
        md_op_destroy(&t->tuned[i]);
    for (int i = 0; i < t->n_columns; i++)
        md_op_destroy(&t->column[i].op);
    for (int i = 0; i < t->n_pooled; i++)
        md_op_destroy(&t->pool[i].op);
    return s;
}

int bench_table(bench *b, bool is_sweep)
{
    static const md_dtype both[] = {MD_BF16, MD_F32};
    const int n = b->o->op.dtype ? 1 : 2;
    md_status s = MD_OK;
    if (b->o->n != 1)
        return cli_usage("bench %s takes no argument, but got '%s'", b->o->arg[0], b->o->arg[1]);
    if (is_sweep && (step_of(b->o) > last_of(b->o) || last_of(b->o) / step_of(b->o) > TABLE_SIZES))
        return cli_usage("--step %d --last %d: bench sweep takes 1 to %d sizes, not %d", step_of(b->o), last_of(b->o),
                         TABLE_SIZES, last_of(b->o) / step_of(b->o));
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
