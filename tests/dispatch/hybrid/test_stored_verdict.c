/* What hybrid learnt lasts. */
#include "dispatch/cache/upgrade.h"
#include "dispatch/support/process.h"
#include "support/check.h"

#include <time.h>

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

/* A cheap race that found another numeric class faster changes no bits now; the next process begins with it. */
static void a_cheap_race_serves_the_next_process(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    timed_now.idle_tune = timed_now.races_cheaply = true;
    timed_now.quiet_us = 500.0;
    process p = process_start_here(MD_SELECT_MODEL);
    timed_now.us_of[0] = 20.0;
    timed_now.us_of[10] = 10.0;
    for (int i = 0; i < 1000 && !timed_trial_of(p.op, &c).is_raced; i++) {
        for (int k = 0; k < 20; k++)
            process_call(&p, &c);
        assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    assert_true(timed_trial_of(p.op, &c).is_raced);
    assert_int_equal(timed_incumbent(p.op, &c), 0);
    md_ds_upgrade_all(&timed_now.world.runtime); /* what is chosen again keeps its bits, too */
    process_call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 0);
    process_end(&p);
    p = process_start_here(MD_SELECT_MODEL);
    process_call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 10);
    assert_int_equal(process_why(&p, &c), MD_DS_STORED);
    process_end(&p);
}

/* What was built for the traffic is in the next process' pool from the start, and so is the pick. */
static void the_next_process_has_what_the_traffic_asked_for(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    timed_now.idle_tune = timed_now.races_cheaply = true;
    timed_now.quiet_us = 500.0;
    timed_now.hints = "64";
    script_allow(SCRIPT_ALPHA, 0, 20.0)->numeric = 1;
    script_allow(SCRIPT_ALPHA, 1, 4.0)->numeric = 1;
    script_now.row[SCRIPT_ALPHA][1].legal_lo = 200;
    timed_now.us_of[0] = 20.0;
    timed_now.us_of[1] = 4.0;
    process p = process_start(MD_SELECT_MODEL, process_store(process_disk->root, NULL, "here"), 100);
    assert_int_equal(p.op->stage[0].n_variants, 1);
    for (int i = 0; i < 1000 && timed_incumbent(p.op, &c) != 1; i++) {
        for (int k = 0; k < 300; k++)
            process_call(&p, &c);
        assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    assert_int_equal(timed_incumbent(p.op, &c), 1);
    process_end(&p);
    p = process_start(MD_SELECT_MODEL, process_store(process_disk->root, NULL, "here"), 100);
    assert_int_equal(p.op->stage[0].n_variants, 2);
    process_call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 1);
    assert_int_equal(process_why(&p, &c), MD_DS_STORED);
    process_end(&p);
    timed_now.idle_tune = false; /* who was told how to pick has the hints' variants */
    p = process_start(MD_SELECT_MODEL, process_store(process_disk->root, NULL, "here"), 100);
    assert_int_equal(p.op->stage[0].n_variants, 1);
    process_end(&p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, process_set_up, process_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(hybrid_keeps_its_verdict),
        TEST(a_cheap_race_serves_the_next_process),
        TEST(the_next_process_has_what_the_traffic_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
