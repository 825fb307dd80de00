/* Expressions of a sequence: the table of values, equal ones, names of dims. */
#include "base/status.h"
#include "sequence/values.h"
#include "support/check.h"

#include <stdbool.h>
#include <stdio.h>

static const int64_t sizes[] = {3, 1000, 0};

static md_sq_values *dims(void)
{
    md_sq_values *v = md_sq_values_create();
    assert_non_null(v);
    assert_ok(md_sq_values_add_dim(v, "m"));
    assert_ok(md_sq_values_add_dim(v, "n"));
    assert_ok(md_sq_values_add_dim(v, "z"));
    return v;
}

static void check_value(const char *text, bool has_value, int64_t value)
{
    md_sq_values *v = dims();
    int32_t number, n;
    int64_t got = 0;
    char said[256];
    assert_ok(md_sq_values_parse(&number, &n, 1, v, text, "a size"));
    assert_int_equal(n, 1);
    assert_string_equal(md_sq_values_text(v, number), text);
    snprintf(said, sizeof said, "'%s' divides by 0 or exceeds 64 bits at these sizes", text);
    if (has_value) {
        assert_ok(md_sq_values_eval(&got, v, sizes));
        assert_int_equal(got, value);
    } else {
        assert_fails(md_sq_values_eval(&got, v, sizes), MD_INVALID_ARGUMENT, said);
    }
    md_sq_values_destroy(&v);
}

static void values(void **state)
{
    (void)state;
#define VALUE(text, value) check_value(text, true, value);
#define NONE(text) check_value(text, false, 0);
#include "../expr/whole.inc"
#undef VALUE
#undef NONE
}

static void equal_ones(void **state)
{
    (void)state;
    md_sq_values *v = dims();
    int32_t a[3], b[3], n;
    assert_ok(md_sq_values_parse(a, &n, 3, v, "m + 1, n, m+1", "sizes"));
    assert_ok(md_sq_values_parse(b, &n, 3, v, "(m) + 1, n + 0, n", "sizes"));
    assert_true(a[0] == a[2] && a[0] == b[0] && a[1] == b[2] && a[1] != b[1]);
    assert_int_equal(md_sq_values_count(v), 3);
    for (int i = 0; i < 100; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        assert_ok(md_sq_values_parse(&b[0], &n, 1, v, text, "a number"));
    }
    assert_int_equal(md_sq_values_count(v), 103);
    md_sq_values_destroy(&v);
}

static void names(void **state)
{
    (void)state;
    md_sq_values *v = dims();
    int32_t number, n;
    assert_fails(md_sq_values_add_dim(v, "n"), MD_INVALID_ARGUMENT, "dim 'n' is there already");
    static const char *const bad[] = {"2n", "", "a b", "min", "not", "a.b", NULL};
    for (size_t i = 0; i < MD_COUNT(bad); i++)
        assert_fails(md_sq_values_add_dim(v, bad[i]), MD_INVALID_ARGUMENT, "is no name for a dim");
    assert_fails(md_sq_values_parse(&number, &n, 1, v, "q + 1", "size of tensor 'x'"), MD_INVALID_ARGUMENT,
                 "size of tensor 'x': 1:1: 'q' is no dim");
    assert_fails(md_sq_values_parse(&number, &n, 1, v, "m, n", "a size"), MD_INVALID_ARGUMENT, "no more");
    md_sq_values_destroy(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(equal_ones), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
