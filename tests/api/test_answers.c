/* What contexts and ops answer about themselves: work, names that are near, times that cannot be had, arguments of
 * launches. */
#include "support/check.h"

static md_context *context;

static int set_up(void **state)
{
    (void)state;
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1};
    return md_context_create(&context, &o) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static md_op *make(const char *formula, const char *sizes)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula, &(md_op_options){.sizes = sizes}));
    return op;
}

/* Bytes: each argument once, those that are updated twice; an axis that is only reached is as long as it must be. */
static void work_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *sizes;
        double flops, bytes; /* flops 0: not compared */
    } row[] = {
        {"Y[i,j] = X[i,j] + 1", "i=3, j=5", 15, 2 * 15 * 4},
        {"let s[i] = cumsum[i](X[i]); Y[i] = s[size(i) - 1 - i]", "i=10", 0, 2 * 10 * 4},
        {"let s[i] = cumsum[i](X[i+2]); Y[i] = s[size(i) - 1 - i]", "i=10", 0, (10 + 12) * 4},
        {"let s[i] = cumsum[i](X[i] + X[i+2]); Y[i] = s[size(i) - 1 - i]", "i=10", 0, (10 + 12) * 4},
        {"let s[i,j] = cumsum[i](X[i,j]); Y[i,j] = s[size(i) - 1 - i, j]", "i=10, j=7", 0, 2 * 70 * 4},
        {"let s[i] = cumsum[i](X[i]); Y[i] += s[size(i) - 1 - i]", "i=10", 0, 3 * 10 * 4},
        {"let s[i] = cumsum[i](X:f64[i]); Y:f32[i] = s[size(i) - 1 - i]", "i=10", 0, 10 * (8 + 4)},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double flops = -1.0, bytes = -1.0;
        md_op *op = make(row[i].formula, NULL);
        assert_ok(md_op_work(&flops, &bytes, op, row[i].sizes));
        if (bytes != row[i].bytes || (row[i].flops > 0.0 && flops != row[i].flops))
            fail_msg("%s: %g flops, %g bytes", row[i].formula, flops, bytes);
        assert_true(flops > 0.0);
        md_op_destroy(&op);
    }
}

/* An axis that must only be long enough has the length that is read, or a larger one that is said. */
static void axes_are_long_enough(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *sizes;
        int64_t size;
    } row[] = {{"Y[i] = X[i+2]", "i=3", 5},
               {"Y[i] = X[i+2]", "i=3, X.0=100", 100},
               {"Y[i] = X[i+2]", "i=3, X.0=4", 5},
               {"Y[i] = X[2*i]", "i=3, X.0=7", 7},
               {"Y[i] = X[t[i]]", "i=3, X.0=7", 7}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_tensor t = {0};
        md_op *op = make(row[i].formula, NULL);
        assert_ok(md_op_tensor(&t, op, 1, row[i].sizes));
        if (t.rank != 1 || t.size[0] != row[i].size || t.data)
            fail_msg("%s at %s: %lld", row[i].formula, row[i].sizes, (long long)t.size[0]);
        md_op_destroy(&op);
    }
}

/* Every op of the catalogue is suggested for its name with a letter more. */
static void near_names_are_suggested(void **state)
{
    (void)state;
    const char *name = NULL;
    for (int32_t i = 0; md_catalogue(i, &name, NULL, NULL), name; i++) {
        char wrong[64];
        md_op *op = NULL;
        snprintf(wrong, sizeof wrong, "%sq", name);
        assert_int_equal(md_op_create(&op, context, wrong, NULL), MD_NOT_FOUND);
        if (!strstr(md_last_error(), name))
            fail_msg("%s: %s", wrong, md_last_error());
    }
}

/* A launch that fails has no time. */
static void what_fails_has_no_time(void **state)
{
    (void)state;
    md_op *op = make("Y[t] = E[ids[t]]", NULL);
    md_launch *launch = NULL;
    float y[3], e[4] = {0};
    int64_t ids[3] = {0, 3, 1};
    const int64_t n = 3, rows = 4;
    md_tensor ty = md_tensor_make(y, MD_F32, 1, &n), te = md_tensor_make(e, MD_F32, 1, &rows),
              ti = md_tensor_make(ids, MD_I64, 1, &n);
    md_arg arg[3];
    for (int32_t i = 0; i < 3; i++) {
        md_arg_info info;
        assert_ok(md_op_arg(&info, op, i));
        arg[i] = md_t(info.name[0] == 'Y' ? &ty : info.name[0] == 'E' ? &te : &ti);
    }
    assert_ok(md_resolve(&launch, op, arg, 3));
    double us = -1.0;
    assert_fails(md_launch_time(NULL, launch, NULL), MD_INVALID_ARGUMENT, "us is NULL");
    assert_fails(md_launch_time(&us, NULL, NULL), MD_INVALID_ARGUMENT, "launch is NULL");
    assert_ok(md_launch_time(&us, launch, NULL));
    assert_true(us > 0.0);
    us = -1.0;
    ids[1] = 4;
    assert_fails(md_launch_time(&us, launch, NULL), MD_INVALID_ARGUMENT, "index 4 is outside");
    assert_fails(md_launch_time_all(&us, (const md_launch *const[]){launch, launch}, 2, NULL), MD_INVALID_ARGUMENT,
                 "index 4");
    assert_true(us == -1.0);
    md_launch_destroy(&launch);
    md_op_destroy(&op);
}

