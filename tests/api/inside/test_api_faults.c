/* Formulas without a device, checks of formulas, and sequences with every allocation failing in turn: each gives what
 * was asked or OUT_OF_MEMORY, and nothing is lost. There is no compiler, so the reference serves.
 * tests/stats/test_report_faults.c does this for contexts, ops and reports. */
#include "support/check.h"
#include "support/fault.h"
#include "support/text.h"

#include <md/sequence.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MOST_POINTS = 5000 };

static md_context *context;
static int64_t failing; /* allocations fail from this one on */

static int set_up(void **state)
{
    (void)state;
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1};
    return md_context_create(&context, &o) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static bool got(md_status s, const char *what)
{
    if (s != MD_OK && s != MD_OUT_OF_MEMORY)
        fail_msg("%s, allocation %lld: %s: %s", what, (long long)failing, md_status_name(s), md_last_error());
    if (s == MD_OUT_OF_MEMORY)
        assert_non_null(strstr(md_last_error(), "memory"));
    return s == MD_OK;
}

/* Calls `body` until none of its allocations is refused. A body that succeeds although one was has done without it. */
static void at_all_points(bool (*body)(void))
{
    for (int is_once = 0; is_once < 2; is_once++) {
        bool happened = true, is_done = false;
        for (failing = 1; happened && failing < MOST_POINTS; failing++) {
            const int64_t living = fault_living();
            fault_at(failing, is_once);
            is_done = body();
            happened = fault_happened();
            fault_after(0);
            assert_int_equal(fault_living(), living);
        }
        assert_false(happened);
        assert_true(is_done && failing > 1);
    }
}

static bool read_formula(void)
{
    md_formula *f = NULL;
    md_arg_info info;
    const int64_t size[] = {3, 4};
    md_tensor t[] = {{0}, md_tensor_make(NULL, MD_F32, 2, size)};
    const bool is_made =
        got(md_formula_create(&f, "Y[i] = sum[j](X[i,j])", &(md_op_options){.sizes = "j=4"}), "md_formula_create");
    assert_true(is_made == (f != NULL));
    if (f) {
        assert_ok(md_formula_arg(&info, f, 0));
        assert_ok(md_formula_infer(t, 2, f));
        assert_string_equal(md_formula_text(f), "size j=4; Y:f32[i] = sum[j](X:f32[i,j])");
    }
    md_formula_destroy(&f);
    return is_made;
}

static void formulas(void **state)
{
    (void)state;
    at_all_points(read_formula);
}

static int count(void *user, const char *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)user += n;
    return 0;
}

static bool check_formula(void)
{
    bool is_done = true;
    for (int32_t json = 0; json < 2; json++) {
        size_t n = 0;
        const bool is_ok = got(md_check_formula(context, "softmax", NULL, json, count, &n), "md_check_formula");
        assert_true(is_ok == (n > 0)); /* whole or nothing */
        is_done &= is_ok;
    }
    return is_done;
}

static void checks(void **state)
{
    (void)state;
    at_all_points(check_formula);
}

/* ---- Texts: the one that is had without faults, or OUT_OF_MEMORY */

static md_context *kept;
static int32_t which;

static md_status give_text(text *out)
{
    md_store_facts facts = {0};
    memset(out, 0, sizeof *out);
    switch (which) {
    case 0:
    case 1:
        return md_store_list(kept, which, text_take, out);
    case 2:
        return md_store_verify(&facts, kept, text_take, out);
    default:
        return md_wisdom_export(kept, text_take, out);
    }
}

static text whole;

static bool is_whole(void)
{
    static text t;
    const bool is_ok = got(give_text(&t), "text");
    if (is_ok && strcmp(t.bytes, whole.bytes) != 0)
        fail_msg("text %d, allocation %lld: '%s', not '%s'", (int)which, (long long)failing, t.bytes, whole.bytes);
    return is_ok;
}

static const char line[] = "{\"multidispatch\": 1}\nno wisdom\n";

static bool import(void)
{
    static text t;
    md_wisdom_counts counts;
    t.n = 0;
    const md_status s = md_wisdom_import(&counts, kept, line, sizeof line - 1, text_take, &t);
    if (s == MD_OUT_OF_MEMORY)
        return got(s, "md_wisdom_import");
    assert_int_equal(s, MD_CORRUPT);
    return true;
}

