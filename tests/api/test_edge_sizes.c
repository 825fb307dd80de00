/* Sizes at the edges of 64 bits: each is answered or refused. Nothing of such a size is allocated or touched. A hang
 * ends with the program's alarm. */
#include "support/check.h"

#include <md/combo.h>
#include <md/sequence.h>
#include <unistd.h>

static md_context *make_context(const char *hints, const char *cc)
{
    md_context *c = NULL;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .cc = cc, .threads = 2, .hints = hints}));
    return c;
}

static const int64_t edges[] = {(INT64_C(1) << 31) - 1, INT64_C(1) << 32, INT64_C(1) << 53,
                                INT64_C(1) << 62,       INT64_MAX - 1,    INT64_MAX};

/* md_as only chooses: the result is that of the tensors' own sizes. */
static void sizes_to_choose_by(void **state)
{
    (void)state;
    static const md_select mode[] = {MD_SELECT_MODEL, MD_SELECT_DISTANCE, MD_SELECT_MEASURE, MD_SELECT_HYBRID};
    static _Alignas(64) float a[16], b[16], c[16];
    md_context *x = make_context("64", NULL);
    const int64_t size[2] = {4, 4};
    const md_tensor ta = md_tensor_make(a, MD_F32, 2, size), tb = md_tensor_make(b, MD_F32, 2, size),
                    tc = md_tensor_make(c, MD_F32, 2, size);
    for (int i = 0; i < 16; i++) {
        a[i] = (float)i;
        b[i] = i % 5 == 0;
    }
    for (int m = 0; m < 4; m++) {
        md_op *op = NULL;
        assert_ok(md_op_create(&op, x, "matmul", &(md_op_options){.select = mode[m], .max_variants = 2}));
        for (size_t i = 0; i < 3 * sizeof edges / sizeof *edges; i++) {
            const int64_t e = edges[i / 3];
            const md_arg args[] = {
                md_t(&tc), md_t(&ta), md_t(&tb), md_as(0, e), md_as(1, i % 3 ? e : 1), md_as(2, i % 3 == 2 ? e : 1)};
            memset(c, 0xff, sizeof c);
            assert_ok(md_call(op, NULL, args, 6));
            assert_memory_equal(c, a, sizeof c);
        }
        md_op_destroy(&op);
    }
    md_context_destroy(&x);
}

static int count(void *user, const char *text, size_t n_bytes)
{
    *(size_t *)user += strnlen(text, n_bytes);
    return 0;
}

/* Hints are suggested for what a service met, however large. */
static void met_sizes(void **state)
{
    (void)state;
    md_context *x = make_context("64", "/nonexistent/cc");
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        char text[2][96];
        size_t n = 0;
        snprintf(text[0], sizeof text[0], "b=%lld, n=4, k=4", (long long)edges[i]);
        snprintf(text[1], sizeof text[1], "b=%lld, n=%lld, k=%lld", (long long)edges[i], (long long)edges[i],
                 (long long)edges[i]);
        const md_met_shape met[] = {{text[0], 1.0}, {text[1], 1.0}, {"b=4, n=4, k=4", 1.0}};
        assert_ok(md_hints_suggest(x, "Y[b,n] = sum[k](X[b,k] * W[n,k])", NULL,
                                   &(md_suggest_options){met, 3, 4, 1, count, &n}));
        assert_true(n > 0);
    }
    md_context_destroy(&x);
}

/* A subscript out of range in the arm that no row takes. 5 rows leave dead lanes in a vector, whose
 * condition may hold. */
