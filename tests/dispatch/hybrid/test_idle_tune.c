/* MD_SELECT_MODEL with idle_tune: the model's best few are timed in moments without calls, and no call is used. */
#include "dispatch/support/timed.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/call.h"
#include "support/check.h"

#include <time.h>

/* Alpha is the model's pick, beta comes close to it, gamma is far behind by the model. */
static md_ds_op *idle_op(timed_call *c, double beta_by_model)
{
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, beta_by_model);
    script_allow(SCRIPT_GAMMA, 0, 1.6);
    timed_now.us_of[0] = 4.0;
    timed_now.us_of[10] = 3.0;
    timed_now.us_of[20] = 1.0;
    timed_now.quiet_us = 500.0;
    md_ds_op *op = timed_op(MD_SELECT_MODEL, 0.0);
    timed_make(c, TIMED_N);
    return op;
}

static void call_often(md_ds_op *op, timed_call *c, int n)
{
    md_dev *dev = op->runtime->dev;
    for (int i = 0; i < n; i++) {
        assert_ok(md_ds_call(op, NULL, c->arg, 3));
        if (i % 16 == 0)
            assert_ok(dev->ops->sync(dev, NULL));
    }
    assert_ok(dev->ops->sync(dev, NULL));
}

/* Calls and quiet moments until the race is over; false if there is none after some. */
static bool race(md_ds_op *op, timed_call *c, int steps)
{
    for (int i = 0; i < steps; i++) {
        call_often(op, c, 300);
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        if (op->hybrid && timed_trial_of(op, c).is_raced)
            return true;
    }
    return false;
}

static void doubtful_picks_are_raced(void **state)
{
    (void)state;
    timed_call c;
    timed_now.idle_tune = true;
    md_ds_op *op = idle_op(&c, 1.1);
    assert_true(race(op, &c, 100000)); /* a busy machine has few quiet moments; the program's time limit ends it */
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_int_equal(op->count.trials, 0); /* no call was served by a challenger */
    assert_int_equal(op->count.switches, 1);
    const md_ds_trial_state t = timed_trial_of(op, &c);
    assert_int_equal(t.challengers, 1); /* gamma is farther behind than the model errs */
    assert_int_equal(t.timed, 0);
    const uint64_t before = op->count.calls;
    call_often(op, &c, 1000); /* nearly all are warm */
    assert_true(op->count.calls - before < 20);
    timed_finish(&op);
}

/* The runner-up by the model is timed, but is no faster: the pick stays, and is not raced again. */
static void picks_that_win_their_race_stay(void **state)
{
    (void)state;
    timed_call c;
    timed_now.idle_tune = true;
    md_ds_op *op = idle_op(&c, 1.1);
    timed_now.us_of[10] = 4.5;
    const int32_t first = timed_incumbent(op, &c);
    assert_true(race(op, &c, 100000));
    assert_int_equal(timed_incumbent(op, &c), first);
    assert_int_equal(op->count.switches, 0);
    assert_int_equal(timed_trial_of(op, &c).challengers, 1);
    call_often(op, &c, 600);
    assert_int_equal(timed_incumbent(op, &c), first);
    timed_finish(&op);
}

static void sure_picks_and_rare_shapes_are_not(void **state)
{
    (void)state;
    timed_call c, rare;
    timed_now.idle_tune = true;
    md_ds_op *op = idle_op(&c, 1.5);
    assert_false(race(op, &c, 5));
    assert_int_equal(op->n_trials, 0);
    timed_finish(&op);
    op = idle_op(&c, 1.1);
    timed_make(&rare, TIMED_N - 1);
    call_often(op, &rare, 8); /* the first call that is looked at comes later */
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    assert_int_equal(op->n_trials, 0);
    timed_finish(&op);
}

static void nothing_is_raced_unless_it_is_asked_for(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = idle_op(&c, 1.1);
    assert_null(op->hybrid);
    timed_finish(&op);
    md_ds_op_options o = script_options();
    o.compile.policy.idle_tune = true;
    o.compile.policy.select = MD_SELECT_DISTANCE; /* means the distance and nothing else */
    op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
    assert_null(op->hybrid);
    timed_finish(&op);
}

/* What a user gets who asked for nothing. The classes are of alpha and beta. */
static md_ds_op *cheap_op(timed_call *c, uint64_t class_of_alpha, uint64_t class_of_beta, double us)
{
    timed_now.idle_tune = timed_now.races_cheaply = true;
    script_allow(SCRIPT_ALPHA, 0, us)->numeric = class_of_alpha;
    script_allow(SCRIPT_BETA, 0, 1.1 * us)->numeric = class_of_beta;
    timed_now.us_of[0] = 4.0;
    timed_now.us_of[10] = 3.0;
    timed_now.quiet_us = 500.0;
    md_ds_op *op = timed_op(MD_SELECT_MODEL, 0.0);
    timed_make(c, TIMED_N);
    return op;
}

