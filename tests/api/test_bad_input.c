/* Every bad input: one clear line, nothing lost, nothing crashed. Through the public API only. */
#include <md/md.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static md_context *context;

static void clear_environment(void)
{
    for (int32_t i = 0;; i++) {
        const char *name, *values, *meaning;
        md_variables(i, &name, &values, &meaning);
        if (!name)
            return;
        unsetenv(name);
    }
}

static int set_up(void **state)
{
    (void)state;
    clear_environment();
    return md_context_create(&context, &(md_context_options){.device = "host", .threads = 2, .hints = "64"}) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static void expect_message(md_status got, md_status want, const char *part, const char *what)
{
    if (got != want)
        fail_msg("%s: status %s, expected %s; message \"%s\"", what, md_status_name(got), md_status_name(want),
                 md_last_error());
    if (!strstr(md_last_error(), part))
        fail_msg("%s: message \"%s\" does not contain \"%s\"", what, md_last_error(), part);
}

/* Attention whose operands do not go together: the message has both places of the formula. */
static void attention(void **state)
{
    static const struct {
        int64_t size[4][4]; /* of Q, K, M, V */
        const char *part;
    } row[] = {
        {{{2, 3, 5, 8}, {2, 3, 7, 16}, {2, 3, 5, 7}, {2, 3, 7, 8}},
         "'K': axis 3 (dim 'd') has size 16, but argument 0 'Q' gave d = 8; they are K[b,h,j,d] and Q[b,h,i,d]"},
        {{{2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 5, 6}, {2, 3, 7, 8}},
         "'M': axis 3 (dim 'j') has size 6, but argument 1 'K' gave j = 7; they are M[b,h,i,j] and K[b,h,j,d]"},
        {{{2, 3, 5, 8}, {2, 3, 7, 8}, {2, 1, 5, 7}, {2, 3, 7, 8}}, "'M': axis 1 (dim 'h') has size 1"},
        {{{2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 5, 7}, {2, 3, 9, 8}}, "'V': axis 2 (dim 'j') has size 9"},
    };
    static float data[1024];
    md_op *op = NULL;
    (void)state;
    assert_int_equal(md_op_create(&op, context,
                                  "let S[b,h,i,j] = sum[d](Q[b,h,i,d] * K[b,h,j,d]) + M[b,h,i,j];"
                                  "let e[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k]));"
                                  "Y[b,h,i,v] = sum[j](e[b,h,i,j] * V[b,h,j,v]) / sum[j](e[b,h,i,j])",
                                  NULL),
                     MD_OK);
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        const int64_t size_y[] = {2, 3, 5, 8};
        const int64_t *const sizes[] = {row[r].size[0], row[r].size[1], row[r].size[2], size_y, row[r].size[3]};
        md_tensor t[5];
        md_arg arg[5]; /* Q, K, M, Y, V: as they first stand in the formula */
        for (int32_t i = 0; i < 5; i++) {
            t[i] = md_tensor_make(i == 3 ? data : data + 512, MD_F32, 4, sizes[i]);
            arg[i] = md_t(&t[i]);
        }
        expect_message(md_call(op, NULL, arg, 5), MD_INVALID_ARGUMENT, row[r].part, "attention");
    }
    md_op_destroy(&op);
}

