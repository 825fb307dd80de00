/* What serves if the choice fails: variants that do not compile, launch or fit, full pools, the reference. */
#include "base/status.h"
#include "dispatch/select/select.h"
#include "dispatch/support/script_world.h"
#include "dispatch/call/call.h"
#include "support/check.h"

static const char *const copy = "Y[n] = X[n]";

static void a_variant_that_does_not_compile_is_never_picked(void **state)
{
    (void)state;
    static const md_select mode[] = {MD_SELECT_DISTANCE, MD_SELECT_MODEL, MD_SELECT_MEASURE};
    script_allow(SCRIPT_ALPHA, 0, 1.0)->cannot_compile = true;
    script_allow(SCRIPT_BETA, 0, 2.0)->cannot_emit = true;
    script_allow(SCRIPT_GAMMA, 0, 3.0);
    for (size_t i = 0; i < 3; i++) {
        md_ds_op_options o = script_options();
        o.compile.policy.select = mode[i];
        world.n_warnings = 0;
        md_ds_op *op = script_op(&world, copy, &o);
        assert_int_equal(world.n_warnings, 0); /* another variant serves */
        for (int64_t n = 1; n < 10000; n *= 7)
            assert_int_equal(script_call(NULL, op, n, 1), 20);
        assert_int_equal(script_pick(op, 64, 1).runner_up, -1);
        md_kn_shape shape = {.size = {64}, .unit = 3};
        assert_string_equal(md_ds_reject_reason(&op->stage[0], 0, &shape), "could not be built");
        md_ds_op_destroy(&op);
    }
}

/* The call fails with the launch's own message, nothing is lost, and the next call may succeed. */
static void a_variant_that_does_not_launch_gives_its_error(void **state)
{
    (void)state;
    script_row *row = script_allow(SCRIPT_ALPHA, 0, 1.0);
    md_status s;
    md_ds_op *op = script_op(&world, copy, NULL);
    atomic_store(&row->cannot_launch, true);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(script_call(&s, op, 64, 1), -1);
        assert_int_equal(s, MD_DEVICE);
        assert_string_equal(md_last_error(), "scripted: v0 of family 0 does not launch");
        assert_non_null(world.runtime.blocks); /* the workspace came back */
        assert_null(world.runtime.blocks->next);
    }
    atomic_store(&row->cannot_launch, false);
    assert_int_equal(script_call(NULL, op, 64, 1), 0);
    md_ds_op_options o = script_options();
    o.compile.policy.select = MD_SELECT_MEASURE; /* no variant can be measured: the model's pick gives its error */
    atomic_store(&row->cannot_launch, true);
    md_ds_op_destroy(&op);
    op = script_op(&world, copy, &o);
    assert_int_equal(script_call(&s, op, 64, 1), -1);
    assert_int_equal(s, MD_DEVICE);
    md_ds_op_destroy(&op);
}

static void the_reference_serves_where_nothing_was_built(void **state)
{
    (void)state;
    for (int32_t f = 0; f < SCRIPT_FAMILIES; f++)
        script_allow(f, 0, 1.0)->cannot_compile = true;
    for (int32_t mode = MD_SELECT_DISTANCE; mode <= MD_SELECT_MEASURE; mode++) {
        md_ds_op_options o = script_options();
        o.compile.policy.select = (md_select)mode;
        md_ds_op *op = script_op(&world, "Y[n] = X[n] + 1", &o);
        assert_non_null(
            strstr(world.warning, "op Y, stage 0: no kernel could be built, so the reference evaluator serves"));
        script_vectors v;
        script_vectors_make(&v, 50, 3);
        assert_ok(md_ds_call(op, NULL, v.arg, 2));
        for (int64_t i = 0; i < 50; i++)
            assert_true(v.y[i] == (float)(3 * i + 1));
        script_vectors_free(&v);
        md_ds_pick p = script_pick(op, 50, 3);
        assert_int_equal(p.source, MD_DS_REFERENCE);
        assert_string_equal(md_ds_source_name(p.source), "reference");
        assert_int_equal(p.variant, -1);
        assert_int_equal(op->count.by_reference, 1);
        md_ds_op_destroy(&op);
    }
}

