/* Ops from the first variant to the last, prepared and frozen, shared and destroyed in any order. */
#include "support/check.h"

#include <md/md.h>

#include <malloc.h>

static const char *const formula = "Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))";

static int make_context(void **state)
{
    return md_context_create((md_context **)state,
                             &(md_context_options){.device = "host", .threads = 2, .hints = "16,64"}) == MD_OK
               ? 0
               : -1;
}

static int end_context(void **state)
{
    md_context_destroy((md_context **)state);
    return 0;
}

static md_status softmax(md_op *op, int64_t rows, int64_t columns)
{
    static _Alignas(64) float x[64 * 200], y[64 * 200];
    const int64_t size[] = {rows, columns};
    md_tensor ty = md_tensor_make(y, MD_F32, 2, size), tx = md_tensor_make(x, MD_F32, 2, size);
    md_status s = md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2);
    for (int64_t i = 0; i < rows * columns && s == MD_OK; i++) {
        assert_float_equal(y[i], 1.0 / (double)columns, 1e-5);
        y[i] = -1.0f;
    }
    return s;
}

static void made_while_it_serves(void **state)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, *state, formula, &(md_op_options){.async = 1}));
    for (int64_t n = 1; n < 200; n += 7)
        assert_ok(softmax(op, 64, n));
    assert_ok(md_op_wait(op));
    for (int64_t n = 1; n < 200; n += 7)
        assert_ok(softmax(op, 64, n));
    md_op_destroy(&op);
}

static void prepared_and_frozen(void **state)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, *state, formula, NULL));
    assert_ok(md_prepare(op, "i=8, j=24; i=8, j=32;\n i=64, j=64 ;"));
    assert_fails(md_prepare(op, "i=8, j=24; i=8, h=32"), MD_INVALID_ARGUMENT, "no dim 'h'");
    assert_fails(md_prepare(op, ""), MD_INVALID_ARGUMENT, "is missing");
    assert_ok(md_freeze(op, MD_FREEZE_FAIL));
    assert_ok(softmax(op, 8, 24));
    assert_ok(softmax(op, 8, 32));
    assert_ok(softmax(op, 64, 64));
    assert_fails(softmax(op, 9, 24), MD_UNSUPPORTED, "is frozen, and this shape was not met before");
    assert_ok(md_freeze(op, MD_FREEZE_READY));
    assert_ok(softmax(op, 9, 24));
    assert_fails(md_freeze(op, (md_freeze_mode)9), MD_INVALID_ARGUMENT, "no md_freeze_mode");
    assert_ok(md_freeze_all(*state, MD_FREEZE_FAIL));
    assert_fails(softmax(op, 10, 24), MD_UNSUPPORTED, "frozen");
    assert_ok(md_freeze_all(*state, MD_FREEZE_NONE));
    assert_ok(softmax(op, 10, 24));
    md_op_destroy(&op);
}

static void equal_ops_share_and_go_in_any_order(void **state)
{
    md_op *op[4] = {NULL};
    for (int i = 0; i < 4; i++)
        assert_ok(md_op_create(&op[i], *state, i == 3 ? "softmax" : formula,
                               &(md_op_options){.name = "soft", .async = i == 1}));
    assert_ok(md_freeze(op[0], MD_FREEZE_FAIL));
    assert_fails(softmax(op[1], 5, 5), MD_UNSUPPORTED, "frozen"); /* one op */
    assert_ok(md_freeze(op[2], MD_FREEZE_NONE));
    assert_ok(softmax(op[1], 5, 5));
    md_op_destroy(&op[1]);
    assert_ok(softmax(op[2], 5, 5));
    md_op_destroy(&op[0]);
    assert_ok(softmax(op[2], 5, 6));
    md_launch *launch = NULL;
    float x[4] = {0}, y[4];
    md_tensor ty = md_tensor_make(y, MD_F32, 2, (int64_t[]){2, 2}),
              tx = md_tensor_make(x, MD_F32, 2, (int64_t[]){2, 2});
    assert_ok(md_resolve(&launch, op[2], (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    assert_ok(md_launch_run(launch, NULL, NULL, 0));
    assert_ok(softmax(op[3], 5, 5));
    md_op_destroy(&op[2]);
    md_op_destroy(&op[3]);
    y[3] = 7.0f;
    assert_ok(md_launch_run(launch, NULL, NULL, 0)); /* it outlives all handles */
    assert_float_equal(y[3], 0.5, 1e-6);
    md_launch_destroy(&launch);
}

static int add_number(void *user, const char *text, size_t n_bytes)
{
    (void)n_bytes;
    int64_t *sum = user;
    const char *calls = text;
    while ((calls = strstr(calls, "\"calls\": ")) != NULL) {
        sum[0] += atoll(calls + strlen("\"calls\": "));
        sum[1]++;
        calls++;
    }
    return 0;
}

/* 0 with sanitizers. */
static size_t used_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* What outlives an op is merged: neither memory nor the report grows with the ops that come and go. */
static void what_outlives_an_op_is_bounded(void **state)
{
    enum { SHAPES = 1500, ROUNDS = 12, KIB = 1024 };
    size_t after_two = 0;
    for (int round = 0; round < ROUNDS; round++) {
        md_op *op = NULL;
        assert_ok(md_op_create(&op, *state, "Y[i,j] = X[i,j] + 1", &(md_op_options){.max_variants = 1}));
        for (int64_t i = 0; i < SHAPES; i++) {
            static float x[64 * 64], y[64 * 64];
            const int64_t size[] = {1 + i % 40, 1 + i / 40};
            const md_tensor ty = md_tensor_make(y, MD_F32, 2, size), tx = md_tensor_make(x, MD_F32, 2, size);
            assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
        }
        md_op_destroy(&op);
        if (round == 1)
            after_two = used_bytes();
    }
    const size_t after_all = used_bytes();
    printf("%zu KiB after two rounds, %zu KiB after %d\n", after_two / KIB, after_all / KIB, ROUNDS);
    assert_true(after_all < after_two + 12 * KIB * KIB); /* a row of each shape and round would be 40 MiB */
    int64_t sum[2] = {0};
    assert_ok(md_stats_report(*state, "json", add_number, sum));
    assert_int_equal(sum[0], 2 * SHAPES * ROUNDS); /* of the op and of its shapes */
    assert_int_equal(sum[1], SHAPES + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_while_it_serves, make_context, end_context),
        cmocka_unit_test_setup_teardown(prepared_and_frozen, make_context, end_context),
        cmocka_unit_test_setup_teardown(what_outlives_an_op_is_bounded, make_context, end_context),
        cmocka_unit_test_setup_teardown(equal_ops_share_and_go_in_any_order, make_context, end_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
