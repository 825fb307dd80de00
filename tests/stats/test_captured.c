/* Lists of captured kernels: ops, variants and a graph that are written by hand, and the list compared field by field
 * with what was visited. */
#include "stats/report.h"
#include "support/check.h"

#include "base/task/fork.h"

#include <jansson.h>

enum { N_KERNELS = 6 };

/* What stands for kernels, and for their handles. */
static char kernel[N_KERNELS], handle[N_KERNELS];
static md_ds_runtime runtime;
static md_dev dev;
static md_ds_op op[3];
static md_ds_pool pool[3][2];
static md_bd_variant variant[4];
static md_fx_formula *formula[2];

/* A word that means nothing, m as an extent, n as a size; then the extent of an axis that may be longer, and n. */
static md_kn_param params[] = {{MD_KN_POINTER, 0, 0, 0}, {MD_KN_EXTENT, 1, 0, 0}, {MD_KN_SIZE, 1, 0, 0}};
static md_kn_param long_enough[] = {{MD_KN_EXTENT, 1, 0, 0}, {MD_KN_SIZE, 0, 0, 0}};

typedef struct visit {
    const void *handle;
    int64_t word[3];
    bool has_params;
} visit;

static const visit *visits;
static int n_visits;

static const void *handle_of(const md_dev_kernel *k)
{
    return &handle[(const char *)k - kernel];
}

static md_status visit_all(md_dev *of, md_stream stream, void *graph, md_dev_visit_kernel take, void *user)
{
    assert_ptr_equal(of, &dev);
    assert_ptr_equal(stream, &runtime);
    assert_ptr_equal(graph, &op);
    for (int i = 0; i < n_visits; i++) {
        md_kn_word word[3];
        for (int k = 0; k < 3; k++)
            word[k].i = visits[i].word[k];
        take(user, visits[i].handle, visits[i].has_params ? word : NULL);
    }
    return MD_OK;
}

static const md_dev_ops ops = {.name = "by hand", .kernel_handle = handle_of, .graph_kernels = visit_all};

static void set_launch(md_bd_variant *v, int launch, int k, char *name, md_kn_param *list, int n)
{
    v->kernel[launch] = (const md_dev_kernel *)&kernel[k];
    v->kernel_name[launch] = name;
    v->param[launch] = list;
    v->n_params[launch] = n;
    v->n_launches = launch + 1;
    v->state = MD_BD_READY;
}

static void put_variant(md_ds_op *of, int32_t stage, md_bd_variant *v)
{
    md_ds_pool *own = &of->stage[stage];
    own->variant[own->n_variants++] = v;
    of->n_stages = of->n_stages > stage ? of->n_stages : stage + 1;
}

static char *const kernel_name[] = {(char *)"first", (char *)"second", (char *)"third", (char *)"fourth",
                                    (char *)"fifth"};

/* "two" has two stages, the first with two variants, one of them of two launches; "long" has an axis that may be longer
 * than its subscripts say; an op that is still being made comes before both and has everybody's kernels. */
