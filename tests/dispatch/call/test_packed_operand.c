/* Constant operands, packed once: results are those of unpacked ones bit by bit, packing happens once for each operand,
 * and again after a change. */
#include "support/check.h"

#include <md/sequence.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_COLUMNS = 150, MOST_DEPTH = 530, MOST_ROWS = 40, MOST = MOST_COLUMNS * MOST_DEPTH, N_THREADS = 4 };

static const char plain[] = "Y[t,n] = sum[k](X[t,k] * W[n,k])";
/* Tiles that fit vectors of any width. */
static const char pin[] = "gemm_packed/rows4_depth256_block480", unpacked[] = "gemm/rows4_vecs2_depth256_block480";

typedef struct data {
    float y[MOST_ROWS * MOST_COLUMNS], x[MOST_ROWS * MOST_DEPTH], w[MOST], v[MOST], s[MOST];
} data;

static md_context *context;
static const md_context_options on_host = {.device = "host", .threads = 2};

static data *make_data(void)
{
    static _Thread_local uint64_t state;
    state = state ? state : check_seed();
    data *d = calloc(1, sizeof *d);
    assert_non_null(d);
    for (float *p = d->x; p < d->s + MOST; p++)
        *p = (float)(check_random(&state) % 2001) / 1000.0f - 1.0f;
    return d;
}

static md_status call(md_op *op, data *d, float *w, int64_t rows, int64_t columns, int64_t depth)
{
    md_tensor y = md_tensor_make(d->y, MD_F32, 2, (int64_t[]){rows, columns}),
              x = md_tensor_make(d->x, MD_F32, 2, (int64_t[]){rows, depth}),
              t = md_tensor_make(w, MD_F32, 2, (int64_t[]){columns, depth});
    return md_call(op, NULL, (md_arg[]){md_t(&y), md_t(&x), md_t(&t)}, 3);
}

static md_op *make_op(const char *formula, const char *constant, const char *variant)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula,
                           &(md_op_options){.constant = constant, .pin = variant, .idle_tune = -1, .name = "P"}));
    return op;
}

static int take_text(void *user, const char *text, size_t n)
{
    strncat(user, text, n);
    return 0;
}

/* A counter of the op "P". */
static long long count_of(const char *name)
{
    static char text[1 << 20];
    char wanted[64];
    text[0] = 0;
    assert_ok(md_stats_report(context, "json", take_text, text));
    const char *at = strstr(text, "\"ops\"");
    snprintf(wanted, sizeof wanted, "\"%s\":", name);
    at = at ? strstr(at, wanted) : NULL;
    assert_non_null(at);
    return strtoll(at + strlen(wanted), NULL, 10);
}

static void begin(void)
{
    assert_ok(md_context_create(&context, &on_host));
}

static void end(md_op *op)
{
    md_op_destroy(&op);
    md_context_destroy(&context);
}

/* Rows of every height of a tile, odd sizes, K beyond a block. Calls of a shape come thrice: the last ones run by
 * launch plans. */
static void test_same_bits(void **unused)
{
    static const int64_t sizes[][3] = {{1, 1, 1},      {3, 31, 7},    {12, 33, 256}, {13, 64, 257},
                                       {40, 150, 530}, {24, 32, 512}, {5, 149, 300}};
    begin();
    data *d = make_data();
    static float wanted[MOST_ROWS * MOST_COLUMNS];
    md_op *op = make_op(plain, "W", pin), *other = make_op(plain, NULL, unpacked);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *s = sizes[i];
        assert_ok(call(other, d, d->w, s[0], s[1], s[2]));
        memcpy(wanted, d->y, sizeof wanted);
        for (int k = 0; k < 4; k++) {
            memset(d->y, 0xff, sizeof d->y);
            assert_ok(call(op, d, d->w, s[0], s[1], s[2]));
            assert_memory_equal(d->y, wanted, (size_t)(s[0] * s[1]) * sizeof *wanted);
        }
    }
    md_op_destroy(&other);
    free(d);
    end(op);
    (void)unused;
}

/* Two products, a scale of groups, and weights that lie along the columns. */
static const struct {
    const char *formula, *constant;
    bool has_scale;
} formulas[] = {
    {"Y[t,n] = sum[k](X[t,k] * W[n,k]) * sigmoid(sum[k](X[t,k] * V[n,k]))", "W, V", false},
    {"Y[t,n] = sum[k](X[t,k] * (W[n,k] * S[n,k//32]))", "W,S", true},
    {"Y[t,n] = sum[k](X[t,k] * W[k,n])", "W", false},
};

