/* What is refused: formulas over lists, with a caret, and calls of them. */
#include "list/floats.h"

#include <md/combo.h>

/* ---- Mistakes */

static void test_messages(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"Y[i] = X[i]", "no lists"},
        {"Y@t[i] = X@s[i]", "1:12: the list index of this formula is 't', not 's'\n  Y@t[i] = X@s[i]\n"
                            "             ^"},
        {"Y@t[Z@s[i]] = X@t[i]", "1:7: the list index of this formula is 't', not 's'"},
        {"Y@t[i] += X@t[i]; Z@t[t] = 1", "1:23: 't' is the list index"},
        {"Y@t[i] = X@t[i] * t", "1:19: 't' is the list index"},
        {"Y@t[i] = X@t[i] * size(t)", "1:24: 't' is the list index"},
        {"Y@t[t] = 1", "1:5: 't' is the list index"},
        {"Y@t[i] = X@[i]", "1:12: expected the list index before '['"},
        {"Y@t[i] = X@t[i] * X[i]", "1:19: 'X' is one tensor for all items here, but a list at 1:10"},
        {"N = X@t[0]", "1:5: 'X@t' needs an item"},
        {"N[i] = sum[t](X@t[i])", "1:1: 'N' is one result for all items and has no axes"},
        {"N = mean[t,i](X@t[i])", "1:10: 'mean' does not run over the items of a list"},
        {"N = sum[t](sum[t,i](X@t[i]))", "1:16: a reduction over the items inside of another"},
        {"N = sum[t,i](X@t[i]) * size(i)", "1:29: size(i) needs an item"},
        {"N = sum[t,j](X@t[j]); Y@t[i] = size(j) * N + Z@t[i]", "one of the passes over the lists"},
        {"N = sum[t](1); Y@t[i] = X@t[i]", "1:5: 'sum' over the items reads no list"},
        {"Y@t[i] = X@t[i]; Y@t[i] = 2", "1:18: 'Y' is assigned twice; the first time at 1:1"},
        {"Y@t[i] = sum[t,i](X@t[k])", "1:23: "},
        {"Y@t[i] = sum[t,j](X@t[j]) * i; let n = ", "expected an expression, but the formula ends here"},
        {"Y@t:f16[i] = X@t[i] * Y@t:f32[i]", "1:23: 'Y' is declared f32 here, but f16 before"},
        {"let u@t[i] = X@t[i] * 2; X@t[i] = 0 * X@t[i]; N = sum[t,i](X@t[i]); Y@t[i] = u@t[i] + N",
         "'u', a let of 'X', which was overwritten since"},
    };
    md_list *list = NULL;
    md_op *op = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(md_list_create(&list, context, bad[i][0], NULL), MD_INVALID_ARGUMENT, bad[i][1]);
    assert_fails(md_list_create(&list, context, CLIP, &(md_op_options){.hints = "16"}), MD_INVALID_ARGUMENT, "hints");
    assert_fails(md_op_create(&op, context, "Y@t[i] = X@t[i]", NULL), MD_INVALID_ARGUMENT,
                 "1:2: '@t' makes this a formula over lists");
}

/* What an argument is: read, written or both; a list, one tensor, a scalar or a number for all items. */
static void test_arguments(void **state)
{
    (void)state;
    static const md_list_info want[] = {
        {"a", .is_scalar = 1, .is_input = 1, .dtype = MD_F32},
        {"k", .is_scalar = 1, .is_input = 1, .dtype = MD_I64},
        {"P", .is_list = 1, .is_input = 1, .is_output = 1, .dtype = MD_F32, .rank = 2},
        {"Q", .is_list = 1, .is_output = 1, .dtype = MD_BF16, .rank = 1},
        {"N", .is_output = 1, .dtype = MD_F32},
        {"G", .is_list = 1, .is_input = 1, .dtype = MD_F16, .rank = 2},
        {"W", .is_input = 1, .dtype = MD_F32, .rank = 1},
    };
    md_list *list =
        make("scalar a, k: i64; N = sum[t,i,j](f32(G@t:f16[i,j])); P@t[i,j] = P@t[i,j] - a * f32(G@t[i,j]); "
             "Q@t:bf16[i] = bf16(W[i] * k + f32(G@t[i,0]))");
    int32_t n_found = 0;
    assert_int_equal(md_list_n_args(list), (int32_t)(sizeof want / sizeof *want));
    for (int32_t i = 0; i < (int32_t)(sizeof want / sizeof *want); i++) {
        md_list_info is;
        assert_ok(md_list_arg(&is, list, i));
        for (int32_t k = 0; k < (int32_t)(sizeof want / sizeof *want); k++) {
            const md_list_info *info = &want[k];
            if (strcmp(is.name, info->name) != 0)
                continue;
            n_found++;
            if (is.is_scalar != info->is_scalar || is.is_list != info->is_list || is.is_input != info->is_input ||
                is.is_output != info->is_output || is.dtype != info->dtype || is.rank != info->rank)
                fail_msg("%s: scalar %d, list %d, input %d, output %d, dtype %d, rank %d", is.name, is.is_scalar,
                         is.is_list, is.is_input, is.is_output, (int)is.dtype, is.rank);
        }
    }
    assert_int_equal(n_found, (int32_t)(sizeof want / sizeof *want));
    md_list_destroy(&list);
}

