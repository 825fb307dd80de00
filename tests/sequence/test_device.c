/* Sequences on a device whose work is done later, as on a GPU: graphs, streams, captures, memory that moves. Kernels
 * are the host's; the device's memory traps when the CPU touches it. */
#include "support/check.h"

#include "device/open.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/create.h"
#include "dispatch/open.h"
#include "dispatch/select/plan.h"
#include "sequence/shape.h"
#include "support/devices/async_device.h"

static md_log no_log;
static md_pool *pool;
static md_dev *host;
static async_device device;
static md_bd *builder;
static md_ds_runtime runtime;
static md_ds_op *op;

enum { MOST = 4000 };

static int set_up(void **state)
{
    (void)state;
    assert_ok(md_pool_create(&pool, 1));
    assert_ok(md_dev_open(&host, &(md_dev_options){.device = "host", .pool = pool, .log = &no_log}));
    assert_true(async_device_init(&device, host));
    assert_ok(md_bd_create(&builder, &device.base));
    md_ds_runtime_init(&runtime);
    runtime.dev = &device.base;
    runtime.builder = builder;
    runtime.log = &no_log;
    md_bd_listen(builder, md_ds_upgrade_all, &runtime);
    const md_ds_op_options o = {
        .compile.hints = "64,4096",
        .compile.hints_source = "test",
        .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO},
        .max_shapes = 1000,
    };
    assert_ok(md_ds_op_create(&op, &runtime, "Y[i] = 2 * X[i] + 1", &o));
    md_ds_op_wait(op);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_ok(device.base.ops->sync(&device.base, NULL));
    md_ds_op_destroy(&op);
    md_bd_listen(builder, NULL, NULL);
    md_ds_runtime_finish(&runtime);
    md_bd_destroy(&builder);
    assert_int_equal(device.n_violations, 0);
    device.base.ops->destroy(&device.base);
    md_pool_destroy(&pool);
    return 0;
}

static float *device_memory(void)
{
    void *p = NULL;
    assert_ok(device.base.ops->alloc(&p, &device.base, MOST * sizeof(float)));
    return p;
}

static void put(float *p, int seed)
{
    float value[MOST];
    for (int i = 0; i < MOST; i++)
        value[i] = (float)(i + seed);
    assert_ok(device.base.ops->copy(&device.base, p, value, sizeof value));
}

/* y = x by four steps of 2 x + 1 is 16 x + 15. The device is waited for. */
static void expect(const float *y, int64_t n, int seed)
{
    float value[MOST];
    assert_ok(device.base.ops->copy(&device.base, value, y, sizeof value));
    for (int i = 0; i < n; i++)
        assert_true(value[i] == 16 * (float)(i + seed) + 15);
}

static md_sq *chain(const md_sequence_options *options)
{
    md_sq *sq = NULL;
    int32_t id[5];
    assert_ok(md_sq_create(&sq, &runtime, options));
    assert_ok(md_sq_add_dim(NULL, sq, "n", 0, MOST));
    static const md_sequence_role role[] = {MD_SEQUENCE_INPUT, 0, 0, 0, MD_SEQUENCE_OUTPUT};
    for (int i = 0; i < 5; i++)
        assert_ok(md_sq_add_tensor(&id[i], sq, &(md_sequence_tensor){.role = role[i], .size = "n"}));
    for (int i = 0; i < 4; i++)
        assert_ok(md_sq_add_call(sq, op, (md_sequence_arg[]){{.id = id[i + 1]}, {.id = id[i]}}, 2));
    assert_ok(md_sq_finish(sq));
    return sq;
}

static md_stream stream_at(int i)
{
    return (md_stream)(uintptr_t)(i * 16);
}

static void run(md_sq *sq, int stream, int64_t n, const float *x, const float *y)
{
    assert_ok(md_sq_run(sq, stream_at(stream), &n, (void *const[]){(void *)(uintptr_t)x, (void *)(uintptr_t)y}));
}

static md_sequence_counters counters(md_sq *sq)
{
    md_sequence_counters c;
    md_sq_count(&c, sq);
    return c;
}

