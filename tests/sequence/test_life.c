/* The life of sequences: known and forgotten sizes, a context that goes first, threads, new kernels. */
#include "support/host_context.h"
#include "support/fault.h"

#include <md/sequence.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

static int32_t tensor(md_sequence *s, md_sequence_role role, const char *name, const char *size)
{
    int32_t id = 0;
    assert_ok(md_sequence_add_tensor(&id, s, &(md_sequence_tensor){.name = name, .role = role, .size = size}));
    assert_true(id > 0);
    return id;
}

static void call(md_sequence *s, md_op *op, int32_t y, int32_t x)
{
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = y}, {.id = x}}, 2));
}

/* x -> a -> b -> c -> y by y = x + 1: the temporaries take one place, in place. */
static md_sequence *chain(md_op *op, const md_sequence_options *options)
{
    md_sequence *s = NULL;
    assert_ok(md_sequence_create(&s, context, options));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 100000));
    const int32_t x = tensor(s, MD_SEQUENCE_INPUT, "x", "n"), y = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    int32_t last = x;
    for (int i = 0; i < 3; i++) {
        const int32_t t = tensor(s, MD_SEQUENCE_TEMPORARY, NULL, "n");
        call(s, op, t, last);
        last = t;
    }
    call(s, op, y, last);
    assert_ok(md_sequence_finish(s));
    return s;
}

static md_status say_nothing(void *user, md_stream stream, const md_tensor *tensor, int32_t n_tensors,
                             const int64_t *size)
{
    (void)user, (void)stream, (void)tensor, (void)n_tensors, (void)size;
    return MD_OK;
}

/* Few sizes are kept; the context may go first. */
static void forgets_and_outlives(void **state)
{
    static float x[200], y[200];
    md_context *own = NULL, *before = context;
    md_sequence_counters c;
    (void)state;
    assert_ok(md_context_create(&own, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    context = own;
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = chain(op, &(md_sequence_options){.max_sizes = 3});
    for (int i = 0; i < 60; i++) {
        const int64_t n = 1 + i % 7;
        assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2));
    }
    assert_ok(md_sequence_count(&c, s));
    assert_int_equal(c.n_sizes, 3);
    assert_int_equal(c.n_runs, 60);
    md_op_destroy(&op);
    md_context_destroy(&own);
    context = before;
    const int64_t n = 3;
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2), MD_INVALID_ARGUMENT,
                 "its context was destroyed");
    assert_ok(md_sequence_count(&c, s));
    assert_int_equal(c.n_runs, 60);
    assert_true(c.n_launches == 0 && c.sum_bytes == 0); /* of the last shape, which went with the context */
    md_sequence_destroy(&s);
}

/* Every function asks whether the context is there, whether or not the sequence is complete. */
static void a_dead_context_is_refused(void **state)
{
    md_context *own = NULL, *before = context;
    md_sequence *s = NULL;
    int32_t id = 0;
    (void)state;
    assert_ok(md_context_create(&own, &(md_context_options){.device = "host", .threads = 1, .hints = "16"}));
    context = own;
    md_op *op = make("Y[i] = X[i] + 1");
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 100));
    const int32_t x = tensor(s, MD_SEQUENCE_INPUT, "x", "n");
    md_op_destroy(&op);
    md_context_destroy(&own);
    context = before;
    const md_sequence_tensor y = {.name = "y", .role = MD_SEQUENCE_OUTPUT, .size = "n"};
    const md_status met[] = {md_sequence_add_dim(NULL, s, "m", 0, 100),
                             md_sequence_add_tensor(&id, s, &y),
                             md_sequence_add_scalar(&id, s, "a", MD_F64),
                             md_sequence_add_callback(s, say_nothing, NULL, &x, 1),
                             md_sequence_finish(s),
                             md_sequence_run(s, NULL, &(int64_t){3}, 1, NULL, 0),
                             md_sequence_prepare(s, &(int64_t){3}, 1, NULL, 0)};
    for (size_t i = 0; i < sizeof met / sizeof met[0]; i++)
        if (met[i] != MD_INVALID_ARGUMENT)
            fail_msg("function %zu: %s", i, md_status_name(met[i]));
    md_sequence_destroy(&s);
}

