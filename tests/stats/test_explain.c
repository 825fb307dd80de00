/* Explanations to the letter, and choices as users get them. Families and the device are scripted, so the model's times
 * are the test's. */
#include "dispatch/support/script.h"
#include "support/check.h"
#include "device/open.h"

static fake_device device;
static md_context *context;

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

static char text[16384];

static int take(void *user, const char *bytes, size_t n)
{
    (void)user;
    if (strlen(text) + n >= sizeof text)
        return 1;
    strncat(text, bytes, n);
    return 0;
}

/* Alpha is the best up to some hundred elements, beta beyond; gamma fits long shapes only. */
static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.02;
    script_allow(SCRIPT_BETA, 1, 9.0);
    script_row *gamma = script_allow(SCRIPT_GAMMA, 2, 30.0);
    gamma->lo = 2000;
    gamma->us_each = 0.01;
    text[0] = 0;
    return md_context_create(&context, &(md_context_options){.hints = "64,256,4096", .select = MD_SELECT_MODEL}) !=
           MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static md_op *make(const char *formula, md_op_options o)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula, &o));
    return op;
}

/* Takes the line of the roofline out of the text; the_roofline_is_told tests it. */
static void drop_roofline(void)
{
    char *line = strstr(text, "  roofline: ");
    if (line)
        memmove(line, strchr(line, '\n') + 1, strlen(strchr(line, '\n')));
}

static void expect(md_op *op, const char *sizes, const char *want)
{
    text[0] = 0;
    assert_ok(md_explain(op, sizes, 0, take, NULL));
    drop_roofline();
    assert_string_equal(text, want);
}

static void picks_are_explained(void **state)
{
    (void)state;
    md_op *op = make("Y[n] = X[n]", (md_op_options){0});
    expect(op, "n=100",
           "Y: Y:f32[n] = X:f32[n]\n"
           "at n=100, 0.64 octaves from the nearest hint\n"
           "stage 0: pointwise: 1 store; 0 MFLOP, 0.0008 MB\n"
           "      candidate      model us  distance  from hint            fits\n"
           "  ->  alpha/v0_w0        3.00      0.64  n=64, n=256, n=4096  yes\n"
           "      beta/v1_w0         9.00      0.64  n=64, n=256, n=4096  yes\n"
           "      gamma/v2_w0       31.00      5.36  n=4096               dim smaller than compiled\n"
           "  pick: alpha/v0_w0 (model), ahead of beta/v1_w0 by 2.00 of its time\n");
    expect(op, "n=3000",
           "Y: Y:f32[n] = X:f32[n]\n"
           "at n=3000, 0.45 octaves from the nearest hint\n"
           "stage 0: pointwise: 1 store; 0 MFLOP, 0.024 MB\n"
           "      candidate      model us  distance  from hint            fits\n"
           "      alpha/v0_w0       61.00      0.45  n=4096, n=64, n=256  yes\n"
           "  ->  beta/v1_w0         9.00      0.45  n=4096, n=64, n=256  yes\n"
           "      gamma/v2_w0       60.00      0.45  n=4096               yes\n"
           "  pick: beta/v1_w0 (model), ahead of gamma/v2_w0 by 5.67 of its time\n");
    md_op_destroy(&op);
    op = make("Y[n] = X[n] + 1", (md_op_options){.select = MD_SELECT_DISTANCE});
    expect(op, "n=100",
           "Y: Y:f32[n] = X:f32[n] + 1\n"
           "at n=100, 0.64 octaves from the nearest hint\n"
           "stage 0: pointwise: 1 store; 0.0001 MFLOP, 0.0008 MB\n"
           "      candidate      model us  distance  from hint            fits\n"
           "  ->  alpha/v0_w0        3.00      0.64  n=64, n=256, n=4096  yes\n"
           "      beta/v1_w0         9.00      0.64  n=64, n=256, n=4096  yes\n"
           "      gamma/v2_w0       31.00      5.36  n=4096               dim smaller than compiled\n"
           "  pick: alpha/v0_w0 (nearest), ahead of beta/v1_w0 by 0.00 octaves\n");
    expect(op, "n=200", /* the variant of the hint 64 is that of 256, too, which is nearer */
           "Y: Y:f32[n] = X:f32[n] + 1\n"
           "at n=200, 0.36 octaves from the nearest hint\n"
           "stage 0: pointwise: 1 store; 0.0002 MFLOP, 0.0016 MB\n"
           "      candidate      model us  distance  from hint            fits\n"
           "  ->  alpha/v0_w0        5.00      0.36  n=256, n=64, n=4096  yes\n"
           "      beta/v1_w0         9.00      0.36  n=256, n=64, n=4096  yes\n"
           "      gamma/v2_w0       32.00      4.36  n=4096               dim smaller than compiled\n"
           "  pick: alpha/v0_w0 (nearest), ahead of beta/v1_w0 by 0.00 octaves\n");
    md_op_destroy(&op);
}

