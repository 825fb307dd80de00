/* Numeric policies: one class serves a shape, whatever hints, modes and builds do. Bits themselves are compared in
 * tests/numeric. */
#include "dispatch/select/select.h"
#include "dispatch/numeric/numeric.h"
#include "dispatch/support/script_world.h"
#include "support/check.h"

static const char *const copy = "Y[n] = X[n]";

static script_row *allow(int32_t family, int32_t v, double us, int32_t class)
{
    script_row *row = script_allow(family, v, us);
    row->numeric = class;
    row->is_invariant = true;
    return row;
}

static md_ds_op *op_of(md_numeric policy, const char *hints, md_select select)
{
    md_ds_op_options o = script_options();
    o.compile.policy.numeric = policy;
    o.compile.policy.select = select;
    o.compile.hints = hints;
    return script_op(&world, copy, &o);
}

/* beta is best for short vectors, alpha for long ones. */
static void two_classes(void)
{
    allow(SCRIPT_ALPHA, 0, 50.0, 1);
    allow(SCRIPT_BETA, 0, 1.0, 2)->us_each = 0.1;
}

static void a_class_follows_from_the_shape(void **state)
{
    (void)state;
    static const char *const hints[] = {"64", "4096", "64,256,4096", "1,1000000"};
    static const md_select select[] = {MD_SELECT_MODEL, MD_SELECT_DISTANCE, MD_SELECT_MEASURE};
    two_classes();
    for (size_t h = 0; h < sizeof hints / sizeof *hints; h++)
        for (size_t s = 0; s < sizeof select / sizeof *select; s++) {
            md_ds_op *op = op_of(MD_NUMERIC_DETERMINISTIC, hints[h], select[s]);
            assert_int_equal(script_call(NULL, op, 10, 1), 10 * SCRIPT_BETA);
            assert_int_equal(script_call(NULL, op, 1000, 1), 10 * SCRIPT_ALPHA);
            assert_int_equal(script_call(NULL, op, 100000, 1), 10 * SCRIPT_ALPHA);
            assert_int_equal(script_call(NULL, op, 11, 1), 10 * SCRIPT_BETA);
            md_ds_op_destroy(&op);
        }
}

/* No reduction runs over n: it says nothing. */
static void a_batch_says_nothing(void **state)
{
    (void)state;
    two_classes();
    md_ds_op *op = op_of(MD_NUMERIC_BATCH_INVARIANT, "2,8", MD_SELECT_MODEL);
    for (int64_t n = 1; n < 100000; n = n * 3 + 1)
        assert_int_equal(script_call(NULL, op, n, 1), 10 * SCRIPT_ALPHA);
    md_ds_op_destroy(&op);
    script_now.row[SCRIPT_ALPHA][0].is_invariant = false;
    op = op_of(MD_NUMERIC_BATCH_INVARIANT, "2,8", MD_SELECT_MODEL);
    assert_int_equal(script_call(NULL, op, 5000, 1), 10 * SCRIPT_BETA);
    md_ds_op_destroy(&op);
    op = op_of(MD_NUMERIC_DETERMINISTIC, "2,8", MD_SELECT_MODEL);
    assert_int_equal(script_call(NULL, op, 5000, 1), 10 * SCRIPT_ALPHA);
    md_ds_op_destroy(&op);
}

static void what_promises_nothing_serves_fast_only(void **state)
{
    (void)state;
    allow(SCRIPT_ALPHA, 0, 1.0, 0);
    allow(SCRIPT_BETA, 0, 9.0, 2);
    md_ds_op *op = op_of(MD_NUMERIC_FAST, "64", MD_SELECT_MODEL);
    assert_int_equal(script_call(NULL, op, 100, 1), 10 * SCRIPT_ALPHA);
    md_ds_op_destroy(&op);
    op = op_of(MD_NUMERIC_DETERMINISTIC, "64", MD_SELECT_MODEL);
    assert_int_equal(script_call(NULL, op, 100, 1), 10 * SCRIPT_BETA);
    for (int32_t i = 0; i < op->stage[0].n_variants; i++)
        assert_ptr_not_equal(strstr(op->stage[0].variant[i]->name, "alpha"), op->stage[0].variant[i]->name);
    md_ds_op_destroy(&op);
    md_ds_op_options o = script_options();
    o.compile.policy.numeric = MD_NUMERIC_DETERMINISTIC;
    o.pin = "alpha/v0_w0";
    assert_fails(md_ds_op_create(&op, &world.runtime, copy, &o), MD_INVALID_ARGUMENT,
                 "not under the numeric policy deterministic");
}

static void without_any_class_the_reference_serves(void **state)
{
    (void)state;
    allow(SCRIPT_ALPHA, 0, 1.0, 0);
    md_ds_op *op = op_of(MD_NUMERIC_DETERMINISTIC, "64", MD_SELECT_MODEL);
    assert_int_equal(script_pick(op, 100, 1).source, MD_DS_REFERENCE);
    md_ds_op_destroy(&op);
}

