/* A second context, as in another process: what the first one built is found, and nothing is compiled. */
#include "support/check.h"

#include <dirent.h>
#include <unistd.h>

static char folder[64];
static const char RATES[] = "20000,12000,60000,60000,2000";

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/md-warm-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static md_context *open_context(const char *cache)
{
    md_context *c = NULL;
    assert_ok(md_context_create(
        &c, &(md_context_options){.device = "host", .threads = 2, .hints = "16,256", .cache_dir = cache}));
    return c;
}

static const char *const names[] = {"softmax", "gelu", "layer_norm", "cumsum", "linear"};
enum { N = sizeof names / sizeof *names };

static void make_ops(md_context *c)
{
    for (int i = 0; i < N; i++) {
        md_op *op = NULL;
        assert_ok(md_op_create(&op, c, names[i], NULL));
        assert_ok(md_op_wait(op));
        md_op_destroy(&op);
    }
}

static md_store_counters count(md_context *c)
{
    md_store_counters counters;
    assert_ok(md_store_count(&counters, c));
    return counters;
}

/* The same results, from kernels of either origin. */
static void run_softmax(md_context *c, float *y)
{
    enum { ROWS = 5, COLUMNS = 77 };
    static float x[ROWS * COLUMNS];
    const int64_t size[] = {ROWS, COLUMNS};
    md_op *op = NULL;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)((i * 37) % 101) * 0.1f;
    assert_ok(md_op_create(&op, c, "softmax", NULL));
    assert_ok(md_op_wait(op));
    md_arg_info info;
    assert_ok(md_op_arg(&info, op, 0));
    const md_tensor in = md_tensor_make(x, MD_F32, 2, size), out = md_tensor_make(y, MD_F32, 2, size);
    const md_arg args[] = {md_t(info.is_output ? &out : &in), md_t(info.is_output ? &in : &out)};
    assert_ok(md_call(op, NULL, args, 2));
    md_op_destroy(&op);
}

static void a_second_context_compiles_nothing(void **state)
{
    (void)state;
    static float cold_y[385], warm_y[385];
    md_context *c = open_context(folder);
    assert_string_equal(md_store_path(c), folder);
    make_ops(c);
    run_softmax(c, cold_y);
    const md_store_counters before = count(c);
    assert_true(before.compiles > N && before.written == before.compiles && before.kernels_stored == 0);
    md_context_destroy(&c);

    c = open_context(folder);
    make_ops(c);
    run_softmax(c, warm_y);
    const md_store_counters after = count(c);
    assert_int_equal(after.compiles, 0);
    assert_int_equal(after.written, 0);
    assert_true(after.kernels_stored >= before.compiles);
    for (int i = 0; i < 385; i++) /* another variant may have been picked */
        assert_true(cold_y[i] > 0.0f && warm_y[i] - cold_y[i] < 1e-6f && cold_y[i] - warm_y[i] < 1e-6f);
    md_context_destroy(&c);
}

/* Tuned once: the second context measures and compiles nothing, and the third one, that asks for less, neither. */
static void a_second_context_measures_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        md_context *c = NULL;
        md_op *op = NULL;
        const md_context_options o = {.device = "host",
                                      .threads = 2,
                                      .hints = "16",
                                      .cache_dir = folder,
                                      .tune = i < 2 ? MD_TUNE_MEASURE : MD_TUNE_ESTIMATE,
                                      .tune_budget_ms = 60000};
        assert_ok(md_context_create(&c, &o));
        assert_ok(md_op_create(&op, c, "gelu", NULL));
        assert_ok(md_op_wait(op));
        md_op_destroy(&op);
        const md_store_counters counters = count(c);
        printf("run %d: %d compiles, %d configs timed\n", i, (int)counters.compiles, (int)counters.timed);
        assert_true(i ? counters.compiles == 0 && counters.timed == 0 : counters.compiles > 1 && counters.timed > 1);
        md_context_destroy(&c);
    }
}

static int n_text;
static int take_text(void *user, const char *text, size_t n)
{
    char *out = user;
    assert_true(strlen(out) + n < 100000);
    strncat(out, text, n);
    n_text++;
    return 0;
}

static void read_text(char *out, size_t n, const char *path)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    out[fread(out, 1, n - 1, f)] = 0;
    fclose(f);
}

static long counted(const char *json, const char *name)
{
    char key[40];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(json, key);
    assert_non_null(at);
    return strtol(at + strlen(key), NULL, 10);
}