static void graphs_come_and_go(void **state)
{
    float *x = device_memory(), *y = device_memory(), *z = device_memory();
    md_sq *sq = chain(&(md_sequence_options){.max_graphs = 2});
    (void)state;
    put(x, 3);
    for (int i = 0; i < 6; i++) { /* launches twice, behind the second a graph, which serves from then on */
        put(y, 0);
        run(sq, 1, 1000, x, y);
        expect(y, 1000, 3);
    }
    assert_int_equal(counters(sq).n_graph_runs, 4);
    assert_int_equal(counters(sq).n_builds, 1);
    for (int64_t n = 100; n <= 500; n += 100) /* more sizes than graphs */
        for (int i = 0; i < 3; i++) {
            put(y, 0);
            run(sq, 1, n, x, y);
            expect(y, n, 3);
        }
    put(z, 0);
    assert_int_equal(counters(sq).n_graphs, 2);
    assert_int_equal(counters(sq).n_failures, 0);
    assert_int_equal(counters(sq).n_builds, 2); /* the others took over an older one of the same kernels */
    assert_true(counters(sq).n_updates >= 3);
    assert_true(counters(sq).graph_bytes > 0 && counters(sq).graph_bytes < 100000);
    assert_int_equal(counters(sq).n_graph_runs, 4 + 5);
    const int64_t launches = device.n_graph_launches;
    run(sq, 1, 0, x, y); /* nothing to compute */
    run(sq, 1, 0, x, y);
    assert_int_equal(device.n_graph_launches, launches);
    md_sq_destroy(&sq);
}

static void expect_explained(md_sq *sq, const char *part)
{
    md_strbuf text = {0};
    assert_ok(md_sq_explain(&text, sq, false));
    if (!strstr(md_strbuf_text(&text), part))
        fail_msg("no '%s' in\n%s", part, md_strbuf_text(&text));
    md_strbuf_finish(&text);
}

/* Where addresses move, the nodes that have them are changed: before the launch if they are few, else behind it. */
static void nodes_are_changed(void **state)
{
    float *x = device_memory(), *w = device_memory(), *y = device_memory(), *z = device_memory();
    md_sq *sq = chain(NULL);
    (void)state;
    put(x, 3);
    put(w, 70);
    for (int i = 0; i < 3; i++)
        run(sq, 1, 1000, x, y);
    assert_int_equal(counters(sq).n_graph_runs, 1);
    int64_t changes = device.n_graph_changes;
    put(z, 0);
    run(sq, 1, 1000, x, z); /* one node of four */
    expect(z, 1000, 3);
    assert_int_equal(device.n_graph_changes, ++changes);
    expect_explained(sq, "one graph of 4 kernels, 3 of which may begin before");
    expect_explained(sq, "kept: 1 of 1024 sizes with 1 choices of kernels, 1 of 1024 graphs");
    assert_int_equal(counters(sq).n_graph_runs, 2);
    run(sq, 1, 1000, w, y); /* two nodes: launches */
    expect(y, 1000, 70);
    assert_int_equal(counters(sq).n_graph_runs, 2);
    assert_int_equal(device.n_graph_changes, changes);
    put(y, 0);
    run(sq, 1, 1000, w, y); /* again: behind the launches the graph is changed */
    expect(y, 1000, 70);
    assert_int_equal(counters(sq).n_graph_runs, 2);
    assert_int_equal(device.n_graph_changes, changes += 2);
    put(y, 0);
    run(sq, 1, 1000, w, y);
    expect(y, 1000, 70);
    assert_int_equal(counters(sq).n_graph_runs, 3);
    assert_int_equal(counters(sq).n_builds, 1);
    device.refuses_changes = true; /* then launches serve, and a new graph is made */
    put(z, 0);
    run(sq, 1, 1000, w, z);
    expect(z, 1000, 70);
    assert_int_equal(counters(sq).n_graph_runs, 3);
    assert_int_equal(counters(sq).n_graphs, 0);
    for (int i = 0; i < 2; i++) {
        put(z, 0);
        run(sq, 1, 1000, w, z);
        expect(z, 1000, 70);
    }
    device.refuses_changes = false;
    assert_int_equal(counters(sq).n_builds, 2);
    assert_int_equal(counters(sq).n_graph_runs, 4);
    md_sq_destroy(&sq);
}

/* The graph of a size that is forgotten serves a new size of the same kernels. */
static void graphs_outlive_their_sizes(void **state)
{
    float *x = device_memory(), *y = device_memory();
    md_sq *sq = chain(&(md_sequence_options){.max_sizes = 1});
    (void)state;
    put(x, 11);
    for (int64_t n = 990; n < 1000; n++)
        for (int i = 0; i < 3; i++) {
            put(y, 0);
            run(sq, 1, n, x, y);
            expect(y, n, 11);
        }
    assert_int_equal(counters(sq).n_sizes, 1);
    assert_int_equal(counters(sq).n_builds, 1);
    assert_int_equal(counters(sq).n_updates, 9);
    assert_int_equal(counters(sq).n_graphs, 1);
    assert_int_equal(counters(sq).n_graph_runs, 10);
    md_sq_destroy(&sq);
}