/* Whatever allocation of a run fails, the next ones are right, at other addresses and with other scalars, too. */
static void allocations_that_fail(void **state)
{
    enum { MOST = 400, WIDEST = 512 };
    static float x[2][WIDEST], y[2][WIDEST];
    md_sequence *s = NULL;
    int32_t a = 0;
    (void)state;
    md_op *op = make("scalar a; Y[i] = X[i] * a");
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, WIDEST));
    const int32_t from = tensor(s, MD_SEQUENCE_INPUT, "x", "n"), to = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    const int32_t between = tensor(s, MD_SEQUENCE_TEMPORARY, NULL, "n");
    assert_ok(md_sequence_add_scalar(&a, s, "a", MD_F64));
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = a}, {.id = between}, {.id = from}}, 3));
    assert_ok(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = a}, {.id = to}, {.id = between}}, 3));
    assert_ok(md_sequence_finish(s));
    for (int i = 0; i < 2 * WIDEST; i++)
        x[i / WIDEST][i % WIDEST] = (float)(i + 1);
    for (int is_once = 0; is_once < 2; is_once++) {
        int64_t failing = 1;
        for (bool has_failed = true; has_failed && failing < MOST; failing++) {
            const int64_t n = is_once ? MOST + 1 - failing : failing; /* a new size each time */
            double factor = 2.0;
            fault_at(failing, is_once);
            const md_status status = md_sequence_run(s, NULL, &n, 1, (void *[]){x[0], y[0], &factor}, 3);
            has_failed = fault_happened();
            fault_after(0);
            if (status != MD_OK && status != MD_OUT_OF_MEMORY)
                fail_msg("allocation %lld: %s: %s", (long long)failing, md_status_name(status), md_last_error());
            for (int k = 0; k < 4; k++) {
                factor = 3.0 + k;
                assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x[k % 2], y[k % 2], &factor}, 3));
                for (int64_t i = 0; i < n; i++)
                    if (y[k % 2][i] != x[k % 2][i] * (float)(factor * factor))
                        fail_msg("after allocation %lld failed, run %d: element %lld", (long long)failing, k,
                                 (long long)i);
            }
        }
        assert_in_range(failing, 5, MOST - 1);
    }
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

typedef struct worker {
    md_sequence *s;
    int seed;
    bool ok;
} worker;

static void *work(void *user)
{
    worker *w = user;
    float x[300], y[300];
    uint64_t random = (uint64_t)w->seed;
    w->ok = true;
    for (int i = 0; i < 300; i++)
        x[i] = (float)(i * w->seed);
    for (int k = 0; k < 300; k++) {
        const int64_t n = (int64_t)(check_random(&random) % 300);
        memset(y, 0, sizeof y);
        w->ok = w->ok && md_sequence_run(w->s, NULL, &n, 1, (void *[]){x, y}, 2) == MD_OK;
        for (int64_t i = 0; i < n; i++)
            w->ok = w->ok && y[i] == x[i] + 4;
    }
    return NULL;
}

/* Threads on one sequence take turns. */
static void threads_take_turns(void **state)
{
    pthread_t thread[3];
    worker w[3];
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = chain(op, NULL);
    (void)state;
    for (int i = 0; i < 3; i++) {
        w[i] = (worker){s, i + 1, false};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        assert_true(w[i].ok);
    }
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

typedef struct ledger {
    _Atomic int64_t n_bytes, n;
    _Atomic bool refuses;
} ledger;

static void *lend(void *user, size_t n_bytes, size_t alignment)
{
    ledger *l = user;
    if (l->refuses)
        return NULL;
    l->n_bytes += (int64_t)n_bytes;
    l->n++;
    return aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);
}

static void take_back(void *user, void *p, size_t n_bytes)
{
    ledger *l = user;
    l->n_bytes -= (int64_t)n_bytes;
    free(p);
}

/* What lies between the calls is the caller's, too. */
static void takes_the_callers_memory(void **state)
{
    static float x[1000], y[1000];
    ledger book = {0};
    md_context *own = NULL, *before = context;
    (void)state;
    assert_ok(md_context_create(
        &own,
        &(md_context_options){
            .device = "host", .threads = 1, .hints = "16", .alloc = lend, .free = take_back, .alloc_user = &book}));
    context = own;
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = chain(op, NULL);
    const int64_t n = 1000;
    book.refuses = true;
    assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2), MD_OUT_OF_MEMORY, "allocator gave no");
    book.refuses = false;
    for (int64_t m = 10; m <= 1000; m *= 10)
        assert_ok(md_sequence_run(s, NULL, &m, 1, (void *[]){x, y}, 2));
    assert_true(y[999] == 4);
    assert_true(book.n > 0 && book.n_bytes >= (int64_t)sizeof x);
    md_sequence_destroy(&s);
    md_op_destroy(&op);
    md_context_destroy(&own);
    context = before;
    assert_int_equal(book.n_bytes, 0);
}

/* What a run is given is checked at sizes that are bound already, too: it may be given something else. */
static void known_sizes_are_checked_again(void **state)
{
    static _Alignas(64) float x[256],
        y[256]; /* NULL has their place between multiples of 64, which finds their launches */
    const int64_t n = 64;
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = chain(op, NULL);
    void *const wrong[][2] = {{NULL, y}, {x, NULL}, {NULL, NULL}, {x, (char *)y + 2}, {(char *)x + 1, y}};
    static const char *const why[] = {"NULL", "NULL", "NULL", "'y' is not aligned", "'x' is not aligned"};
    (void)state;
    for (int i = 0; i < 256; i++)
        x[i] = (float)i;
    for (int round = 0; round < 4; round++) /* new, known, and settled sizes */
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            memset(y, 0, sizeof y);
            assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){wrong[i][0], wrong[i][1]}, 2), MD_INVALID_ARGUMENT,
                         why[i]);
            assert_true(y[0] == 0 && y[63] == 0); /* nothing ran */
            for (int k = 0; k <= round; k++)
                assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2));
            assert_true(y[0] == 4 && y[63] == 67 && y[64] == 0);
        }
    /* an overlap by a multiple of 64 bytes: it is one of the last call, which reads a temporary, with nothing */
    assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x + 16}, 2));
    for (int i = 0; i < 64; i++)
        assert_true(x[16 + i] == (float)(i + 4));
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

