/* Calls on a device that works later, whose memory traps when the CPU touches it: memory in the order of streams,
 * reports, pointers, captures, measuring. */
#include "base/status.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/script.h"
#include "dispatch/bind/fault.h"
#include "dispatch/call/fast_call.h"
#include "dispatch/run/reference.h"
#include "stats/capture.h"
#include "support/devices/async_device.h"
#include "support/check.h"

#include <pthread.h>

enum { N = 300 };

static script_world world;
static async_device device;

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&world);
    md_bd_destroy(&world.builder);
    if (!async_device_init(&device, &world.device.base))
        return -1;
    assert_ok(md_bd_create(&world.builder, &device.base));
    world.runtime.dev = &device.base;
    world.runtime.builder = world.builder;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    assert_int_equal(device.n_pushed, device.n_popped);
    device.base.ops->destroy(&device.base);
    return 0;
}

/* ---- Memory there */

typedef struct vectors {
    md_tensor y, x;
    md_arg arg[2];
} vectors;

static void *there(const float *values, int64_t n)
{
    void *p = NULL;
    assert_ok(device.base.ops->alloc(&p, &device.base, (size_t)n * sizeof *values));
    assert_ok(device.base.ops->copy(&device.base, p, values, (size_t)n * sizeof *values));
    return p;
}

static void make(vectors *v, int64_t n)
{
    float values[2 * N];
    for (int i = 0; i < 2 * N; i++)
        values[i] = (float)i;
    v->y = md_tensor_make(there(values, n), MD_F32, 1, &n);
    v->x = md_tensor_make(there(values, n), MD_F32, 1, &n);
    v->arg[0] = md_t(&v->y);
    v->arg[1] = md_t(&v->x);
}

static float first_of(const md_tensor *t)
{
    float value = 0.0f;
    assert_ok(device.base.ops->copy(&device.base, &value, t->data, sizeof value));
    return value;
}

static md_stream stream_number(int i)
{
    return (md_stream)(uintptr_t)(i * 16);
}

/* The scripted kernels read the op's program when they run; a GPU's do not. */
static void finish(md_ds_op **op)
{
    assert_ok(device.base.ops->sync(&device.base, NULL));
    md_ds_op_destroy(op);
}

/* ---- Tests */

static void work_waits_for_the_stream(void **state)
{
    (void)state;
    vectors v;
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
    make(&v, 64);
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2));
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 0);
    assert_int_equal(device.n_syncs, 0); /* a call never waits */
    assert_int_equal(device.n_times, 0);
    assert_ok(device.base.ops->sync(&device.base, stream_number(2)));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 0);
    assert_ok(device.base.ops->sync(&device.base, stream_number(1)));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 2);
    assert_true(device.n_pushed >= 4);
    finish(&op);
}

static void pointers_are_checked_where_shapes_are_new(void **state)
{
    (void)state;
    vectors v;
    float here[64];
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
    make(&v, 64);
    v.x.data = here;
    assert_fails(md_ds_call(op, NULL, v.arg, 2), MD_INVALID_ARGUMENT,
                 "argument 'X': points to host memory; the op runs on async");
    make(&v, 64);
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    int64_t n = device.n_checks;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_int_equal(device.n_checks, n);
    world.runtime.verifies = true;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_int_equal(device.n_checks, n + 2);
    v.y.data = here;
    assert_fails(md_ds_call(op, NULL, v.arg, 2), MD_INVALID_ARGUMENT, "argument 'Y'");
    assert_fails(md_ds_reference(op, v.arg, 2), MD_INVALID_ARGUMENT, "argument 'Y'");
    finish(&op);
}

static void inputs_that_are_overwritten_are_copied_in_order(void **state)
{
    (void)state;
    vectors v;
    md_ds_op *op = script_op(&world, "Y[n] = X[size(n) - 1 - n]", NULL);
    make(&v, 64);
    v.y = v.x;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_int_equal(device.n_tensor_copies, 1);
    assert_true(first_of(&v.y) == 0.0f); /* the mark of alpha/v0; X held 0 there too */
    finish(&op);
}

static void the_reference_works_on_copies(void **state)
{
    (void)state;
    vectors v;
    md_ds_op *op = script_op(&world, "Y[n] = X[size(n) - 1 - n] + 1", NULL);
    make(&v, 64);
    assert_ok(md_ds_reference(op, v.arg, 2));
    assert_true(first_of(&v.y) == 64.0f);
    v.y = v.x; /* in place */
    assert_ok(md_ds_reference(op, v.arg, 2));
    assert_true(first_of(&v.x) == 64.0f);
    finish(&op);
}