/* Each of two items of X, which are `other`, is wrong in turn. */
static void expect_bad_items(md_list *list, const md_arg args[3], md_tensor other[2], const floats *x)
{
    for (int i = 0; i < 2; i++) {
        char part[64];
        memcpy(other, x->t, 2 * sizeof *other);
        other[i].dtype = MD_F64;
        snprintf(part, sizeof part, "argument X, item %d: dtype f64", i);
        assert_fails(md_list_call(list, NULL, args, 3), MD_INVALID_ARGUMENT, part);
        other[i] = (md_tensor){.data = x->x[i], .dtype = MD_F32};
        snprintf(part, sizeof part, "argument X, item %d: rank 0", i);
        assert_fails(md_list_call(list, NULL, args, 3), MD_INVALID_ARGUMENT, part);
    }
}

static void test_bad_calls(void **state)
{
    (void)state;
    uint64_t seed = 1;
    int64_t size[] = {4, 5};
    floats *x = make_floats(2, size, &seed), *y = make_floats(2, size, &seed);
    md_list *list = make("scalar a; Y@t[i] = a * X@t[i]");
    md_tensor other[2] = {x->t[0], y->t[1]};
    const md_arg good[] = {md_s(1), md_ts(y->t, 2), md_ts(x->t, 2)};
    md_arg args[3];
    const struct {
        int32_t arg;
        md_arg given;
        const char *message;
    } bad[] = {
        {0, md_t(&x->t[0]), "argument a is a scalar"},
        {1, md_t(&x->t[0]), "argument Y is a list: it takes md_ts"},
        {1, md_ts(NULL, 1), "argument Y is a list: it takes md_ts"},
        {1, md_ts(y->t, -1), "argument Y is a list"},
        {2, md_ts(x->t, 1), "argument X has 1 items, but Y has 2"},
        {2, md_ts(NULL, INT64_C(1) << 40), "argument X is a list"},
        {2, md_ts(x->t, MD_COMBO_MAX_ITEMS + 1), "argument X: 1048577 items; 1048576 are possible"},
        {0, (md_arg){0}, "argument a is a scalar"},
        {1, md_ts(other, 2), NULL}, /* Y's item 0 is X's: exactly in place */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(args, good, sizeof good);
        args[bad[i].arg] = bad[i].given;
        if (bad[i].message)
            assert_fails(md_list_call(list, NULL, args, 3), MD_INVALID_ARGUMENT, bad[i].message);
        else
            assert_ok(md_list_call(list, NULL, args, 3));
    }
    const md_arg more[] = {good[0], good[1], good[2], good[2]};
    assert_fails(md_list_call(list, NULL, good, 2), MD_INVALID_ARGUMENT, "2 arguments; the formula has 3");
    assert_fails(md_list_call(list, NULL, more, 4), MD_INVALID_ARGUMENT, "4 arguments; the formula has 3");
    assert_fails(md_list_call(list, NULL, good, 0), MD_INVALID_ARGUMENT, "0 arguments; the formula has 3");
    assert_fails(md_list_call(list, NULL, good, -1), MD_INVALID_ARGUMENT, "-1 arguments; the formula has 3");
    assert_fails(md_list_call(list, NULL, NULL, 3), MD_INVALID_ARGUMENT, "0 arguments; the formula has 3");
    other[1] = x->t[1];
    other[1].size[0] = 4; /* does not fit Y */
    memcpy(args, good, sizeof good);
    args[2] = md_ts(other, 2);
    assert_fails(md_list_call(list, NULL, args, 3), MD_INVALID_ARGUMENT, "item 1");
    assert_fails(md_list_call(list, NULL, args, 3), MD_INVALID_ARGUMENT, " (step 1 of 1 over the lists)");
    expect_bad_items(list, args, other, x);
    other[0] = vector(x->x[0], 4);
    other[1] = vector(x->x[0] + 1, 3); /* overlaps the other item's output */
    args[1] = args[2] = md_ts(other, 2);
    assert_fails(md_list_call(list, NULL, args, 3), MD_INVALID_ARGUMENT, "overlap");
    md_list_destroy(&list);
    free_floats(x);
    free_floats(y);
}

