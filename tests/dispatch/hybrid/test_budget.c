/* What trials may cost, by numbers that were worked out by hand. */
#include "dispatch/hybrid/budget.h"
#include "support/check.h"

enum { MS = 1000000 };

#define assert_near(a, b) assert_float_equal(a, b, 1e-6)

/* At a load of 90%, which is assumed at first, a ninth of a call is spare for each call: five such are the most. */
static const double spare = 0.1 / 0.9;

static void calls_earn(void **state)
{
    (void)state;
    md_ds_budget b = {0};
    md_ds_budget_earn(&b, 0.01, 100.0, 10, false);
    assert_near(b.us, 10.0);
    assert_near(b.call_us, 100.0);
    assert_near(b.sum_us, 990.0); /* less a mark's us */
    assert_near(b.sum_calls, 10.0);
    md_ds_budget_earn(&b, 0.01, 100.0, 10, true);
    assert_near(b.us, 20.0);
    assert_near(b.sum_us, 990.0 + 960.0);
    md_ds_budget_earn(&b, 0.01, 100.0, 1000, false);
    assert_near(b.us, 5.0 * spare * 100.0);
    md_ds_budget_earn(&b, 0.01, 200.0, 128, false);
    assert_near(b.call_us, 150.0);
    assert_near(b.us, 5.0 * spare * 200.0); /* of the longer of this call and the usual one */
    md_ds_budget_earn(&b, 0.01, 100.0, 512, false);
    assert_near(b.call_us, 100.0);
    assert_near(b.us, 5.0 * spare * 200.0); /* it keeps what it has */
    b = (md_ds_budget){0};
    md_ds_budget_earn(&b, 0.01, 2.0, 1, true);
    md_ds_budget_earn(&b, 0.01, 2.0, 1, false);
    assert_near(b.sum_us, 0.5 + 1.0); /* at least a quarter of a call counts */
}

