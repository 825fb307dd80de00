/* combo: binds a list of items of one op, tunes it if asked, says what was merged and why, and times one run beside a
 * call an item. */
#include "common/cli.h"
#include "common/data.h"

#include <md/combo.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ITEMS = 10000, BUILD_MS = 30000 };

typedef struct list {
    md_context *context;
    md_op *op;
    int32_t n, n_args;
    data_set *set; /* [n] */
    md_arg *args; /* [n][n_args] */
    md_combo *combo;
} list;

/* The number of lists of sizes, which ';' separates. */
static int32_t count_items(const char *sizes)
{
    int32_t n = 1;
    for (const char *at = sizes; *at; at++)
        n += *at == ';';
    return n;
}

static md_status make_items(list *l, const char *sizes, int32_t n_lists, uint64_t seed)
{
    char *copy = strdup(sizes), *rest = copy;
    md_status status = copy ? MD_OK : MD_OUT_OF_MEMORY;
    for (int32_t i = 0; status == MD_OK && i < l->n; i++) {
        if (i % n_lists == 0) {
            strcpy(copy, sizes); /* NOLINT: as long as the text it was made from */
            rest = copy;
        }
        char *one = strsep(&rest, ";");
        status = data_make(&l->set[i], l->context, l->op, one, seed + (uint64_t)i);
        if (status == MD_OK)
            memcpy(l->args + (size_t)i * (size_t)l->n_args, l->set[i].arg, (size_t)l->n_args * sizeof *l->args);
    }
    free(copy);
    return status;
}

static int find_word(void *user, const char *text, size_t n)
{
    (void)n;
    *(bool *)user = strstr(text, "being built") != NULL;
    return 0;
}

/* Kernels for many items are built in the background. */
static md_status wait_for_builds(const list *l)
{
    const struct timespec pause = {0, 20000000};
    const double start = cli_now_us();
    bool is_building = true;
    while (is_building && cli_now_us() - start < BUILD_MS * 1e3) {
        md_status status = md_combo_run(l->combo, NULL, NULL, 0);
        if (status == MD_OK)
            status = md_combo_explain(l->combo, 0, find_word, &is_building);
        if (status != MD_OK)
            return status;
        if (is_building)
            nanosleep(&pause, NULL);
    }
    return MD_OK;
}

static md_status sample(double *us, void *user, int32_t i, int32_t repeats)
{
    const list *l = user;
    const double start = cli_now_us();
    md_status status = MD_OK;
    for (int32_t k = 0; k < repeats && status == MD_OK; k++) {
        if (i == 0)
            status = md_combo_run(l->combo, NULL, NULL, 0);
        for (int32_t item = 0; i == 1 && item < l->n && status == MD_OK; item++)
            status = md_call(l->op, NULL, l->args + (size_t)item * (size_t)l->n_args, l->n_args);
    }
    if (status == MD_OK)
        status = md_sync(l->context, NULL);
    *us = (cli_now_us() - start) / repeats;
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static md_status print_times(list *l, bool json)
{
    double us[2][15];
    md_bench_competitor c[2] = {{.us = us[0], .never_drops = 1}, {.us = us[1], .never_drops = 1}};
    const md_status status =
        md_bench(c, 2, &(md_bench_options){.samples = 15, .sample_us = 500, .budget_ms = 2000}, sample, l);
    if (status != MD_OK)
        return status;
    for (int i = 0; i < 2; i++)
        qsort(us[i], (size_t)c[i].n, sizeof us[i][0], by_value);
    printf(json ? "{\"combo_us\": %.2f, \"calls_us\": %.2f}\n" : "  one run %.2f us, a call an item %.2f us\n",
           us[0][c[0].n / 2], us[1][c[1].n / 2]);
    return MD_OK;
}

static md_status tune(const list *l, const cli_options *o)
{
    const md_combo_tune_options options = {
        .budget_s = o->budget / 1e3,
        .max_builds = o->builds,
        .json = o->json,
        .field_order = o->field_order,
        .field_limits = o->field_limits,
        .write = cli_write,
        .user = stdout,
    };
    const md_status status = md_combo_tune(l->combo, NULL, &options);
    return status == MD_OK ? wait_for_builds(l) : status;
}

static md_status show(list *l, const cli_options *o, int32_t n_lists)
{
    md_status status = make_items(l, o->sizes, n_lists, o->seed);
    if (status == MD_OK)
        status = md_op_wait(l->op);
    const md_combo_part part = {l->op, l->args, l->n_args, l->n};
    if (status == MD_OK)
        status = md_combo_bind(&l->combo, l->context, &part, 1);
    if (status == MD_OK)
        status = wait_for_builds(l);
    if (status == MD_OK && o->tunes)
        status = tune(l, o);
    if (status == MD_OK)
        status = md_combo_explain(l->combo, o->json, cli_write, stdout);
    return status == MD_OK ? print_times(l, o->json) : status;
}

int cli_combo(const cli_options *o)
{
    list l = {.context = NULL};
    if (!o->tunes && (o->budget > 0 || o->builds > 0 || o->field_order || o->field_limits))
        return cli_usage("--budget, --builds, --field-order and --field-limits of combo need --tune");
    if (o->n != 1 || !o->sizes)
        return cli_usage("combo takes one formula or op, and --sizes \"LIST; LIST; ...\"");
    const int32_t n_lists = count_items(o->sizes), count = o->count > 0 ? o->count : 1;
    if ((int64_t)n_lists * count > MAX_ITEMS)
        return cli_usage("combo takes at most %d items", MAX_ITEMS);
    if (cli_open_context(&l.context, o) != MD_OK)
        return cli_fail_md();
    md_status status = md_op_create(&l.op, l.context, o->arg[0], &o->op);
    if (status == MD_OK) {
        l.n = n_lists * count;
        l.n_args = md_op_n_args(l.op);
        l.set = calloc((size_t)l.n, sizeof *l.set);
        l.args = calloc((size_t)l.n * (size_t)(l.n_args + 1), sizeof *l.args);
        status = l.set && l.args ? show(&l, o, n_lists) : MD_OUT_OF_MEMORY;
    }
    const int result = status == MD_OK ? CLI_OK : cli_fail_md();
    md_combo_destroy(&l.combo);
    for (int32_t i = 0; l.set && i < l.n; i++)
        data_free(&l.set[i]);
    free(l.set);
    free(l.args);
    md_op_destroy(&l.op);
    cli_close_context(&l.context);
    return result;
}
