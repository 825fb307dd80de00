/* Hints suggested for what a service met, and digests of what it chose. No compiler is used: both are about
 * choosing. */
#include "support/check.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { N_MET = 60 };
static const char *const product = "Y[b,n] = sum[k](X[b,k] * W[n,k])";

static md_context *make_context(const char *hints)
{
    md_context *c = NULL;
    md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 2, .hints = hints};
    assert_ok(md_context_create(&c, &o));
    return c;
}

static int append(void *user, const char *text, size_t n_bytes)
{
    strncat(user, text, n_bytes);
    return 0;
}

typedef struct answer {
    char hints[4096];
    double suggested, today, worst;
    int n_hints, n_shapes;
} answer;

static answer query(md_context *c, const char *formula, const md_op_options *o, const md_met_shape *met, int n,
                    int n_hints)
{
    answer a;
    char text[8192] = "";
    assert_ok(md_hints_suggest(c, formula, o, &(md_suggest_options){met, n, n_hints, 1, append, text}));
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    const json_t *s = json_object_get(j, "suggested");
    snprintf(a.hints, sizeof a.hints, "%s", json_string_value(json_object_get(j, "hints")));
    a.suggested = json_number_value(json_object_get(s, "mean_regret"));
    a.worst = json_number_value(json_object_get(s, "worst_regret"));
    a.n_hints = (int)json_integer_value(json_object_get(s, "hints"));
    a.n_shapes = (int)json_integer_value(json_object_get(j, "shapes"));
    a.today = json_number_value(json_object_get(json_object_get(j, "today"), "mean_regret"));
    json_decref(j);
    return a;
}

static void make_met(md_met_shape met[N_MET], char text[N_MET][64])
{
    uint64_t seed = check_seed();
    for (int i = 0; i < N_MET; i++) {
        const int b = 1 + (int)(check_random(&seed) % 8), n = 1 << (check_random(&seed) % 12),
                  k = 1 + (int)(check_random(&seed) % 3000);
        snprintf(text[i], 64, "b=%d, n=%d, k=%d", b, n, k);
        met[i] = (md_met_shape){text[i], 1.0 + (double)(check_random(&seed) % 100)};
    }
}

/* What is suggested is never worse than today's hints, which are among the places; and what it claims is what the
 * same hints come to when they are today's. */
static void suggestions_hold(void **state)
{
    (void)state;
    static const md_select mode[] = {MD_SELECT_DISTANCE, MD_SELECT_MODEL};
    char text[N_MET][64];
    md_met_shape met[N_MET];
    make_met(met, text);
    md_context *c = make_context("64,256,4096");
    for (int m = 0; m < 2; m++) {
        double before = INFINITY;
        for (int n = 1; n <= 8; n *= 2) {
            md_op_options o = {.select = mode[m]};
            const answer a = query(c, product, &o, met, N_MET, n);
            assert_in_range(a.n_hints, 1, n);
            assert_in_range(a.n_shapes, 1, N_MET);
            assert_true(a.suggested <= before + 1e-12);
            if (n >= 3)
                assert_true(a.suggested <= a.today + 1e-12);
            assert_true(a.worst >= a.suggested);
            o.hints = a.hints;
            const answer again = query(c, product, &o, met, N_MET, 1);
            assert_true(fabs(again.today - a.suggested) < 1e-9 + 1e-6 * a.suggested);
            before = a.suggested;
        }
    }
    md_context_destroy(&c);
}

/* One hint: the best of all places, found by asking for each. */
static void one_hint_is_the_best_one(void **state)
{
    (void)state;
    static const md_met_shape met[] = {{"b=1, n=4096, k=64", 3}, {"b=64, n=64, k=64", 1}, {"b=300, n=7, k=2000", 2}};
    md_context *c = make_context(NULL);
    const answer a = query(c, product, &(md_op_options){.hints = "64"}, met, 3, 1);
    static const char *const place[] = {"(b=64,n=64,k=64)", "(b=1,n=4096,k=64)", "(b=300,n=7,k=2000)"};
    double least = INFINITY;
    for (int i = 0; i < 3; i++)
        least = fmin(least, query(c, product, &(md_op_options){.hints = place[i]}, met, 3, 1).today);
    assert_true(fabs(least - a.suggested) < 1e-9);
    md_context_destroy(&c);
}

