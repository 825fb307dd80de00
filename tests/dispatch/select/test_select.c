/* What else a choice goes by: times measured at hints, sizes to choose by; and what it says: how far the hints are. */
#include "base/status.h"
#include "dispatch/pool/pool.h"
#include "dispatch/select/select.h"
#include "dispatch/support/script_world.h"
#include "dispatch/call/call.h"
#include "support/check.h"

#include <math.h>

static const char *const copy = "Y[n] = X[n]";

static int32_t variant_of(const md_ds_op *op, const char *name)
{
    for (int32_t i = 0; i < op->stage[0].n_variants; i++)
        if (!strcmp(script_name(op, i), name))
            return i;
    fail_msg("no variant %s", name);
    return -1;
}

/* The vectors, behind the scalar where the op has one. */
static void fill_args(md_arg *arg, const md_ds_op *op, const script_vectors *v)
{
    arg[0] = md_s(1.0);
    memcpy(arg + op->formula->n_args - 2, v->arg, sizeof v->arg);
}

/* The entry of a call with these arguments after the two vectors. */
static md_status entry_of(md_ds_shape_entry **out, md_ds_op *op, int64_t n, const md_arg *as, int32_t n_as)
{
    script_vectors v;
    md_ds_bound bound;
    script_vectors_make(&v, n, 1);
    md_arg arg[8];
    fill_args(arg, op, &v);
    for (int32_t i = 0; i < n_as; i++)
        arg[op->formula->n_args + i] = as[i];
    md_status s = md_ds_bind(&bound, op, arg, op->formula->n_args + n_as);
    if (s == MD_OK)
        s = md_ds_find(out, op, NULL, &bound);
    if (s == MD_OK)
        md_ds_shape_entry_release(*out);
    script_vectors_free(&v);
    return s;
}

static int32_t call_as(md_ds_op *op, int64_t n, int64_t as)
{
    script_vectors v;
    script_vectors_make(&v, n, 1);
    md_arg arg[8];
    fill_args(arg, op, &v);
    const int32_t n_args = op->formula->n_args;
    arg[n_args] = md_as(0, as);
    assert_ok(md_ds_call(op, NULL, arg, as ? n_args + 1 : n_args));
    int32_t mark = (int32_t)v.y[0];
    script_vectors_free(&v);
    return mark;
}

/* What the tuner would tell of a variant at the hint 64. */
static void observe(md_ds_op *op, int32_t variant, double us, double model_us)
{
    md_ds_observe(&op->stage[0], (const int64_t[]){64}, &(md_ds_measured){variant, MD_TN_CLOCK_TUNING, us, model_us},
                  true);
}

/* The model takes alpha for the faster one; it is measured to be four times slower than that. */
static void the_model_is_corrected_by_what_was_measured(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01;
    script_allow(SCRIPT_BETA, 0, 2.0)->us_each = 0.01;
    md_ds_op *op = script_op(&world, copy, NULL);
    assert_int_equal(script_call(NULL, op, 300, 1), 0);
    int32_t a = variant_of(op, "alpha/v0_w0"), b = variant_of(op, "beta/v0_w0");
    observe(op, a, 4 * (1.0 + 0.64), 1.0 + 0.64);
    observe(op, b, 2.0 + 0.64, 2.0 + 0.64);
    md_ds_pick p = script_pick(op, 64, 1);
    assert_int_equal(p.variant, b);
    assert_float_equal(p.us, 2.0 + 0.64, 1e-9);
    assert_int_equal(p.runner_up, a);
    assert_float_equal(p.margin, 4 * (1.0 + 0.64) / (2.0 + 0.64) - 1.0, 1e-9);
    assert_int_equal(script_pick(op, 72, 1).variant, b);
    assert_int_equal(script_call(NULL, op, 300, 1), 0); /* remembered */
    md_ds_op_destroy(&op);
}

/* A variant that was not measured is expected to be off as the others are on average, so that it neither wins nor
 * loses by that alone. */
