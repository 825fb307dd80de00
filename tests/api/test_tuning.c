/* Tuning as a user sees it: options, the log, what is counted, what later ops take from it. */
#include "support/check.h"

#include <jansson.h>
#include <stdbool.h>

static md_context *open_context(md_tune tune)
{
    md_context *c = NULL;
    assert_ok(md_context_create(
        &c,
        &(md_context_options){
            .device = "host", .threads = 2, .hints = "64", .cache_dir = "", .tune = tune, .tune_budget_ms = 60000}));
    return c;
}

typedef struct text {
    char *bytes;
    size_t n;
} text;

static int take(void *user, const char *bytes, size_t n)
{
    text *t = user;
    t->bytes = realloc(t->bytes, t->n + n + 1);
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
    return 0;
}

static int64_t counter(md_context *c, const char *name)
{
    text t = {0};
    assert_ok(md_info(c, 1, take, &t));
    json_t *j = json_loads(t.bytes, 0, NULL);
    const json_t *v = json_object_get(j, name);
    assert_true(json_is_integer(v));
    const int64_t value = json_integer_value(v);
    json_decref(j);
    free(t.bytes);
    return value;
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    md_context *c = NULL;
    md_op *op = NULL;
    assert_fails(md_context_create(&c, &(md_context_options){.tune = (md_tune)9}), MD_INVALID_ARGUMENT, "tune");
    assert_fails(md_context_create(&c, &(md_context_options){.tune_budget_ms = -1}), MD_INVALID_ARGUMENT,
                 "tune_budget_ms");
    c = open_context(MD_TUNE_OFF);
    assert_fails(md_op_create(&op, c, "gelu", &(md_op_options){.tune = (md_tune)-1}), MD_INVALID_ARGUMENT, "tune");
    assert_fails(md_tune_formula(NULL, "gelu", NULL, NULL), MD_INVALID_ARGUMENT, "context");
    assert_fails(md_tune_formula(c, NULL, NULL, NULL), MD_INVALID_ARGUMENT, "formula");
    assert_fails(md_tune_formula(c, "gelu", NULL, &(md_tune_options){.rigor = MD_TUNE_ESTIMATE}), MD_INVALID_ARGUMENT,
                 "rigor");
    assert_fails(md_tune_formula(c, "gelu", NULL, &(md_tune_options){.n_indices = 3}), MD_INVALID_ARGUMENT, "indices");
    assert_fails(md_tune_formula(c, "no_such_op", NULL, NULL), MD_NOT_FOUND, "no_such_op");
    assert_fails(md_tune_formula(c, "Y[i] = ", NULL, NULL), MD_INVALID_ARGUMENT, "expected an expression");
    md_context_destroy(&c);
}

/* Every line is an object; each candidate has a name and a time, and the winner is one of them. */
static void check_log(const text *t)
{
    int n_candidates = 0, n_winners = 0;
    char *rest = NULL, *copy = strdup(t->bytes);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *j = json_loads(line, 0, NULL);
        assert_non_null(j);
        const char *event = json_string_value(json_object_get(j, "event"));
        assert_non_null(event);
        n_candidates += !strcmp(event, "candidate");
        if (!strcmp(event, "candidate"))
            assert_true(json_number_value(json_object_get(j, "us")) > 0.0 &&
                        json_number_value(json_object_get(j, "model_us")) > 0.0);
        if (!strcmp(event, "winner") && json_is_true(json_object_get(j, "best"))) {
            n_winners++;
            assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "sizes"), "i")), 32);
            assert_true(json_is_true(json_object_get(j, "complete")));
        }
        json_decref(j);
    }
    free(copy);
    assert_true(n_candidates > 1);
    assert_int_equal(n_winners, 1);
}

