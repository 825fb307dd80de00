/* Tuning of combos on the host: results keep their bits, the caller's memory is left alone, a kept winner serves later
 * combos, and what is wrong in options and in the store is refused. Nothing here depends on which step wins. */
#include "support/check.h"

#include "api/context.h"
#include "combo/stored.h"
#include "combo/tuning/tuning.h"

#include <math.h>
#include <unistd.h>

enum { ITEMS = 12, ROWS = 5, MOST = 300 };

static char folder[64];
static const char *formula = "Y[i,j] = X[i,j] - max[k](X[i,k])";
static md_context *context;
static md_op *op;
static float x[ITEMS][ROWS * MOST], y[ITEMS][ROWS * MOST];
static md_tensor tensor[ITEMS][2];
static md_arg args[ITEMS][2];
static char report[65536], logged[4096];

static void keep_log(void *user, md_log_level level, const char *message)
{
    (void)user;
    if (level <= MD_LOG_WARN)
        snprintf(logged, sizeof logged, "%s", message);
}

/* A row reduction: its kernels have fields that keep all bits. No time, and no winner that an earlier test left in the
 * folder, may change which kernel the steps begin with: all of the pool are persistent, and the nearest is picked. */
static void open_all(void)
{
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host",
                                                                .threads = 1,
                                                                .hints = "64",
                                                                .select = MD_SELECT_DISTANCE,
                                                                .persistent = MD_PERSISTENT_ONLY,
                                                                .cache_dir = folder,
                                                                .log = keep_log}));
    assert_ok(md_op_create(&op, context, formula, NULL));
    assert_ok(md_op_wait(op));
}

static void close_all(void)
{
    md_op_destroy(&op);
    md_context_destroy(&context);
}

static int set_up(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    strcpy(folder, "/tmp/md_test_combo_tune_XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    for (int i = 0; i < ITEMS; i++) {
        const int64_t size[] = {ROWS, 20 + 20 * (i % 7)};
        tensor[i][0] = md_tensor_make(y[i], MD_F32, 2, size);
        tensor[i][1] = md_tensor_make(x[i], MD_F32, 2, size);
        for (int a = 0; a < 2; a++)
            args[i][a] = md_t(&tensor[i][a]);
        for (int k = 0; k < ROWS * MOST; k++)
            x[i][k] = (float)(check_random(&seed) % 2000) / 500.0F - 2.0F;
    }
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command); /* NOLINT: a folder of this test */
}

static md_combo *bind(void)
{
    const md_combo_part part = {op, &args[0][0], 2, ITEMS};
    md_combo *combo = NULL;
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    return combo;
}

/* Runs it; all results are those of calls, bit for bit. */
static void run(md_combo *combo)
{
    static float expected[ITEMS][ROWS * MOST];
    for (int i = 0; i < ITEMS; i++)
        assert_ok(md_call(op, NULL, args[i], 2));
    memcpy(expected, y, sizeof y);
    memset(y, 0, sizeof y);
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    assert_memory_equal(y, expected, sizeof y);
}

static int take(void *user, const char *text, size_t n)
{
    (void)user;
    assert_true(strlen(report) + n < sizeof report);
    strncat(report, text, n);
    return 0;
}

static const char *tune(md_combo *combo, md_combo_tune_options o)
{
    report[0] = 0;
    o.write = take;
    assert_ok(md_combo_tune(combo, NULL, &o));
    return report;
}

static const char *explain(md_combo *combo)
{
    report[0] = 0;
    assert_ok(md_combo_explain(combo, 0, take, NULL));
    return report;
}

/* The key of the combo's entry, and a swap of its list that is still to be filled in. */
static char *find_key(md_tn_stored_swap *swap)
{
    const md_combo_part part = {op, &args[0][0], 2, ITEMS};
    md_cb *cb = NULL;
    assert_ok(md_cb_create(&cb, &context->runtime, &part, &op->ds, 1));
    char *key = md_cb_store_key(cb);
    memset(swap, 0, sizeof *swap);
    assert_true(key && md_cb_list_digest(&swap->of.shape, cb, false));
    swap->of.us = 1.0;
    swap->of.at.environment = md_tn_stored_environment(context->stored);
    md_cb_destroy(&cb);
    return key;
}

/* How many winners the store has of the combo's list. */
static int n_stored(void)
{
    md_tn_stored_swap own;
    md_tn_stored_list list;
    int n = 0;
    char *key = find_key(&own);
    md_tn_stored_load(&list, context->stored, key);
    for (int32_t i = 0; i < list.n_swaps; i++)
        n += !memcmp(&list.swap[i].of.shape, &own.of.shape, sizeof own.of.shape);
    md_tn_stored_list_finish(&list);
    free(key);
    return n;
}

