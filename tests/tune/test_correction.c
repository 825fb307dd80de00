/* The correction of the model: what is observed counts nearby, for its variant first, and outlives the process. */
#include "support/check.h"
#include "tune/model/correction.h"

#include <math.h>
#include <string.h>

enum { N = 4 };
static const md_tn_subject subject[N] = {{1}, {2}, {3}, {1 + 256}};
static const double weight[] = {1.0, 1.0};

static md_tn_correction *make(void)
{
    md_tn_correction *c = NULL;
    assert_ok(md_tn_correction_create(&c, 1, weight, NULL));
    return c;
}

static void add(md_tn_correction *c, int32_t variant, int64_t size, double ratio, md_tn_clock clock)
{
    const md_tn_observation o = {.subject = subject[variant], .size = {size}, .ratio = ratio, .clock = (int32_t)clock};
    md_tn_correction_add(c, &o, true);
}

/* Factors of all variants at a size. */
static void apply(double factor[N], md_tn_correction *c, int64_t size)
{
    for (int32_t i = 0; i < N; i++)
        factor[i] = 1.0;
    md_tn_correction_apply(factor, c, &size, subject, N);
}

static void nothing_is_known_at_first(void **state)
{
    (void)state;
    double f[N];
    md_tn_correction *c = make();
    static const double nonsense[] = {0.0, -1.0, NAN, INFINITY};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        add(c, 0, 1000, nonsense[i], MD_TN_CLOCK_CALLS);
    assert_int_equal(md_tn_correction_version(c), 0);
    assert_false(md_tn_correction_knows(c, subject[0]));
    apply(f, c, 1000);
    for (int32_t i = 0; i < N; i++)
        assert_true(f[i] == 1.0);
    md_tn_correction_destroy(&c);
    assert_null(c);
    md_tn_correction_destroy(&c);
}

/* One variant alone says what all are off by, not that it is slower than the others. */
static void what_all_are_off_by_decides_nothing(void **state)
{
    (void)state;
    double f[N];
    md_tn_correction *c = make();
    add(c, 0, 1000, 3.0, MD_TN_CLOCK_CALLS);
    apply(f, c, 1000);
    for (int32_t i = 0; i < N; i++)
        assert_float_equal(f[i], 3.0, 1e-9);
    double us[N] = {1.0, -1.0, 0.0, 2.0};
    md_tn_correction_apply(us, c, (const int64_t[]){1000}, subject, N);
    assert_true(us[1] == -1.0 && us[2] == 0.0);
    assert_true(md_tn_correction_knows(c, subject[0]) && !md_tn_correction_knows(c, subject[1]));
    md_tn_correction_destroy(&c);
}

/* Of another driver, say: a fact that is a little farther away counts more. */
static void estimates_count_less(void **state)
{
    (void)state;
    double f[N], far[N];
    md_tn_correction *c = make();
    for (int32_t i = 0; i < 2; i++) {
        add(c, 2 * i, 1000, i ? 0.5 : 2.0, MD_TN_CLOCK_ESTIMATE);
        add(c, 2 * i, 1200, i ? 2.0 : 0.5, MD_TN_CLOCK_MEASURE);
    }
    apply(f, c, 1000);
    assert_true(f[0] < 0.6 * f[2]);
    md_tn_correction_destroy(&c);
    c = make();
    add(c, 0, 1000, 2.0, MD_TN_CLOCK_ESTIMATE);
    add(c, 2, 1000, 0.5, MD_TN_CLOCK_ESTIMATE);
    apply(far, c, 1000); /* better than nothing */
    assert_true(far[0] > 1.5 * far[2]);
    md_tn_correction_destroy(&c);
}

static void observations_are_local(void **state)
{
    (void)state;
    double here[N], near[N], far[N];
    md_tn_correction *c = make();
    add(c, 0, 1000, 3.0, MD_TN_CLOCK_TUNING);
    add(c, 2, 1000, 6.0, MD_TN_CLOCK_TUNING);
    apply(here, c, 1000);
    assert_float_equal(here[0], 3.0, 1e-9); /* at the point itself the measured time */
    assert_float_equal(here[2], 6.0, 1e-9);
    assert_float_equal(here[1], sqrt(18.0), 1e-9); /* of others nothing is known but what all are off by */
    assert_float_equal(here[3], sqrt(18.0), 1e-9);
    apply(near, c, 1000 << 3);
    apply(far, c, 1000 << 10);
    assert_float_equal(near[2] / near[0], 1.440, 1e-3); /* an octave away it would be 1.878 */
    assert_true(far[2] / far[0] > 1.0 && far[2] / far[0] < 1.1); /* 10 octaves away */
    add(c, 0, 1000 << 10, 30.0, MD_TN_CLOCK_TUNING); /* there all are off by more */
    apply(far, c, 1000 << 10);
    assert_true(far[0] > 10.0 && far[2] / far[0] > 1.0 && far[2] / far[0] < 2.0);
    md_tn_correction_destroy(&c);
}