static void a_formula_is_tuned_apart_from_ops(void **state)
{
    (void)state;
    md_context *c = open_context(MD_TUNE_ESTIMATE);
    const md_op_options o = {.hints = "(i=32,j=100)"};
    text t = {0};
    const md_tune_options tune = {.budget_ms = 60000, .write = take, .user = &t};
    assert_ok(md_tune_formula(c, "silu", &o, &tune));
    check_log(&t);
    const int64_t timed = counter(c, "tuned_timed"), compiled = counter(c, "compiles");
    assert_true(timed > 1 && compiled > 1);
    assert_ok(md_tune_formula(c, "silu", &o, &tune)); /* known now */
    assert_int_equal(counter(c, "tuned_timed"), timed);
    assert_int_equal(counter(c, "tuned_known"), 1);
    md_op *op = NULL;
    /* asks for an estimate, gets what was measured; its kernels are there */
    assert_ok(md_op_create(&op, c, "silu", &o));
    assert_int_equal(counter(c, "compiles"), compiled);
    char *best = strstr(t.bytes, "\"best\": true");
    assert_non_null(best);
    bool is_there = false;
    for (int32_t i = 0; i < md_op_n_variants(op, 0); i++) {
        char name[128];
        snprintf(name, sizeof name, "\"variant\": \"%s\"", md_op_variant(op, 0, i));
        for (const char *line = t.bytes; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            const char *end = strchr(line, '\n'), *at = strstr(line, name), *mark = strstr(line, "\"best\": true");
            is_there = is_there || (at && at < end && mark && mark < end);
        }
    }
    assert_true(is_there);
    md_op_destroy(&op);
    /* what is exported is all that another context needs to know it */
    text wisdom = {0}, again = {0};
    md_wisdom_counts counts;
    md_context *other = open_context(MD_TUNE_ESTIMATE);
    assert_ok(md_wisdom_export(c, take, &wisdom));
    assert_true(wisdom.n > 0 && strchr(wisdom.bytes, '\n'));
    assert_ok(md_wisdom_import(&counts, other, wisdom.bytes, wisdom.n, NULL, NULL));
    assert_true(counts.n_taken > 0 && counts.n_taken == counts.n_lines && counts.n_bad + counts.n_foreign == 0);
    assert_ok(md_wisdom_export(other, take, &again));
    assert_string_equal(again.bytes, wisdom.bytes);
    assert_ok(md_tune_formula(other, "silu", &o, &(md_tune_options){.budget_ms = 60000}));
    assert_int_equal(counter(other, "tuned_timed"), 0);
    free(wisdom.bytes);
    free(again.bytes);
    md_context_destroy(&other);
    md_context_destroy(&c);
    free(t.bytes);
}

/* ---- Pieces */

static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = 0;
    *at = end + 1;
    return line;
}

static char *list_pieces(md_context *c, const char *formula, const md_op_options *o)
{
    text t = {0};
    assert_ok(md_tune_pieces(c, formula, o, &(md_tune_options){.max_builds = 2, .write = take, .user = &t}));
    return t.bytes;
}

static void pieces_give_what_is_to_be_known(void **state)
{
    (void)state;
    md_context *c = open_context(MD_TUNE_ESTIMATE), *other = open_context(MD_TUNE_ESTIMATE);
    const md_op_options o = {.hints = "(i=32,j=100) (i=5,j=64)"};
    char *all = list_pieces(c, "softmax", &o), *same = list_pieces(other, "softmax", &o), *at = all, *line;
    int n = 0;
    assert_string_equal(all, same);
    while ((line = next_line(&at))) {
        text result = {0}, again = {0};
        md_wisdom_counts counts;
        assert_ok(md_tune_piece(c, line, NULL, take, &result));
        assert_true(!strncmp(result.bytes, "# piece ", 8) && strstr(result.bytes, "\n# end "));
        const int64_t timed = counter(c, "tuned_timed");
        assert_ok(md_tune_piece(c, line, NULL, take, &again));
        assert_string_equal(again.bytes, result.bytes);
        assert_int_equal(counter(c, "tuned_timed"), timed);
        assert_ok(md_wisdom_import(&counts, other, result.bytes, result.n, NULL, NULL));
        assert_int_equal(counts.n_lines, 1);
        assert_int_equal(counts.n_taken, 1);
        free(result.bytes);
        free(again.bytes);
        n++;
    }
    assert_true(n >= 4);
    /* nothing is left to be tuned, neither here nor where the results went */
    assert_ok(md_tune_formula(other, "softmax", &o, &(md_tune_options){.budget_ms = 60000}));
    assert_int_equal(counter(other, "tuned_timed"), 0);
    free(all);
    free(same);
    md_context_destroy(&other);
    md_context_destroy(&c);
}

static void pieces_of_others_are_refused(void **state)
{
    (void)state;
    md_context *c = open_context(MD_TUNE_ESTIMATE), *other = NULL;
    assert_fails(md_tune_pieces(NULL, "gelu", NULL, NULL), MD_INVALID_ARGUMENT, "context");
    assert_fails(md_tune_pieces(c, NULL, NULL, NULL), MD_INVALID_ARGUMENT, "formula");
    assert_fails(md_tune_pieces(c, "gelu", NULL, NULL), MD_INVALID_ARGUMENT, "write");
    assert_fails(md_tune_piece(NULL, "", NULL, NULL, NULL), MD_INVALID_ARGUMENT, "context");
    assert_fails(md_tune_piece(c, NULL, NULL, NULL, NULL), MD_INVALID_ARGUMENT, "piece");
    assert_fails(md_tune_piece(c, "{", NULL, NULL, NULL), MD_CORRUPT, "no piece");
    assert_ok(md_context_create(&other, &(md_context_options){.device = "sm_90a", .cache_dir = ""}));
    char *all = list_pieces(other, "gelu", NULL), *at = all, *line = next_line(&at);
    assert_non_null(line);
    assert_fails(md_tune_piece(c, line, NULL, NULL, NULL), MD_UNSUPPORTED, "(assumed)'; this is '");
    free(all);
    all = at = list_pieces(c, "gelu", NULL);
    line = next_line(&at);
    char *stage = strstr(line, "\"stage\":0");
    assert_non_null(stage);
    stage[8] = '1';
    assert_fails(md_tune_piece(c, line, NULL, NULL, NULL), MD_CORRUPT, "was changed");
    free(all);
    const md_custom custom = {.name = "own", .device = "host", .source = "", .entry = "e", .grid = "1"};
    assert_fails(md_tune_pieces(c, "gelu", &(md_op_options){.custom = &custom, .n_custom = 1},
                                &(md_tune_options){.write = take}),
                 MD_UNSUPPORTED, "kernels of the caller");
    md_context_destroy(&other);
    md_context_destroy(&c);
}