static void store(int number, int stage, const char *from, const char *to)
{
    md_tn_stored_swap swap;
    md_tn_stored_list list = {0};
    char *key = find_key(&swap);
    swap.op = number;
    swap.of.stage = stage;
    swap.of.at.date = INT32_MAX; /* newer than what other tests stored */
    snprintf(swap.of.variant, sizeof swap.of.variant, "%s", from);
    snprintf(swap.to, sizeof swap.to, "%s", to);
    md_tn_stored_add_swap(&list, &swap);
    assert_ok(md_tn_stored_save(context->stored, key, &list));
    md_tn_stored_list_finish(&list);
    free(key);
}

/* ---- Tests */

static void test_tune(void **state)
{
    static float before[2][ITEMS][ROWS * MOST];
    (void)state;
    open_all();
    md_combo *combo = bind();
    run(combo);
    memset(y, 0x55, sizeof y); /* what no run leaves behind */
    memcpy(before[0], x, sizeof x);
    memcpy(before[1], y, sizeof y);
    const char *text = tune(combo, (md_combo_tune_options){.budget_s = 600});
    assert_non_null(strstr(text, "kernel 0: "));
    assert_non_null(strstr(text, "heuristic: "));
    assert_non_null(strstr(text, "separate launches: "));
    assert_non_null(strstr(text, "strided0 0->1: ")); /* a step, with its time */
    assert_non_null(strstr(text, " builds, "));
    assert_non_null(strstr(text, "stored: true"));
    assert_memory_equal(before[0], x, sizeof x); /* tuning ran on copies */
    assert_memory_equal(before[1], y, sizeof y);
    assert_int_equal(n_stored(), 1); /* of the one kernel, also if it stays */
    memset(y, 0, sizeof y);
    run(combo);
    text = tune(combo, (md_combo_tune_options){.budget_s = 600, .json = 1, .max_builds = 1});
    assert_non_null(strstr(text, "{\"run\":\"heuristic\",\"us\":"));
    assert_non_null(strstr(text, "{\"winner\":\""));
    assert_non_null(strstr(text, "\"builds\":1,"));
    run(combo);
    md_combo_destroy(&combo);
    close_all();
}

/* Tuning runs on copies that lie as the tensors do: what has one address has one copy, of the longest of its tensors,
 * and nothing else shares memory. */
static void test_copies(void **state)
{
    enum { N = 12, M = 3 };
    static _Alignas(64) float memory[256];
    float *const o[] = {memory, memory + 65, memory + 130}, *const g[] = {memory + 18, o[1], memory + 150};
    float *const p[] = {o[0], memory + 110, memory + 200}; /* in place; O and G share memory; all apart */
    const int64_t size[] = {N, M};
    const size_t bytes_of[] = {['P'] = N * sizeof(float), ['O'] = N * sizeof(float), ['G'] = N * M * sizeof(float)};
    md_tensor t[3][4];
    md_arg own[3][4];
    md_cb *cb = NULL;
    md_cb_copies copies;
    (void)state;
    open_all();
    md_op_destroy(&op);
    assert_ok(md_op_create(&op, context, "scalar lr; P[i] = O[i] - lr * sum[j](G[i,j])", NULL));
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < 4; a++) {
            md_arg_info info;
            assert_ok(md_op_arg(&info, op, a));
            const char name = info.name[0];
            t[i][a] = md_tensor_make(name == 'P' ? p[i] : name == 'O' ? o[i] : g[i], MD_F32, name == 'G' ? 2 : 1, size);
            own[i][a] = info.is_scalar ? md_s(0.5) : md_t(&t[i][a]);
        }
    for (int k = 0; k < 256; k++)
        memory[k] = (float)k;
    const md_combo_part part = {op, &own[0][0], 4, 3};
    assert_ok(md_cb_create(&cb, &context->runtime, &part, &op->ds, 1));
    const md_cb_part *made = &cb->part[0];
    const int32_t n = made->n_operands;
    assert_ok(md_cb_copies_make(&copies, cb, NULL));
    for (int32_t k = 0; k < 3 * n; k++) {
        char *const copy = made->data[k], *const before = copies.before[k];
        const size_t n_bytes = bytes_of[(unsigned char)op->ds->formula->tensor[made->operand[k % n].tensor].name[0]];
        assert_true(copy + n_bytes <= (char *)memory || copy >= (char *)(memory + 256));
        assert_int_equal((uintptr_t)copy % 64, (uintptr_t)before % 64);
        assert_memory_equal(copy, before, n_bytes);
        for (int32_t j = 0; j < 3 * n; j++)
            if (copies.before[j] == before)
                assert_ptr_equal(made->data[j], copy);
            else
                assert_true((char *)made->data[j] + 1 <= copy || (char *)made->data[j] >= copy + n_bytes);
    }
    void *before[3 * 4];
    memcpy(before, copies.before, (size_t)(3 * n) * sizeof *before);
    md_cb_copies_finish(&copies, cb);
    assert_memory_equal(made->data, before, (size_t)(3 * n) * sizeof *before);
    md_cb_destroy(&cb);
    close_all();
}

