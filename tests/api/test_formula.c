/* Formulas without a device: arguments, sizes of outputs, and what is refused. */
#include "api/refused.h"

#include <string.h>

static md_tensor sized(int64_t a, int64_t b)
{
    const int64_t size[] = {a, b};
    return md_tensor_make(NULL, MD_F32, b < 0 ? 1 : 2, size);
}

static void test_arguments(void **state)
{
    (void)state;
    md_formula *f = NULL;
    md_arg_info info;
    assert_int_equal(md_formula_create(&f, "scalar s; Y[b,n] = s * X[b,n]", &(md_op_options){.dtype = MD_F64}), MD_OK);
    assert_int_equal(md_formula_n_args(f), 3);
    assert_int_equal(md_formula_arg(&info, f, 0), MD_OK);
    assert_true(!info.is_output && !strcmp(info.name, "s") && info.rank == 0);
    assert_int_equal(md_formula_arg(&info, f, 2), MD_OK);
    assert_true(!info.is_output && !strcmp(info.name, "X") && info.rank == 2);
    assert_int_equal(md_formula_arg(&info, f, 1), MD_OK);
    assert_true(info.is_output && !strcmp(info.name, "Y") && info.dtype == MD_F64 && info.rank == 2);
    assert_string_equal(md_formula_text(f), "scalar s:f64; Y:f64[b,n] = s * X:f64[b,n]");
    REFUSED(md_formula_arg(&info, f, 3), "there is no number 3");
    md_formula_destroy(&f);
    assert_null(f);
    md_formula_destroy(&f);
    md_formula_destroy(NULL);
}

static void test_infer(void **state)
{
    (void)state;
    md_formula *f = NULL;
    assert_int_equal(md_formula_create(&f, "Y[b,n] = sum[k](X[b,k] * W[n,k])", &(md_op_options){.sizes = "n=3"}),
                     MD_OK);
    md_tensor t[3] = {[1] = sized(7, 5), [2] = sized(3, 5)};
    assert_int_equal(md_formula_infer(t, 3, f), MD_OK);
    assert_true(t[0].rank == 2 && t[0].size[0] == 7 && t[0].size[1] == 3 && t[0].stride[0] == 3);
    assert_true(t[0].dtype == MD_F32 && !t[0].data);
    t[2] = sized(3, 6);
    REFUSED(md_formula_infer(t, 3, f), "axis 1 (dim 'k') has size 6, but k is 5");
    t[2] = sized(4, 5);
    REFUSED(md_formula_infer(t, 3, f), "axis 0 (dim 'n') has size 4, but n is 3");
    t[2] = sized(3, -1);
    REFUSED(md_formula_infer(t, 3, f), "'W' has rank 1, expected 2");
    REFUSED(md_formula_infer(t, 2, f), "2 arguments given, but the formula has 3");
    REFUSED(md_formula_infer(NULL, 3, f), "tensor is NULL");
    REFUSED(md_formula_infer(t, 3, NULL), "formula is NULL");
    md_formula_destroy(&f);
}

/* What no input gives a size, and what is read before it is written. */
static void test_not_inferred(void **state)
{
    (void)state;
    md_formula *f = NULL;
    md_tensor t[3] = {[1] = sized(7, -1), [2] = sized(7, -1)};
    assert_int_equal(md_formula_create(&f, "Y[i,j] = X[i]", NULL), MD_OK);
    REFUSED(md_formula_infer(t, 2, f), "no input gives axis 1 (dim 'j') of output 'Y' a size");
    md_formula_destroy(&f);
    assert_int_equal(md_formula_create(&f, "Y[ids[i]] += X[i]", NULL), MD_OK);
    REFUSED(md_formula_infer(t, 3, f), "argument 0 'Y' is also read, so the caller must give it");
    md_formula_destroy(&f);
}

static void test_bad(void **state)
{
    (void)state;
    md_formula *f = NULL;
    REFUSED(md_formula_create(&f, "Y[i] = X[i", NULL), "expected ',' or ']'");
    assert_fails(md_formula_create(&f, "sofmax", NULL), MD_NOT_FOUND, "softmax");
    REFUSED(md_formula_create(&f, NULL, NULL), "formula is NULL");
    REFUSED(md_formula_create(NULL, "softmax", NULL), "out is NULL");
    assert_int_equal(md_formula_n_args(NULL), 0);
    assert_string_equal(md_formula_text(NULL), "");
    assert_null(f);
}

static int add_text(void *user, const char *text, size_t n_bytes)
{
    (void)text;
    *(size_t *)user += n_bytes;
    return 0;
}

static void test_stats_report(void **state)
{
    (void)state;
    md_context *context = NULL;
    size_t n = 0;
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1};
    assert_int_equal(md_context_create(&context, &o), MD_OK);
    assert_int_equal(md_stats_report(context, "json", add_text, &n), MD_OK);
    assert_true(n > 0);
    REFUSED(md_stats_report(context, "yaml", add_text, &n), "expected table, json or csv");
    REFUSED(md_stats_report(context, NULL, NULL, NULL), "write is NULL");
    REFUSED(md_stats_report(NULL, NULL, add_text, &n), "context is NULL");
    md_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_infer),        cmocka_unit_test(test_not_inferred),
        cmocka_unit_test(test_bad),       cmocka_unit_test(test_stats_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