/* Marks around calls time the launch as well: 12 of one clock are no slower than 4 of another. */
static void clocks_are_not_compared(void **state)
{
    (void)state;
    double f[N];
    md_tn_correction *c = make();
    add(c, 0, 1000, 12.0, MD_TN_CLOCK_CALLS);
    add(c, 2, 1000, 4.0, MD_TN_CLOCK_IDLE);
    apply(f, c, 1000);
    assert_float_equal(f[0], f[2], 1e-9);
    add(c, 2, 1000, 6.0, MD_TN_CLOCK_CALLS);
    apply(f, c, 1000);
    assert_true(f[0] > 1.3 * f[2]);
    md_tn_correction_destroy(&c);
}

static void newer_ones_replace_older_ones(void **state)
{
    (void)state;
    double f[N];
    md_tn_correction *c = make();
    add(c, 0, 1000, 1.0, MD_TN_CLOCK_CALLS);
    add(c, 2, 1000, 6.0, MD_TN_CLOCK_CALLS);
    add(c, 2, 1001, 1.0, MD_TN_CLOCK_CALLS); /* the same place */
    assert_int_equal(md_tn_correction_version(c), 3);
    apply(f, c, 1000);
    assert_float_equal(f[2] / f[0], 1.0, 1e-6);
    for (int64_t i = 0; i < 5000; i++) /* no more than MD_TN_MOST_OBSERVATIONS */
        add(c, (int32_t)(i % N), 1 + i * i * 1000, 0.5, MD_TN_CLOCK_CALLS);
    apply(f, c, 1 << 30);
    for (int32_t i = 0; i < N; i++)
        assert_float_equal(f[i], 0.5, 0.01);
    md_tn_correction_destroy(&c);
}

/* A ratio of 100 against another says more about the point than about the variant. */
static void factors_are_bounded(void **state)
{
    (void)state;
    double f[N];
    md_tn_correction *c = make();
    add(c, 0, 1000, 1.0, MD_TN_CLOCK_MEASURE);
    add(c, 2, 1000, 100.0, MD_TN_CLOCK_MEASURE);
    apply(f, c, 1000);
    assert_float_equal(f[2] / f[0], 9.0, 1e-6); /* 3 up and 3 down */
    md_tn_correction_destroy(&c);
}

static void weights_count(void **state)
{
    (void)state;
    static const double w[] = {1.0, 0.0};
    md_tn_correction *c = NULL;
    assert_ok(md_tn_correction_create(&c, 2, w, NULL));
    const md_tn_observation a = {.subject = subject[0], .size = {64, 64}, .ratio = 1.0},
                            b = {.subject = subject[2], .size = {64, 1 << 20}, .ratio = 4.0};
    md_tn_correction_add(c, &a, true);
    md_tn_correction_add(c, &b, true); /* a dim of weight 0: the same place */
    double f[N] = {1.0, 1.0, 1.0, 1.0};
    md_tn_correction_apply(f, c, (const int64_t[]){64, 4}, subject, N);
    assert_float_equal(f[2] / f[0], 4.0, 1e-9);
    md_tn_correction_destroy(&c);
}

/* Times of rows of 1024 say little of rows of 1025, though they are as near as those of 1088. */
static void uneven_sizes_are_far_apart(void **state)
{
    (void)state;
    static const bool has_rows[] = {true};
    md_tn_correction *c = NULL;
    double even[N], odd[N];
    assert_ok(md_tn_correction_create(&c, 1, weight, has_rows));
    add(c, 0, 1024, 1.0, MD_TN_CLOCK_TUNING);
    add(c, 2, 1024, 4.0, MD_TN_CLOCK_TUNING);
    apply(even, c, 1088);
    apply(odd, c, 1025);
    assert_true(even[2] / even[0] > 3.9);
    assert_true(odd[2] / odd[0] > 1.5 && odd[2] / odd[0] < 3.0);
    add(c, 0, 1025, 4.0, MD_TN_CLOCK_TUNING); /* another place */
    add(c, 2, 1025, 1.0, MD_TN_CLOCK_TUNING);
    apply(even, c, 1024);
    apply(odd, c, 1025);
    assert_true(even[2] / even[0] > 3.8 && odd[0] / odd[2] > 3.8);
    md_tn_correction_destroy(&c);
}

