/* Calls while a stream is captured, and graphs that run later. */
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/later.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/call/call.h"
#include "stats/report.h"
#include "support/check.h"

#include <pthread.h>

static void captured_calls_only_launch(void **state)
{
    (void)state;
    later_vectors v, w;
    script_allow(SCRIPT_BETA, 1, 5.0)->lo = 100; /* made for no hint, since alpha is faster; alpha serves all */
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    later_make(&w, 65);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    int64_t allocs = later_device.n_allocs, syncs = later_device.n_syncs, copies = later_device.n_copies;
    async_device_capture(&later_device, later_stream(1), true);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2)); /* known */
    assert_ok(md_ds_call(op, later_stream(1), w.arg, 2)); /* not known */
    assert_int_equal(op->count.captured_misses, 1);
    assert_int_equal(later_device.n_violations, 0);
    assert_int_equal(later_device.n_allocs, allocs);
    assert_int_equal(later_device.n_syncs, syncs);
    assert_int_equal(later_device.n_copies, copies);
    async_device_capture(&later_device, later_stream(1), false);
    later_finish(&op);
}

static void a_capture_builds_nothing(void **state)
{
    (void)state;
    later_vectors v;
    script_row *row = script_allow(SCRIPT_ALPHA, 0, 1.0);
    row->hi = 100; /* correct up to there only; beta is legal for long sizes, which no hint has */
    script_allow(SCRIPT_BETA, 0, 2.0)->legal_lo = 250;
    script_now.row[SCRIPT_BETA][0].legal_hi = 255;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 252);
    async_device_capture(&later_device, later_stream(1), true);
    assert_fails(md_ds_call(op, later_stream(1), v.arg, 2), MD_UNSUPPORTED, "md_prepare");
    assert_int_equal(later_device.n_violations, 0);
    async_device_capture(&later_device, later_stream(1), false);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2)); /* now it may */
    assert_int_equal(op->count.adopted, 1);
    later_finish(&op);
}

/* A frozen op that fails on new shapes does so while a stream is captured, too. */
static void a_capture_of_a_frozen_op(void **state)
{
    (void)state;
    later_vectors v, w;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    later_make(&w, 65);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    atomic_store(&op->frozen, MD_DS_FROZEN_FAIL);
    async_device_capture(&later_device, later_stream(1), true);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2)); /* met before */
    assert_fails(md_ds_call(op, later_stream(1), w.arg, 2), MD_UNSUPPORTED, "is frozen");
    assert_int_equal(op->count.captured_misses, 1);
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    assert_ok(md_ds_call(op, later_stream(1), w.arg, 2)); /* alpha is ready */
    async_device_capture(&later_device, later_stream(1), false);
    assert_int_equal(later_device.n_violations, 0);
    later_finish(&op);
}

/* An index that an earlier call reported fails no call that is captured, which does not compute now, but the next one
 * that is not. */
static void reports_wait_for_the_end_of_a_capture(void **state)
{
    (void)state;
    later_vectors v;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    script_now.row[SCRIPT_ALPHA][0].reports = true;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    script_now.row[SCRIPT_ALPHA][0].reports = false;
    async_device_capture(&later_device, later_stream(1), true);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    assert_int_equal(later_device.n_violations, 0);
    async_device_capture(&later_device, later_stream(1), false);
    assert_fails(md_ds_call(op, NULL, v.arg, 2), MD_INVALID_ARGUMENT, "an earlier call: index 99");
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    later_finish(&op);
}

/* ---- Graphs: what was captured runs later, even if ops, threads and shape entries are gone */

static void copy_scaled(const char *text, const md_kn_word *params, int32_t n)
{
    assert_true(!strncmp(text, "COPY ", 5) && n >= 5);
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = ((const float *)params[1].p)[i * params[3].i] * (float)params[4].d;
    if (script_now.with_memory)
        memset(params[5].p, 0x5a, 64);
}

static void put(const md_tensor *t, float value)
{
    float values[LATER_N];
    for (int i = 0; i < LATER_N; i++)
        values[i] = value;
    assert_ok(later_device.base.ops->copy(&later_device.base, t->data, values, (size_t)t->size[0] * sizeof *values));
}

typedef struct capturing {
    md_ds_op *op;
    md_arg *arg;
    md_status status;
} capturing;

static void *call_in_thread(void *user)
{
    capturing *c = user;
    c->status = md_ds_call(c->op, later_stream(1), c->arg, 3);
    return NULL;
}