static void the_load_sets_the_share(void **state)
{
    (void)state;
    static const struct {
        double load, us; /* earned by one call of 100 us at a share of 1% */
        bool is_ahead, is_closed;
    } row[] = {
        {0.9, 1.0, false, false},
        {0.5, 9.0, false, false}, /* (1 - p) / p is 1 instead of 1/9 */
        {0.1, 30.0, false, false}, /* at most */
        {0.001, 30.0, false, false},
        {0.97, 9.0 * 0.03 / 0.97, false, false},
        {1.0, 9.0 * 0.03 / 0.97, false, false},
        {1.0, 25.0, true, false},
        {1.0, 9.0, false, true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_budget b = {.load = row[i].load, .is_ahead = row[i].is_ahead, .is_closed = row[i].is_closed};
        md_ds_budget_earn(&b, 0.01, 100.0, 1, false);
        assert_near(b.us, row[i].us);
    }
}

/* One look after `ms`, in which the op made n_calls calls of 99 us; n_busy of 20 found work left. */
static md_ds_budget look(md_ds_budget b, int ms, uint64_t n_calls, int n_busy)
{
    const uint64_t from = 5 * (uint64_t)MS;
    b.since_ns = from;
    b.n_calls = 7;
    b.sum_us = 9900.0;
    b.sum_calls = 100.0;
    for (int i = 0; i < 20; i++)
        (void)md_ds_budget_see(&b, i < n_busy, from);
    md_ds_budget_look(&b, 7 + n_calls, from + (uint64_t)ms * MS);
    assert_int_equal(b.n_seen + b.n_busy, 0);
    assert_int_equal(b.since_ns, from + (uint64_t)ms * MS);
    assert_int_equal(b.n_calls, 7 + n_calls);
    assert_near(b.sum_us, 4950.0);
    assert_near(b.sum_calls, 50.0);
    return b;
}

static void looks_find_the_load(void **state)
{
    (void)state;
    static const struct {
        double before, load;
        uint64_t n_calls;
        int n_busy;
        bool is_ahead, is_closed;
    } row[] = {
        {0.0, 0.495, 50, 4, false, false}, /* 50 * 99 us of 10 ms */
        {0.8, 0.6475, 50, 4, false, false}, /* the mean of that and the one before */
        {0.0, 0.5, 20, 10, false, false}, /* busy with others' work, too */
        {0.0, 1.0, 200, 4, false, false},
        {0.0, 0.99, 100, 1, false, true}, /* full, but no call waits: the caller waits for each */
        {0.0, 0.99, 100, 2, false, false},
        {0.5, 0.745, 100, 1, false, false}, /* not for long enough */
        {0.0, 0.95, 95, 19, false, false}, /* its own calls explain that */
        {0.0, 0.99, 100, 18, true, false},
        {0.0, 0.99, 100, 17, false, false},
        {0.0, 0.95, 50, 19, true, false}, /* its own do not */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const md_ds_budget b = look((md_ds_budget){.load = row[i].before}, 10, row[i].n_calls, row[i].n_busy);
        if (b.is_ahead != row[i].is_ahead || b.is_closed != row[i].is_closed || !(b.load > row[i].load - 1e-6) ||
            !(b.load < row[i].load + 1e-6))
            fail_msg("row %zu: load %g, ahead %d, closed %d", i, b.load, b.is_ahead, b.is_closed);
    }
    md_ds_budget b = look((md_ds_budget){.us = 100.0, .load = 0.5}, 10, 100, 2); /* 0.745: savings would delay more */
    assert_near(b.us, 100.0 * (1.0 - 0.745) / 0.745);
    b = look((md_ds_budget){.us = 100.0, .load = 0.9}, 10, 10, 2); /* a lower load lets them be */
    assert_near(b.us, 100.0);
}

static void looks_are_due_now_and_then(void **state)
{
    (void)state;
    md_ds_budget b = {0};
    assert_true(md_ds_budget_see(&b, true, 3)); /* the first */
    assert_true(b.was_busy && b.n_seen == 1 && b.n_busy == 1);
    md_ds_budget_look(&b, 1, 3);
    assert_near(b.load, 0.0); /* nothing to compare with */
    for (int i = 0; i < 15; i++)
        assert_false(md_ds_budget_see(&b, false, 3 + 20 * MS)); /* few calls */
    assert_false(b.was_busy);
    assert_false(md_ds_budget_see(&b, false, 2 + 10 * MS)); /* soon */
    assert_true(md_ds_budget_see(&b, false, 3 + 10 * MS));
}

static void the_budget_covers_what_is_promising(void **state)
{
    (void)state;
    static const double most = 5.0 * 100.0 / 9.0;
    static const struct {
        double ratio, least; /* that must have been saved */
    } row[] = {
        {0.9, 1e-9}, {1.0, 1e-9}, {1.01, 0.04 * most}, {1.1, 0.4 * most}, {1.25, most}, {1.5, most}, {3.0, most},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_budget b = {.call_us = 100.0, .us = row[i].least * 1.0001};
        assert_true(md_ds_budget_covers(&b, 100.0, row[i].ratio));
        b.us = i < 2 ? 0.0 : row[i].least * 0.9999;
        assert_false(md_ds_budget_covers(&b, 100.0, row[i].ratio));
    }
    md_ds_budget b = {.call_us = 1000.0, .us = 112.0}; /* a slow call delays at least a ninth of a usual one */
    assert_true(md_ds_budget_covers(&b, 100.0, 1.03));
    b.us = 110.0;
    assert_false(md_ds_budget_covers(&b, 100.0, 1.03));
    assert_true(md_ds_budget_covers(&b, 100.0, 1.015)); /* nobody notices */
    b = (md_ds_budget){.call_us = 100.0, .us = 41.0, .is_ahead = true}; /* the most is a call */
    assert_true(md_ds_budget_covers(&b, 100.0, 1.1));
    b.us = 39.0;
    assert_false(md_ds_budget_covers(&b, 100.0, 1.1));
}

static void trials_are_paid(void **state)
{
    (void)state;
    md_ds_budget b = {.call_us = 100.0, .us = 50.0};
    md_ds_budget_spend(&b, 103.0, 100.0);
    assert_near(b.us, 50.0 - 100.0 / 9.0);
    assert_near(b.spent_us, 3.0);
    md_ds_budget_spend(&b, 102.0, 100.0); /* not noticed */
    md_ds_budget_spend(&b, 90.0, 100.0);
    assert_near(b.us, 50.0 - 100.0 / 9.0);
    assert_near(b.spent_us, 5.0);
    md_ds_budget_spend(&b, 130.0, 100.0);
    assert_near(b.us, 20.0 - 100.0 / 9.0);
    b.is_ahead = true;
    md_ds_budget_spend(&b, 103.0, 100.0);
    assert_near(b.us, 17.0 - 100.0 / 9.0);
    assert_near(b.spent_us, 38.0);
}

/* A slow call takes 12 us more, which delays those behind it until the idle time between calls has made up for it. */
static void short_calls_take_the_slow_path_seldom(void **state)
{
    (void)state;
    static const struct {
        double us, load; /* load 0: not known */
        bool is_closed;
        int32_t every;
    } row[] = {{1000.0, 0.9, false, 1}, {100.0, 0.9, false, 256}, {100.0, 0.5, false, 128}, {27.0, 0.9, false, 512},
               {27.0, 0.0, false, 512}, {5.0, 0.9, false, 4096},  {0.5, 0.95, false, 4096}, {5.0, 0.9, true, 128}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const md_ds_budget b = {.load = row[i].load, .is_closed = row[i].is_closed};
        assert_int_equal(md_ds_budget_every(&b, row[i].us, 12.0), row[i].every);
    }
    const md_ds_budget b = {.load = 0.9, .call_us = 1000.0}; /* most calls are long ones */
    assert_int_equal(md_ds_budget_every(&b, 5.0, 0.0), 1);
    assert_int_equal(md_ds_budget_every(&b, 5.0, 12.0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_earn),
        cmocka_unit_test(the_load_sets_the_share),
        cmocka_unit_test(looks_find_the_load),
        cmocka_unit_test(looks_are_due_now_and_then),
        cmocka_unit_test(the_budget_covers_what_is_promising),
        cmocka_unit_test(trials_are_paid),
        cmocka_unit_test(short_calls_take_the_slow_path_seldom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
