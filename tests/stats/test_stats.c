/* Statistics and explanations as files that other programs read: CSV and JSON are valid whatever an op is called,
 * and no call is lost. No compiler is used: the reference serves, and nothing here is about kernels. */
#include "support/check.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>

static char folder[] = "/tmp/md-test-stats-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/stats", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static md_context *make_context(md_context_options o)
{
    md_context *c = NULL;
    o.device = "host";
    o.cc = "/nonexistent/cc";
    o.threads = 1;
    assert_ok(md_context_create(&c, &o));
    return c;
}

static void call(md_op *op, int64_t n)
{
    float x[64] = {0}, y[64];
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
}

static md_op *make_op(md_context *c, const char *name)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, "Y[i] = X[i] + 1", &(md_op_options){.name = name}));
    return op;
}

static char *read_all(const char *from)
{
    static char text[1 << 18];
    FILE *f = fopen(from, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    return text;
}

/* One field of RFC 4180, into out; the text behind it and its separator. */
static const char *csv_field(char out[256], const char *at)
{
    size_t n = 0;
    bool is_quoted = *at == '"';
    for (at += is_quoted; is_quoted ? *at != '"' || at[1] == '"' : *at != ',' && *at != '\n'; at++) {
        assert_true(*at && n < 255);
        assert_true(is_quoted || *at != '"');
        at += is_quoted && *at == '"';
        out[n++] = *at;
    }
    out[n] = 0;
    at += is_quoted;
    assert_true(*at == ',' || *at == '\n');
    return at + 1;
}

enum { CSV_FIELDS = 32 }; /* at most */

/* The row whose op is `name`; the test fails where a row has not as many fields as the head. */
static bool csv_row(char field[CSV_FIELDS][256], const char *text, const char *name)
{
    bool is_found = false;
    int n = 1;
    for (const char *at = text; *at != '\n'; at++)
        n += *at == ',';
    assert_in_range(n, 14, CSV_FIELDS);
    for (const char *at = text; *at;) {
        char row[CSV_FIELDS][256];
        for (int i = 0; i < n; i++) {
            at = csv_field(row[i], at);
            assert_int_equal(at[-1], i + 1 < n ? ',' : '\n');
        }
        if (strcmp(row[0], name))
            continue;
        is_found = true;
        memcpy(field, row, sizeof row);
    }
    return is_found;
}

static json_t *json_row(json_t *root, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(root, "shapes"), i, row)
    {
        if (!strcmp(json_string_value(json_object_get(row, "op")), name))
            return row;
    }
    fail_msg("no row of '%s'", name);
    return NULL;
}

