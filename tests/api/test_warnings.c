/* Warnings about a formula: in the log and in explanations. */
#include "support/check.h"

#include <md/md.h>

typedef struct said {
    int n_warnings; /* about hidden indices and repeated reductions */
    char text[1000];
} said;

static void hear(void *user, md_log_level level, const char *message)
{
    said *s = user;
    if (!strstr(message, "hides the index") && !strstr(message, "computed again") &&
        !strstr(message, "this reduction takes"))
        return;
    s->n_warnings += level == MD_LOG_WARN;
    snprintf(s->text, sizeof s->text, "%s", message);
}

static int keep_text(void *user, const char *text, size_t n)
{
    strncat(user, text, n);
    return 0;
}

/* A formula that is hardly meant is a warning with a caret: in the log, once a context, and in explanations. */
static void hidden_indices(void **state)
{
    (void)state;
    said s = {0};
    char explained[4000] = "";
    md_context *c = NULL;
    md_op *op = NULL;
    const char *const formula = "Y[i] = sum[i](X[i])";
    const md_context_options o = {.cc = "/nonexistent/cc", .device = "host", .log = hear, .log_user = &s, .threads = 1};
    assert_int_equal(md_context_create(&c, &o), MD_OK);
    assert_int_equal(md_op_create(&op, c, formula, NULL), MD_OK);
    assert_int_equal(s.n_warnings, 1);
    assert_non_null(strstr(s.text, "1:12: 'i' is bound here"));
    assert_non_null(strstr(s.text, "\n  Y[i] = sum[i](X[i])\n             ^"));
    assert_int_equal(md_explain(op, "i=4, i_2=4", 0, keep_text, explained), MD_OK);
    assert_non_null(strstr(explained, "warning: 1:12: 'i' is bound here"));
    explained[0] = 0;
    assert_int_equal(md_explain(op, "i=4, i_2=4", 1, keep_text, explained), MD_OK);
    assert_non_null(strstr(explained, "1:12: 'i' is bound here"));
    md_op_destroy(&op);
    assert_int_equal(md_op_create(&op, c, formula, NULL), MD_OK);
    assert_int_equal(s.n_warnings, 1);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* A nest that makes a reduction again for every step of a loop says so, and one of very many steps. */
static void slow_nests(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *sizes, *part; /* NULL: no warning */
    } cases[] = {
        {"Y[i,j] = X[i,j] + where(X[i,j] > 0, cumsum[j](where(j > 0, X[i,j-1], 0)), 0)", "i=4, j=4",
         "1:37: this scan is computed again for every 'j'"},
        {"Y[i,j] = where(X[i,j] > 0, max[k](where(k > 0, Z[i,k-1] * W[k], 0)), 0)", "i=4, j=4, k=4",
         "1:28: this reduction is computed again for every 'j'"},
        {"Y[i,j,k,l] = X[i,j,k,l] * rsqrt(var[i,j,k,l](X[i,j,k,l]))", "i=4, j=4, k=4, l=4", NULL},
        {"Y[i,l] = max[j,k](A[i,j] + B[j,k] + C[k,l])", "i=4, j=4, k=4, l=4",
         "1:10: this reduction takes 8.4e+14 operations at the largest hint, 5e+07 for each element"},
        {"Y[i] = where(i > 2, sum[j,k](X[i-2,j,k]), 0)", "i=4, j=4, k=4", NULL},
        {"Y:i64[i] = argmax[j,k](X[i,j,k])", "i=4, j=4, k=4", NULL},
        {"size i=9, j=9, k=9, l=9; Y[i,l] = max[j,k](A[i,j] + B[j,k] + C[k,l])", "", NULL},
        {"Y[i,l] = sum[j,k](A[i,j] * B[j,k] * C[k,l])", "i=4, j=4, k=4, l=4", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        said s = {0};
        static char explained[100000]; /* all candidates of nine stages */
        md_context *c = NULL;
        md_op *op = NULL;
        const md_context_options o = {
            .cc = "/nonexistent/cc", .device = "host", .log = hear, .log_user = &s, .threads = 1};
        explained[0] = 0;
        assert_int_equal(md_context_create(&c, &o), MD_OK);
        assert_int_equal(md_op_create(&op, c, cases[i].formula, NULL), MD_OK);
        assert_int_equal(md_explain(op, cases[i].sizes, 0, keep_text, explained), MD_OK);
        assert_int_equal(s.n_warnings, cases[i].part != NULL);
        assert_true(!cases[i].part || strstr(s.text, cases[i].part));
        assert_true(!cases[i].part || strstr(explained, cases[i].part));
        md_op_destroy(&op);
        md_context_destroy(&c);
    }
}

/* Updates of a scatter that are rounded one by one, by average at the largest hint: on a GPU, where they may leave an
 * element that stops growing. */
static void rounded_updates(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *sizes, *device, *part; /* part NULL: no warning */
    } cases[] = {
        {"Y[I:i32[n]] += X[n]", "n=2000000, Y.0=1", "sm_90a", "an element of Y:f32 takes 2e+06 updates on average"},
        {"Y:bf16[I:i32[n]] += X[n]", "n=4000, Y.0=1..20", "sm_90a", "an element of Y:bf16 takes 2e+02 updates"},
        {"Y:bf16[I:i32[n], k] += X[n,k]", "n=4000, k=8, Y.0=20", "sm_90a", "an element of Y:bf16 takes 2e+02 updates"},
        {"Y[I:i32[n]] += X[n]", "n=2000000, Y.0=1", "host", NULL}, /* bins of f64 */
        {"Y[I:i32[n]] += X[n]", "n=2000000, Y.0=10", "sm_90a", NULL},
        {"Y[I:i32[n]] += X[n]", "n=2000000", "sm_90a", NULL}, /* Y may have any length */
        {"Y:f64[I:i32[n]] += X[n]", "n=2000000, Y.0=1", "sm_90a", NULL},
        {"Y:i32[I:i32[n]] += X:i32[n]", "n=2000000, Y.0=1", "sm_90a", NULL},
        {"Y[I:i32[n]] max= X[n]", "n=2000000, Y.0=1", "sm_90a", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        md_context *c = NULL;
        char report[8000] = "";
        const md_context_options o = {.cc = "/nonexistent/cc", .device = cases[i].device, .threads = 1};
        if (md_context_create(&c, &o) == MD_UNSUPPORTED)
            skip(); /* built without GPUs */
        assert_int_equal(
            md_check_formula(c, cases[i].formula, &(md_op_options){.sizes = cases[i].sizes}, 0, keep_text, report),
            MD_OK);
        if (cases[i].part ? !strstr(report, cases[i].part) : strstr(report, "updates on average") != NULL)
            fail_msg("%s at %s on %s:\n%s", cases[i].formula, cases[i].sizes, cases[i].device, report);
        md_context_destroy(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hidden_indices), cmocka_unit_test(slow_nests),
                                       cmocka_unit_test(rounded_updates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
