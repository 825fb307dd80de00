/* The rates of a host that a store keeps: taken where they are whole, else measured anew and kept again. */
#include "api/context.h"
#include "base/temp.h"
#include "device/host/host.h"
#include "support/check.h"

#include <stdlib.h>
#include <time.h>

static md_temp folder;

static int make_folder(void **state)
{
    (void)state;
    return md_temp_make(&folder, NULL) != MD_OK;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[sizeof folder.path + 16];
    snprintf(command, sizeof command, "rm -r '%s/'*", folder.path);
    const int status = system(command);
    md_temp_remove(&folder);
    return status;
}

static md_context *open_context(void)
{
    md_context *c = NULL;
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1, .cache_dir = folder.path};
    assert_ok(md_context_create(&c, &o));
    assert_non_null(c->store);
    return c;
}

/* What the store holds is what the device takes: `want`, or what was measured while the context was made. */
static void expect_rates(const double *want)
{
    md_context *c = open_context();
    md_dev_host_rates r;
    void *text = NULL;
    size_t n = 0;
    md_dev_host_get_rates(&r, c->dev);
    assert_ok(md_sr_find_at(&text, &n, c->store, 0, MD_API_FACTS, "rates"));
    char *at = text;
    for (int i = 0; i < MD_DEV_HOST_RATES; i++) {
        assert_true(r.rate[i] > 0.0 && r.rate[i] < 1e9);
        assert_true(strtod(at, &at) == r.rate[i]);
        assert_true(!want || r.rate[i] == want[i]);
    }
    assert_true(strtod(at, &at) == r.spread);
    assert_true(strtod(at, &at) == (double)r.at);
    for (int i = 0; i < MD_DEV_LIBRARY_SHAPES; i++)
        assert_true(strtod(at, &at) == r.library_us[i]);
    assert_true(strtod(at, &at) == md_dev_host_machine());
    assert_ptr_equal(at, (char *)text + n);
    free(text);
    md_context_destroy(&c);
}

/* "11 22 33 44 55 0.02 ..." with the age in days in place of the date. */
static void put_rates_of(const char *numbers, int days, int32_t machine)
{
    char text[128];
    md_context *c = open_context();
    if (days < 0)
        snprintf(text, sizeof text, "%s", numbers);
    else
        snprintf(text, sizeof text, "%s %lld 1 2 3 4 5 6 7 8 %d", numbers, (long long)time(NULL) - days * 86400LL,
                 (int)machine);
    md_sr_discard(c->store, MD_API_FACTS, "rates");
    assert_ok(md_sr_put(c->store, MD_API_FACTS, "rates", text, strlen(text)));
    md_context_destroy(&c);
}

static void put_rates(const char *numbers, int days)
{
    put_rates_of(numbers, days, md_dev_host_machine());
}

static void rates_are_taken_whole_or_not(void **state)
{
    (void)state;
    static const double good[MD_DEV_HOST_RATES] = {11, 22, 33, 44, 55};
    static const struct {
        const char *text;
        int days; /* of age; -1: no date */
        bool is_good;
    } row[] = {
        {"11 22 33 44 55 0.02", 0, true},
        {"11 22 33 44 55 0.02", 20, true},
        {"11 22 33 44 55", 0, false}, /* a date in place of a spread */
        {"11 22 33 44", -1, false},
        {"11 22 33 44 -55 0.02", 0, false},
        {"11 22 33 44 nan 0.02", 0, false},
        {"11 22 33 inf 55 0.02", 0, false},
        {"0 22 33 44 55 0.02", 0, false},
        {"11 22 33 44 55 0.02 7", 0, false},
        {"11 22 33 44 55 0.02 1795862745 1 2 3 4 5", -1, false},
        {"11 22 33 44 55", -1, false}, /* of an older version */
        {"1e9 22 33 44 55 0.02", 0, false}, /* no machine has that */
        {"11 22 33 1e300 55 0.02", 0, false},
        {"11 22 33 44 55 1e7", 0, false},
        {"", -1, false},
        {"rates", -1, false},
    };
    expect_rates(NULL); /* measured */
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        put_rates(row[i].text, row[i].days);
        expect_rates(row[i].is_good ? good : NULL);
        if (row[i].is_good)
            expect_rates(good);
    }
}

