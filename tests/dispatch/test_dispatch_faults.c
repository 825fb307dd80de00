/* Every allocation fails in turn while an op is made, a shape is chosen and a call runs: an error with a message or
 * a right result, and nothing lost (the sanitizers look). */
#include "base/status.h"
#include "dispatch/support/script.h"
#include "dispatch/call/call.h"
#include "support/check.h"
#include "support/fault.h"

#include <pthread.h>
#include <time.h>

enum { MOST_POINTS = 5000 }; /* by turns: an allocation fails with all after it, or alone */

static script_world world;
static const char *const two_stages = "let s:f32[i,j] = sum[k](A[i,k] * B[k,j]); Y[i,j] = s[i,j] / sum[j](s[i,j])";

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0)->cannot_compile = true;
    script_allow(SCRIPT_BETA, 0, 2.0);
    script_allow(SCRIPT_GAMMA, 0, 3.0)->hi = 1000;
    script_allow(SCRIPT_GAMMA, 1, 4.0);
    /* the clock agrees with the model */
    script_now.row[SCRIPT_GAMMA][0].slow_us = script_now.row[SCRIPT_GAMMA][1].slow_us = 100;
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

/* Failing or not, a message is there and says what. */
static void check_status(md_status s)
{
    if (s != MD_OK && s != MD_OUT_OF_MEMORY)
        fail_msg("%s: %s", md_status_name(s), md_last_error());
    if (s == MD_OUT_OF_MEMORY)
        assert_non_null(strstr(md_last_error(), "memory"));
}

static void making_an_op(void **state)
{
    (void)state;
    md_ds_op_options o = script_options();
    o.name = "faulty";
    o.compile.weights = "i=2";
    o.pin = "1:beta";
    int64_t n = 1;
    for (bool happened = true; happened && n < MOST_POINTS; n++) {
        md_ds_op *op = NULL;
        fault_at((n + 1) / 2, n % 2 == 0);
        md_status s = md_ds_op_create(&op, &world.runtime, two_stages, &o);
        happened = fault_happened();
        fault_after(0);
        check_status(s);
        assert_true((op != NULL) == (s == MD_OK));
        md_ds_op_destroy(&op);
    }
    assert_true(n > 20 && n < MOST_POINTS);
}

/* Its kernel gives nothing here, and is found out. */
static void making_an_op_with_a_policy_and_a_kernel(void **state)
{
    (void)state;
    static const md_tunable tunable[] = {{"width", 2, {4, 8}}};
    static const md_custom mine = {.name = "mine",
                                   .device = "host",
                                   .source = "static void mine(const md_params *p, int64_t block, void *scratch) {}\n",
                                   .entry = "mine",
                                   .tunable = tunable,
                                   .n_tunables = 1,
                                   .grid = "(n + width - 1) // width",
                                   .envelope = "n >= 1, n < 100 * width"};
    md_ds_op_options o = script_options();
    o.compile.custom = &mine;
    o.compile.n_custom = 1;
    o.compile.policy.numeric = MD_NUMERIC_DETERMINISTIC;
    script_now.row[SCRIPT_BETA][0].numeric = 1;
    int64_t n = 1;
    for (bool happened = true; happened && n < MOST_POINTS; n++) {
        md_ds_op *op = NULL;
        fault_at((n + 1) / 2, n % 2 == 0);
        md_status s = md_ds_op_create(&op, &world.runtime, "Y[n] = X[n]", &o);
        happened = fault_happened();
        fault_after(0);
        if (s == MD_COMPILE) /* it was the builder's own allocation */
            assert_non_null(strstr(md_last_error(), "out of memory"));
        else
            check_status(s);
        if (s == MD_OK)
            assert_int_equal(script_call(NULL, op, 5, 1) / 10, SCRIPT_BETA);
        md_ds_op_destroy(&op);
    }
    assert_true(n > 40 && n < MOST_POINTS);
}

/* One call, made anew each time, so that it meets its shape for the first time. */
/* Kernels are measured by the clock: on a busy machine the second best may win. */
static bool is_pick(int y, int expected, md_select mode)
{
    return y == expected || (mode == MD_SELECT_MEASURE && y / 10 >= SCRIPT_ALPHA && y / 10 <= SCRIPT_GAMMA);
}

