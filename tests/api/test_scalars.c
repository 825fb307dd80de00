/* Scalars are doubles until they meet an element: what scalars and constants alone make is computed in f64 and rounded
 * once, by every way of calling: warm calls, launches, combos, lists, sequences, and without a compiler. */
#include "support/check.h"

#include <md/combo.h>
#include <md/list.h>
#include <md/sequence.h>

#include <math.h>

enum { N = 37 };

static const char FORMULA[] = "scalar b; Y[i] = (1 - b) * X[i]";
static const double BETA[] = {0.9999999, 0.99999999, 0.1, 1.0 / 3};
static float x[N], y[N];
static const int64_t size[] = {N};
static md_tensor tx, ty;
static md_arg args[3]; /* b, Y, X */

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = 1;
    tx = md_tensor_make(x, MD_F32, 1, size);
    ty = md_tensor_make(y, MD_F32, 1, size);
    args[1] = md_t(&ty);
    args[2] = md_t(&tx);
    return 0;
}

static md_context *make_context(const char *cc)
{
    md_context *context = NULL;
    assert_ok(
        md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .hints = "64", .cc = cc}));
    return context;
}

static md_op *make(md_context *context, const char *formula)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula, NULL));
    return op;
}

/* Y is what f64 gives, rounded once. */
static void check_values(double beta, const char *way)
{
    for (int i = 0; i < N; i++)
        if (y[i] != (float)(1 - beta))
            fail_msg("%s: 1 - %.17g is %.9g, not %.9g", way, beta, (double)y[i], 1 - beta);
    memset(y, 0xff, sizeof y);
}

static void calls(void **state)
{
    (void)state;
    for (int has_compiler = 0; has_compiler < 2; has_compiler++) {
        md_context *context = make_context(has_compiler ? NULL : "/nonexistent/cc");
        md_op *op = make(context, FORMULA);
        md_launch *launch = NULL;
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 4; i++) {
                args[0] = md_s(BETA[i]);
                assert_ok(md_call(op, NULL, args, 3));
                check_values(BETA[i], "a call");
            }
        assert_ok(md_resolve(&launch, op, args, 3));
        for (int i = 0; i < 4; i++) {
            args[0] = md_s(BETA[i]);
            assert_ok(md_launch_run(launch, NULL, args, 3));
            check_values(BETA[i], "a launch");
        }
        md_launch_destroy(&launch);
        md_op_destroy(&op);
        md_context_destroy(&context);
    }
}

static void combos(void **state)
{
    (void)state;
    md_context *context = make_context(NULL);
    md_op *op = make(context, FORMULA);
    md_combo *combo = NULL;
    const md_combo_part part = {op, args, 3, 1};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 4; i++) {
            args[0] = md_s(BETA[i]);
            assert_ok(md_combo_call(context, NULL, &part, 1));
            check_values(BETA[i], "a combo");
        }
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    for (int i = 0; i < 4; i++) {
        const md_arg scalar = md_s(BETA[i]);
        assert_ok(md_combo_run(combo, NULL, &scalar, 1));
        check_values(BETA[i], "a bound combo");
    }
    md_combo_destroy(&combo);
    md_op_destroy(&op);
    md_context_destroy(&context);
}

static void lists(void **state)
{
    (void)state;
    md_context *context = make_context(NULL);
    md_list *list = NULL;
    assert_ok(md_list_create(&list, context, "scalar b; Y@t[i] = (1 - b) * X@t[i]", NULL));
    for (int i = 0; i < 4; i++) {
        const md_arg given[] = {md_s(BETA[i]), md_ts(&ty, 1), md_ts(&tx, 1)};
        assert_ok(md_list_call(list, NULL, given, 3));
        check_values(BETA[i], "a list");
    }
    md_list_destroy(&list);
    md_context_destroy(&context);
}

static void sequences(void **state)
{
    (void)state;
    md_context *context = make_context(NULL);
    md_op *op = make(context, FORMULA);
    md_sequence *s = NULL;
    int32_t b = 0, in = 0, out = 0;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 1, N));
    assert_ok(md_sequence_add_scalar(&b, s, "b", MD_F64));
    assert_ok(md_sequence_add_tensor(&in, s, &(md_sequence_tensor){.role = MD_SEQUENCE_INPUT, .size = "n"}));
    assert_ok(md_sequence_add_tensor(&out, s, &(md_sequence_tensor){.role = MD_SEQUENCE_OUTPUT, .size = "n"}));
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = b}, {.id = out}, {.id = in}}, 3));
    assert_ok(md_sequence_finish(s));
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 4; i++) {
            double beta = BETA[i];
            assert_ok(md_sequence_run(s, NULL, size, 1, (void *[]){&beta, x, y}, 3));
            check_values(beta, "a sequence");
        }
    md_sequence_destroy(&s);
    md_op_destroy(&op);
    md_context_destroy(&context);
}

/* What is computed in f64, and what is as before. */
static void expressions(void **state)
{
    (void)state;
    const double b = 0.7, one = 1.0;
    const struct {
        const char *formula;
        double right; /* at b = 0.7 and n = 3, X = 1; correct to half a unit in the last place */
    } row[] = {
        {"scalar b, n:i64; Y[i] = X[i] * (1 - pow(b, n))", one - b * b * b},
        {"scalar b, n:i64; Y[i] = X[i] * (0.1 * b - 0.07) + 0 * n", 0},
        {"scalar b, n:i64; Y[i] = X[i] * where(b == 0.7 and n == 3, 2, 1)", 2},
        {"scalar b, n:i64; Y[i] = X[i] * (b / n / size(i))", 0.7 / 3 / N},
        {"scalar b, n:i64; Y[i] = X[i] * (f32(n) / (b * 16777217))", 3 / (0.7 * 16777217)},
        {"scalar b, n:i64; Y[i] = X[i] * f32(i64(b * 10)) + 0 * n", 7},
        {"scalar b, n:i64; Y[i] = X[i] * b + 0 * n", (double)0.7f},
    };
    md_context *context = make_context(NULL);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *op = make(context, row[i].formula);
        const md_arg given[] = {md_s(b), md_i(3), md_t(&ty), md_t(&tx)};
        assert_ok(md_call(op, NULL, given, 4));
        for (int k = 0; k < N; k++)
            if (fabs((double)y[k] - row[i].right) > 0x1.01p-24 * fabs(row[i].right) + 2e-17)
                fail_msg("%s: %.9g, not %.9g", row[i].formula, (double)y[k], row[i].right);
        md_op_destroy(&op);
    }
    md_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),     cmocka_unit_test(combos),      cmocka_unit_test(lists),
        cmocka_unit_test(sequences), cmocka_unit_test(expressions),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
