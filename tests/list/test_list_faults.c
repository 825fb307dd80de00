/* Formulas over lists with every allocation failing in turn: reading one, and calling one for the first time, gives
 * what was asked or OUT_OF_MEMORY, and nothing is lost (the sanitizers look). A call that fails can be repeated. */
#include "support/check.h"
#include "support/fault.h"

#include "base/status.h"
#include "expr/list/list.h"
#include "list/list.h"

#include <md/list.h>
#include <stdbool.h>

enum { ITEMS = 6, MOST_POINTS = 4000 };

#define FORMULA                                                                                                        \
    "let n = sum[t,i](X@t[i]); let u@t[i] = X@t[i] + n; let m = max[t,i](u@t[i]); Y@t[i] = u@t[i] / m; "               \
    "S@t[] = sum[i](X@t[i] * Y@t[i])"

static bool got(md_status s, int64_t failing)
{
    if (s != MD_OK && s != MD_OUT_OF_MEMORY)
        fail_msg("allocation %lld: %s: %s", (long long)failing, md_status_name(s), md_last_error());
    return s == MD_OK;
}

static void test_read(void **state)
{
    (void)state;
    fault_in_arenas(1);
    for (int is_once = 0; is_once < 2; is_once++) {
        bool done = false;
        int64_t failing = 1;
        for (; !done; failing++) {
            md_fx_list *list = NULL;
            assert_true(failing < MOST_POINTS);
            const int64_t living = fault_living();
            fault_at(failing, is_once);
            const md_status s = md_fx_list_create(&list, FORMULA, NULL);
            done = !fault_happened();
            fault_after(0);
            assert_true(got(s, failing) == (list != NULL));
            assert_true(list || !done);
            md_fx_list_destroy(&list);
            assert_int_equal(fault_living(), living);
        }
        assert_true(failing > 20);
    }
    fault_in_arenas(0);
}

static float x[ITEMS][5000], y[ITEMS][5000], sum[ITEMS];

static int64_t length_of(int64_t i)
{
    return i == 3 ? 100 : i % 2 ? 5000 : i + 1;
}

static void expect_right(int64_t failing)
{
    for (int i = 0; i < ITEMS; i++)
        if (y[i][0] != 1.0F || y[i][length_of(i) - 1] != 1.0F || sum[i] != (float)length_of(i))
            fail_msg("allocation %lld: item %d: %g .. %g, sum %g", (long long)failing, i, (double)y[i][0],
                     (double)y[i][length_of(i) - 1], (double)sum[i]);
}

/* Items that are rows of numbers, and one with gaps. */
static void test_call(void **state)
{
    (void)state;
    md_context *context = NULL;
    md_list *list = NULL;
    md_tensor tx[ITEMS], ty[ITEMS], ts[ITEMS];
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    for (int64_t i = 0; i < ITEMS; i++) {
        const int64_t n = length_of(i);
        tx[i] = md_tensor_make(x[i], MD_F32, 1, &n);
        ty[i] = md_tensor_make(y[i], MD_F32, 1, &n);
        ts[i] = md_tensor_make(&sum[i], MD_F32, 0, NULL);
        for (int64_t k = 0; k < n; k++)
            x[i][i == 3 ? 2 * k : k] = 1.0F;
    }
    tx[3].stride[0] = 2;
    assert_ok(md_list_create(&list, context, FORMULA, &(md_op_options){.tune = MD_TUNE_OFF, .max_variants = 1}));
    for (int is_once = 0; is_once < 2; is_once++) {
        bool done = false;
        for (int64_t failing = 1; !done; failing++) {
            const md_arg args[] = {md_ts(tx, ITEMS), md_ts(ty, ITEMS), md_ts(ts, ITEMS)};
            assert_true(failing < MOST_POINTS);
            memset(y, 0, sizeof y);
            memset(sum, 0, sizeof sum);
            fault_at(failing, is_once);
            const md_status s = md_list_call(list, NULL, args, 3);
            done = !fault_happened();
            fault_after(0);
            assert_true(got(s, failing) || !done);
            if (s == MD_OK)
                expect_right(failing);
        }
    }
    md_list_destroy(&list);
    md_context_destroy(&context);
}

