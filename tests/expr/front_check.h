/* Formulas in and out of text, for the tests of the front end. */
#ifndef MD_TESTS_EXPR_FRONT_CHECK_H
#define MD_TESTS_EXPR_FRONT_CHECK_H

#include "support/check.h"

#include "base/strbuf.h"
#include "expr/formula.h"

/** The formula; the test fails with the diagnostic if there is one. */
static inline md_fx_formula *front_make(const char *text, const md_fx_options *options)
{
    md_fx_formula *f = NULL;
    if (md_fx_formula_create(&f, text, options) != MD_OK)
        fail_msg("%s\n%s", text, md_last_error());
    return f;
}

/** The formula printed back; the caller frees it. */
static inline char *front_print(const md_fx_formula *f)
{
    md_strbuf b = {0};
    md_fx_print(&b, f);
    assert_false(b.failed);
    char *const text = strdup(md_strbuf_text(&b));
    md_strbuf_finish(&b);
    assert_non_null(text);
    return text;
}

/** A node printed; the caller frees it. */
static inline char *front_print_node(const md_fx_formula *f, const md_fx_node *n)
{
    md_strbuf b = {0};
    md_fx_print_node(&b, f, n);
    char *const text = strdup(md_strbuf_text(&b));
    md_strbuf_finish(&b);
    assert_non_null(text);
    return text;
}

/** What a formula prints as, compared with a text. */
static inline void front_check_prints(const char *text, const md_fx_options *options, const char *wanted)
{
    md_fx_formula *f = front_make(text, options);
    char *const printed = front_print(f);
    if (strcmp(printed, wanted) != 0)
        fail_msg("\n  formula: %s\n  prints:  %s\n  wanted:  %s", text, printed, wanted);
    free(printed);
    md_fx_formula_destroy(&f);
}

#endif
