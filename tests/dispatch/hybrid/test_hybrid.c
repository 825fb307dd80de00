/* MD_SELECT_HYBRID on scripted devices: which variant serves, which are tried, what that costs, and what happens to
 * wrong and slow variants. */
#include "dispatch/support/timed.h"
#include "dispatch/hybrid/trial.h"
#include "dispatch/call/call.h"
#include "stats/report.h"
#include "support/check.h"

static md_ds_op *hybrid_op(void)
{
    return timed_op(MD_SELECT_HYBRID, 0.0);
}

/* An op of two variants that take so many us, and a call of it. The model expects the first to be the faster one. */
static md_ds_op *two_variants(timed_call *c, double first_us, double second_us)
{
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    timed_now.us_of[0] = first_us;
    timed_now.us_of[10] = second_us;
    md_ds_op *op = hybrid_op();
    timed_make(c, TIMED_N);
    return op;
}

/* A device that is not far behind. Results are looked at now and then. */
static void run_calls(md_ds_op *op, timed_call *c, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        assert_ok(md_ds_call(op, NULL, c->arg, 3));
        if (timed_now.is_async && i % 3 == 0)
            assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
        if (i % 50 == 0) {
            float y[TIMED_N];
            assert_ok(timed_now.world.runtime.dev->ops->copy(timed_now.world.runtime.dev, y, c->y.data, sizeof y));
            for (int k = 0; k < TIMED_N; k++)
                assert_true(y[k] == 2.0f * (float)k);
        }
        if (i == 2)
            timed_wait_for_trial(op, c);
    }
}

/* The model's pick is not the fastest: real calls show it. */
static void the_faster_one_stays(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[0] = 100.0;
    timed_now.us_of[10] = 80.0;
    timed_now.us_of[20] = 140.0;
    timed_call c;
    md_ds_op *op = hybrid_op();
    timed_make(&c, TIMED_N);
    run_calls(op, &c, 3000);
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_int_equal(op->count.switches, 1);
    assert_true(op->count.trials >= 5 && op->count.trials < 40);
    assert_int_equal(op->count.quarantined, 0);
    assert_true(op->count.calls < 1000); /* most are warm */
    int32_t before = timed_now.served[10];
    run_calls(op, &c, 1000); /* nearly all are the winner's */
    assert_true(timed_now.served[10] - before >= 990);
    timed_finish(&op);
}

/* By the real clock, which is noisy. */
static void the_faster_one_wins_on_the_host(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    timed_now.us_of[0] = 1500.0;
    timed_now.us_of[10] = 200.0;
    timed_call c;
    md_ds_op *op = timed_op(MD_SELECT_HYBRID, 1.0);
    timed_make(&c, TIMED_N);
    for (int i = 0; i < 10 && timed_incumbent(op, &c) != 10; i++)
        run_calls(op, &c, 100);
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_true(op->count.switches >= 1);
    timed_finish(&op);
}

/* What trials cost is a share of the time: a challenger that takes twice as long is tried seldom. */
static void trials_keep_to_their_share(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.05);
    timed_now.us_of[0] = 100.0;
    timed_now.us_of[10] = 900.0;
    timed_call c;
    md_ds_op *op = hybrid_op();
    timed_make(&c, TIMED_N);
    run_calls(op, &c, 2000);
    assert_int_equal(timed_incumbent(op, &c), 0);
    assert_true(timed_now.served[10] >= 1 && timed_now.served[10] <= 4); /* one of them checked it beforehand */
    timed_finish(&op);
}

static void a_wrong_variant_never_serves(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 3, 1.1); /* wrong, and fast */
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[0] = timed_now.us_of[20] = 100.0;
    timed_now.us_of[13] = 10.0;
    timed_call c;
    md_ds_op *op = hybrid_op();
    timed_make(&c, TIMED_N);
    run_calls(op, &c, 2000);
    assert_int_equal(timed_now.served[13], 1); /* when it was checked */
    assert_int_equal(op->count.quarantined, 1);
    assert_non_null(strstr(timed_now.world.warning, "beta/v3_w0 gives other results than most variants do"));
    timed_finish(&op);
}

/* Most variants are of f32; one rounds operands to tf32, and is faster. Where that is allowed, it is not wrong;
 * elsewhere it is. */