/* The shapes of the first process: the second one measures none of them, in any mode, and picks the same. */
static void a_second_context_measures_no_shape(void **state)
{
    (void)state;
    static const md_select modes[] = {MD_SELECT_MEASURE, MD_SELECT_MEASURE, MD_SELECT_MODEL, MD_SELECT_HYBRID};
    static char json[100000];
    static _Alignas(64) float x[4000], y[4000];
    uint64_t digest[4][2];
    char path[100];
    for (int i = 0; i < 4; i++) {
        md_context *c = NULL;
        md_op *op = NULL;
        assert_ok(md_context_create(
            &c, &(md_context_options){
                    .device = "host", .threads = 2, .hints = "16", .cache_dir = folder, .select = modes[i]}));
        assert_ok(md_op_create(&op, c, "Y[i] = X[i] * 2", NULL));
        assert_ok(md_op_wait(op));
        for (int64_t n = 1000; n <= 4000; n += 1000) {
            const md_tensor to = md_tensor_make(y, MD_F32, 1, &n), from = md_tensor_make(x, MD_F32, 1, &n);
            const md_arg args[] = {md_t(&to), md_t(&from)};
            assert_ok(md_call(op, NULL, args, 2));
        }
        json[0] = 0;
        snprintf(path, sizeof path, "%s/stats.json", folder);
        assert_ok(md_stats_write(c, path, "json"));
        read_text(json, sizeof json, path);
        assert_ok(md_digest(digest[i], c));
        if (i == 0)
            assert_true(counted(json, "measured") >= 4 && counted(json, "stored") == 0);
        else
            assert_true(counted(json, "measured") == 0 && counted(json, "stored") == 4 &&
                        counted(json, "stored_picks") == 4 && counted(json, "stored_times") >= 4);
        if (i > 0)
            assert_memory_equal(digest[i], digest[0], sizeof digest[0]);
        json[0] = 0;
        assert_ok(md_explain(op, "i=2000", 0, take_text, json));
        assert_true(!strstr(json, "(measured, stored by an earlier run)") == (i == 0));
        md_op_destroy(&op);
        md_context_destroy(&c);
    }
}

static void nothing_is_kept_where_it_is_off(void **state)
{
    (void)state;
    md_context *c = open_context("");
    assert_string_equal(md_store_path(c), "");
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, "gelu", NULL));
    md_op_destroy(&op);
    const md_store_counters counters = count(c);
    assert_true(counters.compiles > 0 && counters.written == 0 && counters.hits == 0 && counters.misses == 0);
    md_context_destroy(&c);
}

static void lists_and_limits(void **state)
{
    (void)state;
    static char text[100000];
    md_store_facts facts;
    unsetenv("MD_RATES");
    setenv("MD_CALIBRATE", "off", 1); /* they are measured at once */
    md_context *c = open_context(folder);
    setenv("MD_RATES", RATES, 1);
    unsetenv("MD_CALIBRATE");
    md_op *op = NULL;
    assert_ok(md_store_list(c, 0, take_text, text)); /* the host's rates, which a context keeps */
    assert_true(strstr(text, " facts ") && strchr(text, '\n') == text + strlen(text) - 1);
    text[0] = 0;
    assert_ok(md_op_create(&op, c, "gelu", NULL));
    assert_ok(md_op_wait(op));
    md_op_destroy(&op);
    assert_ok(md_store_list(c, 1, take_text, text));
    assert_non_null(strstr(text, "\"kind\":\"kernel\""));
    assert_ok(md_store_verify(&facts, c, NULL, NULL));
    assert_true(facts.n_entries > 0 && facts.n_bad == 0);
    char command[200];
    snprintf(command, sizeof command, "for f in $(find %s -path '*/kernel/*' -type f); do echo >> $f; done", folder);
    assert_int_equal(system(command), 0);
    text[0] = 0;
    const int64_t n = facts.n_entries;
    assert_ok(md_store_verify(&facts, c, take_text, text));
    assert_true(facts.n_bad > 0 && facts.n_bad <= n && facts.n_removed == facts.n_bad);
    assert_non_null(strstr(text, "not as long as it says"));
    assert_ok(md_store_gc(&facts, c, 0));
    assert_ok(md_store_gc(&facts, c, 0));
    assert_int_equal(facts.n_entries, 0);
    assert_fails(md_store_gc(&facts, c, -1), MD_INVALID_ARGUMENT, "less than 0");
    md_context_destroy(&c);
}

static void wisdom_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    static char text[100000];
    static const char bad[] = "# wisdom\n{\"key\":\"a\"}\n\nnonsense\n";
    md_wisdom_counts counts;
    md_context *c = open_context(folder);
    text[0] = 0;
    assert_fails(md_wisdom_import(&counts, c, bad, strlen(bad), take_text, text), MD_CORRUPT, "2 of 2 lines");
    assert_int_equal(counts.n_bad, 2);
    assert_non_null(strstr(text, "line 2: "));
    assert_non_null(strstr(text, "line 4: "));
    text[0] = 0;
    assert_ok(md_wisdom_export(c, take_text, text));
    assert_string_equal(text, "");
    assert_ok(md_wisdom_import(NULL, c, NULL, 0, NULL, NULL));
    assert_fails(md_wisdom_import(NULL, NULL, "", 0, NULL, NULL), MD_INVALID_ARGUMENT, "context");
    assert_fails(md_wisdom_import(NULL, c, NULL, 1, NULL, NULL), MD_INVALID_ARGUMENT, "text");
    assert_fails(md_wisdom_export(c, NULL, NULL), MD_INVALID_ARGUMENT, "write");
    md_context_destroy(&c);
}

int main(void)
{
    setenv("MD_RATES", RATES, 1); /* measured ones may change under load, and the pools with them */
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_second_context_compiles_nothing),
        TEST(a_second_context_measures_nothing),
        TEST(a_second_context_measures_no_shape),
        TEST(nothing_is_kept_where_it_is_off),
        TEST(lists_and_limits),
        TEST(wisdom_is_taken_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
