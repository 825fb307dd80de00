/* Every diagnostic of the front end, with its exact text. */
#include "front_check.h"

typedef struct golden {
    const char *formula, *message;
} golden;

#define RECURRENCE_SHAPE(text, place, caret)                                                                           \
    {                                                                                                                  \
        text,                                                                                                          \
            place ": this recurrence is not associative, so it is no scan: 'Y' may be multiplied by, divided by and "  \
                  "added to what does not read it, chosen by where, or stand in one max or min; of others, write one " \
                  "op for each step\n  " text "\n" caret                                                               \
    }
#define RECURRENCE_PLACE(text, place, caret)                                                                           \
    {                                                                                                                  \
        text, place                                                                                                    \
            ": this recurrence is not associative, so it is no scan: 'Y' may be read only at the element before, "     \
            "Y[.., i-1, ..], or only at the one after, Y[.., i+1, ..], along one index\n  " text "\n" caret            \
    }

static const golden goldens[] = {
#include "diagnostics.inc"
};

static void test_goldens(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; ++i) {
        md_fx_formula *f = NULL;
        const md_status status = md_fx_formula_create(&f, goldens[i].formula, NULL);
        const char *const message = status == MD_OK ? "no error" : md_last_error();
        if (status == MD_INVALID_ARGUMENT && strcmp(message, goldens[i].message) == 0 && !f)
            continue;
        ++n_wrong;
        print_error("--- %s\ngot:    %s\nwanted: %s\n", goldens[i].formula, message, goldens[i].message);
        md_fx_formula_destroy(&f);
    }
    assert_int_equal(n_wrong, 0);
}

