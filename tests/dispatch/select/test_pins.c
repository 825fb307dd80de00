/* Pins: their language, wrong ones, and pinned variants that do not fit. */
#include "base/status.h"
#include "dispatch/support/script_world.h"
#include "support/check.h"

static const char *const copy = "Y[n] = X[n]";

static const char *const two_stages = "let s:f32[i,j] = sum[k](A[i,k] * B[k,j]); Y[i,j] = s[i,j] / sum[j](s[i,j])";

static void pins(void **state)
{
    (void)state;
    for (int32_t f = 0; f < 3; f++)
        script_allow(f, 0, 1.0 + f);
    md_ds_op_options o = script_options();
    o.pin = " 1 : beta/v0_w0 ; 0:gamma ;";
    md_ds_op *op = script_op(&world, two_stages, &o);
    assert_int_equal(op->n_stages, 2);
    /* a family alone: its default config */
    assert_string_equal(op->stage[0].variant[op->stage[0].pinned]->name, "gamma/v0_w0");
    assert_string_equal(op->stage[1].variant[op->stage[1].pinned]->name, "beta/v0_w0");
    md_ds_op_destroy(&op);
    o.pin = "beta;1:alpha/v0_w0";
    op = script_op(&world, two_stages, &o);
    assert_string_equal(op->stage[0].variant[0]->name, "beta/v0_w0");
    assert_string_equal(op->stage[1].variant[0]->name, "alpha/v0_w0");
    md_ds_op_destroy(&op);
    o.pin = "1:beta";
    op = script_op(&world, two_stages, &o);
    assert_int_equal(op->stage[0].pinned, -1);
    assert_int_equal(op->stage[0].n_variants, 3);
    md_ds_op_destroy(&op);
    o.pin = "beta/v2_w7"; /* not of the search, but of the family */
    op = script_op(&world, copy, &o);
    assert_int_equal(script_call(NULL, op, 5, 1), 12);
    assert_int_equal(script_pick(op, 5, 1).source, MD_DS_PINNED);
    md_ds_op_destroy(&op);
}

static void wrong_pins(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    static const struct {
        const char *pin;
        md_status status;
        const char *part;
    } row[] = {
        {"2:alpha", MD_INVALID_ARGUMENT, "'2' is no stage of op Y, which has 2, counted from 0"},
        {"-1:alpha", MD_INVALID_ARGUMENT, "'-1' is no stage"},
        {"99999999999:alpha", MD_INVALID_ARGUMENT, "is no stage"},
        {"x:alpha", MD_INVALID_ARGUMENT, "'x' is no stage"},
        {":alpha", MD_INVALID_ARGUMENT, "'' is no stage"},
        {"0: ;1:alpha", MD_INVALID_ARGUMENT, "no variant behind '0:'"},
        {"delta/v0", MD_NOT_FOUND, "no family named \"delta\" (there are alpha, beta, gamma, last)"},
        {"alpha/z1", MD_NOT_FOUND, "\"z1\" is no field of family alpha (v, w)"},
        {"alpha/v9", MD_NOT_FOUND, "v of family alpha cannot be 9"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_op *op = NULL;
        md_ds_op_options o = script_options();
        o.pin = row[i].pin;
        assert_fails(md_ds_op_create(&op, &world.runtime, two_stages, &o), row[i].status, row[i].part);
        assert_null(op);
    }
    md_ds_op *op = NULL;
    md_ds_op_options o = script_options();
    o.pin = "alpha";
    script_now.applies[SCRIPT_ALPHA] = false;
    assert_fails(md_ds_op_create(&op, &world.runtime, copy, &o), MD_INVALID_ARGUMENT, "does not apply");
    script_now.applies[SCRIPT_ALPHA] = true;
    script_now.row[SCRIPT_ALPHA][0].cannot_compile = true;
    assert_fails(md_ds_op_create(&op, &world.runtime, copy, &o), MD_COMPILE, "scripted: this text does not compile");
}

static void a_pin_that_does_not_fit_says_why(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->hi = 100;
    script_allow(SCRIPT_BETA, 0, 1.0);
    md_ds_op_options o = script_options();
    md_status s;
    o.pin = "alpha/v0_w0";
    md_ds_op *op = script_op(&world, copy, &o);
    assert_int_equal(script_call(NULL, op, 100, 1), 0);
    assert_int_equal(script_call(&s, op, 101, 1), -1);
    assert_int_equal(s, MD_UNSUPPORTED);
    assert_non_null(strstr(md_last_error(), "'alpha/v0_w0' does not fit the shape: dim larger than compiled"));
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_pins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pin_that_does_not_fit_says_why, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
