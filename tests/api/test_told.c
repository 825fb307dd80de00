/* What a context tells on request: MD_LOG=debug, MD_DUMP; and MD_MAX_VARIANTS, which makes it say less. */
#include "support/check.h"

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINES = 256, LINE = 2048 };

static char folder[] = "/tmp/md-test-told-XXXXXX", path[512];
static char line[MAX_LINES][LINE];
static int n_lines, n_warnings;

static void take_line(void *user, md_log_level level, const char *message)
{
    (void)user;
    n_warnings += level <= MD_LOG_WARN;
    if (n_lines < MAX_LINES)
        snprintf(line[n_lines++], LINE, "%s", message);
}

static md_context *make_context(void)
{
    md_context *c = NULL;
    n_lines = n_warnings = 0;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .log = take_line}));
    return c;
}

/* Y[i,j] from X[i,j] */
static void call(md_op *op, int64_t rows, int64_t columns)
{
    const int64_t size[] = {rows, columns};
    float *x = calloc((size_t)(2 * rows * columns), sizeof *x);
    md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(x + rows * columns, MD_F32, 2, size);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    for (int64_t i = 0; i < rows * columns; i++)
        assert_true(x[rows * columns + i] > 0.99f / (float)columns && x[rows * columns + i] < 1.01f / (float)columns);
    free(x);
}

static md_op *make_softmax(md_context *c, const md_op_options *o)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, "softmax", o));
    return op;
}

/* Lines that have both parts. */
static int count_lines(const char *a, const char *b)
{
    int n = 0;
    for (int i = 0; i < n_lines; i++) {
        assert_null(strchr(line[i], '\n'));
        n += strstr(line[i], a) && strstr(line[i], b);
    }
    return n;
}

