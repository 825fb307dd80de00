/* Which variant is picked, and why: envelopes before distance, ranked lists, ties, the model, measuring. */
#include "dispatch/select/select.h"
#include "dispatch/support/script_world.h"
#include "support/check.h"

#include <math.h>

static const char *const copy = "Y[n] = X[n]";

static md_ds_op_options by_distance(void)
{
    md_ds_op_options o = script_options();
    o.compile.policy.select = MD_SELECT_DISTANCE;
    return o;
}

/* At each hint the families stand by their model time there. */
static void lists_are_ranked_at_their_hint(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01;
    script_allow(SCRIPT_BETA, 0, 2.0);
    script_allow(SCRIPT_GAMMA, 0, 2.0); /* as beta everywhere: the table's order decides */
    md_ds_op *op = script_op(&world, copy, NULL);
    const md_ds_pool *pool = &op->stage[0];
    assert_int_equal(pool->n_variants, 3); /* equal configs of several hints merge */
    static const char *const want[3][3] = {{"alpha/v0_w0", "beta/v0_w0", "gamma/v0_w0"},
                                           {"beta/v0_w0", "gamma/v0_w0", "alpha/v0_w0"},
                                           {"beta/v0_w0", "gamma/v0_w0", "alpha/v0_w0"}};
    for (int32_t h = 0; h < 3; h++) {
        assert_int_equal(md_ds_ranks_of(pool)->n[h], 3);
        for (int32_t i = 0; i < 3; i++)
            assert_string_equal(script_name(op, md_ds_ranks_of(pool)->of[h][i].variant), want[h][i]);
    }
    assert_int_equal(md_ds_hints_of(pool, 0) & 1, 1);
    md_ds_op_destroy(&op);
}