static void put_copy(md_ds_shape_entry *entry, bool is_makeshift)
{
    const md_ds_plan *plan = md_ds_plan_of(entry);
    md_ds_plan *copy = md_ds_plan_create(op);
    assert_non_null(copy);
    memcpy(copy, plan, sizeof *plan + (size_t)op->n_stages * sizeof plan->stage[0]);
    copy->older = NULL;
    copy->is_makeshift = is_makeshift;
    pthread_mutex_lock(&op->lock_of_entries);
    md_ds_shape_entry_put_plan(entry, copy, op->n_stages);
    pthread_mutex_unlock(&op->lock_of_entries);
}

/* A new plan of the same kernels binds nothing anew. While a better kernel may come, there is no graph. */
static void equal_plans_bind_nothing(void **state)
{
    float *x = device_memory(), *y = device_memory();
    md_sq *sq = chain(NULL);
    (void)state;
    put(x, 2);
    for (int i = 0; i < 3; i++)
        run(sq, 1, 777, x, y);
    assert_int_equal(counters(sq).n_graph_runs, 1);
    put_copy(sq->last->part[0].entry, true);
    for (int i = 0; i < 2; i++)
        run(sq, 1, 777, x, y);
    assert_int_equal(counters(sq).n_graph_runs, 1);
    put_copy(sq->last->part[0].entry, false);
    for (int i = 0; i < 2; i++) {
        put(y, 0);
        run(sq, 1, 777, x, y);
        expect(y, 777, 2);
    }
    assert_int_equal(counters(sq).n_graph_runs, 3);
    assert_int_equal(counters(sq).n_binds, 1);
    md_sq_destroy(&sq);
}

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

/* Where a graph cannot be made, a chain of launches serves. */
static void works_without_graphs(void **state)
{
    float *x = device_memory(), *y = device_memory();
    (void)state;
    put(x, 1);
    for (int k = 0; k < 3; k++) {
        md_sq *sq = chain(&(md_sequence_options){.max_graphs = k == 1 ? -1 : 0, .max_graph_bytes = k == 2 ? 100 : 0});
        device.refuses_graphs = k == 0;
        for (int i = 0; i < 4; i++) {
            put(y, 0);
            run(sq, 2, 700, x, y);
            expect(y, 700, 1);
        }
        device.refuses_graphs = false;
        assert_int_equal(counters(sq).n_graph_runs, 0);
        assert_int_equal(counters(sq).n_failures, k == 0);
        assert_int_equal(counters(sq).n_graphs, 0);
        md_sq_destroy(&sq);
    }
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

/* While the caller captures, a run only launches; its graph stays right when the arena grows. */
static void in_a_capture(void **state)
{
    float *x = device_memory(), *y = device_memory();
    const int64_t n = 300, more = MOST, other = 301;
    void *data[] = {x, y};
    md_sq *sq = chain(NULL);
    (void)state;
    put(x, 7);
    async_device_capture(&device, stream_at(3), true);
    assert_fails(md_sq_run(sq, stream_at(3), &n, data), MD_UNSUPPORTED, "md_sequence_prepare");
    async_device_capture(&device, stream_at(3), false);
    assert_ok(md_sq_prepare(sq, &n, data));
    async_device_capture(&device, stream_at(3), true);
    for (int i = 0; i < 2; i++)
        assert_ok(md_sq_run(sq, stream_at(3), &n, data));
    assert_fails(md_sq_run(sq, stream_at(3), &other, data), MD_UNSUPPORTED, "md_sequence_prepare");
    async_device_capture(&device, stream_at(3), false);
    assert_int_equal(counters(sq).n_graph_runs, 0);
    run(sq, 1, more, x, y); /* a larger arena */
    expect(y, more, 7);
    put(y, 0);
    put(x, 40);
    async_device_replay(&device, stream_at(3));
    assert_ok(device.base.ops->sync(&device.base, stream_at(3)));
    expect(y, n, 40);
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
        cmocka_unit_test(nodes_are_changed),
        cmocka_unit_test(graphs_outlive_their_sizes),
        cmocka_unit_test(two_threads_share_a_sequence),
        cmocka_unit_test(equal_plans_bind_nothing),
        cmocka_unit_test(the_arena_moves_with_what_lives),
        cmocka_unit_test(graphs_come_and_go),
        cmocka_unit_test(works_without_graphs),
        cmocka_unit_test(streams_take_turns),
        cmocka_unit_test(in_a_capture),
        cmocka_unit_test(refuses_host_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