static void names_of_users(void **state)
{
    (void)state;
    static const struct {
        const char *name, *csv, *json;
    } row[] = {
        {"plain", "plain", "plain"},
        {"a,b", "a,b", "a,b"},
        {"say \"hi\"", "say \"hi\"", "say \"hi\""},
        {"\"", "\"", "\""},
        {"\\n", "\\n", "\\n"},
        {"line\nbreak", "line?break", "line?break"},
        {"caf\xc3\xa9", "caf\xc3\xa9", "caf\xc3\xa9"},
        {"half\xc3", "half?", "half?"}, /* not UTF-8 */
        {"%s%n", "%s%n", "%s%n"},
    };
    md_context *c = make_context((md_context_options){0});
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *op = make_op(c, row[i].name);
        for (size_t k = 0; k <= i; k++)
            call(op, 8);
        md_op_destroy(&op);
    }
    assert_ok(md_stats_write(c, path, "csv"));
    char *text = read_all(path);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char field[CSV_FIELDS][256], calls[16];
        if (!csv_row(field, text, row[i].csv))
            fail_msg("no row of '%s' in\n%s", row[i].csv, text);
        snprintf(calls, sizeof calls, "%zu", i + 1);
        assert_string_equal(field[1], "i=8");
        assert_string_equal(field[3], "reference");
        assert_string_equal(field[8], calls);
    }
    assert_ok(md_stats_write(c, path, "json"));
    json_t *root = json_loads(read_all(path), 0, NULL);
    assert_non_null(root);
    assert_true(json_is_true(json_object_get(root, "complete")));
    assert_int_equal(json_array_size(json_object_get(root, "shapes")), sizeof row / sizeof *row);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(json_integer_value(json_object_get(json_row(root, row[i].json), "calls")), i + 1);
    json_decref(root);
    assert_ok(md_stats_write(c, path, "table"));
    int lines = 0;
    for (const char *at = read_all(path); (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    /* a line a row and a line an op, whatever it is called */
    assert_int_equal(lines, 1 + 2 * (sizeof row / sizeof *row));
    md_context_destroy(&c);
}

static int print_to_file(void *user, const char *text, size_t n)
{
    return fwrite(text, 1, n, user) != n;
}

static void explanations_of_odd_names(void **state)
{
    (void)state;
    static const char *const name[] = {"say \"hi\"", "half\xc3", "back\\slash"};
    md_context *c = make_context((md_context_options){0});
    for (size_t i = 0; i < 3; i++) {
        md_op *op = make_op(c, name[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_ok(md_explain(op, "i=5", 1, print_to_file, f));
        fclose(f);
        json_t *root = json_loads(read_all(path), 0, NULL);
        assert_non_null(root);
        assert_non_null(json_object_get(root, "op"));
        json_t *stage = json_array_get(json_object_get(root, "stages"), 0);
        assert_string_equal(json_string_value(json_object_get(stage, "pick")), "reference");
        json_decref(root);
        md_op_destroy(&op);
    }
    md_context_destroy(&c);
}

/* A call without an element is a call. */
static void empty_calls(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, "nothing");
    for (int i = 0; i < 3; i++)
        call(op, 0);
    call(op, 4);
    assert_ok(md_stats_write(c, path, "json"));
    json_t *root = json_loads(read_all(path), 0, NULL);
    const json_t *counts = json_object_get(json_array_get(json_object_get(root, "ops"), 0), "counts");
    assert_int_equal(json_integer_value(json_object_get(counts, "calls")), 4);
    assert_int_equal(json_integer_value(json_object_get(counts, "empty")), 3);
    assert_int_equal(json_integer_value(json_object_get(counts, "misses")), 1);
    assert_int_equal(json_integer_value(json_object_get(counts, "hits")), 0);
    json_decref(root);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Entries of one shape that differ by alignment only are one row, and all their calls were timed. */
static void merged_rows(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, "merged");
    _Alignas(64) float x[32] = {0}, y[32];
    const int64_t n = 10;
    for (int offset = 0; offset < 3; offset++) { /* on 64 bytes, on 4, on 8: two classes */
        md_tensor tx = md_tensor_make(x + offset, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
        assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    }
    assert_ok(md_stats_write(c, path, "json"));
    json_t *root = json_loads(read_all(path), 0, NULL), *shapes = json_object_get(root, "shapes");
    const json_t *counts = json_object_get(json_array_get(json_object_get(root, "ops"), 0), "counts");
    assert_int_equal(json_integer_value(json_object_get(counts, "misses")), 2);
    assert_int_equal(json_array_size(shapes), 1);
    const json_t *row = json_array_get(shapes, 0);
    assert_int_equal(json_integer_value(json_object_get(row, "calls")), 3);
    assert_string_equal(json_string_value(json_object_get(row, "time")), "measured");
    json_decref(root);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Shapes that were forgotten count too. */
static void evicted_shapes(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){.max_shapes = 3});
    md_op *op = make_op(c, "many");
    for (int64_t n = 1; n <= 20; n++)
        for (int k = 0; k < 5; k++)
            call(op, n);
    for (int alive = 1; alive >= 0; alive--) {
        size_t i;
        json_t *row;
        json_int_t calls = 0, others = 0;
        assert_ok(md_stats_write(c, path, "json"));
        json_t *root = json_loads(read_all(path), 0, NULL);
        json_array_foreach(json_object_get(root, "shapes"), i, row)
        {
            json_int_t n = json_integer_value(json_object_get(row, "calls"));
            calls += n;
            if (!strcmp(json_string_value(json_object_get(row, "shape")), "other shapes"))
                others += n;
        }
        assert_int_equal(calls, 100);
        assert_int_equal(others, 85);
        json_decref(root);
        if (alive)
            md_op_destroy(&op);
    }
    md_context_destroy(&c);
}

static int n_errors;
static char message[256];

static void take_error(void *user, md_log_level level, const char *text)
{
    (void)user;
    if (level != MD_LOG_ERROR)
        return;
    n_errors++;
    snprintf(message, sizeof message, "%s", text);
}

static void written_at_the_end(void **state)
{
    (void)state;
    static const struct {
        const char *ending, *part;
    } row[] = {{"", "runner-up"}, {".json", "\"shapes\""}, {".csv", "op,shape,stage"}};
    for (size_t i = 0; i < 3; i++) {
        char to[80];
        snprintf(to, sizeof to, "%s%s", path, row[i].ending);
        setenv("MD_STATS", to, 1);
        md_context *c = make_context((md_context_options){0});
        unsetenv("MD_STATS");
        md_op *op = make_op(c, "end");
        call(op, 4);
        md_op_destroy(&op);
        md_context_destroy(&c);
        assert_non_null(strstr(read_all(to), row[i].part));
        assert_non_null(strstr(read_all(to), "end"));
        unlink(to);
    }
    setenv("MD_STATS", "/nonexistent/folder/stats.json", 1);
    md_context *c = make_context((md_context_options){.log = take_error});
    unsetenv("MD_STATS");
    n_errors = 0;
    md_context_destroy(&c);
    assert_int_equal(n_errors, 1);
    assert_non_null(strstr(message, "MD_STATS"));
    assert_non_null(strstr(message, "/nonexistent/folder/stats.json"));
    if (access("/dev/full", W_OK) == 0) {
        c = make_context((md_context_options){0});
        assert_fails(md_stats_write(c, "/dev/full", NULL), MD_IO, "'/dev/full' could not be written");
        md_context_destroy(&c);
    }
}

/* stdout is buffered: that it is full shows when it is flushed. */
static void a_full_stdout_is_an_error(void **state)
{
    (void)state;
    const int full = open("/dev/full", O_WRONLY);
    if (full < 0)
        skip();
    setenv("MD_STATS", "-", 1);
    md_context *asked = make_context((md_context_options){.log = take_error});
    unsetenv("MD_STATS");
    md_context *c = make_context((md_context_options){0});
    md_status status[3];
    static const char *const format[] = {"table", "csv", "json"};
    n_errors = 0;
    fflush(stdout);
    const int own = dup(STDOUT_FILENO);
    assert_int_equal(dup2(full, STDOUT_FILENO), STDOUT_FILENO);
    for (int i = 0; i < 3; i++)
        status[i] = md_stats_write(c, "-", format[i]);
    md_context_destroy(&asked);
    assert_int_equal(dup2(own, STDOUT_FILENO), STDOUT_FILENO);
    clearerr(stdout);
    for (int i = 0; i < 3; i++)
        assert_int_equal(status[i], MD_IO);
    assert_int_equal(n_errors, 1);
    assert_non_null(strstr(message, "could not be written to stdout"));
    assert_ok(md_stats_write(c, "-", "csv"));
    md_context_destroy(&c);
    close(own);
    close(full);
}

static void nothing_was_called(void **state)
{
    (void)state;
    md_context *c = make_context((md_context_options){0});
    md_op *op = make_op(c, "idle");
    md_op *other = make_op(c, "prepared");
    assert_ok(md_prepare(other, "i=7")); /* chosen, not called */
    assert_ok(md_stats_write(c, path, "table"));
    assert_non_null(strstr(read_all(path), "no op was called"));
    assert_ok(md_stats_write(c, path, "json"));
    json_t *root = json_loads(read_all(path), 0, NULL);
    assert_int_equal(json_array_size(json_object_get(root, "shapes")), 0);
    json_decref(root);
    md_op_destroy(&op);
    md_op_destroy(&other);
    md_context_destroy(&c);
}

int main(void)
{
    for (int32_t i = 0;; i++) {
        const char *name = NULL;
        md_variables(i, &name, NULL, NULL);
        if (!name)
            break;
        unsetenv(name);
    }
    setenv("MD_CACHE_DIR", "", 1); /* what an earlier run measured would be picked */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_users),     cmocka_unit_test(explanations_of_odd_names),
        cmocka_unit_test(empty_calls),        cmocka_unit_test(merged_rows),
        cmocka_unit_test(evicted_shapes),     cmocka_unit_test(written_at_the_end),
        cmocka_unit_test(nothing_was_called), cmocka_unit_test(a_full_stdout_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