/* A store that came from a machine of the same name: its rates are measured here, and replaced. */
static void rates_of_another_machine_are_replaced(void **state)
{
    (void)state;
    put_rates_of("9e5 9e5 9e5 9e5 55 0.02", 0, md_dev_host_machine() + 1);
    md_context *c = open_context();
    assert_true(c->dev->facts.memory_gbps < 9e5 && c->dev->facts.gflops < 9e5);
    md_context_destroy(&c);
    expect_rates(NULL);
}

/* Taken under load: measured again, and the better of both is kept. */
static void rates_of_a_loaded_machine_get_better(void **state)
{
    (void)state;
    put_rates("0.001 0.001 0.001 9e5 55 0.5", 0);
    md_context *c = open_context();
    assert_true(c->dev->facts.memory_gbps > 0.5 && c->dev->facts.gflops == 9e5 && c->dev->facts.launch_us < 55);
    assert_true(c->dev->facts.rates_spread <= 0.5);
    md_context_destroy(&c);
    expect_rates(NULL);
}

/* Old ones, and those of versions that kept no date, are measured again; what a sure measurement says replaces them. */
static void old_rates_are_replaced(void **state)
{
    (void)state;
    static const char *const text[] = {"0.001 0.001 0.001 0.001 55 0.02", "0.001 0.001 0.001 0.001 55"};
    for (int i = 0; i < 2; i++) {
        put_rates(text[i], i == 0 ? 100 : -1);
        md_context *c = open_context();
        assert_true(c->dev->facts.memory_gbps > 0.5 && c->dev->facts.gflops > 0.5);
        md_context_destroy(&c);
        expect_rates(NULL);
    }
}

/* Rates that are given are those of all contexts, whatever the store has; it keeps what it has. */
static void given_rates_are_taken(void **state)
{
    (void)state;
    static const double given[MD_DEV_HOST_RATES] = {0.5, 0.25, 4, 1000, 3}, stored[] = {11, 22, 33, 44, 55};
    setenv("MD_RATES", "500,250,4000,1000000,3000", 1);
    for (int i = 0; i < 2; i++) {
        void *text = NULL;
        size_t n = 0;
        md_context *c = open_context();
        md_dev_host_rates r;
        md_dev_host_get_rates(&r, c->dev);
        assert_memory_equal(r.rate, given, sizeof given);
        assert_true(md_dev_host_are_sure(&r));
        assert_int_equal(md_sr_find_at(&text, &n, c->store, 0, MD_API_FACTS, "rates"), i ? MD_OK : MD_NOT_FOUND);
        free(text);
        md_context_destroy(&c);
        put_rates("11 22 33 44 55 0.02", 0);
    }
    unsetenv("MD_RATES");
    expect_rates(stored);
}

/* What the first context does not find is estimated for it and measured in the background for the next one. */
static void rates_are_measured_in_the_background(void **state)
{
    md_dev_host_rates first, later;
    void *text = NULL;
    size_t n = 0;
    (void)state;
    setenv("MD_CALIBRATE", "on", 1);
    md_context *c = open_context();
    md_dev_host_get_rates(&first, c->dev);
    assert_true(md_dev_host_are_possible(&first));
    assert_false(md_dev_host_are_sure(&first));
    assert_true(c->calibration.lacks_rates && c->calibration.is_on);
    assert_int_equal(md_sr_find_at(&text, &n, c->store, 0, MD_API_FACTS, "rates"), MD_NOT_FOUND);
    md_api_measure_rates(c); /* what the background does when the program has run for a second */
    md_dev_host_get_rates(&later, c->dev);
    assert_memory_equal(&first, &later, sizeof first); /* picks of one process follow the same rates */
    md_context_destroy(&c);
    c = open_context();
    md_dev_host_get_rates(&later, c->dev);
    if (md_dev_host_are_sure(&later))
        assert_int_equal(c->calibration.lacks_rates, c->dev->facts.has_blas && later.library_us[0] == 0);
    assert_true(later.spread < first.spread);
    md_context_destroy(&c);
    setenv("MD_CALIBRATE", "wait", 1);
    expect_rates(md_dev_host_are_sure(&later) ? later.rate : NULL);
}

int main(void)
{
    unsetenv("MD_RATES"); /* measured, but where a test says otherwise */
    setenv("MD_CALIBRATE", "wait", 1); /* at once */
    const struct CMUnitTest tests[] = {
        /* first: what a process measured it does not estimate again */
        cmocka_unit_test_setup_teardown(rates_are_measured_in_the_background, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(rates_are_taken_whole_or_not, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(rates_of_another_machine_are_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(rates_of_a_loaded_machine_get_better, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(old_rates_are_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(given_rates_are_taken, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