static void calls_of_new_shapes(void **state)
{
    (void)state;
    static const md_select mode[] = {MD_SELECT_DISTANCE, MD_SELECT_MODEL, MD_SELECT_MEASURE};
    static const int64_t size[] = {50, 2000}; /* the second fits beta only, and later no variant */
    for (size_t m = 0; m < 3; m++)
        for (size_t k = 0; k < 2; k++) {
            bool happened = true;
            script_now.row[SCRIPT_BETA][0].hi = k ? 1000 : 0; /* 1: a variant is made for the shape */
            for (int64_t n = 1; happened && n < MOST_POINTS; n++) {
                script_vectors v;
                md_ds_op_options o = script_options();
                o.compile.policy.select = mode[m];
                o.compile.hints = "64";
                o.max_shapes = 1;
                md_ds_op *op = script_op(&world, "Y[n] = X[n]", &o);
                assert_true(is_pick((int)script_call(NULL, op, 3, 1), 10, mode[m])); /* fills the table */
                script_vectors_make(&v, size[k], 1);
                fault_at((n + 1) / 2, n % 2 == 0);
                md_status s = md_ds_call(op, NULL, v.arg, 2);
                happened = fault_happened();
                fault_after(0);
                check_status(s);
                if (s == MD_OK && v.y[0] > 0.0f) /* else the evaluator served: a copy of X, 0 at 0 */
                    assert_true(is_pick((int)v.y[0], k ? 21 : 10, mode[m]));
                assert_true(s == MD_OK || v.y[0] == -7.0f);
                md_status again = md_ds_call(op, NULL, v.arg, 2); /* and the next call succeeds */
                assert_ok(again);
                script_vectors_free(&v);
                md_ds_op_destroy(&op);
            }
        }
}

/* Without memory for an entry that waits, the shape is chosen for anew; without memory for a better plan, it keeps
 * what it has until the next build. */
static void upgrades(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 2.0);
    script_allow(SCRIPT_BETA, 0, 1.0);
    for (int is_late = 0; is_late < 2; is_late++) {
        bool happened = true;
        int64_t n = 1;
        for (; happened && n < MOST_POINTS; n++) {
            float y[8], x[8] = {0};
            const int64_t size = 8;
            md_tensor ty = md_tensor_make(y, MD_F32, 1, &size), tx = md_tensor_make(x, MD_F32, 1, &size);
            md_arg arg[] = {md_s(1.0), md_t(&ty), md_t(&tx)};
            md_ds_op_options o = script_options();
            o.is_async = true;
            atomic_store(&world.device.held, "COPY 10");
            md_ds_op *op = script_op(&world, "scalar a; Y[n] = X[n] * a", &o);
            if (is_late)
                assert_ok(md_ds_call(op, NULL, arg, 3));
            else
                fault_after(n);
            md_status s = is_late ? MD_OK : md_ds_call(op, NULL, arg, 3);
            if (!is_late) {
                happened = fault_happened();
                fault_after(0);
            }
            check_status(s);
            if (is_late)
                fault_after(n);
            atomic_store(&world.device.held, NULL);
            md_ds_op_wait(op);
            if (is_late) {
                happened = fault_happened();
                fault_after(0);
            }
            for (int i = 0; i < 3; i++)
                assert_ok(md_ds_call(op, NULL, arg, 3));
            md_ds_op_destroy(&op);
            script_world_close(&world); /* the next round builds anew */
            script_world_open(&world);
        }
        assert_true(n > 2 && n < MOST_POINTS);
    }
}

/* An input that is overwritten is copied first: also without memory nothing is lost. */
static void copies(void **state)
{
    (void)state;
    bool happened = true;
    for (int64_t n = 1; happened && n < 200; n++) {
        script_world_close(&world); /* one without idle blocks */
        script_world_open(&world);
        md_ds_op *op = script_op(&world, "Y[i,j] = X[j,i]", NULL);
        float m[16] = {1, 2, 3, 4};
        md_tensor t = md_tensor_make(m, MD_F32, 2, (int64_t[]){4, 4});
        md_arg arg[2] = {md_t(&t), md_t(&t)};
        fault_at((n + 1) / 2, n % 2 == 0);
        md_status s = md_ds_call(op, NULL, arg, 2);
        happened = fault_happened();
        fault_after(0);
        check_status(s);
        assert_true(m[1] == (s == MD_OK ? 10.0f : 2.0f));
        md_ds_op_destroy(&op);
    }
    assert_false(happened);
}

/* ---- With kernels that a device runs */

static const char *const scaled = "scalar a; Y[n] = X[n] * a";

static void store_mark(const char *text, const md_kn_word *params, int32_t n)
{
    assert_true(n >= 5 && !strncmp(text, "COPY ", 5));
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = (float)atoi(text + 5);
}

static void copy_scaled(const char *text, const md_kn_word *params, int32_t n)
{
    (void)text;
    assert_true(n >= 5);
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = ((const float *)params[1].p)[i * params[3].i] * (float)params[4].d;
}

static int set_up_texts(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01; /* beta is better from 1000 on */
    script_allow(SCRIPT_BETA, 0, 11.0);
    script_world_open(&world);
    world.device.on_launch = store_mark;
    return 0;
}

static void fill(md_arg arg[3], const md_ds_op *op, const script_vectors *v)
{
    for (int32_t i = 0; i < 3; i++) {
        const md_fx_formula *f = op->formula;
        arg[i] = f->args[i].is_scalar                            ? md_s(1.0)
                 : f->tensor[f->args[i].id].role == MD_FX_OUTPUT ? md_t(&v->ty)
                                                                 : md_t(&v->tx);
    }
}

