/* Choices that are exported and imported: another context runs the same variants, whatever it would pick itself. */
#include "support/json_walk.h"

#include <stdbool.h>

static md_context *open_context(void)
{
    md_context *c = NULL;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 2, .hints = "16,256"}));
    return c;
}

static const char FORMULA[] = "Y[i] = sum[j](X[i,j])";
enum { ROWS = 5, COLUMNS = 77 };

typedef struct side {
    md_context *context;
    md_op *op;
    float x[ROWS * COLUMNS], y[ROWS];
} side;

static void open_side(side *s, const char *pin, md_select select)
{
    s->context = open_context();
    for (int i = 0; i < ROWS * COLUMNS; i++)
        s->x[i] = 1.0f;
    assert_ok(md_op_create(&s->op, s->context, FORMULA, &(md_op_options){.pin = pin, .select = select}));
}

static void close_side(side *s)
{
    md_op_destroy(&s->op);
    md_context_destroy(&s->context);
}

static void call(side *s, int64_t rows, md_choice *choice)
{
    const int64_t size[] = {rows, COLUMNS};
    const md_tensor y = md_tensor_make(s->y, MD_F32, 1, size), x = md_tensor_make(s->x, MD_F32, 2, size);
    const md_arg args[] = {md_t(&y), md_t(&x)};
    memset(s->y, 0, sizeof s->y);
    assert_ok(md_call(s->op, NULL, args, 2));
    for (int64_t i = 0; i < rows; i++)
        assert_true(s->y[i] == COLUMNS);
    if (choice)
        assert_ok(md_choice_of(choice, s->op, args, 2));
}

static int take(void *user, const char *text, size_t n)
{
    FILE *file = user;
    return fwrite(text, 1, n, file) != n;
}

/* The caller frees it. */
static char *export(md_context *c)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    assert_non_null(file);
    assert_ok(md_choices_export(c, take, file));
    fclose(file);
    return text;
}

static bool have_equal_digests(md_context *a, md_context *b)
{
    uint64_t x[2], y[2];
    assert_ok(md_digest(x, a));
    assert_ok(md_digest(y, b));
    return x[0] == y[0] && x[1] == y[1];
}

/* A variant of the op that it would not pick for `rows`; false if there is none. */
static bool find_other(char out[200], side *s, int64_t rows)
{
    md_choice picked;
    call(s, rows, &picked);
    for (int32_t i = 0; i < md_op_n_variants(s->op, 0); i++) {
        side other;
        const char *name = md_op_variant(s->op, 0, i);
        if (!strcmp(name, picked.variant[0]))
            continue;
        open_side(&other, name, MD_SELECT_MODEL);
        const int64_t size[] = {rows, COLUMNS};
        const md_tensor y = md_tensor_make(other.y, MD_F32, 1, size), x = md_tensor_make(other.x, MD_F32, 2, size);
        const md_arg args[] = {md_t(&y), md_t(&x)};
        const bool fits = md_call(other.op, NULL, args, 2) == MD_OK;
        close_side(&other);
        snprintf(out, 200, "%s", name);
        if (fits)
            return true;
    }
    return false;
}

static void an_import_rules_what_is_called(void **state)
{
    (void)state;
    static const md_select modes[] = {MD_SELECT_MODEL, MD_SELECT_DISTANCE, MD_SELECT_MEASURE, MD_SELECT_HYBRID};
    char name[200] = "";
    side first, second;
    md_choice choice;
    open_side(&first, NULL, MD_SELECT_MODEL);
    assert_true(find_other(name, &first, 5));
    close_side(&first);
    open_side(&first, name, MD_SELECT_MODEL);
    call(&first, 5, NULL);
    call(&first, 3, NULL);
    char *text = export(first.context);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        int64_t unknown = -1;
        open_side(&second, NULL, modes[m]);
        for (int i = 0; i < 4; i++) /* from the caches, too */
            call(&second, 5, &choice);
        assert_false(have_equal_digests(first.context, second.context));
        assert_ok(md_choices_import(&unknown, second.context, text));
        assert_int_equal(unknown, 0);
        assert_true(have_equal_digests(first.context, second.context)); /* with 3 rows, which it never met */
        for (int i = 0; i < 4; i++) {
            call(&second, 5, &choice);
            assert_string_equal(choice.variant[0], name);
            assert_string_equal(choice.source[0], "imported");
        }
        char *again = export(second.context);
        assert_string_equal(text, again);
        free(again);
        close_side(&second);
    }
    free(text);
    close_side(&first);
}

static void the_first_line_of_a_shape_counts(void **state)
{
    (void)state;
    char name[200] = "", joined[20000];
    side first, second;
    md_choice choice;
    open_side(&first, NULL, MD_SELECT_MODEL);
    assert_true(find_other(name, &first, 5));
    open_side(&second, name, MD_SELECT_MODEL);
    call(&second, 5, NULL);
    char *own = export(first.context), *others = export(second.context);
    assert_true((size_t)snprintf(joined, sizeof joined, "%s%s", others, own) < sizeof joined);
    assert_ok(md_choices_import(NULL, first.context, joined));
    call(&first, 5, &choice);
    assert_string_equal(choice.variant[0], name);
    free(own);
    free(others);
    close_side(&second);
    close_side(&first);
}