/* 3000 elements are read and written at 20 GB/s, 3000 operations done at 100 Gflop/s; all else is the kernel's. */
static void the_roofline_is_told(void **state)
{
    (void)state;
    md_op *op = make("Y[n] = X[n] + 2", (md_op_options){0});
    text[0] = 0;
    assert_ok(md_explain(op, "n=3000", 0, take, NULL));
    assert_non_null(strstr(text, "  roofline: "));
    assert_non_null(strstr(text, " us (memory), "));
    assert_non_null(strstr(text, "of it by the model; most is lost to this: latency, and launches after the first ("));
    text[0] = 0;
    assert_ok(md_explain(op, "n=3000", 1, take, NULL));
    assert_non_null(strstr(text, "\"roof\":{\"us\":"));
    assert_non_null(strstr(text, "\"limit\":\"memory\""));
    md_op_destroy(&op);
}

/* Columns are as wide as the widest cell of all rows, the first and the only one included. A hint itself is 0 octaves
 * from the nearest. */
static void columns_fit_the_first_row(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 3, 3.0);
    md_op *op = make("Y[n] = X[n] * 3", (md_op_options){0});
    expect(op, "n=256",
           "Y: Y:f32[n] = X:f32[n] * 3\n"
           "at n=256, 0.00 octaves from the nearest hint\n"
           "stage 0: pointwise: 1 store; 0.000256 MFLOP, 0.002048 MB\n"
           "      candidate      model us  distance  from hint            fits\n"
           "  ->  alpha/v3_w0        3.00      0.00  n=256, n=64, n=4096  yes\n"
           "  pick: alpha/v3_w0 (model)\n");
    text[0] = 0;
    assert_ok(md_explain(op, "n=256", 1, take, NULL));
    assert_non_null(strstr(text, "\"distance\":0.0"));
    md_op_destroy(&op);
}

/* A variant that is in the lists of several hints lies at the nearest of them, in every mode and report. */
static void distances_are_to_the_nearest_hint(void **state)
{
    (void)state;
    static const md_select mode[] = {MD_SELECT_DISTANCE, MD_SELECT_MODEL};
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        md_op *op = make("Y[n,m] = X[n,m]", (md_op_options){.select = mode[i]});
        text[0] = 0;
        assert_ok(md_explain(op, "n=129, m=1025", 1, take, NULL));
        assert_non_null(strstr(text, "\"nearest\":2.99"));
        assert_non_null(strstr(text, "\"distance\":2.99"));
        assert_non_null(strstr(text, "\"hint\":\"n=256 m=256\",\"hints\":[\"n=256 m=256\",\"n=64 m=64\","));
        assert_null(strstr(text, "\"distance\":5.01"));
        md_op_destroy(&op);
    }
}

/* By default distance goes by a grid: near every shape there is a hint. */
static void the_hint_of_the_grid_is_named(void **state)
{
    (void)state;
    md_context *own = NULL;
    md_op *op = NULL;
    assert_ok(md_context_create(&own, &(md_context_options){.select = MD_SELECT_DISTANCE}));
    assert_ok(md_op_create(&op, own, "Y[n,m] = X[n,m]", NULL));
    text[0] = 0;
    assert_ok(md_explain(op, "n=129, m=1000000", 0, take, NULL));
    assert_non_null(strstr(text, "at n=129 m=1000000, 0.08 octaves from the nearest hint\n"));
    assert_non_null(strstr(text, " n=128 m=1048576  yes\n"));
    assert_null(strstr(text, "lopsided"));
    md_op_destroy(&op);
    md_context_destroy(&own);
}