/* The smallest budget measures the baselines; none is the default. */
static void test_budget(void **state)
{
    (void)state;
    open_all();
    md_combo *combo = bind();
    const char *text = tune(combo, (md_combo_tune_options){.budget_s = 1e-9});
    assert_non_null(strstr(text, "heuristic; 0 builds, 0 steps kept"));
    text = tune(combo, (md_combo_tune_options){.budget_s = 0, .max_builds = 2});
    assert_null(strstr(text, " 0 builds"));
    run(combo);
    md_combo_destroy(&combo);
    close_all();
}

/* The default order begins with the first field of the kernel. A limit takes steps away. */
static void test_order(void **state)
{
    (void)state;
    open_all();
    md_combo *combo = bind();
    const char *text = tune(combo, (md_combo_tune_options){.budget_s = 600, .max_builds = 1});
    assert_non_null(strstr(text, "cap0 4096->16384"));
    text = tune(combo, (md_combo_tune_options){.budget_s = 600, .max_builds = 1, .field_order = "X3 prefetch"});
    assert_non_null(strstr(text, "prefetch0 1->0"));
    assert_null(strstr(text, "cap0"));
    text = tune(combo, (md_combo_tune_options){.budget_s = 600, .max_builds = 1, .field_limits = "cap0=16384"});
    assert_non_null(strstr(text, "cap0 4096->16384")); /* a limit itself may be reached */
    text = tune(combo, (md_combo_tune_options){.budget_s = 600, .max_builds = 1, .field_limits = "cap0=16383"});
    assert_null(strstr(text, "cap0"));
    text = tune(combo, (md_combo_tune_options){.budget_s = 600, .field_limits = "cap0=4096"});
    assert_non_null(strstr(text, "prefetch0 1->0"));
    assert_null(strstr(text, "cap0"));
    md_combo_destroy(&combo);
    close_all();
}

/* The environment stands in for options. */
static void test_variables(void **state)
{
    (void)state;
    setenv("MD_COMBO_FIELD_ORDER", "prefetch", 1);
    setenv("MD_COMBO_FIELD_LIMITS", "strided=1 X1", 1);
    open_all();
    md_combo *combo = bind();
    const char *text =
        tune(combo, (md_combo_tune_options){.budget_s = 600, .max_builds = 1, .field_limits = "cap=4096"});
    assert_non_null(strstr(text, "prefetch0 1->0"));
    assert_fails(md_combo_tune(combo, NULL, NULL), MD_INVALID_ARGUMENT, "MD_COMBO_FIELD_LIMITS");
    unsetenv("MD_COMBO_FIELD_ORDER");
    unsetenv("MD_COMBO_FIELD_LIMITS");
    run(combo);
    md_combo_destroy(&combo);
    close_all();
}

