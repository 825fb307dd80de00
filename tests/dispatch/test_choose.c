/* Who is picked, and why: envelopes before distance, ranked lists, ties, models, measuring, failures, adoption,
 * pins. */
#include "base/status.h"
#include "dispatch/select/select.h"
#include "dispatch/script.h"
#include "dispatch/call/fast_call.h"
#include "support/check.h"

#include <math.h>

static script_world world;
static const char *const copy = "Y[n] = X[n]";

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

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
    const md_ds_pool *c = &op->stage[0];
    assert_int_equal(c->n_variants, 3); /* equal configs of several hints merge */
    static const char *const want[3][3] = {{"alpha/v0_w0", "beta/v0_w0", "gamma/v0_w0"},
                                           {"beta/v0_w0", "gamma/v0_w0", "alpha/v0_w0"},
                                           {"beta/v0_w0", "gamma/v0_w0", "alpha/v0_w0"}};
    for (int32_t h = 0; h < 3; h++) {
        assert_int_equal(md_ds_ranks_of(c)->n[h], 3);
        for (int32_t i = 0; i < 3; i++)
            assert_string_equal(script_name(op, md_ds_ranks_of(c)->of[h][i].variant), want[h][i]);
    }
    assert_int_equal(c->from_hint[0], 0);
    md_ds_op_destroy(&op);
}

/* Each family is legal at one hint only: alpha at 64, beta at 256, gamma at 4096. */
static void one_family_a_hint(void)
{
    static const int64_t hint[] = {64, 256, 4096};
    for (int32_t f = 0; f < 3; f++) {
        script_row *row = script_allow(f, 0, 1.0);
        row->legal_lo = row->legal_hi = hint[f];
    }
}

static void the_nearest_hint_serves(void **state)
{
    (void)state;
    one_family_a_hint();
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
    one_family_a_hint();
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
    assert_int_equal(p.hint, 0); /* the first that beta stood in a list of */
    assert_float_equal(p.distance, log2(300.0 / 64), 1e-12);
    script_allow(SCRIPT_BETA, 0, 2.0)->needs_unit = true;
    md_ds_op_destroy(&op);
    op = script_op(&world, copy, NULL);
    assert_int_equal(script_call(NULL, op, 300, 2), 0); /* beta does not fit */
    md_ds_op_destroy(&op);
}

static void measuring_asks_the_clock(void **state)
{
    (void)state;
    /* the model is wrong; far apart, since other work delays who sleeps */
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
    assert_true(p.us >= 360.0 && p.us < 4000.0);
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
        assert_int_equal(world.n_warnings, i == 0); /* the builder's; a text that failed before is not tried again */
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
    o.compile.policy.select = MD_SELECT_MEASURE; /* measuring finds nobody who can: the model's pick gives its error */
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
    assert_int_equal(op->stage[0].from_hint[p.variant], -1);
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

static void limits_of_the_pool(void **state)
{
    (void)state;
    one_family_a_hint();
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
        cmocka_unit_test_setup_teardown(lists_are_ranked_at_their_hint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_nearest_hint_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(envelopes_come_before_distance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_list_goes_on_behind_a_variant_that_does_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_model_picks_the_least_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_asks_the_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_touches_no_user_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_variant_that_does_not_compile_is_never_picked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_variant_that_does_not_launch_gives_its_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_reference_serves_where_nothing_was_built, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shape_that_none_fits_gets_a_variant_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_pool_still_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_of_the_pool, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_pins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pin_that_does_not_fit_says_why, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
