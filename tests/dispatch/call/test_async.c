/* Calls on an asynchronous device: memory in the order of streams, reports, pointers, measuring. */
#include "dispatch/call/later.h"
#include "dispatch/bind/bind.h"
#include "dispatch/call/call.h"
#include "dispatch/run/run.h"
#include "support/check.h"

static void work_waits_for_the_stream(void **state)
{
    (void)state;
    later_vectors v;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 0);
    assert_int_equal(later_device.n_syncs, 0); /* a call never waits */
    assert_int_equal(later_device.n_times, 0);
    assert_ok(later_device.base.ops->sync(&later_device.base, later_stream(2)));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 0);
    assert_ok(later_device.base.ops->sync(&later_device.base, later_stream(1)));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 2);
    assert_true(later_device.n_pushed >= 4);
    later_finish(&op);
}

static void pointers_are_checked_where_shapes_are_new(void **state)
{
    (void)state;
    later_vectors v;
    float here[64];
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    v.x.data = here;
    assert_fails(md_ds_call(op, NULL, v.arg, 2), MD_INVALID_ARGUMENT,
                 "argument 'X': points to host memory; the op runs on async");
    later_make(&v, 64);
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    int64_t n = later_device.n_checks;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_int_equal(later_device.n_checks, n);
    later_world.runtime.verifies = true;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_int_equal(later_device.n_checks, n + 2);
    v.y.data = here;
    assert_fails(md_ds_call(op, NULL, v.arg, 2), MD_INVALID_ARGUMENT, "argument 'Y'");
    assert_fails(md_ds_reference(op, v.arg, 2), MD_INVALID_ARGUMENT, "argument 'Y'");
    later_finish(&op);
}

static void inputs_that_are_overwritten_are_copied_in_order(void **state)
{
    (void)state;
    later_vectors v;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[size(n) - 1 - n]", NULL);
    later_make(&v, 64);
    v.y = v.x;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_int_equal(later_device.n_tensor_copies, 1);
    assert_true(later_first_of(&v.y) == 0.0f); /* the mark of alpha/v0; X held 0 there too */
    later_finish(&op);
}

static void the_reference_works_on_copies(void **state)
{
    (void)state;
    later_vectors v;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[size(n) - 1 - n] + 1", NULL);
    later_make(&v, 64);
    assert_ok(md_ds_reference(op, v.arg, 2));
    assert_true(later_first_of(&v.y) == 64.0f);
    v.y = v.x; /* in place */
    assert_ok(md_ds_reference(op, v.arg, 2));
    assert_true(later_first_of(&v.x) == 64.0f);
    later_finish(&op);
}

/* Two outputs that interleave in one matrix: writing one back must not undo the other. */
static void the_reference_writes_back_views(void **state)
{
    (void)state;
    float zeros[8 * 8] = {0}, ones[8 * 4], got[8 * 8];
    for (int i = 0; i < 8 * 4; i++)
        ones[i] = 1.0f;
    char *whole = later_alloc(zeros, 64);
    const int64_t size[] = {8, 4};
    md_tensor x = md_tensor_make(later_alloc(ones, 32), MD_F32, 2, size), y = md_tensor_make(whole, MD_F32, 2, size),
              z = y;
    y.stride[0] = z.stride[0] = 8;
    z.data = whole + 4 * sizeof(float);
    md_ds_op *op = script_op(&later_world, "Y[i,j] = X[i,j] * 2; Z[i,j] = X[i,j] * 3", NULL);
    const md_arg arg[] = {md_t(&y), md_t(&x), md_t(&z)};
    assert_ok(md_ds_reference(op, arg, 3));
    assert_ok(later_device.base.ops->copy(&later_device.base, got, whole, sizeof got));
    for (int i = 0; i < 64; i++)
        assert_true(got[i] == (i % 8 < 4 ? 2.0f : 3.0f));
    later_finish(&op);
}

/* Inputs that are parts of one block, in any order, are copied together. */
static void the_reference_reads_views_that_overlap(void **state)
{
    (void)state;
    enum { N = 32 };
    static const int at[][3] = {{8, 0, 16}, {0, 8, 16}, {16, 24, 0}, {0, 40, 20}, {40, 0, 20}};
    float values[80], zeros[N] = {0}, got[N];
    const int64_t n = N;
    for (int i = 0; i < 80; i++)
        values[i] = (float)i;
    char *x = later_alloc(values, 80), *y = later_alloc(zeros, N);
    md_ds_op *op = script_op(&later_world, "Y[n] = A[n] + B[n] * 100 + C[n] * 10000", NULL);
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        md_tensor t[4] = {md_tensor_make(y, MD_F32, 1, &n)};
        for (int i = 0; i < 3; i++)
            t[1 + i] = md_tensor_make(x + (size_t)at[k][i] * sizeof(float), MD_F32, 1, &n);
        assert_ok(md_ds_reference(op, (md_arg[]){md_t(&t[0]), md_t(&t[1]), md_t(&t[2]), md_t(&t[3])}, 4));
        assert_ok(later_device.base.ops->copy(&later_device.base, got, y, sizeof got));
        for (int i = 0; i < N; i++)
            assert_true(got[i] == values[at[k][0] + i] + values[at[k][1] + i] * 100 + values[at[k][2] + i] * 10000);
    }
    later_finish(&op);
}

static void faults_are_reported_later(void **state)
{
    (void)state;
    later_vectors v;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    script_now.row[SCRIPT_ALPHA][0].reports = true;
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_ok(md_ds_check(op)); /* it has not run */
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    script_now.row[SCRIPT_ALPHA][0].reports = false;
    int32_t n = script_now.row[SCRIPT_ALPHA][0].n_runs;
    assert_fails(md_ds_call(op, NULL, v.arg, 2), MD_INVALID_ARGUMENT,
                 "an earlier call: index 99 is outside axis 0 (dim 'n') of 'X'");
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, n); /* it told, and did not run */
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    assert_ok(md_ds_check(op));
    later_finish(&op);
}