static void formulas(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *sizes, *part;
    } row[] = {
        {"", NULL, "formula"},
        {"Y[i] = X[i", NULL, "expected"},
        {"Y[i] = foo(X[i])", NULL, "foo"},
        {"Y[i] = exq(X[i])", NULL, "exp"}, /* the nearest name */
        {"Y[i] = X[i] * w", NULL, "w"}, /* a forgotten subscript is no scalar */
        {"Y[b,n] = X[b,k] * W[n,k]", NULL, "k"}, /* no implicit sum */
        {"Y[i] = X[i] + X[i,i]", NULL, "X"}, /* rank conflict */
        {"Y[i] = Z[i]; Z[i] = X[i]", NULL, "Z"}, /* read before written */
        {"Y[i] = X[i]; Y[i] = X[i]", NULL, "Y"},
        {"Y[i] = 1 < X[i] < 2", NULL, "chain"},
        {"Y[i] = sum[k](X[i])", NULL, "k"}, /* a dim that no tensor determines */
        {"Y[i] = X[i] @ X[i]", NULL, "@"},
        {"Y[i] = sum[j](sum[j](X[i,j]))", NULL, "j"}, /* two nested binders of one name */
        {"Y[i] = 99999999999999999999 * X[i]", NULL, ""},
        {"Y[i] = X[i]", "q=4", "q"},
        {"Y[i] = X[i]", "i=", ""},
        {"Y[i] = X[i]", "i=-3", ""},
        {"scalar n; Y[i] = X[i + n]", NULL, "n"}, /* no scalars in indices */
        {"nosuchop", NULL, "neither a formula nor an op"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *op = NULL;
        md_status s = md_op_create(&op, context, row[i].formula, &(md_op_options){.sizes = row[i].sizes});
        if (s == MD_OK)
            fail_msg("'%s' was accepted", row[i].formula);
        assert_null(op);
        expect_message(s, strcmp(row[i].formula, "nosuchop") ? MD_INVALID_ARGUMENT : MD_NOT_FOUND, row[i].part,
                       row[i].formula);
    }
}

static void formula_errors_show_the_place(void **state)
{
    (void)state;
    md_op *op = NULL;
    assert_int_equal(md_op_create(&op, context, "Y[i] = exp(X[i]) +\n  foo", NULL), MD_INVALID_ARGUMENT);
    assert_non_null(strstr(md_last_error(), "2:3"));
    assert_non_null(strstr(md_last_error(), "^"));
}

typedef struct call_case {
    const char *what, *part;
    md_status status;
} call_case;

static float x[64], w[64], y[64];

static void calls(void **state)
{
    (void)state;
    md_op *op = NULL;
    assert_int_equal(md_op_create(&op, context, "Y[i,j] = X[i,j] * w[j]", NULL), MD_OK);
    const int64_t size[] = {4, 8}, row[] = {8};
    md_tensor good_y = md_tensor_make(y, MD_F32, 2, size), good_x = md_tensor_make(x, MD_F32, 2, size),
              good_w = md_tensor_make(w, MD_F32, 1, row);
    md_tensor t;
    md_arg a[3] = {md_t(&good_y), md_t(&good_x), md_t(&good_w)};
    assert_int_equal(md_call(op, NULL, a, 3), MD_OK);
    expect_message(md_call(op, NULL, a, 2), MD_INVALID_ARGUMENT, "3", "too few");
    expect_message(md_call(op, NULL, NULL, 3), MD_INVALID_ARGUMENT, "", "no arguments");
    expect_message(md_call(NULL, NULL, a, 3), MD_INVALID_ARGUMENT, "op is NULL", "no op");
    a[1] = md_s(1.0);
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "X", "a scalar for a tensor");
    a[1] = md_t(NULL);
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "X", "NULL tensor");
    t = good_x;
    a[1] = md_t(&t);
    t.dtype = MD_F16;
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "f16", "dtype");
    t = good_x;
    t.rank = 1;
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "X", "rank");
    t = good_x;
    t.size[1] = 7;
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "7", "size");
    t = good_x;
    t.data = NULL;
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "X", "NULL data");
    t = good_x;
    t.stride[0] = -8;
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "X", "negative stride");
    t = good_x;
    t.size[0] = -1;
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "X", "negative size");
    t = good_x;
    t.stride[0] = INT64_MAX / 2;
    expect_message(md_call(op, NULL, a, 3), MD_INVALID_ARGUMENT, "", "a span beyond 64 bits");
    md_op_destroy(&op);
}

static void overlaps(void **state)
{
    (void)state;
    md_op *op = NULL;
    assert_int_equal(md_op_create(&op, context, "Y[i] = X[i] + 1", NULL), MD_OK);
    const int64_t size[] = {32};
    md_tensor ty = md_tensor_make(y, MD_F32, 1, size), tx = md_tensor_make(y, MD_F32, 1, size);
    md_arg a[2] = {md_t(&ty), md_t(&tx)};
    for (int i = 0; i < 64; i++)
        y[i] = (float)i;
    assert_int_equal(md_call(op, NULL, a, 2), MD_OK); /* exactly the input, element by element */
    assert_true(y[31] == 32.0f);
    tx.data = y + 1;
    expect_message(md_call(op, NULL, a, 2), MD_INVALID_ARGUMENT, "overlaps input 'X'", "shifted by one");
    tx.data = y + 32;
    assert_int_equal(md_call(op, NULL, a, 2), MD_OK);
    tx = ty;
    tx.data = y + 1; /* interleaved: even elements out, odd elements in */
    tx.stride[0] = ty.stride[0] = 2;
    assert_int_equal(md_call(op, NULL, a, 2), MD_OK);
    ty.stride[0] = 0;
    expect_message(md_call(op, NULL, a, 2), MD_INVALID_ARGUMENT, "Y", "an output that repeats an element");
    md_op_destroy(&op);
}