/* Two outputs that interleave in one matrix: writing one back must not undo the other. */
static void the_reference_writes_back_views(void **state)
{
    (void)state;
    float zeros[8 * 8] = {0}, ones[8 * 4], got[8 * 8];
    for (int i = 0; i < 8 * 4; i++)
        ones[i] = 1.0f;
    char *whole = there(zeros, 64);
    const int64_t size[] = {8, 4};
    md_tensor x = md_tensor_make(there(ones, 32), MD_F32, 2, size), y = md_tensor_make(whole, MD_F32, 2, size), z = y;
    y.stride[0] = z.stride[0] = 8;
    z.data = whole + 4 * sizeof(float);
    md_ds_op *op = script_op(&world, "Y[i,j] = X[i,j] * 2; Z[i,j] = X[i,j] * 3", NULL);
    const md_arg arg[] = {md_t(&y), md_t(&x), md_t(&z)};
    assert_ok(md_ds_reference(op, arg, 3));
    assert_ok(device.base.ops->copy(&device.base, got, whole, sizeof got));
    for (int i = 0; i < 64; i++)
        assert_true(got[i] == (i % 8 < 4 ? 2.0f : 3.0f));
    finish(&op);
}

static void faults_are_reported_later(void **state)
{
    (void)state;
    vectors v;
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
    make(&v, 64);
    script_now.row[SCRIPT_ALPHA][0].reports = true;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_ok(md_ds_check(op)); /* it has not run */
    assert_ok(device.base.ops->sync(&device.base, NULL));
    script_now.row[SCRIPT_ALPHA][0].reports = false;
    int32_t n = script_now.row[SCRIPT_ALPHA][0].n_runs;
    assert_fails(md_ds_call(op, NULL, v.arg, 2), MD_INVALID_ARGUMENT,
                 "an earlier call: index 99 is outside axis 0 (dim 'n') of 'X'");
    assert_ok(device.base.ops->sync(&device.base, NULL));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, n); /* it told, and did not run */
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_ok(device.base.ops->sync(&device.base, NULL));
    assert_ok(md_ds_check(op));
    finish(&op);
}

static void captured_calls_only_launch(void **state)
{
    (void)state;
    vectors v, w;
    script_allow(SCRIPT_BETA, 1, 5.0)->lo = 100; /* made for no hint, since alpha is faster; alpha serves all */
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
    make(&v, 64);
    make(&w, 65);
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2));
    int64_t allocs = device.n_allocs, syncs = device.n_syncs, copies = device.n_copies;
    async_device_capture(&device, stream_number(1), true);
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2)); /* known */
    assert_ok(md_ds_call(op, stream_number(1), w.arg, 2)); /* not known */
    assert_int_equal(op->count.captured_misses, 1);
    assert_int_equal(device.n_violations, 0);
    assert_int_equal(device.n_allocs, allocs);
    assert_int_equal(device.n_syncs, syncs);
    assert_int_equal(device.n_copies, copies);
    async_device_capture(&device, stream_number(1), false);
    finish(&op);
}

static void a_capture_builds_nothing(void **state)
{
    (void)state;
    vectors v;
    script_row *row = script_allow(SCRIPT_ALPHA, 0, 1.0);
    row->hi = 100; /* correct up to there only; beta is legal for long sizes, which no hint has */
    script_allow(SCRIPT_BETA, 0, 2.0)->legal_lo = 250;
    script_now.row[SCRIPT_BETA][0].legal_hi = 255;
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
    make(&v, 252);
    async_device_capture(&device, stream_number(1), true);
    assert_fails(md_ds_call(op, stream_number(1), v.arg, 2), MD_UNSUPPORTED, "md_prepare");
    assert_int_equal(device.n_violations, 0);
    async_device_capture(&device, stream_number(1), false);
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2)); /* now it may */
    assert_int_equal(op->count.adopted, 1);
    finish(&op);
}

/* ---- Graphs: what was captured runs later, whatever has become of ops, threads and records since */

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
    float values[N];
    for (int i = 0; i < N; i++)
        values[i] = value;
    assert_ok(device.base.ops->copy(&device.base, t->data, values, (size_t)t->size[0] * sizeof *values));
}

