/* Sequences on a device whose work is done later, as on a GPU: streams, captures, threads, memory that moves. Kernels
 * are the host's; the device's memory traps when the CPU touches it. */
#include "sequence/device_chain.h"

/* A call whose own memory does not fit makes the arena grow while the calls before it run: what they wrote moves. */
static void the_arena_moves_with_what_lives(void **state)
{
    float *x = device_memory(), *y = device_memory(), value[MOST];
    md_ds_op *scan = NULL;
    md_sq *sq = NULL;
    int32_t id[3];
    const md_ds_op_options o = {
        .compile.hints = "64",
        .compile.hints_source = "test",
        .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO},
        .max_shapes = 10,
    };
    (void)state;
    assert_ok(md_ds_op_create(&scan, &runtime, "let a[i] = cumsum[i](X[i]); Y[i] = a[i] + max[k](a[k])", &o));
    md_ds_op_wait(scan);
    assert_ok(md_sq_create(&sq, &runtime, NULL));
    assert_ok(md_sq_add_dim(NULL, sq, "n", 0, MOST));
    static const md_sequence_role role[] = {MD_SEQUENCE_INPUT, 0, MD_SEQUENCE_OUTPUT};
    for (int i = 0; i < 3; i++)
        assert_ok(md_sq_add_tensor(&id[i], sq, &(md_sequence_tensor){.role = role[i], .size = "n"}));
    assert_ok(md_sq_add_call(sq, op, (md_sequence_arg[]){{.id = id[1]}, {.id = id[0]}}, 2));
    assert_ok(md_sq_add_call(sq, scan, (md_sequence_arg[]){{.id = id[1]}, {.id = id[2]}}, 2));
    assert_ok(md_sq_finish(sq));
    put(x, 0);
    for (int k = 0; k < 4; k++) { /* the arena moves in the first run, so the second binds anew */
        put(y, 0);
        run(sq, 1, 100, x, y);
        assert_ok(device.base.ops->copy(&device.base, value, y, sizeof value));
        for (int i = 0; i < 100; i++)
            assert_true(value[i] == (float)((i + 1) * (i + 1)) + 10000);
    }
    assert_int_equal(counters(sq).n_binds, 2);
    assert_true(counters(sq).arena_bytes > 512);
    md_sq_destroy(&sq);
    md_ds_op_destroy(&scan);
}

typedef struct worker {
    md_sq *sq;
    int stream;
    float *x, *y;
} worker;

static void *work(void *user)
{
    const worker *w = user;
    for (int i = 0; i < 60; i++) {
        const int64_t n = 500 + i / 6 * 7;
        pthread_mutex_lock(&w->sq->lock); /* as md_sequence_run does */
        run(w->sq, w->stream, n, w->x, w->y);
        pthread_mutex_unlock(&w->sq->lock);
    }
    return NULL;
}