/* Steps of 20 calls, as few as a shape may get. A race runs a few times at most, and a busy machine is late to see that
 * it is quiet: pauses grow. */
static bool race_soon(md_ds_op *op, timed_call *c, int steps)
{
    for (int i = 0; i < steps; i++) {
        call_often(op, c, 20);
        nanosleep(&(struct timespec){.tv_nsec = 20000000L << MD_MIN(i / 4, 5)}, NULL);
        if (timed_trial_of(op, c).is_raced)
            return true;
    }
    return false;
}

static void a_cheap_race_needs_few_calls_and_switches_once(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = cheap_op(&c, 1, 1, 1.0);
    assert_true(race_soon(op, &c, 1000));
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_int_equal(op->count.trials, 0);
    timed_now.us_of[0] = 1.0; /* what would be the faster one now is not looked for */
    call_often(op, &c, 2000);
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    call_often(op, &c, 600);
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_int_equal(op->count.switches, 1);
    const uint64_t before = op->count.calls;
    call_often(op, &c, 1000);
    assert_true(op->count.calls == before); /* no call takes the slow path any more */
    timed_finish(&op);
}

static void a_cheap_race_keeps_the_bits(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = cheap_op(&c, 1, 2, 1.0);
    const int32_t first = timed_incumbent(op, &c);
    assert_true(race_soon(op, &c, 1000));
    assert_int_equal(timed_incumbent(op, &c), first);
    assert_int_equal(op->count.switches, 0);
    assert_float_equal(timed_trial_of(op, &c).of[1].idle_us, 3.0, 0.05); /* it was timed, and teaches the model */
    timed_finish(&op);
}

/* By the model, or as it turns out. The device's clock is not the one that quiet moments are told by, and here these
 * are shorter than what such kernels need. */
static void long_kernels_get_no_cheap_race(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = cheap_op(&c, 1, 1, MD_DS_CALM_US + 1.0);
    assert_false(race_soon(op, &c, 5));
    assert_int_equal(op->n_trials, 0);
    timed_finish(&op);
    op = cheap_op(&c, 1, 1, 1.0);
    timed_now.us_of[0] = 3e3 * MD_DS_CALM_US;
    timed_now.us_of[10] = 2e3 * MD_DS_CALM_US;
    const int32_t first = timed_incumbent(op, &c), served = timed_now.served[10];
    assert_true(race_soon(op, &c, 1000));
    assert_int_equal(timed_incumbent(op, &c), first);
    assert_true(timed_now.served[10] - served <= 3); /* two looks, and one to compare results */
    timed_finish(&op);
}

/* A kernel of 500 us waits until nobody called for 16 ms. */
static void a_long_quiet_moment_is_enough_for_long_kernels(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = cheap_op(&c, 1, 1, MD_DS_CALM_US / 2);
    assert_true(race_soon(op, &c, 1000));
    assert_int_equal(timed_incumbent(op, &c), 10);
    timed_finish(&op);
}

/* Results are compared at the smallest shape that all challengers serve, though that is not small. */
static void variants_of_large_shapes_alone_race_too(void **state)
{
    (void)state;
    timed_call c;
    timed_now.hints = "200000";
    script_now.row[SCRIPT_BETA][0].lo = 60000;
    md_ds_op *op = cheap_op(&c, 1, 1, 1.0);
    timed_make(&c, 200000);
    assert_true(race_soon(op, &c, 1000));
    assert_int_equal(timed_incumbent(op, &c), 10);
    timed_finish(&op);
}

/* Calls without a pause keep a race from running. It comes again by itself, although nobody calls any more. */
static void a_race_comes_again_without_calls(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = cheap_op(&c, 1, 1, 1.0);
    call_often(op, &c, 16);
    for (int i = 0; i < 60; i++) {
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
        nanosleep(&(struct timespec){.tv_nsec = 400000}, NULL);
    }
    assert_ok(op->runtime->dev->ops->sync(op->runtime->dev, NULL));
    for (int i = 0; i < 10000 && !timed_trial_of(op, &c).is_raced; i++)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    assert_true(timed_trial_of(op, &c).is_raced);
    call_often(op, &c, 1);
    assert_int_equal(timed_incumbent(op, &c), 10);
    timed_finish(&op);
}

/* All calls came while another kernel stood in for the pick. Once that is built nobody calls any more, or somebody
 * does: then its bits stay. */