static void test_formulas(void **unused)
{
    static float wanted[MOST_ROWS * MOST_COLUMNS];
    const int64_t rows = 30, columns = 70, depth = 96;
    for (size_t f = 0; f < sizeof formulas / sizeof *formulas; f++) {
        begin();
        data *d = make_data();
        md_op *op = make_op(formulas[f].formula, formulas[f].constant, pin),
              *other = make_op(formulas[f].formula, NULL, unpacked);
        const bool is_across = f == 2;
        md_tensor y = md_tensor_make(d->y, MD_F32, 2, (int64_t[]){rows, columns}),
                  x = md_tensor_make(d->x, MD_F32, 2, (int64_t[]){rows, depth}),
                  w = md_tensor_make(d->w, MD_F32, 2,
                                     (int64_t[]){is_across ? depth : columns, is_across ? columns : depth}),
                  v = md_tensor_make(d->v, MD_F32, 2, (int64_t[]){columns, formulas[f].has_scale ? depth / 32 : depth});
        const md_arg args[] = {md_t(&y), md_t(&x), md_t(&w), md_t(&v)};
        const int n = md_op_n_args(op);
        assert_ok(md_call(other, NULL, args, n));
        memcpy(wanted, d->y, sizeof wanted);
        for (int k = 0; k < 3; k++) {
            memset(d->y, 0xff, sizeof d->y);
            assert_ok(md_call(op, NULL, args, n));
            assert_memory_equal(d->y, wanted, (size_t)(rows * columns) * sizeof *wanted);
        }
        assert_int_equal(count_of("packings"), 1);
        md_op_destroy(&other);
        free(d);
        end(op);
    }
    (void)unused;
}

/* One packing for each address and size, whatever the number of rows and calls, and again after a change. */
static void test_once(void **unused)
{
    begin();
    data *d = make_data();
    md_op *op = make_op(plain, "W", pin);
    for (int i = 0; i < 3; i++)
        for (int64_t rows = 1; rows < 20; rows += 6)
            assert_ok(call(op, d, d->w, rows, 64, 64));
    assert_int_equal(count_of("packings"), 1);
    for (int i = 0; i < 3; i++)
        assert_ok(call(op, d, i % 2 ? d->w : d->v, 7, 64, 64));
    assert_int_equal(count_of("packings"), 2);
    assert_int_equal(count_of("packed"), 2);
    assert_int_equal(count_of("packed_bytes"), 2 * 64 * 64 * 4);
    const float before = d->y[0];
    for (int k = 0; k < 64; k++)
        d->v[k] += 1000 * d->x[k];
    assert_ok(call(op, d, d->v, 7, 64, 64)); /* the op was not told, and reads what it packed */
    assert_true(d->y[0] == before);
    assert_ok(md_op_operand_changed(op, "W", d->v));
    assert_ok(call(op, d, d->v, 7, 64, 64));
    assert_true(d->y[0] > before + 1);
    assert_int_equal(count_of("packings"), 3);
    assert_ok(call(op, d, d->w, 7, 64, 64));
    assert_int_equal(count_of("packings"), 3); /* that one did not change */
    assert_ok(md_op_operand_changed(op, NULL, NULL));
    assert_ok(call(op, d, d->w, 7, 64, 64));
    assert_ok(call(op, d, d->v, 7, 64, 64));
    assert_int_equal(count_of("packings"), 5);
    assert_int_equal(count_of("packed"), 2);
    free(d);
    end(op);
    (void)unused;
}

/* Beyond the context's bound a call packs for itself. */
static void test_bound(void **unused)
{
    md_context_options o = on_host;
    o.packed_bytes = 64 * 64 * 4;
    assert_ok(md_context_create(&context, &o));
    data *d = make_data();
    md_op *op = make_op(plain, "W", pin), *other = make_op(plain, NULL, unpacked);
    assert_ok(call(op, d, d->w, 7, 64, 64));
    for (int i = 0; i < 3; i++) {
        assert_ok(call(other, d, d->v, 7, 64, 64));
        const float wanted = d->y[5];
        assert_ok(call(op, d, d->v, 7, 64, 64));
        assert_true(d->y[5] == wanted);
    }
    assert_int_equal(count_of("packed"), 1);
    assert_int_equal(count_of("unpacked"), 3);
    md_op_destroy(&other);
    free(d);
    end(op);
    (void)unused;
}

static void *call_often(void *user)
{
    data *d = make_data(); /* results and rows of its own */
    data *shared = ((void **)user)[0];
    md_op *op = ((void **)user)[1];
    for (int i = 0; i < 50; i++)
        if (call(op, d, i % 2 ? shared->w : shared->v, 1 + i % 9, 64, 64) != MD_OK)
            abort();
    free(d);
    return NULL;
}

static void test_threads(void **unused)
{
    begin();
    data *d = make_data();
    pthread_t thread[N_THREADS];
    void *user[] = {d, make_op(plain, "W", pin)};
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, user), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(count_of("packings"), 2);
    end(user[1]);
    free(d);
    (void)unused;
}

/* What a thread makes: an op of its own, in the context that all share or, NULL, in one of its own. */
typedef struct maker {
    md_context *in;
    data *shared;
    int number;
} maker;