/* An input that is the output and is read elsewhere is copied first. */
static void an_overwritten_input_is_copied(void **state)
{
    (void)state;
    md_op *op = NULL;
    assert_int_equal(md_op_create(&op, context, "Y[i,j] = X[j,i]", NULL), MD_OK);
    float m[9], want[9];
    for (int i = 0; i < 9; i++) {
        m[i] = (float)i;
        want[i] = (float)(i % 3 * 3 + i / 3);
    }
    const int64_t size[] = {3, 3};
    md_tensor t = md_tensor_make(m, MD_F32, 2, size);
    md_arg a[2] = {md_t(&t), md_t(&t)};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(md_call(op, NULL, a, 2), MD_OK);
        for (int i = 0; i < 9; i++)
            assert_true(m[i] == (round ? (float)i : want[i]));
    }
    md_op_destroy(&op);
}

static void indices_out_of_range(void **state)
{
    (void)state;
    md_op *op = NULL;
    int64_t ids[3] = {0, 7, 1};
    float e[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[6] = {9, 9, 9, 9, 9, 9};
    const int64_t e_size[] = {4, 2}, id_size[] = {3}, o_size[] = {3, 2};
    md_tensor te = md_tensor_make(e, MD_F32, 2, e_size), ti = md_tensor_make(ids, MD_I64, 1, id_size),
              to = md_tensor_make(out, MD_F32, 2, o_size);
    md_arg a[3] = {md_t(&to), md_t(&te), md_t(&ti)};
    static const md_bounds bounds[] = {MD_BOUNDS_REPORT, MD_BOUNDS_CLAMP, MD_BOUNDS_ZERO};
    static const float second[] = {0, 7, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(md_op_create(&op, context, "Y[t,d] = E[ids[t],d]", &(md_op_options){.bounds = bounds[i]}),
                         MD_OK);
        md_status s = md_call(op, NULL, a, 3);
        if (bounds[i] == MD_BOUNDS_REPORT)
            expect_message(s, MD_INVALID_ARGUMENT, "index 7 is outside axis 0 of 'E', which has 4", "gather");
        else
            assert_int_equal(s, MD_OK);
        assert_true(out[0] == 1 && out[2] == second[i] && out[4] == 3);
        md_op_destroy(&op);
    }
}

/* Sets the arguments of X, Y and n, whichever order they have. */
static void set_arguments(md_arg out[3], const md_op *op, const md_tensor tensor[3])
{
    for (int32_t i = 0; i < 3; i++) {
        md_arg_info info;
        assert_int_equal(md_op_arg(&info, op, i), MD_OK);
        out[i] = md_t(&tensor[info.name[0] == 'n' ? 2 : info.name[0] == 'Y']);
    }
}

/* A length above the size, where a mask looks it up: by a kernel of elements, of rows, and of a chain, by the reference
 * evaluator, at the first call and at later ones. Other comparisons say nothing of lengths. */
static void lengths(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_reported;
    } row[] = {
        {"Y[b,j] = where(j < n:i32[b], X[b,j], -inf)", true},
        {"Y[b,j] = where(j <= n:i32[b] - 1 and X[b,j] > 0, X[b,j], -inf)", true},
        {"let S[b,j] = where(j < n:i32[b], X[b,j], -inf); Y[b,j] = exp(S[b,j] - max[k](S[b,k]))", true},
        {"let S[b,i,j] = where(j < n:i32[b], sum[d](X[b,i,d] * X[b,j,d]), -inf); let E[b,i,j] = exp(S[b,i,j] - "
         "max[k](S[b,i,k])); Y[b,i,e] = sum[j](E[b,i,j] * X[b,j,e]) / sum[j](E[b,i,j])",
         true},
        {"Y[b,j] = where(n:i32[b] > j, X[b,j], -inf)", false},
        {"Y[b,j] = where(j < n:i32[b] + 1, X[b,j], -inf)", false},
        {"Y[b,j] = where(j < n:i32[b], X[b,j], 0)", false},
    };
    const int64_t size[] = {2, 3, 4};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *op = NULL;
        int32_t n[2];
        const int rank = strstr(row[i].text, "X[b,j,d]") ? 3 : 2;
        const md_tensor tensor[3] = {md_tensor_make(x, MD_F32, rank, size), md_tensor_make(y, MD_F32, rank, size),
                                     md_tensor_make(n, MD_I32, 1, size)};
        md_arg a[3];
        for (int k = 0; k < 24; k++)
            x[k] = 1 + (float)k / 8;
        assert_int_equal(md_op_create(&op, context, row[i].text, NULL), MD_OK);
        set_arguments(a, op, tensor);
        for (int call = 0; call < 8; call++) {
            n[0] = call % 4 == 3 ? 0 : 3;
            n[1] = call % 2 ? 4 : 2;
            const md_status s = call == 7 ? md_reference(op, a, 3) : md_call(op, NULL, a, 3);
            if (call % 2 && row[i].is_reported)
                expect_message(s, MD_INVALID_ARGUMENT, "length 4 in 'n' is above the size of '", row[i].text);
            else
                assert_int_equal(s, MD_OK);
        }
        md_op_destroy(&op);
    }
}