static void a_shape_that_none_fits_gets_a_variant_of_its_own(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->hi = 4096;
    script_row *big = script_allow(SCRIPT_ALPHA, 1, 9.0); /* worse than v0 at every hint, but not limited */
    script_allow(SCRIPT_BETA, 2, 20.0)->hi = 4096;
    md_ds_op *op = script_op(&world, copy, NULL);
    assert_int_equal(op->stage[0].n_variants, 2);
    assert_int_equal(script_call(NULL, op, 5000, 1), 1);
    md_ds_pick p = script_pick(op, 5000, 1);
    assert_int_equal(p.source, MD_DS_DEFAULT);
    assert_string_equal(script_name(op, p.variant), "alpha/v1_w0");
    assert_int_equal(md_ds_hints_of(&op->stage[0], p.variant), 0);
    assert_int_equal(op->count.adopted, 1);
    assert_int_equal(script_call(NULL, op, 6000, 1), 1); /* it is a candidate now */
    assert_int_equal(op->stage[0].n_variants, 3);
    assert_int_equal(op->count.adopted, 1);
    big->hi = 7000;
    script_allow(SCRIPT_LAST, 0, 1.0);
    md_ds_op_destroy(&op);
    op = script_op(&world, copy, NULL);
    assert_int_equal(script_call(NULL, op, 8000, 1), 30); /* the last resort */
    assert_int_equal(script_call(NULL, op, 100, 1), 0); /* which is no better where others fit */
    md_ds_op_destroy(&op);
    script_now.row[SCRIPT_LAST][0].cannot_compile = true;
    op = script_op(&world, "Y[n] = X[n] + 1", NULL);
    script_vectors v;
    script_vectors_make(&v, 8000, 1);
    assert_ok(md_ds_call(op, NULL, v.arg, 2)); /* not even that: the reference */
    assert_true(v.y[7999] == 8000.0f);
    script_vectors_free(&v);
    md_ds_op_destroy(&op);
}

/* Shapes that each ask for variants of their own fill the pool; then the last resort serves, not the reference. */
static void a_full_pool_still_serves(void **state)
{
    (void)state;
    script_now.ranges = true;
    script_allow(SCRIPT_LAST, 0, 9.0);
    for (int32_t v = 0; v < SCRIPT_V; v++) {
        script_now.row[SCRIPT_ALPHA][v].us = 5.0;
        script_now.row[SCRIPT_BETA][v].us = 6.0;
        script_now.row[SCRIPT_GAMMA][v].us = 7.0; /* each worse than the one before, which fails: all three are made */
        script_now.row[SCRIPT_ALPHA][v].cannot_compile = script_now.row[SCRIPT_BETA][v].cannot_compile = true;
    }
    for (int32_t mode = MD_SELECT_DISTANCE; mode <= MD_SELECT_MODEL; mode++) {
        md_ds_op_options o = script_options();
        o.compile.hints = "100";
        o.compile.policy.select = (md_select)mode;
        md_ds_op *op = script_op(&world, copy, &o);
        for (int64_t n = 100; n < 4900; n += 100) {
            int32_t mark = script_call(NULL, op, n, 1);
            assert_int_equal(mark / 10,
                             n <= 100 * ((MD_DS_MAX_VARIANTS - MD_DS_LAST_RESORTS) / 3) ? SCRIPT_GAMMA : SCRIPT_LAST);
        }
        assert_int_equal(op->stage[0].n_variants, MD_DS_MAX_VARIANTS - MD_DS_LAST_RESORTS + 1);
        assert_int_equal(script_call(NULL, op, 150, 1) / 10, SCRIPT_GAMMA); /* a new shape for what is there */
        assert_int_equal(op->count.by_reference, 0);
        md_ds_op_destroy(&op);
    }
}

/* One variant for all shapes is the model's, though nothing is tuned. */
static void one_variant_is_the_models(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 5.0);
    script_allow(SCRIPT_ALPHA, 2, 1.0);
    md_ds_op_options o = script_options();
    o.compile.policy.max_variants = 1;
    o.compile.policy.tune = MD_TUNE_OFF;
    md_ds_op *op = script_op(&world, copy, &o);
    assert_int_equal(op->stage[0].n_variants, 1);
    assert_string_equal(script_name(op, 0), "alpha/v2_w0");
    md_ds_op_destroy(&op);
}

static void limits_of_the_pool(void **state)
{
    (void)state;
    script_one_family_a_hint();
    md_ds_op_options o = script_options();
    o.compile.policy.max_variants = 2;
    md_ds_op *op = script_op(&world, copy, &o);
    assert_int_equal(op->stage[0].n_variants, 2);
    md_ds_op_destroy(&op);
    o.compile.policy.max_variants = 0;
    o.compile.policy.without_library = true;
    op = script_op(&world, copy, &o);
    assert_int_equal(op->stage[0].n_variants, 2);
    assert_int_equal(script_call(NULL, op, 4096, 1) / 10, SCRIPT_ALPHA); /* gamma is the library's: not even adopted */
    md_ds_op_destroy(&op);
    o.compile.policy.without_library = false;
    o.compile.policy.persistent = MD_PERSISTENT_ONLY;
    op = script_op(&world, copy, &o);
    assert_string_equal(script_name(op, 0), "alpha/v0_w0");
    assert_string_equal(script_name(op, 1), "gamma/v0_w0"); /* no reduction: not asked */
    assert_int_equal(op->stage[0].n_variants, 2);
    md_ds_op_destroy(&op);
    o.compile.policy.persistent = MD_PERSISTENT_NEVER;
    op = script_op(&world, copy, &o);
    assert_string_equal(script_name(op, 0), "beta/v0_w0");
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_variant_that_does_not_compile_is_never_picked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_variant_that_does_not_launch_gives_its_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_reference_serves_where_nothing_was_built, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shape_that_none_fits_gets_a_variant_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_pool_still_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_variant_is_the_models, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_of_the_pool, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