static void tf32_is_right_where_it_is_allowed(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[0] = timed_now.us_of[20] = 100.0;
    timed_now.us_of[10] = 20.0;
    for (int kind = 0; kind < 4; kind++) {
        timed_call c;
        timed_now.allows_tf32 = kind >= 2;
        timed_now.tf32[10] = 1 + kind % 2;
        md_ds_op *op = hybrid_op();
        timed_make(&c, TIMED_N);
        run_calls(op, &c, 3000);
        assert_int_equal(op->count.quarantined, kind < 2);
        assert_int_equal(timed_incumbent(op, &c) == 10, kind >= 2);
        timed_finish(&op);
    }
}

/* The incumbent serves instead, and the challenger is not tried again. */
static void a_challenger_that_does_not_launch_is_dropped(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.01);
    timed_now.us_of[0] = timed_now.us_of[10] = 50.0;
    timed_call c;
    md_ds_op *op = timed_op(MD_SELECT_HYBRID, 0.1);
    timed_make(&c, TIMED_N);
    timed_wait_for_trial(op, &c);
    atomic_store(&timed_now.world.device.refused, "COPY 10 ");
    run_calls(op, &c, 400); /* all succeed, with the right results */
    /* by the real clock the incumbent may seem slow, and the trial begins anew */
    assert_true(op->count.trials >= 1 && op->count.trials <= 1 + op->count.demotions);
    assert_int_equal(timed_now.served[10], 1); /* when it was checked */
    assert_int_equal(timed_incumbent(op, &c), 0);
    timed_finish(&op);
}

static void a_challenger_without_a_time_is_dropped(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.01);
    timed_now.us_of[0] = 100.0;
    timed_now.us_of[10] = 0.0; /* the fastest, by the clock */
    timed_call c;
    md_ds_op *op = hybrid_op();
    timed_make(&c, TIMED_N);
    run_calls(op, &c, 2000);
    assert_int_equal(op->count.trials, 1);
    assert_int_equal(timed_incumbent(op, &c), 0);
    timed_finish(&op);
}

/* A library finds and loads its kernel in the background, not in a call. */
static void a_library_is_loaded_before_its_trial(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2); /* the library */
    timed_now.us_of[0] = timed_now.us_of[10] = timed_now.us_of[20] = 100.0;
    script_now.library_loads = true;
    atomic_store(&script_now.may_load, true);
    timed_call c;
    md_ds_op *op = hybrid_op();
    md_ds_op_wait(op);
    const int32_t at_hints = (int32_t)atomic_load(&script_now.n_loads);
    timed_make(&c, TIMED_N);
    timed_wait_for_trial(op, &c);
    assert_int_equal(op->count.trials, 0);
    assert_int_equal(timed_now.served[10], 1); /* checked */
    assert_int_equal(timed_now.served[20], 1);
    assert_int_equal(atomic_load(&script_now.n_loads), at_hints + 1);
    timed_finish(&op);
}

/* Who is on trial, and how far that is, as text and as JSON. */
static void trials_are_explained(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.01);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[0] = 100.0;
    timed_now.us_of[10] = 130.0;
    timed_now.us_of[20] = 100.0;
    timed_call c;
    md_ds_bound bound;
    md_strbuf text = {0}, json = {0};
    md_ds_op *op = hybrid_op();
    timed_make(&c, TIMED_N);
    run_calls(op, &c, 600);
    assert_ok(md_ds_bind(&bound, op, c.arg, 3));
    assert_ok(md_ss_explain(&text, op, &bound, false));
    assert_non_null(
        strstr(md_strbuf_text(&text), "on trial: 2 others, which served 1 calls; 0 switches, 0 demotions\n"));
    assert_non_null(
        strstr(md_strbuf_text(&text), "  serves     alpha/v0_w0: expected 1.00, took 100.00 us (3 times)\n"));
    assert_non_null(strstr(md_strbuf_text(&text), "  out        beta/v0_w0: expected "));
    assert_non_null(strstr(md_strbuf_text(&text), ", took 130.00 us (1 times)\n"));
    assert_non_null(strstr(md_strbuf_text(&text), "  waits      gamma/v0_w0: expected "));
    assert_ok(md_ss_explain(&json, op, &bound, true));
    assert_non_null(strstr(md_strbuf_text(&json), "\"trial\""));
    assert_non_null(strstr(md_strbuf_text(&json), "\"variant\":\"beta/v0_w0\""));
    md_strbuf_finish(&text);
    md_strbuf_finish(&json);
    timed_finish(&op);
}