static void the_log_tells_stages_pools_and_picks(void **state)
{
    (void)state;
    setenv("MD_LOG", "debug", 1);
    md_context *c = make_context();
    unsetenv("MD_LOG");
    md_op *op = make_softmax(c, &(md_op_options){.hints = "16,64"});
    assert_int_equal(count_lines("op softmax: 1 stage", "exp("), 1);
    assert_int_equal(count_lines("op softmax, stage 0, row over j", md_op_variant(op, 0, 0)), 1);
    for (int i = 0; i < 5; i++) {
        call(op, 3, 40);
        call(op, 4, 40);
    }
    assert_int_equal(count_lines("op softmax, i=3 j=40: picked ", "(model"), 1);
    assert_int_equal(count_lines("op softmax, i=4 j=40: picked ", "(model"), 1);
    assert_int_equal(n_warnings, 0);
    md_op_destroy(&op);
    md_context_destroy(&c);
    c = make_context(); /* info */
    op = make_softmax(c, &(md_op_options){.hints = "16"});
    call(op, 3, 40);
    assert_int_equal(count_lines("op softmax", ""), 0);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Files of a folder whose names begin and end so; those files are removed. */
static int take_files(const char *in, const char *begin, const char *end, const char *content)
{
    int n = 0;
    char start[8];
    DIR *all = opendir(in);
    assert_non_null(all);
    for (struct dirent *e; (e = readdir(all));) {
        const size_t length = strlen(e->d_name);
        if (strncmp(e->d_name, begin, strlen(begin)) || length < strlen(end) ||
            strcmp(e->d_name + length - strlen(end), end))
            continue;
        snprintf(path, sizeof path, "%s/%s", in, e->d_name);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        assert_int_equal(fread(start, 1, strlen(content), f), strlen(content));
        assert_memory_equal(start, content, strlen(content));
        fclose(f);
        assert_int_equal(unlink(path), 0);
        n++;
    }
    closedir(all);
    return n;
}

static void dumps_have_formula_source_and_binary(void **state)
{
    (void)state;
    char to[64], store[64];
    struct stat facts;
    snprintf(to, sizeof to, "%s/dump", folder);
    snprintf(store, sizeof store, "%s/store", folder);
    setenv("MD_DUMP", to, 1);
    setenv("MD_CACHE_DIR", store, 1);
    for (int is_stored = 0; is_stored < 2; is_stored++) { /* compiled, then taken from the store */
        md_context *c = make_context();
        md_op *op = make_softmax(c, &(md_op_options){.hints = "16", .name = "../so/ft"});
        const int n = md_op_n_variants(op, 0);
        md_op_destroy(&op);
        md_context_destroy(&c); /* ends what was built ahead of a choice, which leaves files, too */
        assert_int_equal(stat(to, &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0700);
        assert_int_equal(take_files(to, "_..so.ft.", ".txt", "op ../"), 1);
        const int n_sources = take_files(to, "_..so.ft.0.", ".c", "");
        assert_in_range(take_files(to, "_..so.ft.0.", ".so", "\177ELF"), n, n_sources);
        assert_int_equal(n_warnings, 0);
    }
    assert_int_equal(rmdir(to), 0); /* there was nothing else */
    setenv("MD_DUMP", "/dev/null/no/folder", 1);
    md_context *c = make_context();
    md_op *op = make_softmax(c, &(md_op_options){.hints = "16,64"});
    call(op, 3, 40);
    assert_int_equal(n_warnings, 1);
    assert_int_equal(count_lines("MD_DUMP=/dev/null/no/folder", "not all files are written"), 1);
    md_op_destroy(&op);
    md_context_destroy(&c);
    unsetenv("MD_DUMP");
    setenv("MD_CACHE_DIR", "", 1);
}

static void one_variant_for_all_shapes(void **state)
{
    (void)state;
    static const char *const formula[] = {"matmul", "transpose"};
    setenv("MD_MAX_VARIANTS", "1", 1);
    md_context *c = make_context();
    unsetenv("MD_MAX_VARIANTS");
    for (size_t i = 0; i < sizeof formula / sizeof *formula; i++) {
        md_op *op = NULL;
        assert_ok(md_op_create(&op, c, formula[i], NULL));
        for (int32_t s = 0; s < md_op_n_stages(op); s++)
            assert_int_equal(md_op_n_variants(op, s), 1);
        md_op_destroy(&op);
    }
    md_op *op = make_softmax(c, NULL), *other = make_softmax(c, &(md_op_options){.max_variants = 2});
    assert_true(md_op_n_variants(other, 0) > 1);
    call(op, 1, 1);
    call(op, 3, 40);
    call(op, 65, 257);
    assert_int_equal(md_op_n_variants(op, 0), 1);
    call(op, 1, 40000); /* a row that may be too long for it */
    md_op_destroy(&op);
    md_op_destroy(&other);
    md_context_destroy(&c);
}

/* Of the variants that are correct everywhere it is the one that large shapes get. */
static void the_one_variant_is_for_large_shapes(void **state)
{
    (void)state;
    enum { SIZE = 2048 };
    static float nothing[4]; /* a choice reads no data */
    const int64_t size[] = {SIZE, SIZE};
    const md_tensor t = md_tensor_make(nothing, MD_F32, 2, size);
    md_choice choice;
    md_context *c = make_context();
    md_op *one = NULL, *all = NULL;
    md_op_options o = {.hints = "1,2048", .without_library = 1};
    assert_ok(md_op_create(&all, c, "matmul", &o));
    assert_ok(md_choice_of(&choice, all, (md_arg[]){md_t(&t), md_t(&t), md_t(&t)}, 3));
    o.max_variants = 1;
    assert_ok(md_op_create(&one, c, "matmul", &o));
    assert_string_equal(md_op_variant(one, 0, 0), choice.variant[0]);
    md_op_destroy(&one);
    md_op_destroy(&all);
    md_context_destroy(&c);
}

/* MD_TRACE: what was built, measured and chosen, with what belongs to each. */
static void the_timeline_has_all(void **state)
{
    (void)state;
    static const char *const parts[] = {"\"cat\":\"build\"",  "\"result\":\"ready\"", "\"text_bytes\":",
                                        "\"binary_bytes\":",  "\"cat\":\"measure\"",  "\"measure (us)\"",
                                        "\"cat\":\"choice\"", "\"variant\":\"",       "\"why\":\"measured\"",
                                        "\"runner_up\":\"",   "\"margin\":",          "=64"};
    char *text = calloc(1, 1 << 20), plain[sizeof path];
    snprintf(plain, sizeof plain, "%s/trace.json", folder);
    setenv("MD_TRACE", plain, 1);
    md_context *c = make_context();
    unsetenv("MD_TRACE");
    md_op *op = make_softmax(c, &(md_op_options){.select = MD_SELECT_MEASURE, .hints = "64,64"});
    call(op, 64, 64);
    md_op_destroy(&op);
    md_context_destroy(&c);
    FILE *f = fopen(plain, "r");
    assert_true(text && f);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("no %s in %s", parts[i], text);
    free(text);
}

static int set_up(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    for (int32_t i = 0;; i++) {
        const char *name = NULL;
        md_variables(i, &name, NULL, NULL);
        if (!name)
            break;
        if (strcmp(name, "MD_CC"))
            unsetenv(name);
    }
    setenv("MD_CACHE_DIR", "", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_tells_stages_pools_and_picks),
        cmocka_unit_test(dumps_have_formula_source_and_binary),
        cmocka_unit_test(one_variant_for_all_shapes),
        cmocka_unit_test(the_one_variant_is_for_large_shapes),
        cmocka_unit_test(the_timeline_has_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
