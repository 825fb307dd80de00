/* What test_nulls is for operations, for all other handles: formulas, combos, lists, sequences, packages, stores,
 * bundles, wisdom and tuning. A function that looks into what is not there ends the program. */
#include "api/refused.h"

#include <md/combo.h>
#include <md/list.h>
#include <md/package.h>
#include <md/sequence.h>

#include <limits.h>

static md_context *context;

static int set_up(void **state)
{
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1};
    (void)state;
    return md_context_create(&context, &o) != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static int take(void *user, const char *text, size_t n)
{
    (void)user;
    (void)text;
    (void)n;
    return 0;
}

static void formulas(void **state)
{
    md_formula *formula = NULL;
    md_arg_info info;
    md_tensor tensor[2];
    (void)state;
    REFUSED(md_formula_create(NULL, "Y[i] = X[i]", NULL), "out is NULL");
    REFUSED(md_formula_create(&formula, NULL, NULL), "formula is NULL");
    assert_null(formula);
    md_formula_destroy(NULL);
    md_formula_destroy(&formula);
    assert_string_equal(md_formula_text(NULL), "");
    assert_int_equal(md_formula_n_args(NULL), 0);
    REFUSED(md_formula_arg(&info, NULL, 0), "formula is NULL");
    REFUSED(md_formula_infer(tensor, 2, NULL), "formula is NULL");
    assert_ok(md_formula_create(&formula, "Y[i] = X[i]", NULL));
    REFUSED(md_formula_arg(NULL, formula, 0), "out is NULL");
    REFUSED(md_formula_infer(NULL, 2, formula), "tensor is NULL");
    static const int32_t beyond[] = {-1, 2, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        REFUSED(md_formula_arg(&info, formula, beyond[i]), "has 2 arguments");
    md_formula_destroy(&formula);
    assert_null(formula);
}

static void combos(void **state)
{
    const md_combo_part part = {0};
    md_combo *combo = NULL;
    (void)state;
    REFUSED(md_combo_call(NULL, NULL, &part, 1), "context is NULL");
    REFUSED(md_combo_call(NULL, NULL, NULL, 0), "context is NULL");
    REFUSED(md_combo_call(context, NULL, NULL, 1), "parts is NULL");
    REFUSED(md_combo_call(context, NULL, &part, -1), "negative");
    REFUSED(md_combo_call(context, NULL, &part, 1), "op is NULL");
    REFUSED(md_combo_bind(NULL, context, &part, 1), "out is NULL");
    REFUSED(md_combo_bind(NULL, context, NULL, 0), "out is NULL");
    REFUSED(md_combo_bind(&combo, NULL, &part, 1), "context is NULL");
    REFUSED(md_combo_bind(&combo, NULL, NULL, 0), "context is NULL");
    REFUSED(md_combo_bind(&combo, context, NULL, 1), "parts is NULL");
    REFUSED(md_combo_bind(&combo, context, &part, 1), "op is NULL");
    assert_null(combo);
    md_combo_destroy(NULL);
    md_combo_destroy(&combo);
    REFUSED(md_combo_point(NULL, 0, 0, NULL), "combo is NULL");
    REFUSED(md_combo_run(NULL, NULL, NULL, 0), "combo is NULL");
    REFUSED(md_combo_tune(NULL, NULL, NULL), "combo is NULL");
    REFUSED(md_combo_explain(NULL, 0, take, NULL), "combo is NULL");
    assert_ok(md_combo_bind(&combo, context, NULL, 0));
    REFUSED(md_combo_explain(combo, 0, NULL, NULL), "write is NULL");
    md_combo_destroy(&combo);
    assert_null(combo);
}

static void lists(void **state)
{
    md_list *list = NULL;
    md_list_info info;
    (void)state;
    REFUSED(md_list_create(NULL, context, "Y[i] = X[i]", NULL), "out is NULL");
    REFUSED(md_list_create(&list, NULL, "Y[i] = X[i]", NULL), "context is NULL");
    REFUSED(md_list_create(&list, context, NULL, NULL), "formula is NULL");
    assert_null(list);
    md_list_destroy(NULL);
    md_list_destroy(&list);
    assert_int_equal(md_list_n_args(NULL), 0);
    REFUSED(md_list_arg(&info, NULL, 0), "has 0");
    REFUSED(md_list_call(NULL, NULL, NULL, 0), "list is NULL");
    REFUSED(md_list_explain(NULL, 0, take, NULL), "list is NULL");
    static const int32_t beyond[] = {-1, 100000, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        const char *a = "x", *b = "x", *c = "x";
        md_list_catalogue(beyond[i], &a, &b, &c);
        assert_true(!a && !b && !c);
        md_list_catalogue(beyond[i], NULL, NULL, NULL);
    }
    assert_ok(md_list_create(&list, context, "Y@t[i] = X@t[i]", NULL));
    REFUSED(md_list_arg(NULL, list, 0), "has 2");
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        REFUSED(md_list_arg(&info, list, beyond[i]), "has 2");
    REFUSED(md_list_arg(&info, list, 2), "argument 2 is out of range: the formula has 2");
    REFUSED(md_list_call(list, NULL, NULL, 2), "0 arguments; the formula has 2");
    REFUSED(md_list_explain(list, 0, NULL, NULL), "write is NULL");
    md_list_destroy(&list);
    assert_null(list);
}

static md_status nothing(void *user, md_stream stream, const md_tensor *tensor, int32_t n, const int64_t *size)
{
    (void)user;
    (void)stream;
    (void)tensor;
    (void)n;
    (void)size;
    return MD_OK;
}

static void sequences(void **state)
{
    md_sequence *sequence = NULL;
    md_sequence_counters counters;
    const md_sequence_tensor tensor = {0};
    int32_t id = 0;
    (void)state;
    REFUSED(md_sequence_create(NULL, context, NULL), "out is NULL");
    REFUSED(md_sequence_create(&sequence, NULL, NULL), "context is NULL");
    assert_null(sequence);
    md_sequence_destroy(NULL);
    md_sequence_destroy(&sequence);
    REFUSED(md_sequence_add_dim(&id, NULL, "n", 1, 2), "sequence is NULL");
    REFUSED(md_sequence_add_tensor(&id, NULL, &tensor), "sequence is NULL");
    REFUSED(md_sequence_add_scalar(&id, NULL, "c", MD_F32), "sequence is NULL");
    REFUSED(md_sequence_add_callback(NULL, nothing, NULL, NULL, 0), "sequence is NULL");
    REFUSED(md_sequence_finish(NULL), "sequence is NULL");
    REFUSED(md_sequence_run(NULL, NULL, NULL, 0, NULL, 0), "sequence is NULL");
    REFUSED(md_sequence_prepare(NULL, NULL, 0, NULL, 0), "sequence is NULL");
    REFUSED(md_sequence_count(&counters, NULL), "sequence is NULL");
    REFUSED(md_sequence_explain(NULL, 0, take, NULL), "sequence is NULL");
    assert_ok(md_sequence_create(&sequence, context, NULL));
    REFUSED(md_sequence_add_tensor(NULL, sequence, &tensor), "id is NULL");
    REFUSED(md_sequence_add_tensor(&id, sequence, NULL), "tensor is NULL");
    REFUSED(md_sequence_add_scalar(NULL, sequence, "c", MD_F32), "id is NULL");
    REFUSED(md_sequence_add_call(sequence, NULL, NULL, 0), "op is NULL");
    REFUSED(md_sequence_add_callback(sequence, NULL, NULL, NULL, 0), "fn is NULL");
    REFUSED(md_sequence_add_callback(sequence, nothing, NULL, NULL, 1), "ids is NULL");
    REFUSED(md_sequence_add_callback(sequence, nothing, NULL, NULL, -1), "n_ids is negative");
    REFUSED(md_sequence_count(NULL, sequence), "out is NULL");
    REFUSED(md_sequence_run(sequence, NULL, NULL, 0, NULL, 0), "not finished");
    REFUSED(md_sequence_prepare(sequence, NULL, 0, NULL, 0), "not finished");
    md_sequence_destroy(&sequence);
    assert_null(sequence);
}

static void packages(void **state)
{
    md_package *package = NULL;
    md_tensor tensor = {0};
    (void)state;
    REFUSED(md_package_open(NULL, "/nonexistent", NULL), "out is NULL");
    REFUSED(md_package_open(&package, NULL, NULL), "path is NULL");
    assert_null(package);
    md_package_close(NULL);
    md_package_close(&package);
    assert_null(md_package_context(NULL));
    assert_int_equal(md_package_n_inputs(NULL), 0);
    assert_int_equal(md_package_n_outputs(NULL), 0);
    REFUSED(md_package_outputs(&tensor, NULL, &tensor), "package is NULL");
    REFUSED(md_package_call(NULL, NULL, &tensor, &tensor), "package is NULL");
    REFUSED(md_package_describe(NULL, take, NULL), "package is NULL");
    REFUSED(md_package_write(NULL, "{}", NULL, 0, NULL), "path, plan or weights is NULL");
    REFUSED(md_package_write("/nonexistent/x", NULL, NULL, 0, NULL), "path, plan or weights is NULL");
    REFUSED(md_package_write("/nonexistent/x", "{}", NULL, 1, NULL), "path, plan or weights is NULL");
    REFUSED(md_package_write("/nonexistent/x", "{}", NULL, -1, NULL), "path, plan or weights is NULL");
}

static void stores_and_bundles(void **state)
{
    md_store_facts facts;
    (void)state;
    assert_string_equal(md_store_path(NULL), "");
    REFUSED(md_store_count(NULL, context), "out is NULL");
    REFUSED(md_store_count(&(md_store_counters){0}, NULL), "context is NULL");
    REFUSED(md_store_list(NULL, 0, take, NULL), "context is NULL");
    REFUSED(md_store_list(context, 0, NULL, NULL), "write is NULL");
    REFUSED(md_store_verify(&facts, NULL, take, NULL), "context is NULL");
    REFUSED(md_store_verify(NULL, context, take, NULL), "out is NULL");
    REFUSED(md_store_gc(&facts, NULL, 0), "context is NULL");
    REFUSED(md_store_gc(NULL, context, 0), "out is NULL");
    REFUSED(md_store_gc(&facts, context, -1), "less than 0");
    REFUSED(md_bundle_begin(NULL, MD_BUNDLE_ALL), "context is NULL");
    REFUSED(md_bundle_begin(context, (md_bundle_what)7), "7 is no md_bundle_what");
    REFUSED(md_bundle_keep(NULL, "i=3"), "op is NULL");
    REFUSED(md_bundle_write(NULL, "/nonexistent/x"), "context is NULL");
    REFUSED(md_bundle_write(context, "/nonexistent/x"), "call md_bundle_begin first");
    REFUSED(md_bundle_describe(NULL, take, NULL), "path is NULL");
    REFUSED(md_bundle_describe("/nonexistent/x", NULL, NULL), "write is NULL");
    assert_ok(md_bundle_begin(context, MD_BUNDLE_ALL));
    REFUSED(md_bundle_begin(context, MD_BUNDLE_ALL), "makes a bundle already");
    REFUSED(md_bundle_write(context, NULL), "path is NULL");
}

static int32_t gather(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why)
{
    (void)user;
    (void)all;
    (void)mine;
    (void)n_bytes;
    (void)seconds;
    (void)why;
    return 1;
}

static void texts(void **state)
{
    static const md_tune_options unwritten = {0}, written = {.write = take};
    md_exchange x = {.rank = 0, .n_ranks = 1, .gather = gather};
    md_wisdom_counts counts;
    md_agreement agreement;
    (void)state;
    assert_int_equal(md_op_dim(NULL, "i"), -1);
    REFUSED(md_freeze(NULL, MD_FREEZE_READY), "op is NULL");
    REFUSED(md_freeze_all(NULL, MD_FREEZE_READY), "context is NULL");
    REFUSED(md_freeze_all(context, (md_freeze_mode)-1), "mode -1");
    REFUSED(md_freeze_all(context, (md_freeze_mode)(MD_FREEZE_FAIL + 1)), "no md_freeze_mode");
    REFUSED(md_stats_report(NULL, "json", take, NULL), "context is NULL");
    REFUSED(md_stats_report(context, "json", NULL, NULL), "write is NULL");
    REFUSED(md_wisdom_export(NULL, take, NULL), "context is NULL");
    REFUSED(md_wisdom_export(context, NULL, NULL), "write is NULL");
    REFUSED(md_wisdom_import(&counts, NULL, "", 0, take, NULL), "context is NULL");
    REFUSED(md_wisdom_import(&counts, context, NULL, 1, take, NULL), "text is NULL");
    REFUSED(md_tune_formula(NULL, "Y[i] = X[i]", NULL, NULL), "context is NULL");
    REFUSED(md_tune_formula(context, NULL, NULL, NULL), "formula is NULL");
    REFUSED(md_tune_pieces(NULL, "Y[i] = X[i]", NULL, &written), "context is NULL");
    REFUSED(md_tune_pieces(context, NULL, NULL, &written), "formula is NULL");
    REFUSED(md_tune_pieces(context, "Y[i] = X[i]", NULL, NULL), "tune, or its function write, is NULL");
    REFUSED(md_tune_pieces(context, "Y[i] = X[i]", NULL, &unwritten), "tune, or its function write, is NULL");
    REFUSED(md_tune_piece(NULL, "{}", NULL, take, NULL), "context is NULL");
    REFUSED(md_tune_piece(context, NULL, NULL, take, NULL), "piece is NULL");
    REFUSED(md_capture_list(NULL, NULL, NULL, 0, take, NULL), "NULL");
    REFUSED(md_agree(&agreement, NULL, &x), "context is NULL");
    REFUSED(md_agree(&agreement, context, NULL), "exchange is NULL");
    x.gather = NULL;
    REFUSED(md_agree(&agreement, context, &x), "gather is NULL");
    static const int32_t ranks[][2] = {{0, 0}, {-1, 1}, {1, 1}, {2, 1}, {0, -1}};
    x.gather = gather;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        x.rank = ranks[i][0], x.n_ranks = ranks[i][1];
        REFUSED(md_agree(&agreement, context, &x), "exchange: rank");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),  cmocka_unit_test(combos),   cmocka_unit_test(lists),
        cmocka_unit_test(sequences), cmocka_unit_test(packages), cmocka_unit_test(stores_and_bundles),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