/* Arguments that are no lists, and the sizes of items. */
static void test_bad_others(void **state)
{
    (void)state;
    float memory[24] = {0};
    md_tensor x[2] = {vector(memory, 4), vector(memory + 4, 4)}, y[2] = {vector(memory + 8, 4), vector(memory + 12, 4)};
    md_tensor w = vector(memory + 16, 4), negative[2] = {x[0], x[1]}, pair = w, wide = w;
    md_list *list = make("scalar k: i64, a; Y@t[i] = X@t[i] * W[i] * a + k");
    const md_arg good[] = {md_i(3), md_s(0.5), md_ts(y, 2), md_ts(x, 2), md_t(&w)};
    md_arg args[5];
    negative[1].size[0] = -1;
    pair.rank = 2;
    pair.size[1] = pair.stride[1] = 1;
    wide.dtype = MD_F64;
    const struct {
        int32_t arg;
        md_arg given;
        const char *message; /* NULL: it is right */
    } row[] = {
        {0, md_s(3), "argument k is a scalar: it takes md_i"},
        {0, md_t(&w), "argument k is a scalar: it takes md_i"},
        {1, md_t(&w), "argument a is a scalar: it takes md_s or md_i"},
        {1, md_i(2), NULL},
        {4, md_ts(x, 2), "argument W is one tensor for all items: it takes md_t"},
        {4, md_t(NULL), "argument W is one tensor for all items"},
        {4, md_s(1), "argument W is one tensor for all items"},
        {4, md_t(&pair), "argument W: rank 2, but the formula has 1"},
        {4, md_t(&wide), "argument W: dtype f64, but the formula has f32"},
        {3, md_ts(negative, 2), "argument X, item 1: size[0] is -1"},
        {3, md_ts(x, 0), "argument X has 0 items, but Y has 2"},
        {2, md_ts(y, 0), "argument X has 2 items, but Y has 0"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        memcpy(args, good, sizeof good);
        args[row[i].arg] = row[i].given;
        if (row[i].message)
            assert_fails(md_list_call(list, NULL, args, 5), MD_INVALID_ARGUMENT, row[i].message);
        else
            assert_ok(md_list_call(list, NULL, args, 5));
    }
    md_list_destroy(&list);
}

static int count_bytes(void *user, const char *text, size_t n)
{
    (void)text;
    *(size_t *)user += n;
    return 0;
}

static int refuse_text(void *user, const char *text, size_t n)
{
    (void)user, (void)text, (void)n;
    return 1;
}

static void test_bad_questions(void **state)
{
    (void)state;
    md_list *list = make(CLIP), *none = NULL;
    md_list_info info = {.name = "as it was"};
    size_t n = 0;
    const int32_t n_args = md_list_n_args(list);
    static const int32_t beyond[] = {-1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        assert_fails(md_list_arg(&info, list, beyond[i]), MD_INVALID_ARGUMENT, "is out of range: the formula has");
    assert_fails(md_list_arg(&info, list, n_args), MD_INVALID_ARGUMENT, "is out of range");
    assert_string_equal(info.name, "as it was");
    assert_ok(md_list_arg(&info, list, n_args - 1));
    assert_fails(md_list_arg(NULL, list, 0), MD_INVALID_ARGUMENT, "out of range");
    assert_fails(md_list_arg(&info, NULL, 0), MD_INVALID_ARGUMENT, "the formula has 0");
    assert_int_equal(md_list_n_args(NULL), 0);
    for (int32_t json = 0; json < 2; json++) {
        assert_fails(md_list_explain(NULL, json, count_bytes, &n), MD_INVALID_ARGUMENT, "list is NULL");
        assert_fails(md_list_explain(list, json, NULL, NULL), MD_INVALID_ARGUMENT, "write is NULL");
        assert_int_equal(md_list_explain(list, json, refuse_text, NULL), MD_IO);
    }
    assert_int_equal(n, 0);
    assert_fails(md_list_call(NULL, NULL, NULL, 0), MD_INVALID_ARGUMENT, "list is NULL");
    assert_fails(md_list_create(NULL, context, CLIP, NULL), MD_INVALID_ARGUMENT, "out is NULL");
    assert_fails(md_list_create(&none, NULL, CLIP, NULL), MD_INVALID_ARGUMENT, "context is NULL");
    assert_fails(md_list_create(&none, context, NULL, NULL), MD_INVALID_ARGUMENT, "formula is NULL");
    static const struct {
        md_op_options o;
        const char *name;
    } bad[] = {{{.sizes = "i=4"}, "sizes"},
               {{.weights = "i=4"}, "weights"},
               {{.pin = "pointwise"}, "pin"},
               {{.n_custom = 1}, "custom"},
               {{.name = "own"}, "name"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(md_list_create(&none, context, CLIP, &bad[i].o), MD_INVALID_ARGUMENT, bad[i].name);
    assert_null(none);
    md_list_destroy(&none);
    md_list_destroy(NULL);
    md_list_destroy(&list);
    assert_null(list);
}

/* Items without elements: what needs no largest element is computed, and one such item ends nothing. */
static void test_empty_items(void **state)
{
    (void)state;
    static const struct {
        const char *formula;
        int64_t first; /* size of item 0; item 1 is empty */
        float number; /* N; NAN: there is none */
        float item; /* element 0 of Y's item 0 */
        const char *message;
    } cases[] = {
        {"N[] = max[t,i](X@t[i])", 1, -1, 77, NULL},
        {"N[] = max[t](sum[i](X@t[i]))", 1, 0, 77, NULL}, /* of item 1 the sum is 0 */
        {"N[] = sum[t,i](exp(X@t[i] - max[k](X@t[k])))", 1, 1, 77, NULL},
        {"N[] = sum[t](max[i](X@t[i]))", 1, NAN, 77, "the max of nothing has no value (part 0, item 1)"},
        {"N[] = max[t,i](X@t[i])", 0, NAN, 77, "all items are empty, but the max of no elements has no value"},
        {"Y@t[i] = exp(X@t[i] - max[k](X@t[k])) / sum[j](exp(X@t[j] - max[k](X@t[k])))", 1, NAN, 1, NULL},
        {"Y@t[i] = exp(X@t[i] - max[k](X@t[k])) / sum[j](exp(X@t[j] - max[k](X@t[k])))", 0, NAN, 77, NULL},
        {"let m = max[t,i](X@t[i]); Y@t[i] = X@t[i] - m", 1, NAN, 0, NULL},
        {"let m = max[t,i](X@t[i]); Y@t[i] = X@t[i] - m", 0, NAN, 77, NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float x = -1, y = 77, number = 77;
        const md_tensor in[] = {vector(&x, cases[c].first), vector(NULL, 0)},
                        out[] = {vector(&y, cases[c].first), vector(NULL, 0)};
        const md_tensor n = md_tensor_make(&number, MD_F32, 0, NULL);
        const bool has_number = cases[c].formula[0] == 'N';
        const bool is_let = cases[c].formula[0] == 'l';
        const md_arg result = has_number ? md_t(&n) : md_ts(out, 2), given = md_ts(in, 2);
        const md_arg args[] = {is_let ? given : result, is_let ? result : given};
        md_list *list = NULL;
        assert_ok(md_list_create(&list, context, cases[c].formula, NULL));
        if (cases[c].message)
            assert_fails(md_list_call(list, NULL, args, 2), MD_INVALID_ARGUMENT, cases[c].message);
        else
            assert_ok(md_list_call(list, NULL, args, 2));
        if (has_number && !isnan(cases[c].number) && number != cases[c].number)
            fail_msg("%s: N is %g", cases[c].formula, (double)number);
        if (y != cases[c].item)
            fail_msg("%s: Y is %g", cases[c].formula, (double)y);
        /* lists of nothing have no memory */
        const md_arg none[] = {args[0].kind == MD_ARG_LIST ? md_ts(NULL, 0) : args[0],
                               args[1].kind == MD_ARG_LIST ? md_ts(NULL, 0) : args[1]};
        if (!strncmp(cases[c].formula, "N[] = max", 9))
            assert_fails(md_list_call(list, NULL, none, 2), MD_INVALID_ARGUMENT, "the max of no elements has no value");
        else
            assert_ok(md_list_call(list, NULL, none, 2));
        if (!strncmp(cases[c].formula, "N[] = sum", 9))
            assert_true(number == 0.0F);
        md_list_destroy(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),   cmocka_unit_test(test_arguments),     cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_bad_others), cmocka_unit_test(test_bad_questions), cmocka_unit_test(test_empty_items),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