static void test_refusals(void **state)
{
    (void)state;
    open_all();
    md_combo *combo = bind();
    static const struct {
        md_combo_tune_options o;
        const char *part;
    } bad[] = {{{.budget_s = -1}, "budget_s"},
               {{.budget_s = NAN}, "budget_s"},
               {{.max_builds = -1}, "max_builds"},
               {{.field_order = "X1 ?"}, "option field_order"},
               {{.field_limits = "X1"}, "option field_limits"},
               {{.field_limits = "X1=0"}, "from 1 on"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(md_combo_tune(combo, NULL, &bad[i].o), MD_INVALID_ARGUMENT, bad[i].part);
    assert_fails(md_combo_tune(NULL, NULL, NULL), MD_INVALID_ARGUMENT, "combo is NULL");
    run(combo);
    close_all();
    assert_fails(md_combo_tune(combo, NULL, NULL), MD_INVALID_ARGUMENT, "context was destroyed");
    md_combo_destroy(&combo);
}

/* A combo that is made later, in another context, takes a kept winner without measuring. */
static void keep(int number)
{
    char from[MD_FA_NAME], to[MD_FA_NAME], text[sizeof to + 8];
    open_all();
    md_combo *combo = bind();
    run(combo);
    const char *name = strstr(explain(combo), "items, row_persistent");
    assert_non_null(name);
    assert_int_equal(sscanf(name, "items, %95s", from), 1);
    char *field = strstr(from, "prefetch");
    assert_non_null(field);
    field[strlen("prefetch")] = '0';
    strcpy(to, from);
    field[strlen("prefetch")] = '1'; /* the op's own pick; what an earlier test kept may have served */
    store(number, 0, from, to);
    md_combo_destroy(&combo);
    close_all();

    open_all();
    combo = bind();
    for (int i = 0; i < 3; i++) { /* its kernels may be built meanwhile */
        run(combo);
        md_bd_wait_all(context->builder);
    }
    run(combo);
    snprintf(text, sizeof text, "items, %s", to); /* not in the statistics, which know earlier runs */
    assert_non_null(strstr(explain(combo), text));
    snprintf(text, sizeof text, "items, %s", from);
    assert_null(strstr(explain(combo), text));
    assert_string_equal(logged, "");
    md_combo_destroy(&combo);
    close_all();
}

static void test_kept(void **state)
{
    const char *before = formula;
    (void)state;
    keep(0);
    formula = "Y[i,j] = X[i,j] - max[a,b](X[a,b])"; /* contiguous items run a merged op of one dim */
    keep(1);
    formula = before;
}

static void test_corrupt(void **state)
{
    static const struct {
        int number, stage;
        const char *from, *to;
    } bad[] = {{7, 0, "pointwise/flat1", "pointwise/flat0"},
               {0, 9, "pointwise/flat1", "pointwise/flat0"},
               {0, 0, "pointwise/flat1", "row_looped"},
               {0, 0, "pointwise/flat7", "pointwise/flat0"},
               {0, 0, "no_family", "no_family"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        open_all();
        store(bad[i].number, bad[i].stage, bad[i].from, bad[i].to);
        logged[0] = 0;
        md_combo *combo = bind();
        if (!strstr(logged, "tuned of a combo"))
            fail_msg("swap %d: logged '%s'", (int)i, logged);
        run(combo);
        md_combo_destroy(&combo);
        close_all();
    }
}

static md_cb *timed;
static double prefetched_us; /* as long a run takes with prefetches; without them 10 ms */

static md_status take_time(double *us, md_dev *dev, md_stream stream, md_status (*body)(void *user), void *user)
{
    (void)dev;
    (void)stream;
    *us = prefetched_us;
    for (int64_t i = 0; timed->plan && i < timed->plan->n_units; i++)
        if (strstr(timed->plan->unit[i].variant->name, "prefetch0"))
            *us = 1e4;
    return body(user);
}

/* A search that is cut short keeps what it found; one that found nothing leaves what was kept before. */
static void test_cut_short(void **state)
{
    static md_dev_ops ops;
    (void)state;
    open_all();
    md_bd_wait_all(context->builder);
    ops = *context->runtime.dev->ops;
    ops.time = take_time;
    context->runtime.dev->ops = &ops;
    assert_ok(md_cb_create(&timed, &context->runtime, &(md_combo_part){op, &args[0][0], 2, ITEMS}, &op->ds, 1));
    for (int is_faster = 1; is_faster >= 0; is_faster--) {
        md_strbuf text = {0};
        prefetched_us = is_faster ? 2e4 : 1e4;
        assert_ok(md_cb_tune(&text, timed, NULL,
                             &(md_cb_tune_job){.budget_s = 600, .max_builds = 1, .order = {"prefetch", "a test"}}));
        const char *end = is_faster ? "tuned; 1 builds, 1 steps kept; stored: true\n"
                                    : "heuristic; 1 builds, 0 steps kept; stored: false\n";
        if (!strstr(md_strbuf_text(&text), end))
            fail_msg("%s", md_strbuf_text(&text));
        assert_int_equal(timed->choices.n, 1);
        md_strbuf_finish(&text);
    }
    md_cb_destroy(&timed);
    close_all();
}

static void test_faster(void **state)
{
    const md_cb_way base = {.us = 100, .spread_us = 0.1};
    (void)state;
    assert_true(md_cb_is_faster(&(md_cb_way){.us = 97, .spread_us = 0.1}, &base));
    assert_false(md_cb_is_faster(&(md_cb_way){.us = 98.5, .spread_us = 0.1}, &base)); /* not by 2% */
    assert_false(md_cb_is_faster(&(md_cb_way){.us = 97, .spread_us = 2}, &base)); /* not by twice the spread */
    assert_false(md_cb_is_faster(&(md_cb_way){.us = 97, .spread_us = 0.1}, &(md_cb_way){.us = 100, .spread_us = 2}));
    assert_false(md_cb_is_faster(&(md_cb_way){.us = 50, .spread_us = INFINITY}, &base)); /* it was only looked at */
    assert_false(md_cb_is_faster(&(md_cb_way){.us = 0}, &base)); /* it was not timed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tune),      cmocka_unit_test(test_budget),    cmocka_unit_test(test_order),
        cmocka_unit_test(test_kept),      cmocka_unit_test(test_corrupt),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faster),    cmocka_unit_test(test_variables), cmocka_unit_test(test_copies),
        cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