static int set_up(void **state)
{
    (void)state;
    memset(op, 0, sizeof op);
    memset(variant, 0, sizeof variant);
    memset(pool, 0, sizeof pool);
    md_mutex_init(&runtime.lock_of_ops);
    dev.ops = &ops;
    runtime.dev = &dev;
    runtime.ops = &op[0];
    assert_ok(md_fx_formula_create(&formula[0], "Y[m,n] = X[m,n]", NULL));
    assert_ok(md_fx_formula_create(&formula[1], "Y[n] = X[n + 2]", NULL));
    const char *const name[] = {"unmade", "two", "long"};
    for (int i = 0; i < 3; i++) {
        op[i].runtime = &runtime;
        op[i].stage = pool[i];
        op[i].formula = formula[i == 2];
        op[i].next = i < 2 ? &op[i + 1] : NULL;
        op[i].is_made = i > 0;
        snprintf(op[i].name, sizeof op[i].name, "%s", name[i]);
    }
    set_launch(&variant[0], 0, 0, kernel_name[0], params, 3);
    set_launch(&variant[0], 1, 1, kernel_name[1], params, 3);
    set_launch(&variant[1], 0, 2, kernel_name[2], params, 3);
    set_launch(&variant[2], 0, 3, kernel_name[3], params, 3);
    set_launch(&variant[3], 0, 4, kernel_name[4], long_enough, 2);
    snprintf(variant[0].name, sizeof variant[0].name, "family/a");
    put_variant(&op[1], 0, &variant[0]);
    snprintf(variant[1].name, sizeof variant[1].name, "family/b");
    put_variant(&op[1], 0, &variant[1]);
    snprintf(variant[2].name, sizeof variant[2].name, "family/a");
    put_variant(&op[1], 1, &variant[2]);
    snprintf(variant[3].name, sizeof variant[3].name, "family/a");
    put_variant(&op[2], 0, &variant[3]);
    for (int i = 0; i < 4; i++)
        put_variant(&op[0], 0, &variant[i]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_fx_formula_destroy(&formula[0]);
    md_fx_formula_destroy(&formula[1]);
    md_mutex_finish(&runtime.lock_of_ops);
    return 0;
}

static md_strbuf list(const visit *v, int n, bool json)
{
    md_strbuf text = {0};
    visits = v;
    n_visits = n;
    assert_ok(md_ss_capture(&text, &runtime, (md_stream)&runtime, &op, json));
    return text;
}

#define K(i, ...)                                                                                                      \
    {                                                                                                                  \
        &handle[i], {__VA_ARGS__}, true                                                                                \
    }

static void expect_row(const json_t *rows, size_t i, const char *want)
{
    const json_t *r = json_array_get(rows, i);
    char got[512];
    snprintf(got, sizeof got, "%s %d.%d %s (%s) x%d %s", json_string_value(json_object_get(r, "op")),
             (int)json_integer_value(json_object_get(r, "stage")),
             (int)json_integer_value(json_object_get(r, "launch")), json_string_value(json_object_get(r, "variant")),
             json_string_value(json_object_get(r, "shape")), (int)json_integer_value(json_object_get(r, "times")),
             json_string_value(json_object_get(r, "kernel")));
    assert_string_equal(got, want);
    assert_int_equal(json_object_size(r), 7);
}

/* Rows that differ in one thing only are two rows; equal ones count. */
static void kernels_are_told_apart(void **state)
{
    (void)state;
    static const visit v[] = {
        K(0, 9, 5, 7),           K(0, 8, 5, 7), K(0, 9, 6, 7), K(0, 9, 5, 8), K(1, 9, 5, 7),
        K(2, 9, 5, 7),           K(3, 9, 5, 7), K(4, 6, 4),    K(4, 7, 4),    {&handle[0], {0}, false},
        {NULL, {9, 5, 7}, true}, K(5, 9, 5, 7), K(0, 9, 5, 7)};
    md_strbuf text = list(v, sizeof v / sizeof *v, true);
    json_t *all = json_loads(md_strbuf_text(&text), 0, NULL), *rows = json_object_get(all, "kernels");
    assert_int_equal(json_array_size(rows), 8);
    expect_row(rows, 0, "two 0.0 family/a (m=5 n=7) x3 first");
    expect_row(rows, 1, "two 0.0 family/a (m=6 n=7) x1 first");
    expect_row(rows, 2, "two 0.0 family/a (m=5 n=8) x1 first");
    expect_row(rows, 3, "two 0.1 family/a (m=5 n=7) x1 second");
    expect_row(rows, 4, "two 0.0 family/b (m=5 n=7) x1 third");
    expect_row(rows, 5, "two 1.0 family/a (m=5 n=7) x1 fourth");
    expect_row(rows, 6, "long 0.0 family/a (n=4) x2 fifth");
    expect_row(rows, 7, "two 0.0 family/a () x1 first");
    assert_int_equal(json_integer_value(json_object_get(all, "others")), 2);
    json_decref(all);
    md_strbuf_finish(&text);
}

static void tables_are_aligned(void **state)
{
    (void)state;
    static const visit v[] = {K(3, 9, 5, 7), {NULL, {0}, false}};
    md_strbuf text = list(v, 2, false);
    char want[600];
    snprintf(want, sizeof want,
             "%-24s stage launch  %-56s %-28s times  kernel\n%-24s     1      0  %-56s %-28s     1  fourth\n%s", "op",
             "variant", "shape", "two", "family/a", "m=5 n=7", "other kernels: 1\n");
    assert_string_equal(md_strbuf_text(&text), want);
    md_strbuf_finish(&text);
    text = list(v, 1, false);
    assert_null(strstr(md_strbuf_text(&text), "other"));
    md_strbuf_finish(&text);
}

/* The list grows; each row keeps its place. A variant that is not ready, and a function, have no kernel in a graph. */
static void many_rows(void **state)
{
    (void)state;
    enum { N = 100 };
    visit v[N];
    for (int i = 0; i < N; i++)
        v[i] = (visit)K(0, 0, 1 + i, 1);
    md_strbuf text = list(v, N, true);
    json_t *all = json_loads(md_strbuf_text(&text), 0, NULL), *rows = json_object_get(all, "kernels");
    assert_int_equal(json_array_size(rows), N);
    for (int i = 0; i < N; i++) {
        char want[80];
        snprintf(want, sizeof want, "two 0.0 family/a (m=%d n=1) x1 first", 1 + i);
        expect_row(rows, (size_t)i, want);
    }
    json_decref(all);
    md_strbuf_finish(&text);
    variant[0].is_function[0] = true;
    variant[1].state = MD_BD_QUEUED;
    static const visit hidden[] = {K(0, 9, 5, 7), K(2, 9, 5, 7)};
    text = list(hidden, 2, false);
    assert_non_null(strstr(md_strbuf_text(&text), "other kernels: 2\n"));
    assert_null(strstr(md_strbuf_text(&text), "two"));
    md_strbuf_finish(&text);
}

static void a_device_without_graphs_is_refused(void **state)
{
    (void)state;
    static const md_dev_ops none = {.name = "plain"};
    md_strbuf text = {0};
    dev.ops = &none;
    assert_fails(md_ss_capture(&text, &runtime, NULL, NULL, true), MD_UNSUPPORTED, "'plain' has no graphs");
    assert_int_equal(text.size, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(kernels_are_told_apart), TEST(tables_are_aligned), TEST(many_rows),
                                       TEST(a_device_without_graphs_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