static void two_threads_share_a_sequence(void **state)
{
    pthread_t thread[2];
    worker w[2];
    md_sq *sq = chain(&(md_sequence_options){.max_graphs = 3});
    (void)state;
    for (int i = 0; i < 2; i++) {
        w[i] = (worker){sq, i + 1, device_memory(), device_memory()};
        put(w[i].x, i * 50);
        put(w[i].y, 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++)
        expect(w[i].y, 563, i * 50);
    assert_int_equal(counters(sq).n_runs, 120);
    md_sq_destroy(&sq);
}

/* Runs on different streams share the arena, so each waits for the one before. */
static void streams_take_turns(void **state)
{
    float *x[2] = {device_memory(), device_memory()}, *y[2] = {device_memory(), device_memory()};
    md_sq *sq = chain(NULL);
    const int64_t n_marks = device.n_marks;
    (void)state;
    put(x[0], 5);
    put(x[1], 900);
    for (int i = 0; i < 8; i++) {
        put(y[0], 0);
        put(y[1], 0);
        run(sq, 1, 2000, x[0], y[0]);
        run(sq, 2, 2000, x[1], y[1]);
        assert_ok(device.base.ops->sync(&device.base, stream_at(2)));
        expect(y[1], 2000, 900);
        expect(y[0], 2000, 5);
    }
    assert_int_equal(device.n_marks - n_marks, 15); /* at each change of the stream */
    md_sq_destroy(&sq);
}

/* While the caller captures, a run only launches, and binds what is new before; its graph stays right when the arena
 * grows. The last run may have been on the stream that is captured, for which nothing may wait then. */
static void in_a_capture(void **state)
{
    float *x = device_memory(), *y = device_memory();
    const int64_t n = 300, more = MOST, other = 301;
    void *data[] = {x, y};
    md_sq *sq = chain(NULL);
    (void)state;
    put(x, 7);
    run(sq, 3, 40, x, y);
    async_device_capture(&device, stream_at(3), true);
    assert_ok(md_sq_run(sq, stream_at(3), &n, data)); /* a larger arena */
    async_device_capture(&device, stream_at(3), false);
    assert_ok(md_sq_prepare(sq, &n, data));
    async_device_capture(&device, stream_at(3), true);
    for (int i = 0; i < 2; i++)
        assert_ok(md_sq_run(sq, stream_at(3), &n, data));
    assert_ok(md_sq_run(sq, stream_at(3), &other, data));
    assert_ok(md_sq_run(sq, stream_at(3), &more, data));
    assert_ok(md_sq_run(sq, stream_at(3), &n, data));
    async_device_capture(&device, stream_at(3), false);
    assert_int_equal(counters(sq).n_graph_runs, 0);
    run(sq, 1, more, x, y);
    expect(y, more, 7);
    put(y, 0);
    put(x, 40);
    async_device_replay(&device, stream_at(3));
    assert_ok(device.base.ops->sync(&device.base, stream_at(3)));
    expect(y, more, 40);
    md_sq_destroy(&sq);
    assert_int_equal(device.n_violations, 0);
}

/* What a kernel of an earlier run has reported, the next run says, and enqueues nothing; then all is well again. */
static void a_reported_fault_is_said(void **state)
{
    float *x = device_memory(), *y = device_memory();
    const int64_t n = 100;
    void *data[] = {x, y};
    md_sq *sq = chain(NULL);
    (void)state;
    put(x, 3);
    for (int i = 0; i < 4; i++) { /* by launches, and by a graph */
        md_kn_report *r = op->report.host;
        const int64_t n_runs = counters(sq).n_graph_runs;
        r->tensor = 1;
        r->axis = 0;
        r->value = 99;
        atomic_store(&r->is_set, 1);
        assert_fails(md_sq_run(sq, stream_at(1), &n, data), MD_INVALID_ARGUMENT, "an earlier call: ");
        assert_int_equal(counters(sq).n_graph_runs, n_runs);
        put(y, 0);
        run(sq, 1, n, x, y);
        expect(y, n, 3);
    }
    assert_true(counters(sq).n_graph_runs > 0);
    md_sq_destroy(&sq);
}

/* Host memory is refused as by a call. */
static void refuses_host_memory(void **state)
{
    static float x[100], y[100];
    const int64_t n = 100;
    md_sq *sq = chain(NULL);
    (void)state;
    assert_fails(md_sq_run(sq, NULL, &n, (void *[]){x, y}), MD_INVALID_ARGUMENT, "call 0 of sequence");
    assert_fails(md_sq_create(&sq, &runtime, &(md_sequence_options){.poisons = 1}), MD_INVALID_ARGUMENT, "poisons");
    md_sq_destroy(&sq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_arena_moves_with_what_lives),
        cmocka_unit_test(two_threads_share_a_sequence),
        cmocka_unit_test(streams_take_turns),
        cmocka_unit_test(in_a_capture),
        cmocka_unit_test(a_reported_fault_is_said),
        cmocka_unit_test(refuses_host_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
