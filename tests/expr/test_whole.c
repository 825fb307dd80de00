/* Whole-number expressions: the table of values, texts and mistakes, and long ones. */
#include "base/status.h"
#include "expr/node.h"
#include "expr/whole.h"
#include "support/check.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    bool has_value;
    int64_t value;
} row[] = {
#define VALUE(text, value) {text, true, value},
#define NONE(text) {text, false, 0},
#include "whole.inc"
#undef VALUE
#undef NONE
};

static const char *const names[] = {"m", "n", "z"};
static const int64_t sizes[] = {3, 1000, 0};

static md_status parse(md_fx_whole **out, int32_t most, int32_t *n, const char *text)
{
    return md_fx_whole_parse(out, most, n, text, "grid", &(md_fx_names){3, names, "no size"});
}

static void check_text(const char *text, bool has_value, int64_t value)
{
    md_fx_whole *w;
    int32_t n = 0;
    int64_t got = 0;
    assert_ok(parse(&w, 1, &n, text));
    assert_int_equal(n, 1);
    assert_string_equal(w->text, text);
    if (md_fx_whole_eval(&got, w, sizes) != has_value || (has_value && got != value))
        fail_msg("%s: %lld, not %lld", text, (long long)got, (long long)value);
    if (!has_value) {
        char said[256];
        snprintf(said, sizeof said, "'%s' divides by 0 or exceeds 64 bits at these sizes", text);
        assert_fails(md_fx_whole_fail(w), MD_INVALID_ARGUMENT, said);
    }
    free(w);
}

static void texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < MD_COUNT(row); i++)
        check_text(row[i].text, row[i].has_value, row[i].value);
    check_text("min(n, 7, m)", true, 3);
    check_text("max(n, 7 * 200, min(9), m)", true, 1400);
    check_text("(7 - min(4)) * 2 - max(1, 2, 3)", true, 3);
}

/* As the condition of a formula's `where`, whose names are sizes. */
static void formulas(void **state)
{
    (void)state;
    for (size_t i = 0; i < MD_COUNT(row); i++) {
        char text[512] = "Y[m,n,z] = where((";
        size_t at = strlen(text);
        for (const char *c = row[i].text; *c; c++) {
            const bool is_name = strchr("mnz", *c) && (c == row[i].text || !isalpha((unsigned char)c[-1])) &&
                                 !isalpha((unsigned char)c[1]);
            at += (size_t)snprintf(text + at, sizeof text - at, is_name ? "size(%c)" : "%c", *c);
        }
        snprintf(text + at, sizeof text - at, ") + 0 == %lld, X[m,n,z], 0)", (long long)row[i].value);
        md_fx_formula *f = NULL;
        assert_ok(md_fx_formula_create(&f, text, &(md_fx_options){0}));
        const md_fx_node *where = f->stmt[0].value;
        int64_t size[MD_FX_MAX_DIMS] = {0}, got = 0;
        for (int32_t d = 0; d < f->n_dims; d++)
            size[d] = sizes[f->dim[d].name[0] == 'm' ? 0 : f->dim[d].name[0] == 'n' ? 1 : 2];
        assert_int_equal(where->op, MD_FX_WHERE);
        if (md_fx_value_of_sizes(&got, size, where->arg[0]) != row[i].has_value || (row[i].has_value && got != 1))
            fail_msg("%s: %lld", text, (long long)got);
        md_fx_formula_destroy(&f);
    }
}

static void lists(void **state)
{
    (void)state;
    md_fx_whole *w[3];
    int32_t n = 7;
    assert_ok(parse(w, 3, &n, NULL));
    assert_int_equal(n, 0);
    assert_ok(parse(w, 3, &n, "1, max(2, m) ,\n 4"));
    assert_int_equal(n, 3);
    assert_string_equal(w[0]->text, "1");
    assert_string_equal(w[1]->text, "max(2, m)");
    assert_string_equal(w[2]->text, "4");
    assert_true(!md_fx_whole_reads(w[0], 3) && md_fx_whole_reads(w[1], 1) && !md_fx_whole_reads(w[1], 0));
    for (int32_t i = 0; i < n; i++)
        free(w[i]);
    assert_fails(parse(w, 3, &n, "1, 2, 3, 4"), MD_INVALID_ARGUMENT, "too many");
    assert_int_equal(n, 3); /* what was read before the mistake is the caller's */
    for (int32_t i = 0; i < n; i++)
        free(w[i]);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } bad[] = {{"1 +", "it ends here"},
               {"* 2", "expected a number"},
               {"1 2", "expected an operator"},
               {"1)", "expected an operator"},
               {"(1", "expected ')'"},
               {"(1, 2)", "expected ')'"},
               {"min(1", "expected ',' or ')'"},
               {"min()", "expected a number"},
               {"min(1,)", "expected a number"},
               {"mm", "'mm' is no size; did you mean 'm'?"},
               {"1 < 2 < 3", "not chained"},
               {"m + not n", "expected a number"},
               {"-not n", "expected a number"},
               {"and", "expected a number"},
               {"1.5", "expected a number"},
               {"n / 2", "expected an operator"},
               {"1, , 2", "expected a number"},
               {"max", "'max' is no size"},
               {"9223372036854775808", "expected a number"}};
    for (size_t i = 0; i < MD_COUNT(bad); i++) {
        md_fx_whole *w[3];
        int32_t n = 0;
        assert_fails(parse(w, 3, &n, bad[i].text), MD_INVALID_ARGUMENT, bad[i].part);
        assert_int_equal(strncmp(md_last_error(), "grid: ", 6), 0);
        for (int32_t k = 0; k < n; k++)
            free(w[k]);
    }
}

/* Nested to the left, to the right, and evenly: none needs more than the evaluator has. */
static void long_ones(void **state)
{
    (void)state;
    enum { TERMS = 100000 };
    char *text = malloc(8 * TERMS + 8), *even = malloc(8 * TERMS);
    size_t n = 0;
    for (int i = 0; i < TERMS; i++)
        n += (size_t)sprintf(text + n, i ? " + m" : "m");
    check_text(text, true, 3 * TERMS);
    n = 0;
    for (int i = 0; i < TERMS; i++)
        n += (size_t)sprintf(text + n, i % 2 ? "(m - " : "(n - ");
    n += (size_t)sprintf(text + n, "z");
    memset(text + n, ')', TERMS);
    text[n + TERMS] = 0;
    check_text(text, true, TERMS / 2 * (1000 - 3));
    sprintf(even, "m");
    for (int i = 0; i < 14; i++) {
        sprintf(text, "(%s - -%s)", even, even);
        strcpy(even, text);
    }
    check_text(even, true, 3 << 14);
    free(text);
    free(even);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(formulas), cmocka_unit_test(lists),
                                       cmocka_unit_test(mistakes), cmocka_unit_test(long_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