static void texts(void **state)
{
    (void)state;
    char folder[] = "/tmp/md-test-api-faults-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    assert_ok(md_context_create(
        &kept, &(md_context_options){.device = "host", .cc = "/nonexistent/cc", .threads = 1, .cache_dir = folder}));
    for (which = 0; which < 4; which++) {
        assert_ok(give_text(&whole));
        assert_true((whole.n > 0) == (which < 2)); /* nothing is bad, and nothing was tuned */
        at_all_points(is_whole);
    }
    at_all_points(import);
    assert_fails(md_store_list(NULL, 0, text_take, &whole), MD_INVALID_ARGUMENT, "context is NULL");
    assert_fails(md_wisdom_export(NULL, text_take, &whole), MD_INVALID_ARGUMENT, "context is NULL");
    md_context_destroy(&kept);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- y = 2 x + s, over a temporary. */
static bool build(md_sequence **out, md_op *twice, md_op *plus)
{
    int32_t x = 0, y = 0, t = 0, s = 0;
    return got(md_sequence_create(out, context, &(md_sequence_options){.name = "chain"}), "md_sequence_create") &&
           got(md_sequence_add_dim(NULL, *out, "n", 0, 100), "md_sequence_add_dim") &&
           got(md_sequence_add_tensor(&x, *out, &(md_sequence_tensor){"x", MD_SEQUENCE_INPUT, .size = "n"}), "x") &&
           got(md_sequence_add_tensor(&y, *out, &(md_sequence_tensor){"y", MD_SEQUENCE_OUTPUT, .size = "n"}), "y") &&
           got(md_sequence_add_scalar(&s, *out, "s", MD_F64), "md_sequence_add_scalar") &&
           got(md_sequence_add_tensor(&t, *out, &(md_sequence_tensor){.size = "n"}), "t") &&
           got(md_sequence_add_call(*out, twice, (md_sequence_arg[]){{.id = t}, {.id = x}}, 2), "the first call") &&
           got(md_sequence_add_call(*out, plus, (md_sequence_arg[]){{.id = s}, {.id = y}, {.id = t}}, 3), "a call") &&
           got(md_sequence_finish(*out), "md_sequence_finish");
}

static md_op *twice, *plus;

static bool run_sequence(void)
{
    md_sequence *q = NULL;
    float x[7], y[7] = {0};
    double s = 0.5;
    const int64_t n = 7;
    size_t n_text = 0;
    /* one pointer more than is taken, which is not looked at */
    void *const data[] = {x, y, &s, NULL};
    for (int i = 0; i < 7; i++)
        x[i] = (float)i;
    bool is_done = build(&q, twice, plus);
    if (is_done) {
        is_done &= got(md_sequence_prepare(q, &n, 1, data, 3), "md_sequence_prepare");
        const bool has_run = got(md_sequence_run(q, NULL, &n, 1, data, 3), "md_sequence_run");
        for (int i = 0; i < 7 && has_run; i++)
            assert_true(y[i] == 2.0f * x[i] + 0.5f);
        const bool is_told =
            has_run && got(md_sequence_explain(q, (int32_t)(failing % 2), count, &n_text), "md_sequence_explain");
        assert_true(is_told == (n_text > 0));
        is_done &= has_run && is_told;
        fault_after(0);
        assert_ok(md_sequence_run(q, NULL, &n, 1, data, 3)); /* and the next run succeeds */
        assert_true(y[6] == 12.5f);
    }
    md_sequence_destroy(&q);
    return is_done;
}

/* fault_after(0) within forgets whether one happened: a sequence that was made ran at every later point, too. */
static void sequences(void **state)
{
    (void)state;
    assert_ok(md_op_create(&twice, context, "Y[i] = X[i] * 2", NULL));
    assert_ok(md_op_create(&plus, context, "scalar s; Y[i] = X[i] + s", NULL));
    int64_t n_done = 0;
    for (failing = 1; n_done < 80 && failing < 4 * MOST_POINTS; failing++) {
        fault_at(failing / 4 + 1, failing / 2 % 2);
        n_done += run_sequence();
        fault_after(0);
    }
    assert_true(n_done == 80 && failing > 40);
    md_op_destroy(&twice);
    md_op_destroy(&plus);
}

int main(void)
{
    unsetenv("MD_RATES"); /* measured ones are what a store without kernels has */
    setenv("MD_CALIBRATE", "off", 1); /* at once */
    const struct CMUnitTest tests[] = {cmocka_unit_test(formulas), cmocka_unit_test(checks), cmocka_unit_test(texts),
                                       cmocka_unit_test(sequences)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