/* The model's own pick may be the wrong one: it goes as soon as that is known. */
static void a_wrong_pick_is_replaced(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 3, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[3] = timed_now.us_of[10] = timed_now.us_of[20] = 100.0;
    timed_call c;
    md_ds_op *op = hybrid_op();
    timed_make(&c, TIMED_N);
    timed_wait_for_trial(op, &c);
    assert_int_equal(op->count.quarantined, 1);
    assert_int_equal(timed_incumbent(op, &c), 10);
    run_calls(op, &c, 200);
    timed_finish(&op);
}

static void one_that_becomes_slow_makes_room(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = two_variants(&c, 100.0, 103.0);
    run_calls(op, &c, 2000);
    assert_int_equal(timed_incumbent(op, &c), 0);
    timed_now.us_of[0] = 150.0;
    run_calls(op, &c, 5000);
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_true(op->count.demotions >= 1);
    timed_finish(&op);
}

/* Neither while the stream is captured, nor when the op is frozen, does anything but the call happen. */
static void captures_and_frozen_ops_are_left_alone(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = two_variants(&c, 100.0, 50.0);
    run_calls(op, &c, 20);
    async_device_capture(&timed_now.device, NULL, true);
    int64_t marks = timed_now.device.n_marks;
    for (int i = 0; i < 500; i++)
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(timed_now.device.n_marks, marks);
    assert_int_equal(timed_now.device.n_violations, 0);
    async_device_capture(&timed_now.device, NULL, false);
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    run_calls(op, &c, 500);
    assert_int_equal(timed_now.device.n_marks, marks);
    atomic_store(&op->frozen, MD_DS_NOT_FROZEN);
    run_calls(op, &c, 2000);
    assert_int_equal(timed_incumbent(op, &c), 10);
    timed_finish(&op);
}

/* A frozen op tries nothing, however often it is called. */
static void a_frozen_op_tries_nothing(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = two_variants(&c, 100.0, 50.0);
    timed_wait_for_trial(op, &c);
    run_calls(op, &c, 20);
    const int32_t served = timed_now.served[10];
    const int64_t marks = timed_now.device.n_marks;
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    run_calls(op, &c, 3000);
    assert_int_equal(timed_now.device.n_marks, marks);
    assert_int_equal(timed_now.served[10], served);
    assert_int_equal(timed_incumbent(op, &c), 0);
    atomic_store(&op->frozen, MD_DS_NOT_FROZEN);
    run_calls(op, &c, 3000);
    assert_int_equal(timed_incumbent(op, &c), 10);
    timed_finish(&op);
}

/* A device that is far behind, or hangs, is never waited for. */
static void nothing_waits_for_a_time(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = two_variants(&c, 100.0, 50.0);
    run_calls(op, &c, 20);
    int64_t syncs = timed_now.device.n_syncs;
    for (int i = 0; i < 2000; i++)
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(timed_now.device.n_syncs, syncs);
    assert_int_equal(timed_incumbent(op, &c), 0); /* no time has come yet */
    timed_finish(&op);
}

/* When the op is made. */
static void a_hybrid_gives_up_on_one_that_does_not_end(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 1, 1.1)->hangs = true;
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[0] = timed_now.us_of[20] = 100.0;
    timed_now.device.base.hang_ms = 50;
    timed_call c;
    timed_make(&c, TIMED_N);
    md_ds_op *op = hybrid_op();
    timed_wait_for_trial(op, &c);
    for (int i = 0; i < 100; i++)
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(timed_incumbent(op, &c), 0);
    assert_int_equal(op->count.quarantined, 1);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_faster_one_stays, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(the_faster_one_wins_on_the_host, timed_set_up, timed_tear_down),
        cmocka_unit_test_setup_teardown(trials_keep_to_their_share, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(tf32_is_right_where_it_is_allowed, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_variant_never_serves, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_variant_never_serves, timed_set_up, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_challenger_that_does_not_launch_is_dropped, timed_set_up, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_challenger_without_a_time_is_dropped, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_library_is_loaded_before_its_trial, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(trials_are_explained, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_pick_is_replaced, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(one_that_becomes_slow_makes_room, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(captures_and_frozen_ops_are_left_alone, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_frozen_op_tries_nothing, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(nothing_waits_for_a_time, timed_set_up_async, timed_tear_down),
        cmocka_unit_test_setup_teardown(a_hybrid_gives_up_on_one_that_does_not_end, timed_set_up_async,
                                        timed_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
