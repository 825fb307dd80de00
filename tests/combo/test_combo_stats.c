/* Statistics of combos: runs and times of each list, and how each kind of item was run. */
#include "support/check.h"

#include <jansson.h>
#include <md/combo.h>
#include <stdbool.h>

enum { ITEMS = 12, RUNS = 20 };

static md_context *context;

static int set_up(void **state)
{
    (void)state;
    return md_context_create(&context, &(md_context_options){.device = "host", .threads = 2, .hints = "16,256"}) !=
           MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

typedef struct list {
    float x[ITEMS][64], y[ITEMS][64];
    md_tensor tensor[ITEMS][2];
    md_arg args[ITEMS][2];
} list;

/* Sizes 5, 9, 0, 5, 9, 0 ... times `scale`: 4 items are empty. */
static void fill(list *l, int64_t scale)
{
    memset(l, 0, sizeof *l);
    for (int i = 0; i < ITEMS; i++) {
        const int64_t size = i % 3 == 2 ? 0 : scale * (i % 3 == 0 ? 5 : 9);
        l->tensor[i][0] = md_tensor_make(l->y[i], MD_F32, 1, &size);
        l->tensor[i][1] = md_tensor_make(l->x[i], MD_F32, 1, &size);
        l->args[i][0] = md_t(&l->tensor[i][0]);
        l->args[i][1] = md_t(&l->tensor[i][1]);
    }
}

static md_op *make(void)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, "Y[i] = 2 * X[i]", &(md_op_options){.name = "twice"}));
    assert_ok(md_op_wait(op));
    return op;
}

static int keep(void *user, const char *text, size_t n)
{
    char **to = user;
    free(*to);
    *to = strndup(text, n);
    return *to == NULL;
}

/* The row of combos with so many items, of the statistics now. The caller frees *root. */
static json_t *row_of(json_t **root, json_int_t n_items)
{
    char *text = NULL;
    size_t i;
    json_t *row, *found = NULL;
    assert_ok(md_stats_report(context, "json", keep, &text));
    *root = json_loads(text, 0, NULL);
    assert_non_null(*root);
    free(text);
    assert_int_equal(json_integer_value(json_object_get(*root, "busy_combos")), 0);
    json_array_foreach(json_object_get(*root, "combos"), i,
                       row) if (json_integer_value(json_object_get(row, "items")) == n_items)
    {
        assert_null(found); /* equal lists are one row */
        found = row;
    }
    return found;
}

static json_int_t number(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static void expect_kind(const json_t *row, const char *shape, json_int_t items, json_int_t calls)
{
    size_t i;
    json_t *k;
    json_array_foreach(json_object_get(row, "kinds"), i,
                       k) if (!strcmp(json_string_value(json_object_get(k, "shape")), shape))
    {
        assert_int_equal(number(k, "items"), items);
        assert_int_equal(number(k, "calls"), calls);
        assert_string_equal(json_string_value(json_object_get(k, "how")), "loop");
        assert_string_equal(json_string_value(json_object_get(k, "op")), "twice");
        assert_true(strlen(json_string_value(json_object_get(k, "variant"))) > 0);
        return;
    }
    fail_msg("no kind of shape %s", shape);
}

static void expect_row(json_int_t runs, json_int_t timed)
{
    json_t *root = NULL;
    const json_t *row = row_of(&root, ITEMS);
    assert_non_null(row);
    assert_string_equal(json_string_value(json_object_get(row, "ops")), "twice*12");
    assert_int_equal(number(row, "empty"), 4);
    assert_int_equal(number(row, "runs"), runs);
    assert_int_equal(number(row, "timed"), timed);
    assert_int_equal(number(row, "by_calls"), 0);
    assert_true(json_real_value(json_object_get(row, "us")) > 0);
    assert_int_equal(json_array_size(json_object_get(row, "kinds")), 2);
    expect_kind(row, "i=5", 4, 4 * runs);
    expect_kind(row, "i=9", 4, 4 * runs);
    json_decref(root);
}

static void counts_runs(void **state)
{
    md_op *op = make();
    list l;
    json_t *root = NULL;
    md_combo *combo = NULL;
    (void)state;
    fill(&l, 1);
    const md_combo_part part = {op, &l.args[0][0], 2, ITEMS};
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_null(row_of(&root, ITEMS)); /* it did not run yet */
    json_decref(root);
    for (int i = 0; i < RUNS; i++)
        assert_ok(md_combo_run(combo, NULL, NULL, 0));
    expect_row(RUNS, 2); /* one run of 16 is timed, from the first */
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    expect_row(RUNS + 1, 2);
    md_combo_destroy(&combo);
    expect_row(RUNS + 1, 2); /* kept */
    assert_ok(md_combo_call(context, NULL, &part, 1));
    expect_row(RUNS + 2, 3); /* the same list */
    md_op_destroy(&op);
    expect_row(RUNS + 2, 3);
}

static void explains_itself(void **state)
{
    md_op *op = make();
    list l;
    md_combo *combo = NULL;
    char *text = NULL;
    (void)state;
    fill(&l, 2);
    const md_combo_part part = {op, &l.args[0][0], 2, ITEMS - 1};
    assert_ok(md_combo_bind(&combo, context, &part, 1));
    assert_ok(md_combo_run(combo, NULL, NULL, 0));
    assert_ok(md_combo_explain(combo, 0, keep, &text));
    assert_non_null(strstr(text, "combo twice*11: 11 items, 1 runs, "));
    assert_non_null(strstr(text, "part 0, launch 0: 4 calls, loop: 4 items of twice i=10, "));
    assert_ok(md_combo_explain(combo, 1, keep, &text));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    const json_t *row = json_array_get(json_object_get(root, "statistics"), 0);
    assert_int_equal(number(row, "runs"), 1);
    expect_kind(row, "i=18", 4, 4);
    json_decref(root);
    assert_ok(md_stats_report(context, "table", keep, &text));
    assert_non_null(strstr(text, "combo twice*11: 11 items, 1 runs, "));
    free(text);
    md_combo_destroy(&combo);
    md_op_destroy(&op);
}

/* Lists of ever new sizes do not take memory for ever: the first 256 are told apart. */
static void bounds_rows(void **state)
{
    md_op *op = make();
    json_t *root = NULL;
    static float x[512], y[512];
    (void)state;
    for (int64_t n = 1; n <= 400; n++) {
        md_tensor ty = md_tensor_make(y, MD_F32, 1, &n), tx = md_tensor_make(x, MD_F32, 1, &n);
        const md_arg args[2] = {md_t(&ty), md_t(&tx)};
        const md_combo_part part = {op, args, 2, 1};
        md_combo *combo = NULL;
        assert_ok(md_combo_bind(&combo, context, &part, 1));
        assert_ok(md_combo_run(combo, NULL, NULL, 0));
        md_combo_destroy(&combo);
    }
    const json_t *others = row_of(&root, 0), *rows = json_object_get(root, "combos");
    const size_t n_rows = json_array_size(rows);
    json_int_t runs = 0;
    assert_non_null(others);
    assert_true(n_rows <= 257);
    for (size_t i = 0; i < n_rows; i++)
        runs += number(json_array_get(rows, i), "runs");
    assert_int_equal(runs, 400);
    assert_string_equal(json_string_value(json_object_get(others, "ops")), "other lists");
    json_decref(root);
    md_op_destroy(&op);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(counts_runs), TEST(explains_itself), TEST(bounds_rows)};
    return cmocka_run_group_tests_name("combo_stats", tests, NULL, NULL);
}
