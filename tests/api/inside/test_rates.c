/* The rates of a host that a store keeps: taken where they are whole, else measured anew and kept again. */
#include "api/context.h"
#include "base/temp.h"
#include "device/host/host.h"
#include "support/check.h"

#include <stdlib.h>

static md_temp folder;

static int make_folder(void **state)
{
    (void)state;
    return md_temp_make(&folder) != MD_OK;
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

/* What the store holds, and what the device takes. */
static void expect_rates(const double *want)
{
    md_context *c = open_context();
    double rate[MD_DEV_HOST_RATES], kept[MD_DEV_HOST_RATES];
    void *text = NULL;
    size_t n = 0;
    md_dev_host_get_rates(rate, c->dev);
    assert_ok(md_sr_find_at(&text, &n, c->store, 0, MD_API_FACTS, "rates"));
    char *at = text;
    for (int i = 0; i < MD_DEV_HOST_RATES; i++) {
        kept[i] = strtod(at, &at);
        assert_true(rate[i] > 0.0 && rate[i] < 1e9);
        assert_true(kept[i] == rate[i]);
        assert_true(!want || rate[i] == want[i]);
    }
    assert_ptr_equal(at, (char *)text + n);
    free(text);
    md_context_destroy(&c);
}

static void rates_are_taken_whole_or_not(void **state)
{
    (void)state;
    static const double good[MD_DEV_HOST_RATES] = {11, 22, 33, 44, 55};
    static const struct {
        const char *text;
        bool is_good;
    } row[] = {
        {"11 22 33 44 55", true},
        {"11 22 33 44", false},
        {"11 22 33 44 55 66", false},
        {"11 22 33 44 -55", false},
        {"11 22 33 44 nan", false},
        {"11 22 33 inf 55", false},
        {"0 22 33 44 55", false},
        {"", false},
        {"rates", false},
        {"11 22 33 44 55 ", false},
    };
    expect_rates(NULL); /* measured */
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_context *c = open_context();
        md_sr_discard(c->store, MD_API_FACTS, "rates");
        assert_ok(md_sr_put(c->store, MD_API_FACTS, "rates", row[i].text, strlen(row[i].text)));
        md_context_destroy(&c);
        expect_rates(row[i].is_good ? good : NULL);
        expect_rates(row[i].is_good ? good : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rates_are_taken_whole_or_not, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