/* Options: messages without a place in the formula. */
static void test_options(void **state)
{
    (void)state;
    static const struct {
        md_fx_options options;
        const char *message;
    } cases[] = {
        {{.sizes = "q=3"}, "sizes: the formula has no dim 'q'; it has row, col"},
        {{.sizes = "rwo=3"}, "sizes: the formula has no dim 'rwo'; it has row, col; did you mean 'row'?"},
        {{.sizes = "row=3, row=4"}, "sizes: 'row' is given two sizes that exclude each other"},
        {{.sizes = "row=3..5, row=6..7"}, "sizes: 'row' is given two sizes that exclude each other"},
        {{.sizes = "row=-3"}, "sizes: 'row' is negative"},
        {{.sizes = "row"}, "sizes \"row\": expected '=' at the end"},
        {{.dtype = (md_dtype)77}, "dtype 77 (?) cannot be computed with"},
        {{.bounds = (md_bounds)3}, "bounds is 3; it is report, clamp or zero"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        md_fx_formula *f = NULL;
        assert_int_equal(md_fx_formula_create(&f, "Y[row,col] = X[row,col]", &cases[i].options), MD_INVALID_ARGUMENT);
        assert_string_equal(md_last_error(), cases[i].message);
        assert_null(f);
    }
    md_fx_formula *f = NULL;
    assert_fails(md_fx_formula_create(&f, NULL, NULL), MD_INVALID_ARGUMENT, "the formula is NULL");
    assert_fails(md_fx_formula_create(NULL, "Y[] = 1", NULL), MD_INVALID_ARGUMENT, "the result's address is NULL");
}

/* The caret stays in sight and under its column on long lines, on later lines, behind tabs and beyond ASCII. */
static void test_carets(void **state)
{
    (void)state;
    md_strbuf b = {0};
    md_fx_formula *f = NULL;
    md_strbuf_add(&b, "Y[i] = X[i]");
    for (int i = 0; i < 40; ++i)
        md_strbuf_add(&b, " + X[i]");
    md_strbuf_add(&b, " + bad;\nZ[i] = X[i]");
    assert_int_equal(md_fx_formula_create(&f, md_strbuf_text(&b), NULL), MD_INVALID_ARGUMENT);
    assert_string_equal(md_last_error(),
                        "1:295: unknown name 'bad'; a tensor needs its indices, a parameter 'scalar bad;'\n"
                        "  ...X[i] + X[i] + X[i] + X[i] + X[i] + X[i] + X[i] + bad;\n"
                        "                                                      ^");
    md_strbuf_finish(&b);
    assert_int_equal(md_fx_formula_create(&f, "# \xc3\xbcn\xc3\xaf\n\tY[i] = # \xc3\xbc\n  bad\n;", NULL),
                     MD_INVALID_ARGUMENT);
    assert_string_equal(md_last_error(),
                        "3:3: unknown name 'bad'; a tensor needs its indices, a parameter 'scalar bad;'\n"
                        "    bad\n"
                        "    ^");
    assert_int_equal(md_fx_formula_create(&f, "Y[i] = X[i] \xc3\xbc", NULL), MD_INVALID_ARGUMENT);
    assert_string_equal(md_last_error(), "1:13: unexpected character 0xc3\n"
                                         "  Y[i] = X[i] \xc3\xbc\n"
                                         "              ^");
}

/* ---- limits: a message, never a crash ---- */

static void check_repeated(const char *head, const char *part, int n, const char *tail, const char *message)
{
    md_strbuf b = {0};
    md_fx_formula *f = NULL;
    md_strbuf_add(&b, head);
    for (int i = 0; i < n; ++i) {
        for (const char *c = part; *c; ++c)
            if (*c == '@')
                md_strbuf_printf(&b, "%d", i);
            else
                md_strbuf_bytes(&b, c, 1);
    }
    md_strbuf_add(&b, tail);
    assert_false(b.failed);
    const md_status status = md_fx_formula_create(&f, md_strbuf_text(&b), NULL);
    if (message)
        assert_true(status == MD_INVALID_ARGUMENT && strstr(md_last_error(), message));
    else
        assert_ok(status);
    md_fx_formula_destroy(&f);
    md_strbuf_finish(&b);
}

static void test_limits(void **state)
{
    (void)state;
    const char *const deep = "the expression is nested more than 200 deep; use let";
    check_repeated("Y[i] = ", "(", 190, "X[i]", "expected ')'");
    check_repeated("Y[i] = ", "(", 100000 / 2, "X[i]", deep);
    check_repeated("Y[i] = ", "-", 60000, "X[i]", deep);
    check_repeated("Y[i] = ", "not ", 10000, "X[i]", deep);
    check_repeated("Y[i] = ", "exp(", 10000, "X[i]", deep);
    check_repeated("Y[i] = ", "X[", 10000, "i", deep);
    /* terms of a sum and factors of a product are not nested in each other */
    const char *const long_row = "more than 1024 operations in a row; use let";
    check_repeated("Y[i] = X[i]", " + 1", 1000, "", NULL);
    check_repeated("Y[i] = X[i]", " - X[i] * 2", 1000, "", NULL);
    check_repeated("Y[i] = X[i]", " * X[i] / 3 // X[i]", 300, "", NULL);
    check_repeated("Y[i] = X[i] > 0", " or X[i] == @", 1000, "", NULL);
    check_repeated("Y[i] = X[i]", " + 1", 1022, "", NULL);
    check_repeated("Y[i] = X[i]", " + 1", 10000, "", long_row);
    check_repeated("Y[i] = X[i]", " * X[i]", 2000, "", long_row);
    check_repeated("Y[i] = X[i]", " + (1", 1000, "", deep);
    check_repeated("Y[i] = max(X[i]", ", 1", 1000, ")", "too many operands");
    check_repeated("Y[i] = X[i]; ", "Z@[i] = X[i]; ", 31, "", "more than 32 tensors");
    check_repeated("", "let t@[i] = X[i]; ", 30, "Y[i] = X[i]", NULL);
    check_repeated("scalar a", ", s@", 16, "; Y[i] = X[i]", "more than 16 scalars");
    check_repeated("scalar a", ", s@", 70, "; Y[i] = X[i]", "more than 64 declarations in one statement");
    check_repeated("", "let t@[] = 1; ", 200, "", "more than 96 statements");
    check_repeated("", "scalar s@; ", 200, "", "more than 96 statements");
    check_repeated("Y[i] = X[i]", " + sum[k@,l@](X[k@] * Z[l@])", 96, "", "more than 192 indices");
    check_repeated("Y[i] = X[i]", "", 0, "; Z[a,b,c,d,e,f,g,h] = S[a,b,c,d,e,f,g,h]", NULL);
    check_repeated("Y[i] = X[0,0,0,0,0,0,0,0]", " + A@[i,0,0,0,0,0,0,0]", 8, "", "more than 48 dims");
    check_repeated("scalar a0", ", s@", 15, "; Y[i] = X[i]; Z[i] = X[i]", NULL);
    check_repeated("scalar a0,b0,c0,d0,e0,f0; Y[i] = X[i]", " + A@[i]", 26, "", "more than 32 arguments");
    check_repeated("Y[", "i@", 7000, "] = 1", "the longest allowed is 63");
    check_repeated("Y[i] = ", "                ", 5000, "1", "the longest allowed is 65536");
    check_repeated("Y[i] = sum[a", ",b@", 8, "](X[i])", "at most 8 indices can be bound at once");
    check_repeated("Y[i] = 0.", "0", 20000, "1 * X[i]", NULL);
    check_repeated("Y[i] = 1", "0", 20000, ".5 * X[i]", "too large");
    check_repeated("G[p[a,b,c,d,e,f,g,h], q[a0,b0,c0,d0,e0,f0,g0,h0], r[", "z", 1, "]] += 1",
                   "more than 16 indices on the left side");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_carets),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