/* Marks are 0 and 10; all ones are the evaluator's copy of X. */
static md_status call_scaled(md_ds_op *op, int64_t n)
{
    enum { MOST = 4096 };
    static _Alignas(64) float y[MOST], x[MOST]; /* no allocation of the test's own may fail */
    script_vectors v = {.y = y, .x = x, .ty = md_tensor_make(y, MD_F32, 1, &n), .tx = md_tensor_make(x, MD_F32, 1, &n)};
    md_arg arg[3];
    assert_true(n <= MOST);
    for (int64_t i = 0; i < n; i++) {
        x[i] = 1.0f;
        y[i] = -7.0f;
    }
    fill(arg, op, &v);
    md_status s = md_ds_call(op, NULL, arg, 3);
    for (int64_t i = 0; i < n && s == MD_OK; i++)
        assert_true(y[i] == 0.0f || y[i] == 10.0f || y[i] == 1.0f);
    return s;
}

/* Whoever makes an op waits for beta where alpha's build had no memory: so beta comes, soon. */
static void *release(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 1500000}, NULL);
    atomic_store(&world.device.held, NULL);
    return NULL;
}

/* An op is made while its kernels are, serves by a stand-in, is upgraded and frozen. */
static void made_while_it_serves(void **state)
{
    (void)state;
    int64_t n = 1;
    for (int quiet = 0; quiet < 3 && n < MOST_POINTS; n++) { /* threads: a point may not come up in every run */
        md_ds_op_options o = script_options();
        md_ds_op *op = NULL;
        o.is_async = true;
        script_world_close(&world); /* no op has used the kernels */
        script_world_open(&world);
        world.device.on_launch = store_mark;
        pthread_t thread;
        atomic_store(&world.device.held, "COPY 10");
        assert_int_equal(pthread_create(&thread, NULL, release, NULL), 0);
        fault_after(n);
        md_status made = md_ds_op_create(&op, &world.runtime, scaled, &o);
        md_status first = op ? call_scaled(op, 2000) : MD_OK, second = op ? call_scaled(op, 2000) : MD_OK;
        pthread_join(thread, NULL);
        if (op) {
            md_ds_op_wait(op); /* beta is there, or failed for want of memory */
            atomic_store(&op->frozen, MD_DS_FROZEN_REFERENCE);
        }
        md_status third = op ? call_scaled(op, 3000) : MD_OK, fourth = op ? call_scaled(op, 2000) : MD_OK;
        quiet = fault_happened() ? 0 : quiet + 1;
        fault_after(0);
        if (made != MD_COMPILE)
            check_status(made);
        assert_true((op != NULL) == (made == MD_OK));
        check_status(first);
        check_status(second);
        check_status(third);
        check_status(fourth);
        for (int64_t size = 10; op && size < 4096; size *= 3)
            assert_ok(call_scaled(op, size)); /* and the next call succeeds */
        if (op) {
            md_ds_op_wait(op); /* also what could not be upgraded for want of memory */
            assert_int_equal(op->n_waiting, 0);
        }
        md_ds_op_destroy(&op);
    }
    printf("%d points of failure\n", (int)n);
    assert_true(n > 60 && n < MOST_POINTS);
}

/* Trials are made by the pool, and calls go on whatever comes of that. */
static void trials(void **state)
{
    (void)state;
    world.device.on_launch = copy_scaled;
    script_now.row[SCRIPT_ALPHA][0].us_each = 0.0;
    script_now.row[SCRIPT_BETA][0].us = 1.1;
    int64_t n = 1;
    for (int quiet = 0; quiet < 3 && n < MOST_POINTS; n++) { /* threads: a point may not come up in every run */
        md_ds_op_options o = script_options();
        script_vectors v;
        md_arg arg[3];
        o.compile.policy.select = MD_SELECT_HYBRID;
        md_ds_op *op = script_op(&world, scaled, &o);
        script_vectors_make(&v, 300, 1);
        fill(arg, op, &v);
        assert_ok(md_ds_call(op, NULL, arg, 3));
        fault_after(n);
        for (int i = 0; i < 200; i++) {
            md_status s = md_ds_call(op, NULL, arg, 3);
            check_status(s);
            if (s == MD_OK)
                assert_true(v.y[7] == v.x[7]);
            if (i % 50 == 5) /* the pool is at it */
                nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
        quiet = fault_happened() ? 0 : quiet + 1;
        fault_after(0);
        for (int i = 0; i < 50; i++)
            assert_ok(md_ds_call(op, NULL, arg, 3));
        assert_int_equal(op->count.quarantined, 0); /* no variant is blamed for it */
        script_vectors_free(&v);
        md_ds_op_destroy(&op);
    }
    printf("%d points of failure\n", (int)n);
    assert_true(n > 10 && n < MOST_POINTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(making_an_op, set_up, tear_down),
        cmocka_unit_test_setup_teardown(making_an_op_with_a_policy_and_a_kernel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_of_new_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(upgrades, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(made_while_it_serves, set_up_texts, tear_down),
        cmocka_unit_test_setup_teardown(trials, set_up_texts, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