static void creation_tunes_when_asked(void **state)
{
    (void)state;
    md_context *c = open_context(MD_TUNE_ESTIMATE);
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, "gelu", NULL));
    md_op_destroy(&op);
    assert_int_equal(counter(c, "tuned_points"), 0);
    assert_ok(md_op_create(&op, c, "gelu", &(md_op_options){.tune = MD_TUNE_MEASURE}));
    md_op_destroy(&op);
    assert_int_equal(counter(c, "tuned_points"), 1);
    assert_true(counter(c, "tuned_timed") > 0);
    assert_int_equal(counter(c, "tuned_wrong"), 0);
    md_context_destroy(&c);
}

/* Kernels compiled by a search of softmax at seven hints. */
static uint64_t builds_within(double budget_ms)
{
    md_store_counters counters;
    md_context *c = open_context(MD_TUNE_ESTIMATE);
    assert_ok(md_tune_formula(c, "softmax", &(md_op_options){.hints = "64,100,256,300,1024,2000,4096"},
                              &(md_tune_options){.budget_ms = budget_ms, .max_builds = 8}));
    assert_ok(md_store_count(&counters, c));
    md_context_destroy(&c);
    return counters.compiles;
}

/* test_search holds budgets on a clock of its own. Here: who has no time builds what there must be, and no more. */
static void the_budget_is_kept(void **state)
{
    (void)state;
    const uint64_t least = builds_within(1e-3);
    printf("%d builds without time\n", (int)least);
    assert_true(least <= 2);
}

/* Whatever is measured, by the tuner or on a miss, is measured on made-up data or on copies: inputs keep every bit,
 * updates happen once. */
static void no_bit_of_a_user_changes(void **state)
{
    enum { N = 70000, GUARD = 64 };
    static float x[N + 2 * GUARD], y[N + 2 * GUARD], x_then[N + 2 * GUARD], y_then[N + 2 * GUARD];
    (void)state;
    md_context *c = NULL;
    md_op *op = NULL;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host",
                                                          .threads = 2,
                                                          .hints = "1024",
                                                          .cache_dir = "",
                                                          .tune = MD_TUNE_MEASURE,
                                                          .select = MD_SELECT_MEASURE,
                                                          .tune_budget_ms = 60000}));
    for (int i = 0; i < N + 2 * GUARD; i++) {
        x[i] = (float)(i % 1000) * 2.0f; /* sums of these are exact */
        y[i] = (float)(i % 77);
    }
    memcpy(x_then, x, sizeof x);
    memcpy(y_then, y, sizeof y);
    assert_ok(md_tune_formula(c, "Y[i] += X[i] * 0.5", NULL, NULL));
    assert_ok(md_op_create(&op, c, "Y[i] += X[i] * 0.5", NULL));
    assert_true(counter(c, "tuned_timed") > 0);
    assert_memory_equal(x, x_then, sizeof x);
    assert_memory_equal(y, y_then, sizeof y);
    for (int64_t n = N - 5; n <= N; n++) { /* new shapes, each measured */
        md_tensor tx = md_tensor_make(x + GUARD, MD_F32, 1, &n), ty = md_tensor_make(y + GUARD, MD_F32, 1, &n);
        assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
        for (int64_t i = 0; i < n; i++)
            y_then[GUARD + i] += x[GUARD + i] * 0.5f;
        assert_memory_equal(x, x_then, sizeof x);
        assert_memory_equal(y, y_then, sizeof y);
    }
    md_op_destroy(&op);
    md_context_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_options_are_named),      cmocka_unit_test(a_formula_is_tuned_apart_from_ops),
        cmocka_unit_test(creation_tunes_when_asked),    cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(no_bit_of_a_user_changes),     cmocka_unit_test(pieces_give_what_is_to_be_known),
        cmocka_unit_test(pieces_of_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
