/* MD_SELECT_HYBRID in the background: races in quiet moments; and ops that go while trials, races and marks are under
 * way. */
#include "dispatch/hybrid/hybrid.h"
#include "dispatch/support/timed.h"
#include "dispatch/call/call.h"
#include "support/check.h"

#include <time.h>

static void be_quiet(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

/* Calls in steps, with moments without calls between them, until the trial's race is over. Returns how many steps. */
static int32_t run_steps(md_ds_op *op, timed_call *c)
{
    md_ds_trial_state t = {0};
    int32_t i = 0;
    for (; !t.is_raced; i++) { /* a busy machine sees few quiet moments; the program's time limit ends it */
        for (int32_t k = 0; k < 20; k++)
            assert_ok(md_ds_call(op, NULL, c->arg, 3));
        assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
        be_quiet();
        t = timed_trial_of(op, c);
    }
    return i;
}

/* An op of two variants, the model's pick and a challenger, whose trial has begun. */
static md_ds_op *on_trial(timed_call *c, double pick_us, double challenger_us)
{
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.01);
    timed_now.us_of[0] = pick_us;
    timed_now.us_of[10] = challenger_us;
    timed_now.quiet_us = 500.0;
    md_ds_op *op = timed_op(MD_SELECT_HYBRID, 0.0);
    timed_make(c, TIMED_N);
    timed_wait_for_trial(op, c);
    return op;
}

/* Marks around calls could not tell these apart. */
static void quiet_moments_tell_short_kernels_apart(void **state)
{
    (void)state;
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[20] = 4.0;
    timed_call c;
    md_ds_op *op = on_trial(&c, 3.0, 2.85);
    const uint64_t trials = op->count.trials;
    const int32_t steps = run_steps(op, &c);
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_int_equal(op->count.switches, 1);
    assert_true(op->count.trials - trials < 10 + (uint64_t)steps / 20); /* calls that others served */
    const md_ds_trial_state t = timed_trial_of(op, &c);
    assert_true(t.is_over);
    assert_float_equal(t.of[0].idle_us, 2.85, 0.05);
    float y[TIMED_N];
    assert_ok(timed_now.device.base.ops->copy(&timed_now.device.base, y, c.y.data, sizeof y));
    for (int k = 0; k < TIMED_N; k++)
        assert_true(y[k] == 2.0f * (float)k);
    timed_finish(&op);
}

/* A difference of less than 1% is no reason. */
static void who_is_as_fast_stays(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = on_trial(&c, 3.0, 2.98);
    (void)run_steps(op, &c);
    assert_int_equal(timed_incumbent(op, &c), 0);
    timed_finish(&op);
}

/* Neither while the GPU has work of calls left, nor near a capture. */
static void nothing_runs_beside_work_and_captures(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = on_trial(&c, 3.0, 3.0);
    for (int i = 0; i < 100; i++) /* the device does nothing of it yet */
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    const int64_t times = timed_now.device.n_times;
    for (int i = 0; i < 5; i++)
        be_quiet();
    assert_int_equal(timed_now.device.n_times, times);
    async_device_capture(&timed_now.device, NULL, true);
    for (int i = 0; i < 20; i++)
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    for (int i = 0; i < 5; i++)
        be_quiet();
    assert_int_equal(timed_now.device.n_times, times);
    assert_int_equal(timed_now.device.n_violations, 0);
    async_device_capture(&timed_now.device, NULL, false);
    timed_finish(&op); /* which a race that waits does not hold up */
}

/* ---- Ops that go in the middle of it */

enum { LIVES = 150, THREADS = 3, LIFE_SHAPES = 4, MOST_CALLS = 120 };

typedef struct caller {
    md_ds_op *op;
    timed_call *call;
    uint32_t seed;
    int n;
} caller;

static uint32_t draw(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

/* On a stream of its own; now and then it waits for the device, or a moment. */
static void *call_for_a_while(void *user)
{
    caller *c = user;
    md_dev *dev = &timed_now.device.base;
    md_stream stream = (md_stream)(uintptr_t)(8 + c->seed % THREADS);
    for (int i = 0; i < c->n; i++) {
        if (md_ds_call(c->op, stream, c->call[draw(&c->seed, LIFE_SHAPES)].arg, 3) != MD_OK)
            return c;
        if (draw(&c->seed, 4) == 0 && dev->ops->sync(dev, stream) != MD_OK)
            return c;
        if (draw(&c->seed, 16) == 0)
            nanosleep(&(struct timespec){.tv_nsec = (long)draw(&c->seed, 400) * 1000}, NULL);
    }
    return NULL;
}

/* Trials are being prepared, races go on, marks have not been passed: whatever is under way, nothing of the op is
 * touched when it has gone. */
static void ops_go_in_the_middle_of_it(void **state)
{
    (void)state;
    timed_call call[LIFE_SHAPES];
    uint32_t seed = 20261122;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.02);
    script_allow(SCRIPT_BETA, 3, 1.03); /* wrong */
    script_allow(SCRIPT_GAMMA, 0, 1.1);
    timed_now.us_of[0] = 3.0;
    timed_now.us_of[10] = 2.5;
    timed_now.us_of[13] = timed_now.us_of[20] = 3.5;
    timed_now.quiet_us = 50.0;
    for (int i = 0; i < LIFE_SHAPES; i++)
        timed_make(&call[i], TIMED_N + 40 * i);
    for (int life = 0; life < LIVES || timed_now.device.n_times == 0; life++) {
        pthread_t thread[THREADS];
        caller c[THREADS];
        md_ds_op *op = timed_op(MD_SELECT_HYBRID, life % 2 ? 0.5 : 0.0);
        const int n = (int)draw(&seed, MOST_CALLS);
        for (int i = 0; i < THREADS; i++) {
            c[i] = (caller){op, call, draw(&seed, 1 << 20), n};
            assert_int_equal(pthread_create(&thread[i], NULL, call_for_a_while, &c[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *failed = NULL;
            pthread_join(thread[i], &failed);
            assert_null(failed);
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)draw(&seed, 1500) * 1000}, NULL);
        md_ds_op_destroy(&op); /* the device has not done it all */
    }
    printf("%d lives, %d times taken in the background\n", (int)LIVES, (int)timed_now.device.n_times);
    assert_true(timed_now.device.n_times > 0);
    assert_false(atomic_load(&timed_now.world.runtime.is_racing));
    assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(quiet_moments_tell_short_kernels_apart, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(who_is_as_fast_stays, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(nothing_runs_beside_work_and_captures, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(ops_go_in_the_middle_of_it, timed_set_up_async, timed_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