static void copy_one(void *user, const md_tn_observation *o)
{
    md_tn_observation stored; /* as a file would have it */
    memcpy(&stored, o, sizeof stored);
    md_tn_correction_add(user, &stored, true);
}

static void another_process_can_take_it_over(void **state)
{
    (void)state;
    double f[N], g[N];
    uint64_t seed = 7;
    md_tn_correction *c = make(), *d = make();
    for (int32_t i = 0; i < 1500; i++)
        add(c, (int32_t)(check_random(&seed) % N), (int64_t)1 << check_random(&seed) % 20,
            0.5 + (double)(check_random(&seed) % 1000) / 500.0, (md_tn_clock)(check_random(&seed) % 4));
    md_tn_correction_each(c, copy_one, d);
    for (int64_t size = 1; size < 1 << 20; size *= 3) {
        apply(f, c, size);
        apply(g, d, size);
        for (int32_t i = 0; i < N; i++)
            assert_float_equal(f[i] / g[i], 1.0, 1e-6);
    }
    md_tn_correction_destroy(&c);
    md_tn_correction_destroy(&d);
}

static void take_over(void *user, const md_tn_observation *o)
{
    md_tn_correction_add(user, o, true);
}

/* After many replaced observations, of more variants than are remembered, it says what a new one says that was told
 * those that are left. */
static void what_was_replaced_leaves_no_trace(void **state)
{
    (void)state;
    enum { OFTEN = 5 * MD_TN_MOST_OBSERVATIONS, ASKED = 60 };
    uint64_t seed = check_seed();
    static const bool has_rows[] = {false, true};
    md_tn_correction *old = NULL, *new = NULL;
    assert_ok(md_tn_correction_create(&old, 2, weight, has_rows));
    assert_ok(md_tn_correction_create(&new, 2, weight, has_rows));
    md_tn_observation o = {.ratio = 1.0};
    for (int32_t i = 0; i < OFTEN; i++) {
        if (i % 6 == 0)
            for (int32_t a = 0; a < 2; a++)
                o.size[a] = INT64_C(1) << check_random(&seed) % 7; /* few places, none of which is ever empty */
        o.subject.variant = 1 + check_random(&seed) % (i % 2 ? 40 : 40000);
        o.clock = (int32_t)(check_random(&seed) % (MD_TN_CLOCK_ESTIMATE + 1));
        o.ratio = 0.5 + (double)(check_random(&seed) % 1000) / 700.0;
        md_tn_correction_add(old, &o, true);
    }
    md_tn_correction_each(old, take_over, new);
    for (int32_t k = 0; k < 20; k++) {
        const int64_t size[2] = {(int64_t)(check_random(&seed) % 5000), (int64_t)(check_random(&seed) % 5000)};
        md_tn_subject asked[ASKED];
        double a[ASKED], b[ASKED];
        for (int32_t i = 0; i < ASKED; i++) {
            asked[i].variant = 1 + (uint64_t)i;
            a[i] = b[i] = i % 7 ? 1.0 : -1.0;
        }
        md_tn_correction_apply(a, old, size, asked, ASKED);
        md_tn_correction_apply(b, new, size, asked, ASKED);
        for (int32_t i = 0; i < ASKED; i++)
            assert_float_equal(a[i], b[i], 1e-9);
        assert_true(a[0] == -1.0 && a[1] != 1.0);
    }
    md_tn_correction_destroy(&old);
    md_tn_correction_destroy(&new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(what_all_are_off_by_decides_nothing),
        cmocka_unit_test(estimates_count_less),
        cmocka_unit_test(observations_are_local),
        cmocka_unit_test(clocks_are_not_compared),
        cmocka_unit_test(newer_ones_replace_older_ones),
        cmocka_unit_test(factors_are_bounded),
        cmocka_unit_test(weights_count),
        cmocka_unit_test(uneven_sizes_are_far_apart),
        cmocka_unit_test(another_process_can_take_it_over),
        cmocka_unit_test(what_was_replaced_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