/* Sizes to select by may be given to a launch again, or left out. */
static void launches_take_sizes_to_select_by(void **state)
{
    (void)state;
    md_op *op = make("Y[i] = X[i] + 1", NULL);
    md_launch *launch = NULL;
    float x[4] = {1, 2, 3, 4}, y[4];
    const int64_t n = 4;
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    const md_arg arg[] = {md_t(&ty), md_t(&tx), md_as(0, 100), md_as(0, 100)};
    assert_ok(md_resolve(&launch, op, arg, 3));
    for (int32_t k = 2; k <= 3; k++) {
        memset(y, 0, sizeof y);
        assert_ok(md_launch_run(launch, NULL, arg, k));
        assert_true(y[3] == 5.0f);
    }
    assert_fails(md_launch_run(launch, NULL, arg, 1), MD_INVALID_ARGUMENT, "takes 3 arguments, not 1");
    assert_fails(md_launch_run(launch, NULL, arg, 4), MD_INVALID_ARGUMENT, "takes 3 arguments, not 4");
    md_launch_destroy(&launch);
    md_op_destroy(&op);
}

/* Where the reference serves, there is no second best. */
static void the_reference_has_no_runner_up(void **state)
{
    (void)state;
    md_op *op = make("Y[i] = X[i] + 1", NULL);
    md_choice choice;
    float x[4] = {0}, y[4];
    const int64_t n = 4;
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    assert_ok(md_choice_of(&choice, op, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    assert_int_equal(choice.n_stages, 1);
    assert_string_equal(choice.variant[0], "reference"); /* no compiler */
    assert_string_equal(choice.runner_up[0], "");
    md_op_destroy(&op);
}

static md_status take_a_us(double *us, void *user, int32_t i, int32_t repeats)
{
    (void)user;
    (void)i;
    (void)repeats;
    *us = 1000.0;
    return MD_OK;
}

/* 0 samples are the usual number; what cannot be is refused. */
static void options_of_benchmarks(void **state)
{
    (void)state;
    double us[2][1024];
    md_bench_competitor x[2] = {{.us = us[0]}, {.us = us[1]}};
    static const md_bench_options bad[] = {
        {.samples = -1},      {.samples = 1000000}, {.sample_us = -1.0}, {.look_factor = -1.0},
        {.cut_factor = -1.0}, {.cut_samples = -1},  {.budget_ms = -1.0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(md_bench(x, 2, &bad[i], take_a_us, NULL), MD_INVALID_ARGUMENT);
    assert_ok(md_bench(x, 2, &(md_bench_options){.samples = 3, .warm_up_us = -1.0}, take_a_us, NULL));
    assert_int_equal(x[0].n, 3);
    x[0] = (md_bench_competitor){.us = us[0]};
    x[1] = (md_bench_competitor){.us = us[1]};
    assert_ok(md_bench(x, 2, &(md_bench_options){.warm_up_us = -1.0}, take_a_us, NULL));
    assert_true(x[0].n > 3 && x[1].n == x[0].n);
}

/* Only the pin that is wrong is named. */
static void bad_pins_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *pin, *part;
    } row[] = {
        {"a:x/y; nonsense;b:y/z", "' nonsense': expected"},
        {"a:x/y;:z", "':z': expected"},
        {"a:;b:y/z", "'a:': expected"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_context *own = NULL;
        const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1, .pin = row[i].pin};
        assert_fails(md_context_create(&own, &o), MD_INVALID_ARGUMENT, row[i].part);
        assert_null(own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_counted),
        cmocka_unit_test(axes_are_long_enough),
        cmocka_unit_test(near_names_are_suggested),
        cmocka_unit_test(what_fails_has_no_time),
        cmocka_unit_test(launches_take_sizes_to_select_by),
        cmocka_unit_test(the_reference_has_no_runner_up),
        cmocka_unit_test(options_of_benchmarks),
        cmocka_unit_test(bad_pins_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
