/* Warnings about a formula: in the log and in explanations. */
#include "support/check.h"

#include <md/md.h>

typedef struct said {
    int n_warnings; /* about hidden indices */
    char text[1000];
} said;

static void hear(void *user, md_log_level level, const char *message)
{
    said *s = user;
    if (!strstr(message, "hides the index"))
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hidden_indices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