/* Hints on a diagonal cover no shape that is far from square. */
static void lopsided_shapes_are_noted(void **state)
{
    (void)state;
    static const struct {
        const char *hints, *sizes;
        md_select select;
        bool is_noted;
    } row[] = {
        {"64,256", "n=2, m=129", MD_SELECT_DISTANCE, true},
        {"64,256", "n=129, m=2", MD_SELECT_DISTANCE, true},
        {"64,256", "n=2, m=128", MD_SELECT_DISTANCE, false},
        {"64,256", "n=100, m=100", MD_SELECT_DISTANCE, false},
        {"64,256", "n=2, m=129", MD_SELECT_MODEL, false},
        {"(n=2,m=300) (n=64,m=64)", "n=2, m=129", MD_SELECT_DISTANCE, false},
        {"64,256", "n=1, m=64", MD_SELECT_DISTANCE, false},
        {"64,256", "n=1, m=65", MD_SELECT_DISTANCE, true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *op = make("Y[n,m] = X[n,m]", (md_op_options){.hints = row[i].hints, .select = row[i].select});
        text[0] = 0;
        assert_ok(md_explain(op, row[i].sizes, 0, take, NULL));
        if (!!strstr(text, "lopsided") != row[i].is_noted)
            fail_msg("row %zu:\n%s", i, text);
        md_op_destroy(&op);
    }
}

static md_choice choice_at(md_op *op, int64_t n)
{
    md_choice choice;
    script_vectors v;
    script_vectors_make(&v, n, 1);
    assert_ok(md_choice_of(&choice, op, v.arg, 2));
    script_vectors_free(&v);
    return choice;
}

static void choices_name_the_second_best(void **state)
{
    (void)state;
    md_op *op = make("Y[n] = X[n]", (md_op_options){0});
    md_choice c = choice_at(op, 100);
    assert_int_equal(c.n_stages, 1);
    assert_string_equal(c.variant[0], "alpha/v0_w0");
    assert_string_equal(c.runner_up[0], "beta/v1_w0");
    assert_float_equal(c.margin[0], 2.0, 1e-9); /* 9 us against 3 */
    c = choice_at(op, 1000);
    assert_string_equal(c.variant[0], "beta/v1_w0");
    assert_string_equal(c.runner_up[0], "alpha/v0_w0");
    assert_string_equal(c.source[0], "model");
    assert_float_equal(c.margin[0], 21.0 / 9.0 - 1.0, 1e-9);
    assert_float_equal(c.nearest, 1.9657842846620869, 1e-9); /* log2 1000/256 */
    assert_int_equal(c.is_uncovered, 0);
    md_op_destroy(&op);
}

/* The class that serves a shape is named: beta's where alpha's does not fit. */
static void the_numeric_class_is_named(void **state)
{
    (void)state;
    script_row *alpha = script_allow(SCRIPT_ALPHA, 0, 1.0), *beta = script_allow(SCRIPT_BETA, 1, 9.0);
    alpha->numeric = 1;
    alpha->hi = 500;
    beta->numeric = 2;
    beta->lo = 1000;
    md_op *op = make("Y[n] = X[n]", (md_op_options){.numeric = MD_NUMERIC_DETERMINISTIC});
    static const struct {
        const char *sizes, *line;
    } row[] = {{"n=100", "numeric policy deterministic: class class1 serves this shape\n"},
               {"n=3000", "numeric policy deterministic: class class2 serves this shape\n"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        text[0] = 0;
        assert_ok(md_explain(op, row[i].sizes, 0, take, NULL));
        if (!strstr(text, row[i].line))
            fail_msg("no '%s' in:\n%s", row[i].line, text);
    }
    md_op_destroy(&op);
    op = make("Y[n] = X[n] + 1", (md_op_options){0});
    text[0] = 0;
    assert_ok(md_explain(op, "n=100", 0, take, NULL));
    assert_null(strstr(text, "numeric"));
    md_op_destroy(&op);
}

/* Reports name a shape by its own sizes, by those it was chosen by, and by gaps between its elements. */
static void reports_name_the_sizes_chosen_by(void **state)
{
    (void)state;
    md_op *op = make("Y[n] = X[n]", (md_op_options){0});
    static const struct {
        int64_t as, stride;
        const char *line;
    } row[] = {{0, 1, "Y,n=100,0,alpha/v0_w0,model,"},
               {4096, 1, "Y,n=100 as n=4096,0,beta/v1_w0,model,"},
               {0, 2, "Y,n=100 strided,0,alpha/v0_w0,model,"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        script_vectors v;
        script_vectors_make(&v, 100, row[i].stride);
        const md_arg arg[] = {v.arg[0], v.arg[1], md_as(0, row[i].as)};
        assert_ok(md_call(op, NULL, arg, row[i].as ? 3 : 2));
        script_vectors_free(&v);
    }
    char report[4096] = {0};
    const char *path = "test_explain_report.csv";
    assert_ok(md_stats_write(context, path, "csv"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(report, 1, sizeof report - 1, file) > 0);
    fclose(file);
    remove(path);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strstr(report, row[i].line))
            fail_msg("no '%s' in:\n%s", row[i].line, report);
    md_op_destroy(&op);
}

/* A shape's text has 160 bytes: names that are too long are cut, and nothing is written beyond. */
static void names_of_sizes_may_be_too_long(void **state)
{
    (void)state;
    char formula[512], a[64], b[64], c[64];
    memset(a, 'a', 60), memset(b, 'b', 60), memset(c, 'c', 60);
    a[60] = b[60] = c[60] = 0;
    snprintf(formula, sizeof formula, "Y[%s,%s,%s] = X[%s,%s,%s]", a, b, c, a, b, c);
    md_op *op = make(formula, (md_op_options){0});
    static float data[2][24];
    const int64_t size[] = {2, 3, 4};
    const md_tensor y = md_tensor_make(data[0], MD_F32, 3, size), x = md_tensor_make(data[1], MD_F32, 3, size);
    const md_arg arg[] = {md_t(&y), md_t(&x), md_as(0, 5), md_as(1, 6), md_as(2, 7)};
    assert_ok(md_call(op, NULL, arg, 5));
    char report[8192] = {0};
    const char *path = "test_explain_long.csv";
    assert_ok(md_stats_write(context, path, "csv"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(report, 1, sizeof report - 1, file) > 0);
    fclose(file);
    remove(path);
    const char *shape = strstr(report, "aaaa");
    assert_non_null(shape);
    assert_true(strcspn(shape, ",\n") < 160);
    md_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(picks_are_explained, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_roofline_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(columns_fit_the_first_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(distances_are_to_the_nearest_hint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_hint_of_the_grid_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lopsided_shapes_are_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(choices_name_the_second_best, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_numeric_class_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reports_name_the_sizes_chosen_by, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_of_sizes_may_be_too_long, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