static void what_was_not_measured_is_taken_to_be_off_alike(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.5);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    md_ds_op *op = script_op(&world, copy, NULL);
    double us[3];
    int32_t a = variant_of(op, "alpha/v0_w0"), b = variant_of(op, "beta/v0_w0"), g = variant_of(op, "gamma/v0_w0");
    static const double nonsense[] = {0.0, -1.0, NAN, INFINITY};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        observe(op, a, nonsense[i], 1.0);
        observe(op, b, nonsense[i], 1.5);
        md_ds_model_us(us, op, 0, (const int64_t[MD_FX_MAX_DIMS]){100}, 3, NULL);
        assert_float_equal(us[a], 1.0, 1e-9);
        assert_float_equal(us[b], 1.5, 1e-9);
    }
    observe(op, a, 4.0, 1.0);
    observe(op, b, 1.5 * 9.0, 1.5);
    md_ds_model_us(us, op, 0, (const int64_t[MD_FX_MAX_DIMS]){64}, 3, NULL);
    assert_float_equal(us[a], 4.0, 1e-9);
    assert_float_equal(us[b], 13.5, 1e-9);
    assert_float_equal(us[g], 1.2 * 6.0, 1e-9); /* sqrt(4 * 9) */
    md_ds_op_destroy(&op);
}

static void a_shape_that_no_hint_covers_is_marked_in_every_mode(void **state)
{
    (void)state;
    static const md_select mode[] = {MD_SELECT_DISTANCE, MD_SELECT_MODEL, MD_SELECT_MEASURE, MD_SELECT_HYBRID};
    script_own_clock(&world);
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 2.0)->slow_us = 200;
    md_ds_shape_entry *entry = NULL;
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        md_ds_op_options o = script_options(); /* hints 64, 256, 4096 */
        o.compile.policy.select = mode[i];
        md_ds_op *op = script_op(&world, copy, &o);
        static const struct {
            int64_t n;
            double octaves;
            bool is_uncovered;
        } row[] = {{64, 0.0, false},    {128, 1.0, false},           {8, 3.0, false}, {7, 3.192645077942396, true},
                   {32768, 3.0, false}, {32769, 3.00004402721, true}};
        for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
            assert_ok(entry_of(&entry, op, row[k].n, NULL, 0));
            assert_float_equal(entry->nearest, row[k].octaves, 1e-9);
            assert_int_equal(entry->is_uncovered, row[k].is_uncovered);
            assert_true(md_ds_plan_of(entry)->stage[0].pick.distance >= 0.0 &&
                        md_ds_plan_of(entry)->stage[0].pick.runner_up >= 0 &&
                        md_ds_plan_of(entry)->stage[0].pick.margin >= 0.0);
        }
        md_ds_op_destroy(&op);
    }
    md_ds_op_options o = script_options();
    o.compile.policy.uncovered = 0.5;
    md_ds_op *op = script_op(&world, copy, &o);
    assert_ok(entry_of(&entry, op, 100, NULL, 0));
    assert_true(entry->is_uncovered);
    md_ds_op_destroy(&op);
}

static void weights_count_in_the_threshold(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    md_ds_op_options o = script_options();
    o.compile.weights = "n=0.25";
    md_ds_shape_entry *entry = NULL;
    md_ds_op *op = script_op(&world, copy, &o);
    assert_ok(entry_of(&entry, op, 1, NULL, 0));
    assert_float_equal(entry->nearest, 1.5, 1e-9);
    assert_false(entry->is_uncovered);
    md_ds_op_destroy(&op);
}

/* "COPY <mark> w<w>": stores its mark; parameters Y, X, n, stride of X, a. */
static void store_mark(const char *text, const md_kn_word *params, int32_t n)
{
    int mark = 0;
    assert_true(n >= 5 && sscanf(text, "COPY %d", &mark) == 1);
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = (float)mark;
}

static void sizes_to_choose_by_change_the_choice_and_nothing_else(void **state)
{
    (void)state;
    script_now.is_text = true;
    world.device.on_launch = store_mark;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01;
    script_allow(SCRIPT_BETA, 0, 2.0); /* the better one from 100 on */
    md_ds_op *op = script_op(&world, "scalar a; Y[n] = X[n] * a", NULL);
    for (int32_t i = 0; i < 600; i++) { /* slow calls, then warm ones with samples in between */
        assert_int_equal(call_as(op, 300, 0), 10);
        assert_int_equal(call_as(op, 300, 50), 0);
        assert_int_equal(call_as(op, 300, 400), 10);
    }
    assert_int_equal(op->n_entries, 3);
    assert_true(atomic_load(&op->count.calls) < 30); /* the others were warm */
    md_ds_shape_entry *entry = NULL, *s = NULL;
    assert_ok(entry_of(&entry, op, 300, &(md_arg){.kind = MD_ARG_AS, .dim = 0, .integer = 50}, 1));
    assert_ok(entry_of(&s, op, 300, NULL, 0));
    assert_ptr_not_equal(entry, s);
    assert_int_equal(entry->as.size[0], 50);
    assert_float_equal(md_ds_plan_of(entry)->stage[0].pick.distance, log2(64.0 / 50), 1e-9);
    assert_float_equal(entry->nearest, log2(64.0 / 50), 1e-9);
    md_ds_op_destroy(&op);
}

