/* All memory of what was made is given back when it is destroyed: an op, its launches and reports, a combo, a list, a
 * sequence, a formula, a bundle; alone, and where the context goes first. The first round may leave behind what a
 * process keeps. */
#include "support/check.h"
#include "support/fault.h"

#include <md/combo.h>
#include <md/list.h>
#include <md/sequence.h>

enum { N = 40, ROUNDS = 4 };

static md_context *context;
static md_op *op; /* Y[i] = X[i] * 2 + sum[j](X[j]) */
static float x[2][N], y[2][N];
static md_tensor tx[2], ty[2];
static const char *const formula = "Y[i] = X[i] * 2 + sum[j](X[j])";

static int count(void *user, const char *text, size_t n)
{
    (void)text;
    *(size_t *)user += n;
    return 0;
}

static void open_all(void)
{
    const int64_t size[] = {N};
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .hints = "64"}));
    assert_ok(md_op_create(&op, context, formula, NULL));
    for (int i = 0; i < 2; i++) {
        tx[i] = md_tensor_make(x[i], MD_F32, 1, size);
        ty[i] = md_tensor_make(y[i], MD_F32, 1, size);
    }
}

static void close_all(void)
{
    md_op_destroy(&op);
    md_context_destroy(&context);
}

static void calls(void)
{
    const md_arg args[] = {md_t(&ty[0]), md_t(&tx[0])};
    md_launch *launch = NULL;
    double us[1];
    open_all();
    assert_ok(md_call(op, NULL, args, 2));
    assert_ok(md_call(op, NULL, args, 2));
    assert_ok(md_reference(op, args, 2));
    assert_ok(md_resolve(&launch, op, args, 2));
    assert_ok(md_launch_run(launch, NULL, args, 2));
    assert_ok(md_launch_time(us, launch, NULL));
    md_launch_destroy(&launch);
    assert_ok(md_prepare(op, "i=7; i=9"));
    close_all();
}

static void texts(void)
{
    size_t n = 0;
    uint64_t digest[2];
    open_all();
    assert_ok(md_prepare(op, "i=7"));
    assert_ok(md_explain(op, "i=7", 1, count, &n));
    assert_ok(md_explain(op, "i=7", 0, count, &n));
    assert_ok(md_check_formula(context, formula, NULL, 0, count, &n));
    assert_ok(md_op_source(op, 0, md_op_variant(op, 0, 0), count, &n));
    assert_ok(md_stats_report(context, "json", count, &n));
    assert_ok(md_stats_report(context, "table", count, &n));
    assert_ok(md_stats_report(context, "csv", count, &n));
    assert_ok(md_choices_export(context, count, &n));
    assert_ok(md_digest(digest, context));
    assert_ok(md_wisdom_export(context, count, &n));
    assert_ok(md_info(context, 1, count, &n));
    assert_ok(md_store_list(context, 1, count, &n));
    assert_ok(md_hints_suggest(
        context, formula, NULL,
        &(md_suggest_options){.shapes = &(md_met_shape){"i=9", 1.0}, .n_shapes = 1, .write = count, .user = &n}));
    assert_true(n > 1000);
    close_all();
}

static void combos(void)
{
    const md_arg args[] = {md_t(&ty[0]), md_t(&tx[0]), md_t(&ty[1]), md_t(&tx[1])};
    md_combo *combo = NULL, *late = NULL;
    size_t n = 0;
    open_all();
    const md_combo_part own[] = {{op, args, 2, 1}, {op, args + 2, 2, 1}};
    assert_ok(md_combo_call(context, NULL, own, 2));
    assert_ok(md_combo_bind(&combo, context, own, 2));
    assert_ok(md_combo_bind(&late, context, own, 2));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    assert_ok(md_combo_explain(combo, 1, count, &n));
    md_combo_destroy(&combo);
    close_all();
    md_combo_destroy(&late); /* after its context */
}

static void lists(void)
{
    md_list *list = NULL;
    size_t n = 0;
    open_all();
    assert_ok(md_list_create(&list, context, "let n = sum[t,i](X@t[i]); Y@t[i] = X@t[i] - n", NULL));
    md_arg args[2];
    for (int32_t i = 0; i < 2; i++) {
        md_list_info info;
        assert_ok(md_list_arg(&info, list, i));
        args[i] = info.name[0] == 'Y' ? md_ts(ty, 2) : md_ts(tx, 2);
    }
    assert_ok(md_list_call(list, NULL, args, 2));
    assert_ok(md_list_explain(list, 1, count, &n));
    md_list_destroy(&list);
    close_all();
}

static void sequences(void)
{
    md_sequence *s = NULL;
    size_t n = 0;
    int32_t in, out;
    const int64_t size = N;
    void *data[] = {x[0], y[0]};
    open_all();
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 1, 100));
    assert_ok(
        md_sequence_add_tensor(&in, s, &(md_sequence_tensor){.name = "in", .role = MD_SEQUENCE_INPUT, .size = "n"}));
    assert_ok(
        md_sequence_add_tensor(&out, s, &(md_sequence_tensor){.name = "out", .role = MD_SEQUENCE_OUTPUT, .size = "n"}));
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = out}, {.id = in}}, 2));
    assert_ok(md_sequence_finish(s));
    for (int i = 0; i < 3; i++)
        assert_ok(md_sequence_run(s, NULL, &size, 1, data, 2));
    assert_ok(md_sequence_explain(s, 1, count, &n));
    md_sequence_destroy(&s);
    close_all();
}

static void formulas(void)
{
    md_formula *f = NULL;
    md_op *wrong = NULL;
    open_all();
    assert_ok(md_formula_create(&f, formula, NULL));
    md_formula_destroy(&f);
    assert_int_equal(md_formula_create(&f, "Y[i] = X[i,j] +", NULL), MD_INVALID_ARGUMENT);
    assert_int_equal(md_op_create(&wrong, context, "Y[i] = nosuch(X[i])", NULL), MD_INVALID_ARGUMENT);
    assert_int_equal(md_op_create(&wrong, context, "Y[i] = X[i]", &(md_op_options){.hints = "?"}), MD_INVALID_ARGUMENT);
    close_all();
}

static void (*const bodies[])(void) = {calls, texts, combos, lists, sequences, formulas};

static void memory_is_given_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        int64_t living = 0;
        for (int round = 0; round < ROUNDS; round++) {
            bodies[i]();
            if (round > 0 && fault_living() != living)
                fail_msg("body %d, round %d: %d allocations are left", (int)i, round, (int)(fault_living() - living));
            living = fault_living();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_given_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
