/* MD_SELECT_HYBRID and libraries: preparing a trial loads no kernel, for that holds the driver's lock. What would save
 * more than loading costs is loaded in the background, and then tried. */
#include "dispatch/call/call.h"
#include "dispatch/support/timed.h"
#include "support/check.h"

static md_ds_op *library_op(timed_call *c, double gamma_by_model, double gamma_us)
{
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.3);
    script_allow(SCRIPT_GAMMA, 0, gamma_by_model); /* the library */
    timed_now.us_of[0] = 100.0;
    timed_now.us_of[10] = 150.0;
    timed_now.us_of[20] = gamma_us;
    script_now.library_loads = script_now.defers_loads = true;
    atomic_store(&script_now.may_load, true);
    md_ds_op *op = timed_op(MD_SELECT_HYBRID, 0.0);
    md_ds_op_wait(op);
    timed_make(c, TIMED_N);
    return op;
}

static void run_calls(md_ds_op *op, timed_call *c, int n)
{
    for (int i = 0; i < n; i++) {
        assert_ok(md_ds_call(op, NULL, c->arg, 3));
        if (i % 3 == 0)
            assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
    }
    md_bd_wait_loads(timed_now.world.builder);
}

static void what_pays_is_loaded_and_tried(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = library_op(&c, 0.8, 60.0);
    const int32_t at_hints = (int32_t)atomic_load(&script_now.n_loads);
    timed_wait_for_trial(op, &c);
    md_bd_wait_loads(timed_now.world.builder);
    assert_int_equal(timed_trial_of(op, &c).challengers, 2);
    assert_int_equal(atomic_load(&script_now.n_loads), at_hints); /* preparing has loaded nothing */
    assert_int_equal(timed_incumbent(op, &c), 0);
    for (int i = 0; i < 100 && timed_incumbent(op, &c) != 20; i++)
        run_calls(op, &c, 300);
    assert_int_equal(atomic_load(&script_now.n_loads), at_hints + 1);
    assert_int_equal(timed_incumbent(op, &c), 20);
    timed_finish(&op);
}

static void what_does_not_pay_is_left_alone(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = library_op(&c, 1.2, 60.0);
    const int32_t at_hints = (int32_t)atomic_load(&script_now.n_loads);
    timed_wait_for_trial(op, &c);
    run_calls(op, &c, 5000);
    assert_int_equal(atomic_load(&script_now.n_loads), at_hints);
    assert_int_equal(timed_incumbent(op, &c), 0);
    assert_true(timed_trial_of(op, &c).is_over);
    timed_finish(&op);
}

/* A library that has no kernel for the shape is no challenger any more. */
static void a_load_that_fails_ends_it(void **state)
{
    (void)state;
    timed_call c;
    md_ds_op *op = library_op(&c, 0.8, 60.0);
    timed_wait_for_trial(op, &c);
    atomic_store(&script_now.load_fails, true);
    run_calls(op, &c, 5000);
    assert_int_equal(timed_incumbent(op, &c), 0);
    assert_true(timed_trial_of(op, &c).is_over);
    timed_finish(&op);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, timed_set_up_async, timed_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_pays_is_loaded_and_tried),
        TEST(what_does_not_pay_is_left_alone),
        TEST(a_load_that_fails_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
