/* Launches on other arguments than they were resolved for: other memory, other alignment, other scalars, mistakes. */
#include "support/host_context.h"

#include <jansson.h>
#include <unistd.h>

enum { ROWS = 7, COLUMNS = 64, N = ROWS * COLUMNS };

/* A launch for 64-byte aligned memory runs on memory that is aligned to its elements only. */
static void other_alignment(void **state)
{
    (void)state;
    md_op *op = make("Y[i,j] = 2 * X[i,j] + w[j]");
    md_launch *launch = NULL;
    float *memory[3];
    md_tensor t[3];
    md_arg arg[3];
    const int64_t size[] = {ROWS, COLUMNS};
    for (int k = 0; k < 3; k++) {
        memory[k] = aligned_alloc(64, (N + 64) * sizeof(float));
        assert_non_null(memory[k]);
        for (int i = 0; i < N + 64; i++)
            memory[k][i] = (float)(i % 97 * (k + 1));
        t[k] = k == 2 ? md_tensor_make(memory[k], MD_F32, 1, size + 1) : md_tensor_make(memory[k], MD_F32, 2, size);
        arg[k] = md_t(&t[k]);
    }
    assert_ok(md_resolve(&launch, op, arg, 3));
    for (int offset = 0; offset < 16; offset += 3) {
        for (int k = 0; k < 3; k++)
            t[k].data = memory[k] + offset;
        assert_ok(md_launch_run(launch, NULL, arg, 3));
        for (int i = 0; i < N; i++)
            assert_true(memory[0][offset + i] == 2 * memory[1][offset + i] + memory[2][offset + i % COLUMNS]);
    }
    t[1].data = (char *)memory[1] + 2;
    assert_fails(md_launch_run(launch, NULL, arg, 3), MD_INVALID_ARGUMENT, "'X': data is not aligned to its elements");
    t[1].data = NULL;
    assert_fails(md_launch_run(launch, NULL, arg, 3), MD_INVALID_ARGUMENT, "'X': data is NULL");
    arg[1].tensor = NULL;
    assert_fails(md_launch_run(launch, NULL, arg, 3), MD_INVALID_ARGUMENT, "'X' must be a tensor");
    arg[1] = md_s(1.0);
    assert_fails(md_launch_run(launch, NULL, arg, 3), MD_INVALID_ARGUMENT, "'X' must be a tensor");
    md_launch_destroy(&launch);
    for (int k = 0; k < 3; k++)
        free(memory[k]);
    md_op_destroy(&op);
}

/* What the context counts: how many shapes it met. */
static json_int_t misses_of(md_context *c)
{
    char path[] = "/tmp/md-test-launches-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(md_stats_write(c, path, "json"));
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *counts = json_object_get(json_array_get(json_object_get(root, "ops"), 0), "counts");
    const json_int_t n = json_integer_value(json_object_get(counts, "misses"));
    json_decref(root);
    unlink(path);
    return n;
}

/* Less aligned memory is another shape: on 16 bytes where it was resolved on 64, and on 4. */
static void alignment_selects(void **state)
{
    (void)state;
    md_context *c = NULL;
    md_op *op = NULL;
    md_launch *launch = NULL;
    _Alignas(64) float x[96] = {0}, y[96];
    const int64_t n = 64;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .cc = "/nonexistent/cc"}));
    assert_ok(md_op_create(&op, c, "Y[i] = X[i]", NULL));
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    const md_arg arg[] = {md_t(&ty), md_t(&tx)};
    assert_ok(md_resolve(&launch, op, arg, 2));
    assert_int_equal(misses_of(c), 1);
    static const int offset[] = {0, 16, 4, 8, 1, 0}, misses[] = {1, 1, 2, 2, 3, 3};
    for (int i = 0; i < 6; i++) {
        tx.data = x + offset[i];
        assert_ok(md_launch_run(launch, NULL, arg, 2));
        assert_int_equal(misses_of(c), misses[i]);
    }
    md_launch_destroy(&launch);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Only launches of one context are timed together. */