/* Each of these texts is refused, and what was chosen stays. */
static void nothing_of_a_bad_text_is_taken(void **state)
{
    (void)state;
    char name[200] = "", bad[20000];
    int64_t unknown = 0;
    side first, second;
    md_choice before, after;
    open_side(&first, NULL, MD_SELECT_MODEL);
    assert_true(find_other(name, &first, 5));
    open_side(&second, name, MD_SELECT_MODEL);
    call(&second, 5, NULL);
    call(&first, 5, &before);
    char *text = export(second.context), *own = export(first.context);
    static const char *const behind[][2] = {
        {"nonsense\n", "line 3: not a JSON object"},
        {"{\"shape\":\"i=5\"}\n", "line 3: no \"op\""},
        {"{\"format\":\"soup\",\"version\":1}\n", "line 3: not a text of md_choices_export"},
    };
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        snprintf(bad, sizeof bad, "%s%s", text, behind[i][0]);
        assert_fails(md_choices_import(NULL, first.context, bad), MD_INVALID_ARGUMENT, behind[i][1]);
    }
    snprintf(bad, sizeof bad, "%s{\"format\":\"multidispatch choices\",\"version\":2}\n", text);
    assert_fails(md_choices_import(NULL, first.context, bad), MD_UNSUPPORTED, "version 2");
    assert_fails(md_choices_import(NULL, first.context, ""), MD_INVALID_ARGUMENT, "not a text");
    assert_fails(md_choices_import(NULL, second.context, own), MD_UNSUPPORTED, "another one is pinned");
    call(&first, 5, &after);
    assert_string_equal(before.variant[0], after.variant[0]);
    md_op_destroy(&first.op);
    assert_ok(md_choices_import(&unknown, first.context, text));
    assert_int_equal(unknown, 1);
    free(text);
    free(own);
    close_side(&second);
    md_context_destroy(&first.context);
}

/* The text with another line of JSON in the place of its second; what an import says of it. */
static md_status import_line(md_context *c, const char *text, const json_t *line, int64_t *unknown)
{
    char whole[20000], *dumped = json_dumps(line, JSON_COMPACT);
    snprintf(whole, sizeof whole, "%.*s\n%s\n", (int)strcspn(text, "\n"), text, dumped);
    free(dumped);
    return md_choices_import(unknown, c, whole);
}

typedef struct trial {
    side *to;
    const char *text;
    const json_t *line;
} trial;

/* What a line says of key and variants is another shape or is refused, and of "op" nobody knows another. The rest is
 * for people. */
static void try_line(void *user, const char *path, const char *what)
{
    const trial *t = user;
    int64_t unknown = -1;
    const md_status s = import_line(t->to->context, t->text, t->line, &unknown);
    const bool is_key = !strncmp(path, ".key", 4), is_variant = !strncmp(path, ".variants", 9);
    const bool is_integer = strspn(what, "-0123456789") == strlen(what);
    if (is_variant || (is_key && !is_integer && strcmp(what, "left out")))
        assert_int_not_equal(s, MD_OK);
    if (!strcmp(path, ".variants"))
        assert_fails(s, MD_INVALID_ARGUMENT, "\"variants\" must be a list");
    if (!strcmp(path, ".key") && strcmp(what, "[]") && strcmp(what, "[7]"))
        assert_fails(s, MD_INVALID_ARGUMENT, "\"key\" must be a list");
    if (!strcmp(path, ".op") && s == MD_OK)
        assert_int_equal(unknown, 1);
    if (!strcmp(path, ".op") && what[0] != '"')
        assert_fails(s, MD_INVALID_ARGUMENT, "no \"op\"");
    if (!strcmp(path, ".shape") || !strcmp(path, ".name"))
        assert_ok(s);
}

static void every_value_of_a_line_is_looked_at(void **state)
{
    (void)state;
    side from, to;
    int64_t unknown = -1;
    open_side(&from, NULL, MD_SELECT_MODEL);
    call(&from, 5, NULL);
    open_side(&to, NULL, MD_SELECT_MODEL);
    call(&to, 5, NULL);
    char *text = export(from.context);
    json_t *line = json_loads(strchr(text, '\n') + 1, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(line);
    assert_ok(import_line(to.context, text, line, &unknown));
    assert_int_equal(unknown, 0);
    json_walk(line, "", try_line, &(trial){&to, text, line});
    call(&to, 5, NULL);
    json_decref(line);
    free(text);
    close_side(&from);
    close_side(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_import_rules_what_is_called),
        cmocka_unit_test(the_first_line_of_a_shape_counts),
        cmocka_unit_test(nothing_of_a_bad_text_is_taken),
        cmocka_unit_test(every_value_of_a_line_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
