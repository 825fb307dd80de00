/* What hybrid learnt lasts. */
#include "dispatch/support/process.h"
#include "support/check.h"

/* What hybrid found out in calls: the next process begins with it, and tries nothing. */
static void hybrid_keeps_its_verdict(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = process_start_here(MD_SELECT_HYBRID);
    for (int i = 0; i < 3000; i++) {
        process_call(&p, &c);
        if (i % 3 == 0)
            assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
        if (i == 2)
            timed_wait_for_trial(p.op, &c);
    }
    assert_int_equal(timed_incumbent(p.op, &c), 10);
    assert_true(p.op->count.trials > 0);
    process_end(&p);
    p = process_start_here(MD_SELECT_HYBRID);
    timed_wait_for_trial(p.op, &c);
    for (int i = 0; i < 500; i++)
        process_call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 10);
    assert_int_equal(process_why(&p, &c), MD_DS_STORED);
    assert_int_equal(timed_trial_of(p.op, &c).challengers, 0);
    assert_int_equal(p.op->count.trials, 0);
    process_end(&p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, process_set_up, process_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(hybrid_keeps_its_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