typedef struct capturing {
    md_ds_op *op;
    md_arg *arg;
    md_status status;
} capturing;

static void *call_in_thread(void *user)
{
    capturing *c = user;
    c->status = md_ds_call(c->op, stream_number(1), c->arg, 3);
    return NULL;
}

static void graphs_outlive_what_made_them(void **state)
{
    (void)state;
    vectors v, w;
    script_now.is_text = script_now.with_memory = true;
    world.device.on_launch = copy_scaled;
    md_ds_op_options o = script_options();
    o.max_shapes = 2;
    md_ds_op *op = script_op(&world, "scalar a; Y[n] = X[n] * a", &o);
    make(&v, 64);
    make(&w, 65);
    md_arg arg[3] = {md_s(2.0), md_t(&v.y), md_t(&v.x)}, other[3] = {md_s(3.0), md_t(&w.y), md_t(&w.x)};
    for (int i = 0; i < 3; i++)
        assert_ok(md_ds_call(op, stream_number(1), arg, 3)); /* warm */
    assert_ok(device.base.ops->sync(&device.base, NULL));
    async_device_capture(&device, stream_number(1), true);
    assert_ok(md_ds_call(op, stream_number(1), arg, 3));
    capturing c = {op, other, MD_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_in_thread, &c), 0); /* a miss, on a thread that ends */
    pthread_join(thread, NULL);
    assert_ok(c.status);
    async_device_capture(&device, stream_number(1), false);
    assert_int_equal(device.n_violations, 0);
    for (int64_t n = 1; n < 60; n++) { /* records and plans give way */
        v.y.size[0] = v.x.size[0] = n;
        for (int i = 0; i < 3; i++)
            assert_ok(md_ds_call(op, stream_number(2), arg, 3));
    }
    assert_true(op->count.evictions > 50);
    finish(&op);
    for (int i = 1; i < 4; i++) { /* changed contents each time */
        v.x.size[0] = 64;
        put(&v.x, (float)i);
        put(&w.x, (float)(10 * i));
        async_device_replay(&device, stream_number(1));
        assert_ok(device.base.ops->sync(&device.base, NULL));
        assert_true(first_of(&v.y) == 2.0f * (float)i);
        assert_true(first_of(&w.y) == 30.0f * (float)i);
    }
}

/* Something better is being built while the stream is captured: no waiting, and the graph keeps what it got. */
static void a_capture_takes_what_is_ready(void **state)
{
    (void)state;
    vectors v;
    script_now.is_text = true;
    script_now.row[SCRIPT_ALPHA][0].us = 50.0;
    script_allow(SCRIPT_BETA, 0, 1.0);
    world.device.on_launch = copy_scaled;
    atomic_store(&world.device.held, "COPY 10");
    md_bd_listen(world.builder, md_ds_upgrade_all, &world.runtime);
    md_ds_op_options o = script_options();
    o.is_async = true;
    md_ds_op *op = script_op(&world, "scalar a; Y[n] = X[n] * a", &o);
    make(&v, 64);
    md_arg arg[3] = {md_s(2.0), md_t(&v.y), md_t(&v.x)};
    async_device_capture(&device, stream_number(1), true);
    assert_ok(md_ds_call(op, stream_number(1), arg, 3));
    assert_int_equal(op->count.captured_misses, 1);
    assert_int_equal(op->count.nearest, 1);
    assert_int_equal(op->count.waits, 0);
    assert_int_equal(device.n_violations, 0);
    md_strbuf text = {0};
    assert_ok(md_ss_capture(&text, &world.runtime, stream_number(1), NULL, false));
    assert_non_null(strstr(md_strbuf_text(&text), "alpha/v0_w0"));
    assert_non_null(strstr(md_strbuf_text(&text), "n=64"));
    async_device_capture(&device, stream_number(1), false);
    assert_fails(md_ss_capture(&text, &world.runtime, stream_number(1), NULL, false), MD_INVALID_ARGUMENT,
                 "not being captured");
    atomic_store(&world.device.held, NULL);
    md_ds_op_wait(op);
    assert_int_equal(op->count.promotions, 1);
    for (int i = 0; i < 3; i++)
        assert_ok(md_ds_call(op, stream_number(2), arg, 3));
    assert_string_equal(op->stage[0].variant[md_ds_plan_of(op->ring[0])->stage[0].pick.variant]->name, "beta/v0_w0");
    md_strbuf_finish(&text);
    text = (md_strbuf){0};
    assert_ok(md_ss_capture(&text, &world.runtime, NULL, stream_number(1), true));
    assert_non_null(strstr(md_strbuf_text(&text), "alpha/v0_w0"));
    assert_null(strstr(md_strbuf_text(&text), "beta"));
    md_strbuf_finish(&text);
    put(&v.x, 4.0f);
    async_device_replay(&device, stream_number(1));
    assert_ok(device.base.ops->sync(&device.base, NULL));
    assert_true(first_of(&v.y) == 8.0f);
    md_bd_listen(world.builder, NULL, NULL);
    finish(&op);
}