static void *make_and_call(void *user)
{
    const maker *m = user;
    md_context *own = NULL;
    md_op *op = NULL;
    char name[16];
    data *d = make_data();
    snprintf(name, sizeof name, "P%d", m->number);
    if ((!m->in && md_context_create(&own, &on_host) != MD_OK) ||
        md_op_create(&op, m->in ? m->in : own, plain,
                     &(md_op_options){.constant = "W", .pin = pin, .idle_tune = -1, .name = name}) != MD_OK)
        abort();
    for (int i = 0; i < 6; i++)
        if (call(op, d, i % 2 ? m->shared->w : m->shared->v, 1 + i % 3, 64, 64) != MD_OK)
            abort();
    for (int64_t n = 0; n < 64; n++) { /* the last call: three rows of weights w */
        double sum = 0.0;
        for (int64_t k = 0; k < 64; k++)
            sum += (double)d->x[128 + k] * (double)m->shared->w[64 * n + k];
        if (!(sum - (double)d->y[128 + n] < 1e-4 && (double)d->y[128 + n] - sum < 1e-4))
            abort();
    }
    md_op_destroy(&op);
    md_context_destroy(&own);
    free(d);
    return NULL;
}

/* Threads that make ops with constants at once, in one context and each in its own, which end while others call. */
static void test_makers(void **unused)
{
    enum { MAKERS = N_THREADS };
    begin();
    data *d = make_data();
    pthread_t thread[MAKERS];
    maker m[MAKERS];
    for (int i = 0; i < MAKERS; i++) {
        m[i] = (maker){i % 2 ? context : NULL, d, i};
        assert_int_equal(pthread_create(&thread[i], NULL, make_and_call, &m[i]), 0);
    }
    for (int i = 0; i < MAKERS; i++)
        pthread_join(thread[i], NULL);
    free(d);
    end(NULL);
    (void)unused;
}

/* A sequence, a resolved launch and MD_SELECT_MEASURE use what is packed. */
static void test_ways(void **unused)
{
    begin();
    data *d = make_data();
    md_op *op = make_op(plain, "W", pin);
    md_launch *launch = NULL;
    md_tensor y = md_tensor_make(d->y, MD_F32, 2, (int64_t[]){9, 64}),
              x = md_tensor_make(d->x, MD_F32, 2, (int64_t[]){9, 64}),
              w = md_tensor_make(d->w, MD_F32, 2, (int64_t[]){64, 64});
    const md_arg args[] = {md_t(&y), md_t(&x), md_t(&w)};
    assert_ok(md_call(op, NULL, args, 3));
    const float wanted = d->y[9];
    assert_ok(md_resolve(&launch, op, args, 3));
    for (int i = 0; i < 3; i++) {
        d->y[9] = 0;
        assert_ok(md_launch_run(launch, NULL, NULL, 0));
        assert_true(d->y[9] == wanted);
    }
    md_launch_destroy(&launch);
    assert_int_equal(count_of("packings"), 1);
    end(op);
    begin();
    assert_ok(
        md_op_create(&op, context, plain, &(md_op_options){.constant = "W", .select = MD_SELECT_MEASURE, .name = "P"}));
    for (int i = 0; i < 3; i++)
        assert_ok(md_call(op, NULL, args, 3));
    free(d);
    end(op);
    (void)unused;
}

static void test_refused(void **unused)
{
    md_op *op = NULL;
    begin();
    md_op_options o = {.constant = "V"};
    assert_fails(md_op_create(&op, context, plain, &o), MD_INVALID_ARGUMENT,
                 "option constant: 'V' is no input of the formula");
    o.constant = "W, Y";
    assert_fails(md_op_create(&op, context, plain, &o), MD_INVALID_ARGUMENT,
                 "option constant: 'Y' is written by the formula");
    op = make_op(plain, "W", NULL);
    assert_fails(md_op_operand_changed(op, "X", NULL), MD_INVALID_ARGUMENT, "'X' is not one of its constants");
    assert_fails(md_op_operand_changed(op, "Z", NULL), MD_INVALID_ARGUMENT, "has no tensor 'Z'");
    assert_fails(md_op_operand_changed(NULL, "W", NULL), MD_INVALID_ARGUMENT, "op is NULL");
    end(op);
    md_context_options c = on_host;
    c.packed_bytes = -1;
    assert_fails(md_context_create(&context, &c), MD_INVALID_ARGUMENT, "option packed_bytes: -1");
    begin();
    md_op_options pinned = {.pin = pin}; /* nothing is constant */
    assert_fails(md_op_create(&op, context, plain, &pinned), MD_INVALID_ARGUMENT, "gemm_packed");
    end(NULL);
    (void)unused;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_formulas),
                                       cmocka_unit_test(test_once),      cmocka_unit_test(test_bound),
                                       cmocka_unit_test(test_threads),   cmocka_unit_test(test_makers),
                                       cmocka_unit_test(test_ways),      cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