static void the_nearest_hint_serves(void **state)
{
    (void)state;
    script_one_family_a_hint();
    md_ds_op_options o = by_distance();
    md_ds_op *op = script_op(&world, copy, &o);
    static const struct {
        int64_t n;
        int32_t family;
    } row[] = {
        {1, 0},
        {64, 0},
        {127, 0},
        {128, 0} /* tie: the earlier hint */,
        {129, 1},
        {1023, 1},
        {1024, 1} /* tie */,
        {1025, 2},
        {100000, 2},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(script_call(NULL, op, row[i].n, 1), 10 * row[i].family);
    md_ds_pick p = script_pick(op, 100, 1);
    assert_int_equal(p.source, MD_DS_NEAREST);
    assert_int_equal(p.hint, 0);
    assert_float_equal(p.distance, log2(100.0 / 64), 1e-12);
    assert_string_equal(script_name(op, p.runner_up), "beta/v0_w0");
    assert_float_equal(p.margin, log2(256.0 / 100) - log2(100.0 / 64), 1e-12);
    assert_float_equal(script_pick(op, 128, 1).margin, 0.0, 1e-12);
    md_ds_op_destroy(&op);
    o.compile.hints = "256,64,4096"; /* the same tie, the other way round */
    op = script_op(&world, copy, &o);
    assert_int_equal(script_call(NULL, op, 128, 1), 10);
    md_ds_op_destroy(&op);
}

static void envelopes_come_before_distance(void **state)
{
    (void)state;
    script_one_family_a_hint();
    script_now.row[SCRIPT_ALPHA][0].needs_unit = true;
    script_now.row[SCRIPT_BETA][0].lo = 200;
    md_ds_op_options o = by_distance();
    md_ds_op *op = script_op(&world, copy, &o);
    assert_int_equal(script_call(NULL, op, 64, 1), 0);
    md_ds_pick p = script_pick(op, 64, 2); /* alpha cannot, beta neither: gamma, six octaves away */
    assert_string_equal(script_name(op, p.variant), "gamma/v0_w0");
    assert_float_equal(p.distance, 6.0, 1e-12);
    assert_int_equal(p.runner_up, -1);
    assert_int_equal(script_call(NULL, op, 64, 2), 20);
    assert_int_equal(script_call(NULL, op, 201, 2), 10);
    md_kn_shape shape = {.size = {64}, .unit = 1};
    assert_string_equal(md_ds_reject_reason(&op->stage[0], 0, &shape), "last axis is not contiguous");
    md_ds_op_destroy(&op);
}

/* Within a hint, the first of its list whose envelope holds. */
static void the_list_goes_on_behind_a_variant_that_does_not_fit(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->needs_unit = true;
    script_allow(SCRIPT_BETA, 0, 3.0);
    script_allow(SCRIPT_GAMMA, 0, 2.0);
    md_ds_op_options o = by_distance();
    md_ds_op *op = script_op(&world, copy, &o);
    assert_int_equal(script_call(NULL, op, 64, 1), 0);
    assert_int_equal(script_call(NULL, op, 64, 3), 20);
    md_ds_pick p = script_pick(op, 64, 1);
    assert_string_equal(script_name(op, p.runner_up), "gamma/v0_w0");
    assert_float_equal(p.margin, 0.0, 1e-12); /* of the same hint */
    md_ds_op_destroy(&op);
}

static void the_model_picks_the_least_time(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01;
    script_allow(SCRIPT_BETA, 0, 2.0);
    md_ds_op *op = script_op(&world, copy, NULL);
    assert_int_equal(script_call(NULL, op, 99, 1), 0);
    assert_int_equal(script_call(NULL, op, 101, 1), 10); /* they cross at 100, whatever the hints */
    md_ds_pick p = script_pick(op, 300, 1);
    assert_int_equal(p.source, MD_DS_MODEL);
    assert_float_equal(p.us, 2.0, 1e-9);
    assert_string_equal(script_name(op, p.runner_up), "alpha/v0_w0");
    assert_float_equal(p.margin, (1.0 + 3.0) / 2.0 - 1.0, 1e-9);
    assert_int_equal(p.hint, 1); /* of the hints in whose lists beta is, all three, the nearest */
    assert_float_equal(p.distance, log2(300.0 / 256), 1e-12);
    script_allow(SCRIPT_BETA, 0, 2.0)->needs_unit = true;
    md_ds_op_destroy(&op);
    op = script_op(&world, copy, NULL);
    assert_int_equal(script_call(NULL, op, 300, 2), 0); /* beta does not fit */
    md_ds_op_destroy(&op);
}

static void measuring_asks_the_clock(void **state)
{
    (void)state;
    script_own_clock(&world);
    /* the model is wrong */
    script_allow(SCRIPT_ALPHA, 0, 1.0)->slow_us = 4000;
    script_allow(SCRIPT_BETA, 0, 2.0)->slow_us = 400;
    script_allow(SCRIPT_GAMMA, 0, 3.0)->slow_us = 10;
    atomic_store(&script_now.row[SCRIPT_GAMMA][0].cannot_launch, true); /* the fastest is broken */
    md_ds_op_options o = script_options();
    o.compile.policy.select = MD_SELECT_MEASURE;
    md_ds_op *op = script_op(&world, copy, &o);
    assert_int_equal(script_call(NULL, op, 64, 1), 10);
    md_ds_pick p = script_pick(op, 64, 1);
    assert_int_equal(p.source, MD_DS_MEASURED);
    assert_float_equal(p.us, 401.0, 1.0);
    assert_string_equal(script_name(op, p.runner_up), "alpha/v0_w0");
    assert_true(p.margin > 1.0);
    assert_int_equal(op->count.measured, 2);
    assert_int_equal(op->count.quarantined, 1);
    int32_t runs = atomic_load(&script_now.row[SCRIPT_ALPHA][0].n_runs);
    assert_int_equal(script_call(NULL, op, 64, 1), 10); /* remembered: not measured again */
    assert_int_equal(atomic_load(&script_now.row[SCRIPT_ALPHA][0].n_runs), runs);
    md_ds_op_destroy(&op);
}

/* Nothing is written to the caller's memory but by the variant that serves. */
static void measuring_touches_no_user_memory(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    md_ds_op_options o = script_options();
    o.compile.policy.select = MD_SELECT_MEASURE;
    md_ds_op *op = script_op(&world, copy, &o);
    script_vectors v;
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    script_vectors_make(&v, 32, 1);
    assert_ok(md_ds_bind(&bound, op, v.arg, 2));
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    assert_true(atomic_load(&script_now.row[SCRIPT_ALPHA][0].n_runs) > 0);
    for (int64_t i = 0; i < 32; i++)
        assert_true(v.y[i] == -7.0f && v.x[i] == (float)i);
    md_ds_shape_entry_release(entry);
    script_vectors_free(&v);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_are_ranked_at_their_hint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_nearest_hint_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(envelopes_come_before_distance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_list_goes_on_behind_a_variant_that_does_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_model_picks_the_least_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_asks_the_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_touches_no_user_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
