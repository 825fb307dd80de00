/* Ops that are created, called once and destroyed, again and again: what outlives them is bounded, and the statistics
 * stay whole. Families and the device are scripted, so that nothing is compiled. Arguments: how many creations, of how
 * many formulas (default 30,000 and 3,000). */
#include "device/open.h"
#include "dispatch/support/script.h"
#include "support/check.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

enum { MOST_MB = 200, ROWS = 16384, N = 97 };
static int64_t n_creations = 30000, n_formulas = 3000;
static fake_device device;

/* In the place of src/device/device.c. */
md_status md_dev_open(md_dev **out, const md_dev_options *options)
{
    fake_device_init(&device, options->pool, options->log);
    *out = &device.base;
    return MD_OK;
}

void md_dev_close(md_dev **dev)
{
    *dev = NULL;
}

static double resident_mb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* Sizes come in turns that are no multiple of the formulas': there are more shapes than rows are kept. */
static void use_op(md_context *context, int64_t k)
{
    static float x[N], y[N];
    const int64_t n = 1 + k % N, number = k % n_formulas;
    char formula[64];
    md_op *op = NULL;
    snprintf(formula, sizeof formula, "Y%lld[n] = X[n] * %lld.5", (long long)number, (long long)number);
    assert_ok(md_op_create(&op, context, formula, NULL));
    const md_tensor ty = md_tensor_make(y, MD_F32, 1, &n), tx = md_tensor_make(x, MD_F32, 1, &n);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    md_op_destroy(&op);
}

static int take(void *user, const char *bytes, size_t n)
{
    return fwrite(bytes, 1, n, user) == n ? 0 : 1;
}

static json_t *statistics(md_context *context)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    assert_non_null(file);
    assert_ok(md_stats_report(context, "json", take, file));
    fclose(file);
    json_t *const all = json_loads(text, 0, NULL);
    free(text);
    assert_non_null(all);
    return all;
}

/* Calls of all rows. `where`: the object of a row that has them; NULL: the row itself. */
static int64_t calls_of(const json_t *rows, const char *where)
{
    int64_t sum = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) sum +=
        json_integer_value(json_object_get(where ? json_object_get(row, where) : row, "calls"));
    return sum;
}

static void what_outlives_ops_is_bounded(void **state)
{
    md_context *context = NULL;
    double mb = 0.0;
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    assert_ok(md_context_create(&context, &(md_context_options){.hints = "64,256", .select = MD_SELECT_MODEL}));
    for (int64_t k = 0; k < n_creations; k++) {
        use_op(context, k);
        if (k % 1000 == 999)
            mb = fmax(mb, resident_mb());
    }
    json_t *const all = statistics(context);
    const json_t *const ops = json_object_get(all, "ops"), *const shapes = json_object_get(all, "shapes");
    print_message("%lld creations of %lld formulas: at most %.0f MB; %zu rows of ops, %zu of shapes\n",
                  (long long)n_creations, (long long)n_formulas, mb, json_array_size(ops), json_array_size(shapes));
    assert_int_equal(calls_of(ops, "counts"), n_creations);
    assert_int_equal(calls_of(shapes, NULL), n_creations);
    assert_true(json_array_size(ops) > 0 && json_array_size(ops) <= 2 * ROWS && json_array_size(shapes) <= 2 * ROWS);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed for a while */
    assert_true(mb > 0.0 && mb < MOST_MB);
#endif
    json_decref(all);
    md_context_destroy(&context);
}

int main(int argc, char **argv)
{
    n_creations = argc > 1 ? atoll(argv[1]) : n_creations;
    n_formulas = argc > 2 ? atoll(argv[2]) : n_formulas;
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_outlives_ops_is_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
