/* What calibrating found is kept in the store, taken over by later contexts, and said; what is damaged, of another
 * machine or unwanted is not. */
#include "api/context.h"
#include "device/host/host.h"
#include "store/scratch.h"
#include "support/check.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <time.h>

static const char *folder;
static char key[40];

static int set_up(void **state)
{
    unsetenv("MD_RATES"); /* with those given nothing is calibrated */
    snprintf(key, sizeof key, "calibrated %016llx", (unsigned long long)md_dev_host_machine());
    const int failed = scratch_setup(state);
    folder = failed ? NULL : ((const scratch *)*state)->folder;
    return failed;
}

static md_context *open_context(const char *calibrate, md_numeric numeric)
{
    md_context *c = NULL;
    setenv("MD_CALIBRATE", calibrate, 1);
    assert_ok(md_context_create(
        &c, &(md_context_options){.device = "host", .threads = 1, .cache_dir = folder, .numeric = numeric}));
    return c;
}

static const md_fa_family *family_named(const char *name)
{
    const md_fa_family *family;
    md_fa_config config;
    assert_ok(md_fa_parse(&family, &config, MD_DEV_HOST, name));
    return family;
}

/* In which gemm is off by e beside the others. */
static md_tn_calibration some(int days)
{
    return (md_tn_calibration){.n = 3,
                               .off = {{family_named("gemm"), 4, 1.5, 0.1},
                                       {family_named("scan"), 2, 0.5, 0},
                                       {family_named("column"), 2, 0.5, 0}},
                               .date = (int64_t)time(NULL) - days * 86400LL,
                               .ms = 900,
                               .is_whole = true,
                               .is_sure = true};
}

static void put_text(const char *name, const char *text)
{
    md_context *c = open_context("off", MD_NUMERIC_DEFAULT);
    md_sr_discard(c->store, MD_API_FACTS, name);
    assert_ok(md_sr_put(c->store, MD_API_FACTS, name, text, strlen(text)));
    md_context_destroy(&c);
}

static void put(const md_tn_calibration *calibration, uint64_t machine)
{
    char name[40];
    md_strbuf text = {0};
    snprintf(name, sizeof name, "calibrated %016llx", (unsigned long long)machine);
    md_tn_calibration_print(&text, calibration);
    put_text(name, md_strbuf_text(&text));
    md_strbuf_finish(&text);
}

static int gather(void *user, const char *text, size_t n)
{
    md_strbuf_printf(user, "%.*s", (int)n, text);
    return 0;
}

/* The factor of gemm, and what md_info says. */
static void expect(const char *calibrate, md_numeric numeric, double factor, const char *said)
{
    md_context *c = open_context(calibrate, numeric);
    md_strbuf text = {0};
    const double got = md_tn_factor_of(&c->dev->facts, family_named("gemm"));
    assert_ok(md_info(c, 0, gather, &text));
    if (!(got > factor * 0.94 && got < factor * 1.06))
        fail_msg("the factor is %g, not %g", got, factor);
    if (said ? !strstr(md_strbuf_text(&text), said)
             : strstr(md_strbuf_text(&text), "calibrat") && strstr(md_strbuf_text(&text), "factors "))
        fail_msg("'%s' is said: %s", said ? said : "nothing", md_strbuf_text(&text));
    md_strbuf_finish(&text);
    md_context_destroy(&c);
}

/* md_explain says it of a pick. */
static void expect_explained(void)
{
    md_context *c = open_context("on", MD_NUMERIC_DEFAULT);
    md_op *op = NULL;
    md_strbuf text = {0};
    assert_ok(md_op_create(&op, c, "Y[m,n] = sum[k](X[m,k] * W[n,k])", &(md_op_options){.pin = "gemm"}));
    assert_ok(md_explain(op, "m=64, n=64, k=64", 0, gather, &text));
    if (!strstr(md_strbuf_text(&text), "are multiplied by 2.") && strstr(md_strbuf_text(&text), "pick: gemm"))
        fail_msg("%s", md_strbuf_text(&text));
    md_strbuf_finish(&text);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static bool is_kept(void)
{
    md_context *c = open_context("off", MD_NUMERIC_DEFAULT);
    void *text = NULL;
    size_t n = 0;
    const bool is = md_sr_find_at(&text, &n, c->store, 0, MD_API_FACTS, key) == MD_OK;
    free(text);
    md_context_destroy(&c);
    return is;
}

static void what_was_found_is_taken(void **state)
{
    md_tn_calibration found = some(1);
    (void)state;
    put(&found, (uint64_t)md_dev_host_machine());
    expect("on", MD_NUMERIC_DEFAULT, 2.718, "gemm 2.");
    expect("on", MD_NUMERIC_DEFAULT, 2.718, "measured");
    expect_explained();
    expect("off", MD_NUMERIC_DEFAULT, 1, NULL);
    expect("on", MD_NUMERIC_DETERMINISTIC, 1, NULL);
    setenv("MD_AGREE", "1", 1);
    expect("on", MD_NUMERIC_DEFAULT, 1, NULL);
    unsetenv("MD_AGREE");
    setenv("MD_RATES", "20000,12000,60000,60000,2000", 1);
    expect("on", MD_NUMERIC_DEFAULT, 1, NULL);
    unsetenv("MD_RATES");
    found.is_sure = false;
    put(&found, (uint64_t)md_dev_host_machine());
    expect("on", MD_NUMERIC_DEFAULT, 1.649, "an estimate: other work or heat");
    found = some(1);
    found.is_whole = false;
    put(&found, (uint64_t)md_dev_host_machine());
    expect("on", MD_NUMERIC_DEFAULT, 2.718, "an estimate: it was interrupted");
    found = some(40);
    put(&found, (uint64_t)md_dev_host_machine());
    expect("on", MD_NUMERIC_DEFAULT, 2.718, "an estimate: it is old");
}

static void what_is_not_ours_is_dropped(void **state)
{
    md_tn_calibration found = some(1);
    (void)state;
    put_text(key, "1 2 3");
    expect("on", MD_NUMERIC_DEFAULT, 1, "not yet");
    assert_false(is_kept());
    put(&found, (uint64_t)md_dev_host_machine() + 1);
    expect("on", MD_NUMERIC_DEFAULT, 1, "not yet"); /* another machine's */
    found.off[0].mean = 40;
    put(&found, (uint64_t)md_dev_host_machine());
    expect("on", MD_NUMERIC_DEFAULT, 1, "not yet");
    assert_false(is_kept());
}

/* The first context waits, and its store has it for the next one. */
static void waiting(void **state)
{
    (void)state;
    md_context *c = open_context("wait", MD_NUMERIC_DEFAULT);
    const int32_t n = c->calibration.found.n;
    const bool can_compile = c->dev->facts.can_compile;
    md_context_destroy(&c);
    if (!can_compile)
        skip();
    assert_true(n > 0 && is_kept());
    c = open_context("on", MD_NUMERIC_DEFAULT);
    assert_int_equal(c->calibration.found.n, n);
    md_context_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting),
        cmocka_unit_test(what_was_found_is_taken),
        cmocka_unit_test(what_is_not_ours_is_dropped),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_teardown);
}