static void picks_that_come_late_are_raced(void **state)
{
    (void)state;
    for (int32_t has_own_bits = 0; has_own_bits < 2; has_own_bits++)
        for (int32_t is_called = 0; is_called < 2; is_called++) {
            timed_call c;
            md_ds_op *op = cheap_op(&c, 1, has_own_bits ? 1 : 2, 1.0);
            atomic_store(&op->stage[0].variant[0]->state, MD_BD_QUEUED);
            call_often(op, &c, 20);
            assert_int_equal(timed_incumbent(op, &c), 10);
            assert_int_equal(op->n_trials, 0);
            atomic_store(&op->stage[0].variant[0]->state, MD_BD_READY);
            md_ds_upgrade_ready(op);
            if (is_called) /* no race can be over by now: it waits for a quiet moment */
                call_often(op, &c, 1);
            for (int i = 0; i < 10000 && !timed_trial_of(op, &c).is_raced; i++)
                nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
            assert_true(timed_trial_of(op, &c).is_raced);
            call_often(op, &c, 1);
            const bool switches = has_own_bits || !is_called;
            assert_int_equal(timed_incumbent(op, &c), switches ? 10 : 0); /* the upgrade had put 0 */
            assert_int_equal(op->count.switches, switches);
            timed_finish(&op);
            script_reset();
            script_now.is_text = true;
        }
}

/* Ops end while trials are made and races run, at any moment. */
static void ops_end_at_any_moment(void **state)
{
    (void)state;
    enum { ENDS = 200 };
    for (int i = 0; i < ENDS; i++) {
        timed_call c;
        md_ds_op *op = cheap_op(&c, 1, 1 + i % 2, 1.0);
        call_often(op, &c, 20);
        nanosleep(&(struct timespec){.tv_nsec = 40000 * (i % 50)}, NULL);
        timed_finish(&op);
        script_reset();
        script_now.is_text = true;
    }
}

/* Calls of a shape whose library has not loaded its kernel have no launch plan, so none of them is a sample. */
static void shapes_without_samples_are_raced(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = cheap_op(&c, 1, 1, 1.0);
    md_ds_shape_entry *entry = timed_entry(op, &c);
    md_ds_plan_of(entry)->may_load = true;
    md_ds_shape_entry_release(entry);
    assert_true(race_soon(op, &c, 200));
    assert_int_equal(timed_incumbent(op, &c), 10);
    timed_finish(&op);
}

/* A kernel that is being built keeps a race waiting if it may win it by the model, and not otherwise. */
static void races_wait_for_what_may_win(void **state)
{
    (void)state;
    static const double gamma_by_model[] = {1.6, 1.2};
    for (int32_t waits = 0; waits < 2; waits++) {
        timed_call c;
        script_allow(SCRIPT_GAMMA, 0, gamma_by_model[waits])->numeric = 1;
        timed_now.us_of[20] = 2.0;
        md_ds_op *op = cheap_op(&c, 1, 1, 1.0);
        const md_ds_pool *pool = &op->stage[0];
        assert_int_equal(pool->n_variants, 3);
        assert_int_equal(timed_incumbent(op, &c), 0);
        atomic_store(&pool->variant[2]->state, MD_BD_QUEUED);
        assert_true(race_soon(op, &c, waits ? 20 : 1000) == !waits);
        assert_int_equal(timed_incumbent(op, &c), waits ? 0 : 10);
        atomic_store(&pool->variant[2]->state, MD_BD_READY);
        if (waits) {
            assert_true(race_soon(op, &c, 1000));
            assert_int_equal(timed_incumbent(op, &c), 20);
        }
        timed_finish(&op);
        script_reset();
        script_now.is_text = true;
    }
}

/* On a device whose calls return late, as the host's do. */
static void synchronous_devices_race_too(void **state)
{
    (void)state;
    timed_call c;
    timed_now.all_spend = true;
    md_ds_op *op = cheap_op(&c, 1, 1, 1.0);
    assert_true(race_soon(op, &c, 1000));
    assert_int_equal(timed_incumbent(op, &c), 10);
    assert_int_equal(op->count.trials, 0);
    timed_finish(&op);
}

/* The pool was made for 64 elements. Alpha's other config is better from 200 on. */
static md_ds_op *drifting_op(timed_call *c, double us)
{
    timed_now.idle_tune = timed_now.races_cheaply = true;
    timed_now.quiet_us = 500.0;
    timed_now.hints = "64";
    script_allow(SCRIPT_ALPHA, 0, us)->numeric = 1;
    script_allow(SCRIPT_ALPHA, 1, 0.2 * us)->numeric = 1;
    script_now.row[SCRIPT_ALPHA][1].legal_lo = 200;
    timed_now.us_of[0] = us;
    timed_now.us_of[1] = 0.2 * us;
    md_ds_op *op = timed_op(MD_SELECT_MODEL, 0.0);
    timed_make(c, TIMED_N);
    return op;
}