static int32_t n_retired(const md_list *list)
{
    int32_t n = 0;
    for (const md_li_memory *m = list->retired; m; m = m->next)
        n++;
    return n;
}

/* Calls that need no more memory than those before take theirs; a block that is too small stays until the end. */
static void test_memory(void **state)
{
    (void)state;
    static const int64_t length[] = {1, 1, 300000, 300000, 1, 5000, 300000, 600000, 300000};
    static float many[600000];
    md_context *context = NULL;
    md_list *list = NULL;
    float number = 0;
    const md_tensor n = md_tensor_make(&number, MD_F32, 0, NULL);
    int64_t most = length[0];
    int32_t n_larger = 0;
    for (int i = 0; i < MD_COUNT(many); i++)
        many[i] = 1.0F;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    assert_ok(md_list_create(&list, context, "N = max[t,i](X@t[i])",
                             &(md_op_options){.tune = MD_TUNE_OFF, .max_variants = 1}));
    for (int i = 0; i < MD_COUNT(length); i++) {
        const md_tensor item = md_tensor_make(many, MD_F32, 1, &length[i]);
        const md_li_memory *before = list->memory;
        assert_ok(md_list_call(list, NULL, (md_arg[]){md_t(&n), md_ts(&item, 1)}, 2));
        assert_true(number == 1.0F);
        n_larger += length[i] > most;
        most = length[i] > most ? length[i] : most;
        assert_true(i == 0 || list->memory == before);
        assert_null(list->memory->next);
        assert_int_equal(n_retired(list), n_larger);
    }
    md_list_destroy(&list);
    md_context_destroy(&context);
}

static void expect_policy(const md_li_op *op, md_numeric numeric)
{
    if (op->op)
        assert_int_equal(op->op->ds->policy.numeric, numeric);
}

/* Reductions keep their bits however many items a list has, unless the options say otherwise; items follow the options.
 * An op is made once. */
static void test_policies(void **state)
{
    (void)state;
    static const md_numeric row[][3] = {
        /* given, of items, of reductions */
        {MD_NUMERIC_DEFAULT, MD_NUMERIC_FAST, MD_NUMERIC_BATCH_INVARIANT},
        {MD_NUMERIC_FAST, MD_NUMERIC_FAST, MD_NUMERIC_FAST},
        {MD_NUMERIC_DETERMINISTIC, MD_NUMERIC_DETERMINISTIC, MD_NUMERIC_DETERMINISTIC},
        {MD_NUMERIC_BATCH_INVARIANT, MD_NUMERIC_BATCH_INVARIANT, MD_NUMERIC_BATCH_INVARIANT}};
    md_context *context = NULL;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .cc = "/nonexistent"}));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_list *list = NULL;
        int n_ops = 0;
        assert_ok(md_list_create(&list, context, FORMULA, &(md_op_options){.numeric = row[i][0]}));
        const md_fx_list *formula = list->formula;
        for (int32_t s = 0; s < formula->n_steps; s++) {
            md_li_op *op = &list->step[s];
            const md_op *made = op->op;
            expect_policy(op, row[i][formula->step[s].kind == MD_FX_STEP_ITEMS ? 1 : 2]);
            assert_ok(made ? md_li_make(list, op, formula->step[s].text, row[i][0]) : MD_OK);
            assert_ptr_equal(op->op, made);
            n_ops += made != NULL;
        }
        for (int32_t r = 0; r < formula->n_reductions; r++) {
            expect_policy(&list->flat[r], row[i][2]);
            expect_policy(&list->whole[r], row[i][2]);
            n_ops += list->flat[r].op != NULL;
        }
        assert_true(n_ops > 3);
        md_list_destroy(&list);
    }
    md_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_call),
                                       cmocka_unit_test(test_memory), cmocka_unit_test(test_policies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
