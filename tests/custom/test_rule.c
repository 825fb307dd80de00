/* Rules of custom kernels. */
#include "family/custom/rule.h"
#include "support/check.h"

static md_fx_formula *formula;
static const char *const tunable_name[] = {"threads", "items"};
static const int32_t tunable[] = {128, 4};

static int set_up(void **state)
{
    (void)state;
    assert_ok(md_fx_formula_create(&formula, "Y[b] = sum[n](X[b,n]) + E[i[b]]", &(md_fx_options){0}));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_fx_formula_destroy(&formula);
    return 0;
}

static md_status parse(md_fa_rule *out, int32_t *n, const char *text)
{
    const md_fa_rule_names names = {formula, 2, tunable_name};
    return md_fa_rule_parse(out, 3, n, text, "grid", &names);
}

static void values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
        bool uses_sizes;
    } row[] = {{"1 + 2 * 3", 7, false},
               {"(1 + 2) * 3", 9, false},
               {"10 - 4 - 3", 3, false},
               {"100 // 7 // 2", 7, false},
               {"-7 // 2", -4, false},
               {"-7 % 4", 1, false},
               {"7 % -4", -1, false},
               {"- - 3", 3, false},
               {"threads * items", 512, false},
               {"(n + threads - 1) // threads", 8, true},
               {"min(n, 7, b)", 3, true},
               {"max(n, 7 * 200, b)", 1400, true},
               {"min(4)", 4, false},
               {"2 + min(n, 7)", 9, true},
               {"100 - max(3, 2 * min(b, 5))", 94, true},
               {"(7 - min(4)) * 2 - max(1, 2, 3)", 3, false},
               {"n % 8 == 0", 1, true},
               {"n < 1000 or b == 3", 1, true},
               {"n < 1000 and b == 3", 0, true},
               {"not n < 1000", 1, true},
               {"not (b == 3 and n == 1000)", 0, true},
               {"1 < 2", 1, false},
               {"E.0 + 1", 51, true},
               {"b != 3 or items >= 4 and threads <= 128", 1, true}};
    int64_t size[MD_FX_MAX_DIMS] = {0};
    for (int32_t d = 0; d < formula->n_dims; d++)
        size[d] = !strcmp(formula->dim[d].name, "b") ? 3 : !strcmp(formula->dim[d].name, "n") ? 1000 : 50;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_fa_rule r[3];
        int32_t n = 0;
        int64_t v = 0;
        assert_ok(parse(r, &n, row[i].text));
        assert_int_equal(n, 1);
        if (!md_fa_rule_eval(&v, r, size, tunable) || v != row[i].value || r->uses_sizes != row[i].uses_sizes)
            fail_msg("%s: %lld, not %lld", row[i].text, (long long)v, (long long)row[i].value);
    }
}

static void what_has_no_value(void **state)
{
    (void)state;
    static const char *const text[] = {"1 // 0", "1 % 0", "9223372036854775807 + 1", "9223372036854775807 * items",
                                       "-9223372036854775807 - 2"};
    const int64_t size[MD_FX_MAX_DIMS] = {0};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        md_fa_rule r[3];
        int32_t n = 0;
        int64_t v;
        assert_ok(parse(r, &n, text[i]));
        assert_false(md_fa_rule_eval(&v, r, size, tunable));
    }
}

static void lists(void **state)
{
    (void)state;
    md_fa_rule r[3];
    int32_t n = 7;
    assert_ok(parse(r, &n, NULL));
    assert_int_equal(n, 0);
    assert_ok(parse(r, &n, "1, max(2, 3), 4"));
    assert_int_equal(n, 3);
    assert_fails(parse(r, &n, "1, 2, 3, 4"), MD_INVALID_ARGUMENT, "too many");
}

static void bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } row[] = {{"1 +", "it ends here"},
               {"* 2", "expected a number"},
               {"1 2", "expected an operator"},
               {"(1", "expected ')'"},
               {"min(1", "expected ',' or ')'"},
               {"thread", "did you mean 'threads'?"},
               {"1 < 2 < 3", "not chained"},
               {"1.5", "expected a number"},
               {"n / 2", "expected an operator"},
               {"1, , 2", "expected a number"},
               {"max", "'max' is neither"},
               {"(((((((((((((((((((((((((((1)))))))))))))))))))))))))))", "parentheses"},
               {"1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1",
                "longer than"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_fa_rule r[3];
        int32_t n = 0;
        assert_fails(parse(r, &n, row[i].text), MD_INVALID_ARGUMENT, row[i].part);
        assert_int_equal(strncmp(md_last_error(), "grid: ", 6), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(what_has_no_value),
                                       cmocka_unit_test(lists), cmocka_unit_test(bad_texts)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
