/* What times say about challengers: no device, no op. */
#include "dispatch/support/timed.h"
#include "dispatch/hybrid/internal.h"
#include "dispatch/hybrid/trial.h"
#include "support/check.h"
#include "tune/model/correction.h"

#include <math.h>
#include <stdlib.h>

static md_ds_trial trial_of(int32_t n)
{
    md_ds_trial t = {.n_challengers = n};
    md_ds_trial_next(&t);
    return t;
}

static void add_times(md_ds_challenger *challenger, int32_t n, double us)
{
    for (int32_t i = 0; i < n; i++)
        assert_true(md_ds_challenger_add(challenger, us * (i % 2 ? 1.001 : 0.999)));
}

static void what_is_no_time_is_dropped(void **state)
{
    (void)state;
    md_ds_challenger challenger = {0};
    assert_false(md_ds_challenger_add(&challenger, 0.0));
    assert_false(md_ds_challenger_add(&challenger, -1.0));
    assert_false(md_ds_challenger_add(&challenger, NAN));
    assert_false(md_ds_challenger_add(&challenger, INFINITY));
    assert_true(md_ds_challenger_summary(&challenger).us == 0.0);
    assert_true(md_ds_challenger_add(&challenger, 5.0));
    assert_float_equal(md_ds_challenger_summary(&challenger).us, 5.0, 1e-12);
}

static void a_switch_takes_a_gain_that_is_no_noise(void **state)
{
    (void)state;
    static const struct {
        double us;
        int32_t n;
        md_ds_verdict verdict;
    } row[] = {
        {10.0, 1, MD_DS_GO_ON}, {11.0, 2, MD_DS_NEXT}, {9.0, 2, MD_DS_GO_ON}, {9.0, 4, MD_DS_SWITCH},
        {9.9, 4, MD_DS_GO_ON},  {9.9, 8, MD_DS_NEXT},  {10.1, 4, MD_DS_NEXT}, {9.7, 4, MD_DS_SWITCH},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_trial t = trial_of(2);
        add_times(&t.challenger[0], 4, 10.0);
        add_times(&t.challenger[1], row[i].n, row[i].us);
        assert_int_equal(md_ds_trial_judge(&t), row[i].verdict);
    }
    md_ds_trial t = trial_of(2); /* 5% below, but all over the place */
    static const double noisy[] = {8.0, 11.0, 7.5, 12.0, 9.5, 9.5};
    add_times(&t.challenger[0], 4, 10.0);
    for (size_t i = 0; i < sizeof noisy / sizeof *noisy; i++)
        assert_true(md_ds_challenger_add(&t.challenger[1], noisy[i]));
    assert_int_equal(md_ds_trial_judge(&t), MD_DS_GO_ON);
}

static void one_that_becomes_slow_is_demoted(void **state)
{
    (void)state;
    md_ds_trial t = trial_of(3);
    int32_t better = -1;
    add_times(&t.challenger[0], 4, 10.0);
    add_times(&t.challenger[1], 4, 10.4);
    add_times(&t.challenger[2], 4, 13.0);
    t.challenger[1].is_out = t.challenger[2].is_out = true;
    md_ds_trial_next(&t);
    assert_true(t.is_over);
    for (int i = 0; i < 100; i++)
        assert_false(md_ds_trial_watch(&better, &t, 10.9));
    bool is_demoted = false;
    for (int i = 0; i < MD_DS_WATCHED && !is_demoted; i++)
        is_demoted = md_ds_trial_watch(&better, &t, 11.5);
    assert_true(is_demoted);
    assert_int_equal(better, 1);
    assert_int_equal(t.demotions, 1);
    assert_false(t.is_over);
    assert_int_equal(t.current, 1);
}

static void the_best_of_the_better_takes_over(void **state)
{
    (void)state;
    md_ds_trial t = trial_of(4);
    int32_t better = -1;
    const double us[] = {10.0, 11.2, 10.4, 11.0};
    for (int i = 0; i < 4; i++) {
        add_times(&t.challenger[i], 4, us[i]);
        t.challenger[i].is_out = i > 0;
    }
    md_ds_trial_next(&t);
    for (int i = 1; i < MD_DS_WATCHED; i++)
        assert_false(md_ds_trial_watch(&better, &t, 11.9));
    assert_true(md_ds_trial_watch(&better, &t, 11.9));
    assert_int_equal(better, 2);
}

/* What an earlier incumbent took is no time of the next one: it is judged by as many times of its own. */
static void watching_begins_with_the_end_of_a_trial(void **state)
{
    (void)state;
    md_ds_trial t = trial_of(2);
    int32_t better = -1;
    add_times(&t.challenger[0], 4, 10.0);
    add_times(&t.challenger[1], 4, 10.4);
    t.challenger[1].is_out = true;
    t.n_watched = 7;
    md_ds_trial_next(&t);
    assert_true(t.is_over);
    for (int i = 1; i < MD_DS_WATCHED; i++)
        assert_false(md_ds_trial_watch(&better, &t, 11.5));
    assert_true(md_ds_trial_watch(&better, &t, 11.5));
}