static void launches_of_two_contexts(void **state)
{
    (void)state;
    md_context *other = NULL;
    md_op *op[2] = {NULL};
    md_launch *launch[2] = {NULL};
    double us = -1.0;
    float x[4] = {0}, y[4];
    const int64_t n = 4;
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    assert_ok(md_context_create(&other, &(md_context_options){.device = "host", .threads = 1}));
    for (int i = 0; i < 2; i++) {
        assert_ok(md_op_create(&op[i], i ? other : context, "Y[i] = X[i]", NULL));
        assert_ok(md_resolve(&launch[i], op[i], (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    }
    assert_fails(md_launch_time_all(&us, (const md_launch *const[]){launch[0], launch[0], launch[1]}, 3, NULL),
                 MD_INVALID_ARGUMENT, "launch 2 is of another context");
    assert_fails(md_launch_time_all(&us, (const md_launch *const[]){launch[0], NULL}, 2, NULL), MD_INVALID_ARGUMENT,
                 "launch 1 is NULL");
    assert_true(us == -1.0);
    assert_ok(md_launch_time_all(&us, (const md_launch *const[]){launch[1], launch[1]}, 2, NULL));
    for (int i = 0; i < 2; i++) {
        md_launch_destroy(&launch[i]);
        md_op_destroy(&op[i]);
    }
    md_context_destroy(&other);
}

/* The same bits as md_call: a scalar has the precision that it is declared with. */
static void scalars(void **state)
{
    (void)state;
    md_op *op = make("scalar c, n:i64; Y[i] = X[i] * c + n");
    md_launch *launch = NULL;
    float x[3] = {1, 3, 7}, y[3], want[3];
    const int64_t size[] = {3};
    md_tensor tx = md_tensor_make(x, MD_F32, 1, size), ty = md_tensor_make(y, MD_F32, 1, size);
    int32_t at[4] = {-1, -1, -1, -1}; /* of Y, X, c, n */
    md_arg arg[4];
    for (int32_t i = 0; i < 4; i++) {
        md_arg_info info;
        assert_ok(md_op_arg(&info, op, i));
        at[info.name[0] == 'Y' ? 0 : info.name[0] == 'X' ? 1 : info.name[0] == 'c' ? 2 : 3] = i;
    }
    arg[at[0]] = md_t(&ty);
    arg[at[1]] = md_t(&tx);
    arg[at[2]] = md_s(0.0);
    arg[at[3]] = md_i(0);
    assert_ok(md_resolve(&launch, op, arg, 4));
    arg[at[2]] = md_s(0.1);
    arg[at[3]] = md_i(5);
    assert_ok(md_call(op, NULL, arg, 4));
    memcpy(want, y, sizeof y);
    assert_ok(md_launch_run(launch, NULL, arg, 4));
    assert_memory_equal(want, y, sizeof y);
    arg[at[2]] = md_i(2); /* an integer for a real */
    assert_ok(md_launch_run(launch, NULL, arg, 4));
    assert_true(y[2] == 19.0f);
    arg[at[3]] = md_s(5.0); /* no real for an integer */
    assert_fails(md_launch_run(launch, NULL, arg, 4), MD_INVALID_ARGUMENT, "'n' must be a scalar of type i64");
    arg[at[3]] = md_i(5);
    arg[at[2]] = md_t(&tx);
    assert_fails(md_launch_run(launch, NULL, arg, 4), MD_INVALID_ARGUMENT, "'c' must be a scalar of type f32");
    assert_ok(md_launch_run(launch, NULL, NULL, 0)); /* as resolved */
    assert_true(y[2] == 0.0f);
    md_launch_destroy(&launch);
    md_op_destroy(&op);
}

/* A launch whose input is overwritten copies it anew each time, and checks what it is given. */
static void overwritten_inputs(void **state)
{
    (void)state;
    md_op *op = make("Y[i,j] = X[j,i]");
    md_launch *launch = NULL;
    float m[9], other[9], large[16], out[9];
    const int64_t size[] = {3, 3}, large_size[] = {4, 4};
    md_tensor t = md_tensor_make(m, MD_F32, 2, size), u = md_tensor_make(other, MD_F32, 2, size),
              o = md_tensor_make(out, MD_F32, 2, size);
    md_tensor l = md_tensor_make(large, MD_F32, 2, large_size);
    md_arg same[2] = {md_t(&t), md_t(&t)}, others[2] = {md_t(&u), md_t(&u)}, apart[2] = {md_t(&o), md_t(&u)},
           larger[2] = {md_t(&l), md_t(&l)};
    for (int i = 0; i < 9; i++)
        m[i] = other[i] = (float)i;
    for (int i = 0; i < 16; i++)
        large[i] = (float)i;
    assert_ok(md_resolve(&launch, op, same, 2));
    assert_true(m[1] == 1.0f); /* resolving runs nothing */
    for (int round = 0; round < 2; round++) {
        assert_ok(md_launch_run(launch, NULL, NULL, 0));
        assert_true(m[1] == (round ? 1.0f : 3.0f) && m[5] == (round ? 5.0f : 7.0f));
    }
    assert_ok(md_launch_run(launch, NULL, others, 2));
    assert_true(other[1] == 3.0f && m[1] == 1.0f);
    assert_ok(md_launch_run(launch, NULL, apart, 2));
    assert_true(out[1] == 1.0f && other[1] == 3.0f);
    assert_ok(md_launch_run(launch, NULL, larger, 2)); /* bound in full: another shape is no accident */
    assert_true(large[1] == 4.0f && large[11] == 14.0f);
    assert_fails(md_launch_run(launch, NULL, same, 1), MD_INVALID_ARGUMENT, "takes 2");
    md_launch_destroy(&launch);
    md_op_destroy(&op);
}

static void nothing_to_do(void **state)
{
    (void)state;
    md_op *op = make("Y[i,j] = X[j,i]");
    md_launch *launch = NULL;
    md_choice choice;
    double us = -1.0;
    const int64_t size[] = {0, 5}, turned[] = {5, 0};
    md_tensor ty = md_tensor_make(NULL, MD_F32, 2, size), tx = md_tensor_make(NULL, MD_F32, 2, turned);
    md_arg arg[2] = {md_t(&ty), md_t(&tx)};
    assert_ok(md_resolve(&launch, op, arg, 2));
    assert_ok(md_launch_run(launch, NULL, NULL, 0));
    assert_ok(md_launch_run(launch, NULL, arg, 2));
    assert_ok(md_launch_time_all(&us, (const md_launch *const[]){launch, launch, launch}, 3, NULL));
    assert_true(us >= 0.0);
    assert_ok(md_launch_time(&us, launch, NULL));
    assert_true(us == 0.0);
    assert_ok(md_launch_choice(&choice, launch));
    assert_int_equal(choice.n_stages, 0);
    assert_ok(md_prepare(op, "i=0, j=5"));
    assert_ok(md_prepare(op, "i=0, j=0"));
    md_launch_destroy(&launch);
    md_op_destroy(&op);
}

/* Times by number: competitor 1 is the best, 2 fails, 3 is far behind and 4 is, too, but kept. */
static md_status scripted(double *us, void *user, int32_t i, int32_t repeats)
{
    static const double times[] = {10.0, 8.0, 0.0, 100.0, 100.0};
    int *n_runs = user;
    n_runs[i] += repeats;
    *us = times[i];
    return i == 2 && n_runs[2] > 2 ? MD_DEVICE : MD_OK;
}

static void competitors_are_compared(void **state)
{
    (void)state;
    double us[5][4];
    int n_runs[5] = {0};
    md_bench_competitor x[5] = {0};
    const md_bench_options o = {.samples = 4, .sample_us = 50.0, .warm_up_us = -1.0, .look_factor = 2.0};
    for (int i = 0; i < 5; i++)
        x[i].us = us[i];
    x[4].never_drops = 1;
    assert_ok(md_bench(x, 5, &o, scripted, n_runs));
    static const int n[] = {4, 4, 0, 0, 4};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(x[i].n, n[i]);
        assert_int_equal(x[i].status, i == 2 ? MD_DEVICE : MD_OK);
        assert_true(i == 2 ? x[i].look_us == 0.0 : x[i].look_us > 0.0);
        for (int k = 0; k < n[i]; k++)
            assert_true(us[i][k] == x[i].look_us);
    }
    assert_int_equal(n_runs[0], 2 + 4 * 5); /* two looks, then samples of 50 us */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(competitors_are_compared),
        cmocka_unit_test(other_alignment),
        cmocka_unit_test(scalars),
        cmocka_unit_test(overwritten_inputs),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(alignment_selects),
        cmocka_unit_test(launches_of_two_contexts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
