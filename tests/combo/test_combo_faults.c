/* Combos with every allocation failing in turn: all functions give what was asked or OUT_OF_MEMORY, and
 * nothing is lost (the sanitizers look). A failed run has written nothing. */
#include "support/check.h"
#include "support/fault.h"

#include <md/combo.h>
#include <stdbool.h>

enum { ITEMS = 6, MOST_POINTS = 3000 };

static md_context *context;
static md_op *op, *scan;
static float x[ITEMS][8], y[ITEMS][8];
static md_tensor tensor[ITEMS][2];
static md_arg args[2][ITEMS][2];
static int64_t failing; /* allocations fail from this one on, or this one alone */

static void take_op(md_op **out, int k, const char *formula)
{
    md_arg_info info;
    assert_ok(md_op_create(out, context, formula, NULL));
    assert_ok(md_op_wait(*out));
    for (int32_t a = 0; a < 2; a++) {
        assert_ok(md_op_arg(&info, *out, a));
        for (int i = 0; i < ITEMS; i++)
            args[k][i][a] = md_t(&tensor[i][info.is_output != 0]);
    }
}

static int set_up(void **state)
{
    (void)state;
    if (md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}) != MD_OK)
        return 1;
    for (int i = 0; i < ITEMS; i++) {
        const int64_t n = 3 + i;
        tensor[i][0] = md_tensor_make(x[i], MD_F32, 1, &n);
        tensor[i][1] = md_tensor_make(y[i], MD_F32, 1, &n);
        for (int k = 0; k < 8; k++)
            x[i][k] = (float)(i + k);
    }
    take_op(&op, 0, "Y[i] = X[i] + 1");
    take_op(&scan, 1, "let a[i] = cumsum[i](X[i]); Y[i] = a[i] + max[k](a[k])");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_op_destroy(&op);
    md_op_destroy(&scan);
    md_context_destroy(&context);
    return 0;
}

static bool got(md_status s, const char *what)
{
    if (s != MD_OK && s != MD_OUT_OF_MEMORY)
        fail_msg("%s, allocation %lld: %s: %s", what, (long long)failing, md_status_name(s), md_last_error());
    return s == MD_OK;
}

static void expect(int which)
{
    for (int i = 0; i < ITEMS; i++)
        for (int k = 0; k < 3 + i; k++)
            assert_true(which ? y[i][k] > x[i][k] : y[i][k] == x[i][k] + 1);
}

/* Bound, moved to other memory, and run. */
static bool bind_and_run(int which)
{
    static float moved[ITEMS][16];
    const md_combo_part part = {which ? scan : op, &args[which][0][0], 2, ITEMS};
    void *data[ITEMS];
    md_combo *combo = NULL;
    memset(y, 0, sizeof y);
    memset(moved, 0, sizeof moved);
    bool ok = got(md_combo_bind(&combo, context, &part, 1), "bind");
    ok = ok && got(md_combo_run(combo, NULL, NULL, 0), "run");
    if (ok)
        expect(which);
    for (int i = 0; i < ITEMS; i++) /* off the boundary of before */
        data[i] = moved[i] + 1 + i % 3;
    for (int32_t a = 0; ok && a < 2; a++)
        if (args[which][0][a].tensor == &tensor[0][1])
            ok = got(md_combo_point(combo, 0, a, data), "point");
    ok = ok && got(md_combo_run(combo, NULL, NULL, 0), "run of moved items");
    for (int i = 0; ok && i < ITEMS; i++)
        assert_memory_equal(data[i], y[i], (size_t)(3 + i) * sizeof(float));
    md_combo_destroy(&combo);
    return ok;
}

static bool call(int which)
{
    const md_combo_part part = {which ? scan : op, &args[which][0][0], 2, ITEMS};
    memset(y, 0, sizeof y);
    const bool ok = got(md_combo_call(context, NULL, &part, 1), "call");
    if (ok)
        expect(which);
    return ok;
}

static int note_steps(void *user, const char *bytes, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        *(int *)user += bytes[i] == '-' && bytes[i + 1] == '>';
    return 0;
}

/* Tuned, with time for the baselines only or for a step, and run: the combo works whatever failed. */
static bool tune(int steps)
{
    const md_combo_part part = {op, &args[0][0][0], 2, ITEMS};
    int n_steps = 0;
    const md_combo_tune_options o = {.budget_s = steps ? 600 : 1e-9,
                                     .max_builds = steps,
                                     .field_order = "strided",
                                     .write = note_steps,
                                     .user = &n_steps};
    md_combo *combo = NULL;
    bool ok = got(md_combo_bind(&combo, context, &part, 1), "bind");
    ok = ok && got(md_combo_tune(combo, NULL, &o), "tune");
    if (ok && steps > 0 && n_steps == 0)
        fail_msg("allocation %lld: no step was tried, and nobody says why", (long long)failing);
    if (combo) {
        memset(y, 0, sizeof y);
        if (got(md_combo_run(combo, NULL, NULL, 0), "run after tuning"))
            expect(0);
    }
    md_combo_destroy(&combo);
    return ok;
}

/* One that fails alone shows an error that nobody passes on: nothing behind it fails. */
static void at_all_points(bool (*body)(int which), int which)
{
    for (int is_once = 0; is_once < 2; is_once++) {
        bool happened = true, is_done = false;
        for (failing = 1; happened && failing < MOST_POINTS; failing++) {
            fault_at(failing, is_once);
            is_done = body(which);
            happened = fault_happened();
            fault_after(0);
        }
        assert_false(happened);
        assert_true(is_done);
    }
}

static void binding(void **state)
{
    (void)state;
    at_all_points(bind_and_run, 0);
    at_all_points(bind_and_run, 1);
}

static void calling(void **state)
{
    (void)state;
    at_all_points(call, 0);
    at_all_points(call, 1);
}

static void tuning(void **state)
{
    (void)state;
    at_all_points(tune, 0);
    for (failing = 1; failing < 200; failing += 7) { /* a step is built and timed each time */
        fault_at(failing, failing % 2);
        (void)tune(1);
        fault_after(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(binding), cmocka_unit_test(calling), cmocka_unit_test(tuning)};
    return cmocka_run_group_tests_name("combo_faults", tests, set_up, tear_down);
}