/* Demoted, but every challenger was slower than it is now: the incumbent serves on until a trial finds a better one. */
static void nobody_better(void **state)
{
    (void)state;
    md_ds_trial t = trial_of(4);
    int32_t better = 7;
    add_times(&t.challenger[0], 4, 10.0);
    add_times(&t.challenger[1], 4, 12.0);
    add_times(&t.challenger[2], 4, 11.6);
    add_times(&t.challenger[4], 4, 1.0); /* there are four only */
    t.is_over = true; /* the third was never timed */
    t.final_us = 10.0;
    bool is_demoted = false;
    for (int i = 0; i < MD_DS_WATCHED; i++) {
        assert_false(is_demoted);
        is_demoted = md_ds_trial_watch(&better, &t, 11.5);
    }
    assert_true(is_demoted);
    assert_int_equal(better, -1);
    assert_int_equal(t.demotions, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(t.challenger[i].n, 0); /* all are timed anew */
}

/* A time that was begun before a switch or a demotion is of another incumbent. */
static void times_of_an_older_generation(void **state)
{
    (void)state;
    md_ds_trial t = trial_of(2);
    struct md_ds_hybrid h = {.n_tried = 4};
    md_ds_shape_entry entry = {0};
    atomic_init(&entry.trial, &t);
    t.is_over = false;
    t.current = 1;
    t.n_running = 8;
    t.switches = 1;
    t.demotions = 2;
    static const int32_t old[] = {2, 1, 0, 4};
    for (int32_t i = 0; i < 4; i++)
        md_ds_record_time(&h, &entry, &(md_ds_timing){.challenger = i % 2, .generation = old[i]}, 5.0);
    assert_int_equal(t.challenger[0].n + t.challenger[1].n, 0);
    md_ds_record_time(&h, &entry, &(md_ds_timing){.challenger = 0, .generation = 3}, 5.0);
    assert_int_equal(t.challenger[0].n, 1);
    assert_int_equal(t.n_running, 3); /* all have ended */
    assert_int_equal(h.n_tried, 2);
}

/* Who serves the next timed call, state by state: a round and the incumbent's own times wait for those under way. */
static void rounds_wait_for_their_times(void **state)
{
    (void)state;
    static const struct {
        int32_t own, looks, step, running, tried; /* times of both, place in A B B A, under way, those of challengers */
        bool is_over;
        int32_t next, step_after;
    } row[] = {
        {.own = 0, .next = 0},
        {.own = 2, .next = 0},
        {.own = 2, .running = 1, .next = MD_DS_NOT_TIMED},
        {.own = 1, .running = 1, .next = 0},
        {.own = 3, .next = 1}, /* a look */
        {.own = 3, .running = 1, .next = MD_DS_NOT_TIMED},
        {.own = 3, .looks = 3, .step = 0, .next = 0, .step_after = 1}, /* A B B A */
        {.own = 3, .looks = 3, .step = 1, .next = 1, .step_after = 2},
        {.own = 3, .looks = 3, .step = 1, .running = 1, .next = 1, .step_after = 2},
        {.own = 3, .looks = 3, .step = 2, .running = 1, .tried = 1, .next = MD_DS_NOT_TIMED, .step_after = 2},
        {.own = 3, .looks = 3, .step = 2, .next = 1, .step_after = 3},
        {.own = 3, .looks = 3, .step = 3, .running = 2, .tried = 1, .next = 0, .step_after = 4},
        {.own = 3, .looks = 3, .step = 4, .running = 1, .next = MD_DS_NOT_TIMED, .step_after = 4},
        {.own = 3, .looks = 3, .step = 4, .running = 3, .tried = 1, .next = MD_DS_NOT_TIMED, .step_after = 4},
        {.own = 3, .looks = 3, .step = 4, .next = MD_DS_ROUND_OVER, .step_after = 0},
        {.own = 3, .is_over = true, .next = 0},
        {.own = 3, .running = 1, .is_over = true, .next = MD_DS_NOT_TIMED},
    };
    md_tn_correction *correction = NULL;
    assert_ok(md_tn_correction_create(&correction, 1, (double[]){1.0}, NULL));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_pool pool = {.correction = correction};
        md_ds_op *op = calloc(1, sizeof *op);
        assert_non_null(op);
        op->stage = &pool;
        op->policy.hybrid_cap_ms = 1e9;
        struct md_ds_hybrid h = {.op = op, .n_tried = row[i].tried, .budget.us = 1e9};
        md_ds_trial t = trial_of(2);
        md_ds_shape_entry entry = {0};
        atomic_init(&entry.trial, &t);
        add_times(&t.challenger[0], row[i].own, 100.0);
        add_times(&t.challenger[1], row[i].looks, 90.0);
        t.version = md_tn_correction_version(correction);
        t.challenger[1].expected = 0.9;
        t.current = 1;
        t.step = row[i].step;
        t.n_running = row[i].running;
        t.is_over = row[i].is_over;
        const int32_t next = md_ds_next_challenger(&h, &entry);
        if (next != row[i].next || t.step != row[i].step_after)
            fail_msg("row %zu: %d, step %d", i, (int)next, (int)t.step);
        t.version--;
        if (row[i].is_over)
            assert_int_equal(md_ds_next_challenger(&h, &entry), MD_DS_STALE_TRIAL);
        free(op);
    }
    md_tn_correction_destroy(&correction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_time_is_dropped),
        cmocka_unit_test(a_switch_takes_a_gain_that_is_no_noise),
        cmocka_unit_test(one_that_becomes_slow_is_demoted),
        cmocka_unit_test(the_best_of_the_better_takes_over),
        cmocka_unit_test(watching_begins_with_the_end_of_a_trial),
        cmocka_unit_test(nobody_better),
        cmocka_unit_test(times_of_an_older_generation),
        cmocka_unit_test(rounds_wait_for_their_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