/* The clock chooses within the class. */
static void measuring_stays_in_the_class(void **state)
{
    (void)state;
    script_own_clock(&world);
    allow(SCRIPT_ALPHA, 0, 1.0, 1)->slow_us = 2000;
    allow(SCRIPT_BETA, 1, 2.0, 1)->slow_us = 200;
    allow(SCRIPT_GAMMA, 0, 3.0, 2);
    md_ds_op *op = op_of(MD_NUMERIC_DETERMINISTIC, "64", MD_SELECT_MEASURE);
    assert_int_equal(script_call(NULL, op, 100, 1), 10 * SCRIPT_BETA + 1);
    md_ds_op_destroy(&op);
    op = op_of(MD_NUMERIC_FAST, "64", MD_SELECT_MEASURE);
    assert_int_equal(script_call(NULL, op, 100, 1), 10 * SCRIPT_GAMMA);
    md_ds_op_destroy(&op);
}

/* What represents a class is built before the op is there: if it fails, the class never served. */
static void a_class_that_cannot_be_built_never_serves(void **state)
{
    (void)state;
    two_classes();
    script_now.row[SCRIPT_ALPHA][0].cannot_compile = true;
    md_ds_op_options o = script_options();
    o.compile.policy.numeric = MD_NUMERIC_DETERMINISTIC;
    o.is_async = true;
    md_ds_op *op = script_op(&world, copy, &o);
    for (int64_t n = 10; n < 100000; n *= 10)
        assert_int_equal(script_call(NULL, op, n, 1), 10 * SCRIPT_BETA);
    md_ds_op_destroy(&op);
}

/* Where the class of the nearest point does not fit, another one does, always the same. */
static void envelopes_come_first(void **state)
{
    (void)state;
    two_classes();
    script_now.row[SCRIPT_ALPHA][0].needs_unit = true;
    allow(SCRIPT_LAST, 0, 500.0, 3);
    md_ds_op *op = op_of(MD_NUMERIC_DETERMINISTIC, "64,4096", MD_SELECT_MODEL);
    assert_int_equal(script_call(NULL, op, 1000, 1), 10 * SCRIPT_ALPHA);
    assert_int_equal(script_call(NULL, op, 1000, 2), 10 * SCRIPT_BETA);
    script_now.row[SCRIPT_BETA][0].needs_unit = true;
    md_ds_op_destroy(&op);
    op = op_of(MD_NUMERIC_DETERMINISTIC, "64,4096", MD_SELECT_MODEL);
    assert_int_equal(script_call(NULL, op, 1000, 2), 10 * SCRIPT_LAST);
    assert_int_equal(script_call(NULL, op, 1000, 1), 10 * SCRIPT_ALPHA);
    md_ds_op_destroy(&op);
}

/* A config competes for its class where it is correct, and nowhere else: beyond 300 elements alpha's best is not. */
static void what_does_not_fit_wins_no_class(void **state)
{
    (void)state;
    static const md_numeric policies[] = {MD_NUMERIC_DETERMINISTIC, MD_NUMERIC_BATCH_INVARIANT};
    allow(SCRIPT_ALPHA, 0, 50.0, 1)->hi = 300;
    allow(SCRIPT_ALPHA, 1, 90.0, 1);
    allow(SCRIPT_BETA, 0, 60.0, 2);
    md_ds_op *op = op_of(MD_NUMERIC_DETERMINISTIC, "64,4096", MD_SELECT_MODEL);
    assert_int_equal(script_call(NULL, op, 10, 1), 10 * SCRIPT_ALPHA);
    for (int64_t n = 1000; n < 100000; n *= 3)
        assert_int_equal(script_call(NULL, op, n, 1), 10 * SCRIPT_BETA);
    md_ds_op_destroy(&op);
    script_now.row[SCRIPT_ALPHA][0].hi = 0; /* for aligned rows only: rows with gaps choose among the others */
    script_now.row[SCRIPT_ALPHA][0].needs_unit = true;
    for (int i = 0; i < 2; i++) {
        op = op_of(policies[i], "64,4096", MD_SELECT_MODEL);
        assert_int_equal(script_call(NULL, op, 1000, 1), 10 * SCRIPT_ALPHA);
        md_ds_op_destroy(&op);
    }
}

static void a_scatter_by_set_is_refused(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->numeric = 1;
    md_ds_op *op = NULL;
    md_ds_op_options o = script_options();
    static const char *const refused[] = {"T[ids[t],d] = K[t,d]",
                                          "let k[t,d] = K[t,d] * 2; Y[d] = sum[t](k[t,d]); T[ids[t],d] = k[t,d]"};
    for (int32_t i = 0; i < 2; i++)
        for (int32_t p = MD_NUMERIC_DETERMINISTIC; p <= MD_NUMERIC_BATCH_INVARIANT; p++) {
            o.compile.policy.numeric = (md_numeric)p;
            assert_fails(md_ds_op_create(&op, &world.runtime, refused[i], &o), MD_INVALID_ARGUMENT,
                         "'T' is written by '='");
        }
    static const char *const allowed[] = {"G[ids[t],d] += D[t,d]", "G[ids[t],d] max= D[t,d]", "Y[t,d] = E[ids[t],d]"};
    for (int32_t i = 0; i < 3; i++) {
        assert_ok(md_ds_op_create(&op, &world.runtime, allowed[i], &o));
        md_ds_op_destroy(&op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_class_follows_from_the_shape, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_batch_says_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_promises_nothing_serves_fast_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_any_class_the_reference_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_stays_in_the_class, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_class_that_cannot_be_built_never_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(envelopes_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_fit_wins_no_class, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_scatter_by_set_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