static int32_t after_drifting(md_ds_op *op, timed_call *c)
{
    for (int i = 0; i < 1000 && timed_incumbent(op, c) != 1; i++) {
        call_often(op, c, 300);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return timed_incumbent(op, c);
}

/* A variant for shapes that nobody expected is built beside the calls, compared, and serves: after a race, or, where
 * that would take too long, since it is surely better. */
static void pools_follow_the_traffic(void **state)
{
    (void)state;
    static const double us[] = {20.0, 2000.0};
    for (int i = 0; i < 2; i++) {
        timed_call c, other;
        md_ds_op *op = drifting_op(&c, us[i]);
        assert_int_equal(op->stage[0].n_variants, 1);
        assert_int_equal(timed_incumbent(op, &c), 0);
        assert_int_equal(after_drifting(op, &c), 1);
        assert_int_equal(op->stage[0].n_variants, 2);
        assert_int_equal(op->count.switches, 1);
        assert_int_equal(timed_trial_of(op, &c).is_raced, i == 0);
        assert_int_equal(op->count.waits, 0);
        timed_make(&other, TIMED_N + 1); /* a shape nearby has it from its first call */
        assert_ok(md_ds_call(op, NULL, other.arg, 3));
        assert_int_equal(timed_incumbent(op, &other), 1);
        timed_finish(&op);
        script_reset();
        script_now.is_text = true;
    }
}

static void pools_stay_where_nobody_may_add(void **state)
{
    (void)state;
    timed_call c, other;
    md_ds_op *op = drifting_op(&c, 20.0);
    call_often(op, &c, 3);
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    call_often(op, &c, 600);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(op->stage[0].n_variants, 1);
    atomic_store(&op->frozen, MD_DS_NOT_FROZEN);
    script_now.row[SCRIPT_ALPHA][1].numeric = 2; /* other bits: for shapes that were not called yet */
    for (int i = 0; i < 1000 && op->stage[0].n_variants == 1; i++) {
        call_often(op, &c, 300);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    assert_int_equal(op->stage[0].n_variants, 2);
    (void)race(op, &c, 5);
    assert_int_equal(timed_incumbent(op, &c), 0);
    timed_make(&other, TIMED_N + 1);
    assert_ok(md_ds_call(op, NULL, other.arg, 3));
    assert_int_equal(timed_incumbent(op, &other), 1);
    timed_finish(&op);
}

/* Variants of another numeric class would give other bits. */
static void numeric_policies_hold(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        timed_call c;
        timed_make(&c, TIMED_N);
        script_allow(SCRIPT_ALPHA, 0, 1.0)->numeric = 1;
        script_allow(SCRIPT_BETA, 0, 1.1)->numeric = same ? 1 : 2;
        timed_now.us_of[0] = 4.0;
        timed_now.us_of[10] = 3.0;
        md_ds_op_options o = script_options();
        o.compile.policy.idle_tune = true;
        o.compile.policy.quiet_us = 500.0;
        o.compile.policy.numeric = MD_NUMERIC_DETERMINISTIC;
        md_ds_op *op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
        const int32_t first = timed_incumbent(op, &c);
        assert_true(race(op, &c, same ? 100000 : 5) == (same == 1));
        if (!same)
            assert_int_equal(timed_incumbent(op, &c), first);
        timed_finish(&op);
    }
}

static void frozen_ops_race_nothing(void **state)
{
    (void)state;
    timed_call c;
    timed_now.idle_tune = true;
    md_ds_op *op = idle_op(&c, 1.1);
    call_often(op, &c, 3);
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    assert_false(race(op, &c, 5));
    assert_int_equal(op->n_trials, 0);
    timed_finish(&op);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, timed_set_up_async, timed_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(doubtful_picks_are_raced),
        TEST(picks_that_win_their_race_stay),
        TEST(sure_picks_and_rare_shapes_are_not),
        TEST(nothing_is_raced_unless_it_is_asked_for),
        TEST(numeric_policies_hold),
        TEST(frozen_ops_race_nothing),
        TEST(a_cheap_race_needs_few_calls_and_switches_once),
        TEST(a_cheap_race_keeps_the_bits),
        TEST(long_kernels_get_no_cheap_race),
        TEST(a_long_quiet_moment_is_enough_for_long_kernels),
        TEST(variants_of_large_shapes_alone_race_too),
        TEST(a_race_comes_again_without_calls),
        TEST(races_wait_for_what_may_win),
        TEST(picks_that_come_late_are_raced),
        TEST(ops_end_at_any_moment),
        TEST(shapes_without_samples_are_raced),
        TEST(pools_follow_the_traffic),
        TEST(pools_stay_where_nobody_may_add),
        cmocka_unit_test_setup_teardown(synchronous_devices_race_too, timed_set_up, timed_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