static void graphs_outlive_what_made_them(void **state)
{
    (void)state;
    later_vectors v, w;
    script_now.is_text = script_now.with_memory = true;
    later_world.device.on_launch = copy_scaled;
    md_ds_op_options o = script_options();
    o.max_shapes = 2;
    md_ds_op *op = script_op(&later_world, "scalar a; Y[n] = X[n] * a", &o);
    later_make(&v, 64);
    later_make(&w, 65);
    md_arg arg[3] = {md_s(2.0), md_t(&v.y), md_t(&v.x)}, other[3] = {md_s(3.0), md_t(&w.y), md_t(&w.x)};
    for (int i = 0; i < 3; i++)
        assert_ok(md_ds_call(op, later_stream(1), arg, 3)); /* warm */
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    async_device_capture(&later_device, later_stream(1), true);
    assert_ok(md_ds_call(op, later_stream(1), arg, 3));
    capturing c = {op, other, MD_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_in_thread, &c), 0); /* a miss, on a thread that ends */
    pthread_join(thread, NULL);
    assert_ok(c.status);
    async_device_capture(&later_device, later_stream(1), false);
    assert_int_equal(later_device.n_violations, 0);
    for (int64_t n = 1; n < 60; n++) { /* entries and plans are evicted */
        v.y.size[0] = v.x.size[0] = n;
        for (int i = 0; i < 3; i++)
            assert_ok(md_ds_call(op, later_stream(2), arg, 3));
    }
    assert_true(op->count.evictions > 50);
    later_finish(&op);
    for (int i = 1; i < 4; i++) { /* changed contents each time */
        v.x.size[0] = 64;
        put(&v.x, (float)i);
        put(&w.x, (float)(10 * i));
        async_device_replay(&later_device, later_stream(1));
        assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
        assert_true(later_first_of(&v.y) == 2.0f * (float)i);
        assert_true(later_first_of(&w.y) == 30.0f * (float)i);
    }
}

/* Something better is being built while the stream is captured: no waiting, and the graph keeps what it got. */
static void a_capture_takes_what_is_ready(void **state)
{
    (void)state;
    later_vectors v;
    script_now.is_text = true;
    script_now.row[SCRIPT_ALPHA][0].us = 50.0;
    script_allow(SCRIPT_BETA, 0, 1.0);
    later_world.device.on_launch = copy_scaled;
    atomic_store(&later_world.device.held, "COPY 10");
    md_bd_listen(later_world.builder, md_ds_upgrade_all, &later_world.runtime);
    md_ds_op_options o = script_options();
    o.is_async = true;
    md_ds_op *op = script_op(&later_world, "scalar a; Y[n] = X[n] * a", &o);
    md_ds_async_fill_wait(op); /* its job may not use the device while the stream is captured */
    later_make(&v, 64);
    md_arg arg[3] = {md_s(2.0), md_t(&v.y), md_t(&v.x)};
    async_device_capture(&later_device, later_stream(1), true);
    assert_ok(md_ds_call(op, later_stream(1), arg, 3));
    assert_int_equal(op->count.captured_misses, 1);
    assert_int_equal(op->count.nearest, 1);
    assert_int_equal(op->count.waits, 0);
    assert_int_equal(later_device.n_violations, 0);
    md_strbuf text = {0};
    assert_ok(md_ss_capture(&text, &later_world.runtime, later_stream(1), NULL, false));
    assert_non_null(strstr(md_strbuf_text(&text), "alpha/v0_w0"));
    assert_non_null(strstr(md_strbuf_text(&text), "n=64"));
    assert_non_null(strstr(md_strbuf_text(&text), "scripted"));
    async_device_capture(&later_device, later_stream(1), false);
    assert_fails(md_ss_capture(&text, &later_world.runtime, later_stream(1), NULL, false), MD_INVALID_ARGUMENT,
                 "not being captured");
    atomic_store(&later_world.device.held, NULL);
    md_ds_op_wait(op);
    assert_int_equal(op->count.upgrades, 1);
    for (int i = 0; i < 3; i++)
        assert_ok(md_ds_call(op, later_stream(2), arg, 3));
    assert_string_equal(op->stage[0].variant[md_ds_plan_of(op->ring[0])->stage[0].pick.variant]->name, "beta/v0_w0");
    md_strbuf_finish(&text);
    text = (md_strbuf){0};
    assert_ok(md_ss_capture(&text, &later_world.runtime, NULL, later_stream(1), true));
    assert_non_null(strstr(md_strbuf_text(&text), "alpha/v0_w0"));
    assert_null(strstr(md_strbuf_text(&text), "beta"));
    md_strbuf_finish(&text);
    put(&v.x, 4.0f);
    async_device_replay(&later_device, later_stream(1));
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    assert_true(later_first_of(&v.y) == 8.0f);
    md_bd_listen(later_world.builder, NULL, NULL);
    later_finish(&op);
}

static md_ds_op *measuring_op(const char *formula)
{
    md_ds_op_options o = script_options();
    o.compile.policy.select = MD_SELECT_MEASURE;
    return script_op(&later_world, formula, &o);
}

static void a_capture_measures_nothing_and_leaves_no_choice(void **state)
{
    (void)state;
    later_vectors v;
    script_allow(SCRIPT_BETA, 0, 20.0);
    md_ds_op *op = measuring_op("Y[n] = X[n]");
    later_make(&v, 64);
    async_device_capture(&later_device, later_stream(1), true);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    assert_int_equal(later_device.n_times, 0);
    assert_int_equal(later_device.n_violations, 0);
    async_device_capture(&later_device, later_stream(1), false);
    assert_int_equal(op->n_entries, 0);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    assert_true(later_device.n_times > 0);
    assert_int_equal(op->n_entries, 1);
    later_finish(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(captured_calls_only_launch, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(a_capture_builds_nothing, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(a_capture_of_a_frozen_op, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(reports_wait_for_the_end_of_a_capture, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(graphs_outlive_what_made_them, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(a_capture_takes_what_is_ready, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(a_capture_measures_nothing_and_leaves_no_choice, later_set_up, later_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