static void bad_questions(void **state)
{
    (void)state;
    char text[8192] = "";
    md_context *c = make_context(NULL);
    static const struct {
        const char *formula, *sizes, *part;
        double weight;
    } row[] = {
        {"Y[b] = X[b", "b=1", "expected", 1},
        {"Y[b] = X[b] + 1", "c=1", "no dim 'c'", 1},
        {"Y[b,n] = X[b,n]", "b=1", "'n' is missing", 1},
        {"Y[b] = X[b] + 1", "b=1", "weight", 0},
        {"Y[b] = X[b] + 1", "b=1", "weight", NAN},
        {"size b=4; Y[b] = X[b] + 1", "b=4", "no dynamic dim", 1},
        {"Y[b] = X[b] + 1", "b=0", "no shape", 1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const md_met_shape met = {row[i].sizes, row[i].weight};
        assert_int_equal(md_hints_suggest(c, row[i].formula, NULL, &(md_suggest_options){&met, 1, 0, 0, append, text}),
                         MD_INVALID_ARGUMENT);
        if (!strstr(md_last_error(), row[i].part))
            fail_msg("%s: '%s' is not in '%s'", row[i].formula, row[i].part, md_last_error());
    }
    const md_met_shape met = {"b=1", 1};
    assert_int_equal(md_hints_suggest(c, "Y[b] = X[b]", NULL, &(md_suggest_options){&met, 1, 65, 0, append, text}),
                     MD_INVALID_ARGUMENT);
    assert_int_equal(md_hints_suggest(c, "Y[b] = X[b]", NULL, &(md_suggest_options){NULL, 1, 1, 0, append, text}),
                     MD_INVALID_ARGUMENT);
    assert_string_equal(text, "");
    md_context_destroy(&c);
}

static void call(md_op *op, int64_t n)
{
    float x[64] = {0}, y[64];
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
}

static void digest_after(uint64_t out[2], const int64_t *sizes, int n, const char *formula)
{
    md_context *c = make_context(NULL);
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, formula, NULL));
    for (int i = 0; i < n; i++)
        call(op, sizes[i]);
    assert_ok(md_digest(out, c));
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Digest after one call on X with a stride. */
static void digest_of_stride(uint64_t out[2], int64_t stride)
{
    float x[64] = {0}, y[64];
    const int64_t n = 8;
    md_context *c = make_context(NULL);
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, "Y[i] = X[i] + 1", NULL));
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    tx.stride[0] = stride;
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    assert_ok(md_digest(out, c));
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static void digests_tell_strides_apart(void **state)
{
    (void)state;
    uint64_t contiguous[2], strided[2], wider[2];
    digest_of_stride(contiguous, 1);
    digest_of_stride(strided, 2);
    digest_of_stride(wider, 3);
    assert_memory_not_equal(contiguous, strided, sizeof strided);
    assert_memory_equal(wider, strided, sizeof strided);
}

/* Digest after calls of an op that has these choices. */
static void digest_of_pin(uint64_t out[2], const char *formula, const char *pin)
{
    md_context *c = NULL;
    md_op *op = NULL;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    assert_ok(md_op_create(&op, c, formula, &(md_op_options){.pin = pin}));
    call(op, 8);
    assert_ok(md_digest(out, c));
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Each stage's variant counts, the first one's and the last one's. */
static void digests_tell_variants_apart(void **state)
{
    (void)state;
    static const char *const formula[] = {"Y[i] = X[i] + 1", "let s[i] = cumsum[i](X[i]); Y[i] = s[size(i) - 1 - i]"};
    for (int i = 0; i < 2; i++) {
        uint64_t plain[2], again[2], first[2];
        digest_of_pin(plain, formula[i], NULL);
        digest_of_pin(again, formula[i], NULL);
        digest_of_pin(first, formula[i], i ? "0:nest" : "nest");
        assert_memory_equal(plain, again, sizeof plain);
        assert_memory_not_equal(plain, first, sizeof plain);
    }
}

/* The order and the number of calls do not matter; shapes and formulas do. */
static void digests_tell_choices_apart(void **state)
{
    (void)state;
    static const int64_t a[] = {3, 8, 64}, b[] = {64, 64, 3, 8, 8}, c[] = {3, 8, 63};
    uint64_t of_a[2], of_b[2], of_c[2], of_other[2], of_none[2];
    digest_after(of_a, a, 3, "Y[i] = X[i] + 1");
    digest_after(of_b, b, 5, "Y[i] = X[i] + 1");
    digest_after(of_c, c, 3, "Y[i] = X[i] + 1");
    digest_after(of_other, a, 3, "Y[i] = X[i] + 2");
    digest_after(of_none, a, 0, "Y[i] = X[i] + 1");
    assert_memory_equal(of_a, of_b, sizeof of_a);
    assert_memory_not_equal(of_a, of_c, sizeof of_a);
    assert_memory_not_equal(of_a, of_other, sizeof of_a);
    assert_memory_not_equal(of_a, of_none, sizeof of_a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggestions_hold),
        cmocka_unit_test(one_hint_is_the_best_one),
        cmocka_unit_test(bad_questions),
        cmocka_unit_test(digests_tell_choices_apart),
        cmocka_unit_test(digests_tell_strides_apart),
        cmocka_unit_test(digests_tell_variants_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