/* The envelope is asked about what the kernel will meet. */
static void envelopes_see_the_real_sizes(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->hi = 100;
    script_allow(SCRIPT_BETA, 0, 2.0);
    md_ds_op_options o = script_options();
    for (int32_t i = 0; i < 2; i++) {
        o.compile.policy.select = i ? MD_SELECT_DISTANCE : MD_SELECT_MODEL;
        md_ds_op *op = script_op(&world, copy, &o);
        assert_int_equal(call_as(op, 300, 50), 10);
        assert_int_equal(call_as(op, 90, 50), 0); /* alpha is in the list of the hint 64 only */
        md_ds_op_destroy(&op);
    }
}

static void wrong_sizes_to_choose_by_are_named(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    md_ds_op_options o = script_options();
    o.compile.sizes = "n=1..1000";
    md_ds_op *op = script_op(&world, copy, &o);
    md_ds_shape_entry *entry = NULL;
    assert_fails(entry_of(&entry, op, 300, &(md_arg){.kind = MD_ARG_AS, .dim = 1, .integer = 50}, 1),
                 MD_INVALID_ARGUMENT, "no dynamic dim number 1");
    assert_fails(entry_of(&entry, op, 300, &(md_arg){.kind = MD_ARG_AS, .dim = -1, .integer = 50}, 1),
                 MD_INVALID_ARGUMENT, "no dynamic dim number -1");
    assert_fails(entry_of(&entry, op, 300, &(md_arg){.kind = MD_ARG_AS, .integer = 0}, 1), MD_INVALID_ARGUMENT,
                 "'n' as 0 lies outside 1..1000");
    assert_fails(entry_of(&entry, op, 300, &(md_arg){.kind = MD_ARG_AS, .integer = 1001}, 1), MD_INVALID_ARGUMENT,
                 "outside 1..1000");
    for (int32_t i = 0; i < 2; i++)
        assert_ok(entry_of(&entry, op, 300, &(md_arg){.kind = MD_ARG_AS, .integer = i ? 1000 : 1}, 1));
    md_ds_op_options from_5 = script_options();
    from_5.compile.sizes = "n=5..1000";
    md_ds_op *above = script_op(&world, "Y[n] = X[n] + 1", &from_5);
    assert_fails(entry_of(&entry, above, 300, &(md_arg){.kind = MD_ARG_AS, .integer = 4}, 1), MD_INVALID_ARGUMENT,
                 "'n' as 4 lies outside 5..1000");
    assert_ok(entry_of(&entry, above, 300, &(md_arg){.kind = MD_ARG_AS, .integer = 5}, 1));
    md_ds_op_destroy(&above);
    const md_arg twice[2] = {md_as(0, 5), md_as(0, 6)};
    assert_fails(entry_of(&entry, op, 300, twice, 2), MD_INVALID_ARGUMENT, "'n' is given twice");
    script_vectors v;
    script_vectors_make(&v, 300, 1);
    const md_arg first[3] = {md_as(0, 5), v.arg[0], v.arg[1]}, good[3] = {v.arg[0], v.arg[1], md_as(0, 5)},
                 bad[3] = {v.arg[0], v.arg[1], md_as(0, 0)};
    assert_fails(md_ds_call(op, NULL, first, 3), MD_INVALID_ARGUMENT, "3 arguments given, but the op takes 2");
    for (int32_t i = 0; i < 4; i++)
        assert_ok(md_ds_call(op, NULL, good, 3));
    assert_fails(md_ds_call(op, NULL, bad, 3), MD_INVALID_ARGUMENT, "outside 1..1000"); /* warm as it is */
    script_vectors_free(&v);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_model_is_corrected_by_what_was_measured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_not_measured_is_taken_to_be_off_alike, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shape_that_no_hint_covers_is_marked_in_every_mode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(weights_count_in_the_threshold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_to_choose_by_change_the_choice_and_nothing_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(envelopes_see_the_real_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_sizes_to_choose_by_are_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