static void contexts(void **state)
{
    (void)state;
    md_context *c = NULL;
    static const struct {
        const char *name, *value, *part;
    } row[] = {
        {"MD_SELECT", "magic", "MD_SELECT"}, {"MD_HINTS", "64,banana", "MD_HINTS"},
        {"MD_HINTS", "0", "MD_HINTS"},       {"MD_THREADS", "-1", "MD_THREADS"},
        {"MD_THREADS", "many", "many"},      {"MD_MAX_SHAPES", "0", "MD_MAX_SHAPES"},
        {"MD_METRIC", "l2", "inductor"},     {"MD_PERSISTENT", "yes", "never"},
        {"MD_DEVICE", "tpu", "tpu"},         {"MD_DEVICE", "cuda:x", "cuda"},
        {"MD_LOG", "loud", "MD_LOG"},        {"MD_NUMERIC", "exact", "deterministic"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        setenv(row[i].name, row[i].value, 1);
        md_status s = md_context_create(&c, NULL);
        unsetenv(row[i].name);
        if (s == MD_OK)
            fail_msg("%s=%s was accepted", row[i].name, row[i].value);
        assert_null(c);
        expect_message(s, s, row[i].part, row[i].value);
        assert_true(s == MD_INVALID_ARGUMENT || s == MD_UNSUPPORTED);
    }
    expect_message(md_context_create(NULL, NULL), MD_INVALID_ARGUMENT, "out", "no out");
    expect_message(md_context_create(&c, &(md_context_options){.select = 77}), MD_INVALID_ARGUMENT, "77", "select");
}

static void pins(void **state)
{
    (void)state;
    md_op *op = NULL;
    static const struct {
        const char *pin, *part;
    } row[] = {
        {"nosuch/a1", "nosuch"},
        {"row_looped/bogus7", "bogus"},
        {"gemm", "gemm"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_status s = md_op_create(&op, context, "Y[i] = sum[j](X[i,j])", &(md_op_options){.pin = row[i].pin});
        if (s == MD_OK)
            fail_msg("pin '%s' was accepted", row[i].pin);
        expect_message(s, s, row[i].part, row[i].pin);
        assert_null(op);
    }
}

/* The op works without a compiler, by the reference, and says so in the log. */
static int n_warnings;
static void count_warning(void *user, md_log_level level, const char *message)
{
    (void)user;
    (void)message;
    n_warnings += level == MD_LOG_WARN;
}

static void no_compiler(void **state)
{
    (void)state;
    static const char *const cc[] = {"/nonexistent/cc", "false"};
    for (size_t i = 0; i < 2; i++) {
        md_context *c = NULL;
        md_op *op = NULL;
        n_warnings = 0;
        assert_int_equal(
            md_context_create(&c,
                              &(md_context_options){.cc = cc[i], .device = "host", .log = count_warning, .threads = 1}),
            MD_OK);
        assert_int_equal(md_op_create(&op, c, "Y[i] = X[i] + 1", NULL), MD_OK);
        const int64_t size[] = {3};
        md_tensor ty = md_tensor_make(y, MD_F32, 1, size), tx = md_tensor_make(x, MD_F32, 1, size);
        md_arg a[2] = {md_t(&ty), md_t(&tx)};
        md_choice choice;
        x[2] = 41;
        assert_int_equal(md_call(op, NULL, a, 2), MD_OK);
        assert_true(y[2] == 42.0f);
        assert_int_equal(md_choice_of(&choice, op, a, 2), MD_OK);
        assert_string_equal(choice.variant[0], "reference");
        assert_true(n_warnings > 0);
        md_op_destroy(&op);
        md_context_destroy(&c);
    }
}

static void temporary_folder(void **state)
{
    (void)state;
    md_context *c = NULL;
    md_op *op = NULL;
    n_warnings = 0;
    setenv("TMPDIR", "/nonexistent/folder", 1);
    md_status s = md_context_create(&c, &(md_context_options){.device = "host", .log = count_warning, .threads = 1});
    if (s == MD_OK) {
        assert_int_equal(md_op_create(&op, c, "Y[i] = X[i] - 1", NULL), MD_OK);
        assert_true(n_warnings > 0);
        md_op_destroy(&op);
        md_context_destroy(&c);
    }
    unsetenv("TMPDIR");
}

static void nothing_is_enough(void **state)
{
    (void)state;
    md_op *op = NULL;
    assert_int_equal(md_op_create(&op, context, "Y[i,j] = X[i,j] / sum[j](X[i,j])", NULL), MD_OK);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 2; j++) {
            const int64_t size[] = {i, j};
            md_tensor ty = md_tensor_make(i && j ? y : NULL, MD_F32, 2, size),
                      tx = md_tensor_make(i && j ? x : NULL, MD_F32, 2, size);
            md_arg a[2] = {md_t(&ty), md_t(&tx)};
            x[0] = 5;
            assert_int_equal(md_call(op, NULL, a, 2), MD_OK);
            if (i && j)
                assert_true(y[0] == 1.0f);
        }
    md_op_destroy(&op);
    assert_int_equal(md_op_create(&op, context, "Y[i] = sum[j](X[i,j])", NULL), MD_OK);
    const int64_t size[] = {3, 0};
    md_tensor ty = md_tensor_make(y, MD_F32, 1, size), tx = md_tensor_make(NULL, MD_F32, 2, size);
    md_arg a[2] = {md_t(&ty), md_t(&tx)};
    y[0] = y[1] = y[2] = 9;
    assert_int_equal(md_call(op, NULL, a, 2), MD_OK);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0); /* the sum of nothing is 0 */
    md_op_destroy(&op);
    assert_int_equal(md_op_create(&op, context, "Y[i] = max[j](X[i,j])", NULL), MD_OK);
    expect_message(md_call(op, NULL, a, 2), MD_INVALID_ARGUMENT, "max", "the max of nothing");
    md_op_destroy(&op);
}

static void destroying_nothing(void **state)
{
    (void)state;
    md_context *c = NULL;
    md_op *op = NULL;
    md_launch *launch = NULL;
    md_context_destroy(NULL);
    md_context_destroy(&c);
    md_op_destroy(NULL);
    md_op_destroy(&op);
    md_launch_destroy(NULL);
    md_launch_destroy(&launch);
    md_free(NULL, NULL);
    assert_int_equal(md_op_n_args(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts), /* they change the environment: nothing is being built yet */
        cmocka_unit_test(no_compiler),
        cmocka_unit_test(temporary_folder),
        cmocka_unit_test(attention),
        cmocka_unit_test(formulas),
        cmocka_unit_test(formula_errors_show_the_place),
        cmocka_unit_test(calls),
        cmocka_unit_test(overlaps),
        cmocka_unit_test(an_overwritten_input_is_copied),
        cmocka_unit_test(indices_out_of_range),
        cmocka_unit_test(lengths),
        cmocka_unit_test(pins),
        cmocka_unit_test(nothing_is_enough),
        cmocka_unit_test(destroying_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