/* An error of that call, and no more. */
static void memory_may_be_short(void **state)
{
    (void)state;
    vectors v;
    void *p = NULL;
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
    make(&v, 64);
    size_t used = device.used;
    device.used = (size_t)1 << 36;
    assert_fails(device.base.ops->alloc(&p, &device.base, 100), MD_OUT_OF_MEMORY, "memory");
    assert_fails(md_ds_call(op, stream_number(1), v.arg, 2), MD_OUT_OF_MEMORY, "used up"); /* its workspace */
    assert_fails(md_ds_call(op, stream_number(1), v.arg, 2), MD_OUT_OF_MEMORY, "used up");
    device.used = used;
    for (int i = 0; i < 3; i++)
        assert_ok(md_ds_call(op, stream_number(1), v.arg, 2));
    assert_ok(device.base.ops->sync(&device.base, NULL));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 3);
    finish(&op);
}

static md_ds_op *measuring_op(const char *formula)
{
    md_ds_op_options o = script_options();
    o.compile.policy.select = MD_SELECT_MEASURE;
    return script_op(&world, formula, &o);
}

static void measuring_uses_the_devices_clock(void **state)
{
    (void)state;
    vectors v;
    script_now.row[SCRIPT_ALPHA][0].slow_us = 300; /* the model's choice is the slower one */
    script_allow(SCRIPT_BETA, 0, 20.0);
    md_ds_op *op = measuring_op("Y[n] = X[n]");
    make(&v, 64);
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2));
    assert_true(device.n_times > 4);
    assert_true(first_of(&v.y) == 10.0f); /* beta */
    assert_true(first_of(&v.x) == 0.0f);
    finish(&op);
}

static void a_capture_measures_nothing_and_leaves_no_choice(void **state)
{
    (void)state;
    vectors v;
    script_allow(SCRIPT_BETA, 0, 20.0);
    md_ds_op *op = measuring_op("Y[n] = X[n]");
    make(&v, 64);
    async_device_capture(&device, stream_number(1), true);
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2));
    assert_int_equal(device.n_times, 0);
    assert_int_equal(device.n_violations, 0);
    async_device_capture(&device, stream_number(1), false);
    assert_int_equal(op->n_entries, 0);
    assert_ok(md_ds_call(op, stream_number(1), v.arg, 2));
    assert_true(device.n_times > 0);
    assert_int_equal(op->n_entries, 1);
    finish(&op);
}

/* Ops with temporaries between stages are measured too. */
static void measuring_makes_temporaries(void **state)
{
    (void)state;
    vectors v;
    script_allow(SCRIPT_BETA, 0, 20.0);
    md_ds_op *op = measuring_op("let t[n] = cumsum[n](X[n]); Y[n] = t[size(n) - 1 - n]");
    bool is_stored = false;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        is_stored |= op->program->is_temp_stored[t];
    assert_true(is_stored);
    make(&v, 64);
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_true(op->count.measured >= 4);
    finish(&op);
}

static void times_are_samples_where_they_were_asked_for(void **state)
{
    (void)state;
    vectors v;
    world.runtime.samples = true;
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
    make(&v, 64);
    for (int i = 0; i < 1100; i++)
        assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_true(device.n_times >= 3 && device.n_times <= 8);
    finish(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(work_waits_for_the_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pointers_are_checked_where_shapes_are_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(inputs_that_are_overwritten_are_copied_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_reference_works_on_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_reference_writes_back_views, set_up, tear_down),
        cmocka_unit_test_setup_teardown(faults_are_reported_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(captured_calls_only_launch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_capture_builds_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(graphs_outlive_what_made_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_capture_takes_what_is_ready, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_may_be_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_uses_the_devices_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_capture_measures_nothing_and_leaves_no_choice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_makes_temporaries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_are_samples_where_they_were_asked_for, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