/* An overlap of two that lay apart before is refused, and what was bound for them serves again. */
static void overlaps_at_known_sizes(void **state)
{
    static _Alignas(64) float x[512];
    const int64_t n = 100;
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = NULL;
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 0));
    const int32_t in = tensor(s, MD_SEQUENCE_INPUT, "x", "n"), out = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    call(s, op, out, in);
    assert_ok(md_sequence_finish(s));
    for (int i = 0; i < 4; i++) {
        x[99] = (float)i;
        assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x + 208}, 2));
        assert_true(x[208 + 99] == (float)(i + 1));
        assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x, x + 16}, 2), MD_INVALID_ARGUMENT, "call 0 of seq");
        assert_fails(md_sequence_run(s, NULL, &n, 1, (void *[]){x + 96, x}, 2), MD_INVALID_ARGUMENT, "call 0 of seq");
    }
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

/* Scalars have numbers as tensors have, but no memory: none is viewed, read as a tensor, or written. */
static void scalars_are_no_tensors(void **state)
{
    int32_t a = 0, view = 0;
    md_op *op = make("Y[i] = X[i] + 1");
    md_sequence *s = NULL;
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 0));
    const int32_t x = tensor(s, MD_SEQUENCE_INPUT, "x", "n");
    assert_ok(md_sequence_add_scalar(&a, s, "a", MD_F64));
    const int32_t y = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n");
    const int32_t bad[] = {a, -1, y + 1, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(md_sequence_add_tensor(&view, s, &(md_sequence_tensor){.view_of = bad[i], .size = "n"}),
                     MD_INVALID_ARGUMENT, "is no tensor");
    assert_int_equal(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = y}, {.id = a}}, 2), MD_INVALID_ARGUMENT);
    assert_int_equal(md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = a}, {.id = x}}, 2), MD_INVALID_ARGUMENT);
    assert_ok(md_sequence_add_tensor(&view, s, &(md_sequence_tensor){.view_of = x, .size = "n"}));
    call(s, op, y, view);
    assert_ok(md_sequence_finish(s));
    md_sequence_destroy(&s);
    md_op_destroy(&op);
}

/* A temporary that a call reads twice is not written over: what one argument has left behind the other still reads. */
static void what_is_read_twice_stays(void **state)
{
    static float x[40], y[40];
    const int64_t n = 40;
    md_op *plus = make("Y[i] = X[i] + 1"), *both = make("Y[i] = A[i] + 100 * B[size(B.0) - 1 - i]");
    md_sequence *s = NULL;
    md_sequence_counters c;
    (void)state;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "n", 0, 0));
    const int32_t in = tensor(s, MD_SEQUENCE_INPUT, "x", "n"), out = tensor(s, MD_SEQUENCE_OUTPUT, "y", "n"),
                  t = tensor(s, MD_SEQUENCE_TEMPORARY, "t", "n"), u = tensor(s, MD_SEQUENCE_TEMPORARY, "u", "n");
    call(s, plus, t, in);
    assert_ok(md_sequence_add_call(s, both, (md_sequence_arg[]){{.id = u}, {.id = t}, {.id = t}}, 3));
    call(s, plus, out, u);
    assert_ok(md_sequence_finish(s));
    for (int i = 0; i < n; i++)
        x[i] = (float)i;
    for (int k = 0; k < 3; k++) {
        assert_ok(md_sequence_run(s, NULL, &n, 1, (void *[]){x, y}, 2));
        for (int i = 0; i < n; i++)
            assert_true(y[i] == (float)(i + 1 + 100 * (n - i) + 1));
    }
    assert_ok(md_sequence_count(&c, s));
    assert_int_equal(c.n_in_place, 0);
    md_sequence_destroy(&s);
    md_op_destroy(&plus);
    md_op_destroy(&both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_context_is_refused), cmocka_unit_test(allocations_that_fail),
        cmocka_unit_test(forgets_and_outlives),      cmocka_unit_test(threads_take_turns),
        cmocka_unit_test(takes_the_callers_memory),  cmocka_unit_test(known_sizes_are_checked_again),
        cmocka_unit_test(overlaps_at_known_sizes),   cmocka_unit_test(scalars_are_no_tensors),
        cmocka_unit_test(what_is_read_twice_stays),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