static void what_is_not_read_is_not_reported(void **state)
{
    (void)state;
    const int64_t size[] = {5, 1};
    int64_t a[] = {7, 7, 7, 7, 7};
    float y[5], d[5] = {0};
    md_tensor ty = md_tensor_make(y, MD_F32, 1, size), ta = md_tensor_make(a, MD_I64, 1, size),
              td = md_tensor_make(d, MD_F32, 2, size);
    const md_arg args[] = {md_i(-1), md_t(&ty), md_t(&ta), md_t(&td)};
    md_context *c = make_context("64", NULL);
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, "scalar n:i64; Y[i] = where(A:i64[i] != 0, 1.0, D[i,n])", NULL));
    assert_ok(md_call(op, NULL, args, 4));
    assert_true(y[0] == 1 && y[4] == 1);
    a[4] = 0;
    assert_fails(md_call(op, NULL, (md_arg[]){md_i(-1), md_t(&ty), md_t(&ta), md_t(&td)}, 4), MD_INVALID_ARGUMENT,
                 "-1");
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Every variant: the sum of exp over nothing is 0, though its shift, the max of nothing, has no value. */
static void sums_of_nothing(void **state)
{
    (void)state;
    const char *const formula = "Y[i] = sum[k](exp(X[i,k] - max[l](X[i,l])))";
    md_context *c = make_context("16,300", NULL);
    md_op *op = NULL;
    const int64_t size[] = {3, 0};
    assert_ok(md_op_create(&op, c, formula, NULL));
    assert_ok(md_op_wait(op));
    for (int32_t v = 0; v < md_op_n_variants(op, 0); v++) {
        float y[3] = {7, 7, 7};
        const md_tensor ty = md_tensor_make(y, MD_F32, 1, size), tx = md_tensor_make(NULL, MD_F32, 2, size);
        md_op *one = NULL;
        assert_ok(md_op_create(&one, c, formula, &(md_op_options){.pin = md_op_variant(op, 0, v)}));
        assert_ok(md_call(one, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
        if (y[0] != 0 || y[1] != 0 || y[2] != 0)
            fail_msg("%s: %g", md_op_variant(op, 0, v), (double)y[0]);
        md_op_destroy(&one);
    }
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* A softmax of nothing is empty: in a call, as an item among others, and as a run of a sequence. */
static void softmax_of_nothing(void **state)
{
    (void)state;
    enum { ITEMS = 3 };
    float x[ITEMS] = {1, 1, 1}, y[ITEMS][2] = {{0}};
    const int64_t size[ITEMS][2] = {{1, 2}, {1, 0}, {1, 1}};
    md_tensor in[ITEMS], out[ITEMS];
    md_arg args[ITEMS][2];
    md_context *c = make_context("16", NULL);
    md_op *op = NULL;
    md_sequence *s = NULL;
    int32_t id[2];
    assert_ok(md_op_create(&op, c, "softmax", NULL));
    for (int i = 0; i < ITEMS; i++) {
        in[i] = md_tensor_make(x, MD_F32, 2, size[i]);
        out[i] = md_tensor_make(y[i], MD_F32, 2, size[i]);
        args[i][0] = md_t(&out[i]);
        args[i][1] = md_t(&in[i]);
    }
    assert_ok(md_call(op, NULL, args[1], 2));
    const md_combo_part part = {.op = op, .args = args[0], .n_args = 2, .n_items = ITEMS};
    assert_ok(md_combo_call(c, NULL, &part, 1));
    assert_true(y[0][0] == 0.5F && y[0][1] == 0.5F && y[1][0] == 0 && y[2][0] == 1);
    assert_ok(md_sequence_create(&s, c, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "k", 0, 2));
    for (int i = 0; i < 2; i++) {
        const md_sequence_tensor t = {.role = i ? MD_SEQUENCE_INPUT : MD_SEQUENCE_OUTPUT, .size = "1, k"};
        assert_ok(md_sequence_add_tensor(&id[i], s, &t));
    }
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = id[0]}, {.id = id[1]}}, 2));
    assert_ok(md_sequence_finish(s));
    for (int64_t k = 0; k <= 2; k++) {
        y[0][0] = 7;
        assert_ok(md_sequence_run(s, NULL, &k, 1, (void *[]){y[0], x}, 2));
        assert_true(y[0][0] == (k == 0 ? 7.0F : 1.0F / (float)k));
    }
    md_sequence_destroy(&s);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

int main(void)
{
    alarm(200);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_to_choose_by),
        cmocka_unit_test(met_sizes),
        cmocka_unit_test(what_is_not_read_is_not_reported),
        cmocka_unit_test(sums_of_nothing),
        cmocka_unit_test(softmax_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