/* An error of that call, and no more. */
static void memory_may_be_short(void **state)
{
    (void)state;
    later_vectors v;
    void *p = NULL;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    size_t used = later_device.used;
    later_device.used = (size_t)1 << 36;
    assert_fails(later_device.base.ops->alloc(&p, &later_device.base, 100), MD_OUT_OF_MEMORY, "memory");
    assert_fails(md_ds_call(op, later_stream(1), v.arg, 2), MD_OUT_OF_MEMORY, "used up"); /* its workspace */
    assert_fails(md_ds_call(op, later_stream(1), v.arg, 2), MD_OUT_OF_MEMORY, "used up");
    later_device.used = used;
    for (int i = 0; i < 3; i++)
        assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    assert_int_equal(script_now.row[SCRIPT_ALPHA][0].n_runs, 3);
    later_finish(&op);
}

static md_status (*real_workspace)(void **out, md_dev *dev, md_stream stream, size_t n_bytes);
static int n_locked, n_unlocked;

/* Asks for the lock that the call has to hold from here to its last launch. */
static md_status locked_workspace(void **out, md_dev *dev, md_stream stream, size_t n_bytes)
{
    pthread_mutex_t *lock = md_ds_stream_lock(&later_world.runtime, stream);
    const bool is_held = pthread_mutex_trylock(lock) != 0;
    if (!is_held)
        pthread_mutex_unlock(lock);
    n_locked += is_held;
    n_unlocked += !is_held;
    return real_workspace(out, dev, stream, n_bytes);
}

static void scale(const char *text, const md_kn_word *params, int32_t n)
{
    (void)text;
    (void)n;
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = ((const float *)params[1].p)[i * params[3].i] * (float)params[4].d;
}

/* Threads that share a stream share its workspace: each holds the stream's lock until its launches are queued. */
static void a_workspace_is_of_one_call_at_a_time(void **state)
{
    (void)state;
    later_vectors v;
    script_now.is_text = script_now.with_memory = true;
    later_world.device.on_launch = scale;
    const md_dev_ops *ops = later_device.base.ops;
    md_dev_ops with_lock = *ops;
    md_ds_op *op = script_op(&later_world, "scalar a; Y[n] = X[n] * a", NULL);
    later_make(&v, 64);
    const md_arg arg[3] = {md_s(2.0), md_t(&v.y), md_t(&v.x)};
    real_workspace = ops->workspace;
    with_lock.workspace = locked_workspace;
    later_device.base.ops = &with_lock;
    n_locked = n_unlocked = 0;
    for (int i = 0; i < 6; i++) /* slow calls, then warm ones */
        assert_ok(md_ds_call(op, later_stream(1), arg, 3));
    later_device.base.ops = ops;
    assert_int_equal(op->count.calls, 2);
    assert_int_equal(n_locked, 6);
    assert_int_equal(n_unlocked, 0);
    later_finish(&op);
}

static md_ds_op *measuring_op(const char *formula)
{
    md_ds_op_options o = script_options();
    o.compile.policy.select = MD_SELECT_MEASURE;
    return script_op(&later_world, formula, &o);
}

static double scripted_us(void *user)
{
    const fake_device *device = user;
    return (double)device->now_ns * 1e-3;
}

static void measuring_uses_the_devices_clock(void **state)
{
    (void)state;
    later_vectors v;
    script_own_clock(&later_world);
    later_device.clock = scripted_us;
    later_device.clock_user = &later_world.device;
    script_now.row[SCRIPT_ALPHA][0].slow_us = 300; /* the model's choice is the slower one */
    script_allow(SCRIPT_BETA, 0, 1.2);
    md_ds_op *op = measuring_op("Y[n] = X[n]");
    later_make(&v, 64);
    assert_ok(md_ds_call(op, later_stream(1), v.arg, 2));
    assert_true(later_device.n_times > 1); /* each of both at least once, whatever the budget allows */
    assert_true(later_first_of(&v.y) == 10.0f); /* beta */
    assert_true(later_first_of(&v.x) == 0.0f);
    later_finish(&op);
}

/* Ops with temporaries between stages are measured too. */
static void measuring_makes_temporaries(void **state)
{
    (void)state;
    later_vectors v;
    script_allow(SCRIPT_BETA, 0, 1.2);
    md_ds_op *op = measuring_op("let t[n] = cumsum[n](X[n]); Y[n] = t[size(n) - 1 - n]");
    bool is_stored = false;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        is_stored |= op->program->is_temp_stored[t];
    assert_true(is_stored);
    later_make(&v, 64);
    assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_true(op->count.measured >= 4);
    later_finish(&op);
}

static void times_are_samples_where_they_were_asked_for(void **state)
{
    (void)state;
    later_vectors v;
    later_world.runtime.samples = true;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    later_make(&v, 64);
    for (int i = 0; i < 1100; i++)
        assert_ok(md_ds_call(op, NULL, v.arg, 2));
    assert_true(later_device.n_times >= 3 && later_device.n_times <= 8);
    later_finish(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(work_waits_for_the_stream, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(pointers_are_checked_where_shapes_are_new, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(inputs_that_are_overwritten_are_copied_in_order, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(the_reference_works_on_copies, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(the_reference_writes_back_views, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(the_reference_reads_views_that_overlap, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(faults_are_reported_later, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(memory_may_be_short, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(a_workspace_is_of_one_call_at_a_time, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(measuring_uses_the_devices_clock, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(measuring_makes_temporaries, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(times_are_samples_where_they_were_asked_for, later_set_up, later_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
