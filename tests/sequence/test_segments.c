/* Sequences with calls of libraries whose addresses move: calls that use what moves are launched, those between them
 * are graphs. The results are right at each run. On a device whose work is done later. */
#include "sequence/device_chain.h"

#include "base/status.h"
#include "dispatch/call/call.h"

enum { BLOCKS = 5, STEPS = 6, RUNS = 12 };

static md_ds_op *library;
static float *x[BLOCKS], *y[BLOCKS], *z[BLOCKS];

/* An op without launch plans runs by its plan, as those of libraries do. It has a text of its own, since ops of equal
 * formulas are one. */
static int set_up_library(void **state)
{
    if (set_up(state) != 0)
        return -1;
    assert_ok(md_ds_op_create(&library, &runtime, "Y[i] = X[i] + X[i] + 1", &op_options));
    md_ds_op_wait(library);
    library->layout.is_possible = false;
    for (int i = 0; i < BLOCKS; i++) {
        x[i] = device_memory();
        y[i] = device_memory();
        z[i] = device_memory();
        put(x[i], i * 100);
    }
    return 0;
}

static int tear_down_library(void **state)
{
    md_ds_op_destroy(&library);
    return tear_down(state);
}

/* Work of the caller: enqueues the op's call. */
static md_status call_op(void *user, md_stream stream, const md_tensor *tensor, int32_t n, const int64_t *size)
{
    (void)size;
    if (n != 2 || (*(int *)user)-- == 0)
        return md_fail(MD_UNSUPPORTED, "the caller's work fails");
    return md_ds_call(op, stream, (md_arg[]){md_t(&tensor[0]), md_t(&tensor[1])}, 2);
}

static int n_left; /* callbacks that succeed */

/* y = 2^n x + 2^n - 1 by n calls: "l" by a library, "k" by a kernel, "c" by a callback. Where `out` is >= 0, what that
 * call writes is an output, too; it comes before y. */
static md_sq *chain_of(const char *kinds, int out, const md_sequence_options *options)
{
    md_sq *sq = NULL;
    int32_t from, to;
    const int n = (int)strlen(kinds);
    assert_ok(md_sq_create(&sq, &runtime, options));
    assert_ok(md_sq_add_dim(NULL, sq, "n", 0, MOST));
    assert_ok(md_sq_add_tensor(&from, sq, &(md_sequence_tensor){.role = MD_SEQUENCE_INPUT, .size = "n"}));
    for (int i = 0; i < n; i++, from = to) {
        const md_sequence_role role = i == n - 1 || i == out ? MD_SEQUENCE_OUTPUT : MD_SEQUENCE_TEMPORARY;
        assert_ok(md_sq_add_tensor(&to, sq, &(md_sequence_tensor){.role = role, .size = "n"}));
        if (kinds[i] == 'c')
            assert_ok(md_sq_add_callback(sq, call_op, &n_left, (int32_t[]){to, from}, 2));
        else
            assert_ok(
                md_sq_add_call(sq, kinds[i] == 'l' ? library : op, (md_sequence_arg[]){{.id = to}, {.id = from}}, 2));
    }
    assert_ok(md_sq_finish(sq));
    return sq;
}

static void expect_after(int n_steps, const float *p, int64_t n, int seed)
{
    float value[MOST];
    const float scale = (float)(1 << n_steps);
    assert_ok(device.base.ops->copy(&device.base, value, p, (size_t)n * sizeof *value));
    for (int i = 0; i < n; i++)
        assert_true(value[i] == scale * (float)(i + seed) + scale - 1);
}

static void run_right(md_sq *sq, int stream, int64_t n, int from, int to)
{
    put(y[to], -1);
    run(sq, stream, n, x[from], y[to]);
    expect_after(STEPS, y[to], n, from * 100);
}

/* Run r has other addresses than the run before. */
static void run_moved(md_sq *sq, int64_t n, int r)
{
    run_right(sq, 1, n, r % BLOCKS, r * 3 % BLOCKS);
}

static void expect_explained(md_sq *sq, bool json, const char *part)
{
    md_strbuf text = {0};
    assert_ok(md_sq_explain(&text, sq, json));
    if (!strstr(md_strbuf_text(&text), part))
        fail_msg("no '%s' in\n%s", part, md_strbuf_text(&text));
    md_strbuf_finish(&text);
}

static void moved_runs_are_graphs(void **state)
{
    md_sq *sq = chain_of("lkllkl", -1, NULL);
    (void)state;
    for (int r = 0; r < 3; r++) /* bound; they moved once; twice: a graph is made behind the launches */
        run_moved(sq, 1000, r);
    assert_int_equal(counters(sq).n_builds, 1);
    assert_int_equal(counters(sq).n_split_runs, 0);
    for (int r = 3; r < 3 + RUNS; r++) {
        const int64_t graphs = device.n_graph_launches, launches = device.n_launches;
        run_moved(sq, 1000, r);
        assert_int_equal(device.n_graph_launches, graphs + 1);
        assert_int_equal(device.n_launches, launches + 2); /* the first call and the last */
    }
    assert_int_equal(counters(sq).n_split_runs, RUNS);
    assert_int_equal(counters(sq).n_graph_runs, 0);
    assert_int_equal(counters(sq).n_builds, 1);
    assert_int_equal(counters(sq).n_updates, 0);
    assert_int_equal(counters(sq).n_binds, 1);
    assert_int_equal(counters(sq).n_graphs, 1);
    expect_explained(sq, false, "no graph of all calls, but 1 of some, and 2 calls are launched");
    expect_explained(sq, true, "\"graph\":false,\"segment_graphs\":1,\"launched_calls\":2");
    md_sq_destroy(&sq);
    assert_int_equal(device.n_violations, 0);
}

/* Where addresses moved at the sizes before, a new size has graphs after its second run. */
static void a_new_size_expects_what_moved(void **state)
{
    md_sq *sq = chain_of("lkllkl", -1, NULL);
    (void)state;
    for (int r = 0; r < 3; r++)
        run_moved(sq, 1000, r);
    for (int r = 0; r < 2; r++)
        run_moved(sq, 900, r);
    assert_int_equal(counters(sq).n_split_runs, 0);
    run_moved(sq, 900, 2);
    assert_int_equal(counters(sq).n_split_runs, 1);
    for (int r = 0; r < RUNS; r++) /* it was wrong: one graph of all calls in the end */
        run_right(sq, 1, 800, 0, 0);
    assert_in_range(counters(sq).n_graph_runs, 1, RUNS - 8);
    md_sq_destroy(&sq);
    assert_int_equal(device.n_violations, 0);
}

/* Fixed addresses have one graph of all calls; addresses that stay after they moved have it again. */
static void words_that_stay_have_one_graph(void **state)
{
    md_sq *sq = chain_of("lkllkl", -1, NULL);
    (void)state;
    for (int r = 0; r < RUNS; r++)
        run_right(sq, 1, 900, 0, 0);
    assert_int_equal(counters(sq).n_graph_runs, RUNS - 2);
    for (int r = 0; r < 5; r++)
        run_moved(sq, 900, r + 1);
    assert_int_equal(counters(sq).n_split_runs, 3);
    assert_int_equal(counters(sq).n_graphs, 1);
    for (int r = 0; r < 20; r++)
        run_right(sq, 1, 900, 1, 1);
    assert_int_equal(counters(sq).n_split_runs, 3 + MD_SQ_RUNS_TO_SETTLE);
    assert_int_equal(counters(sq).n_graph_runs, RUNS - 2 + 20 - MD_SQ_RUNS_TO_SETTLE - 1);
    assert_int_equal(counters(sq).n_graphs, 1);
    assert_int_equal(counters(sq).n_builds, 3);
    run_right(sq, 1, 900, 2, 2); /* seldom moves are no moves */
    for (int r = 0; r < 20; r++)
        run_right(sq, 1, 900, 2, 2);
    run_right(sq, 1, 900, 3, 3);
    assert_int_equal(counters(sq).n_split_runs, 3 + MD_SQ_RUNS_TO_SETTLE);
    md_sq_destroy(&sq);
}

/* What begins to move later is launched, too, from then on. */
static void one_more_moves(void **state)
{
    md_sq *sq = chain_of("lklllkllkl", 5, NULL);
    const int64_t n = 800;
    (void)state;
    for (int r = 0; r < 20; r++) {
        const int from = r % BLOCKS, mid = r < 10 ? 0 : r * 2 % BLOCKS, to = r * 3 % BLOCKS;
        put(y[to], -1);
        put(z[mid], -1);
        assert_ok(md_sq_run(sq, stream_at(1), &n, (void *const[]){x[from], z[mid], y[to]}));
        expect_after(10, y[to], n, from * 100);
        expect_after(6, z[mid], n, from * 100);
        if (r == 9)
            expect_explained(sq, true, "\"segment_graphs\":1,\"launched_calls\":2");
    }
    expect_explained(sq, true, "\"segment_graphs\":2,\"launched_calls\":4");
    assert_int_equal(counters(sq).n_builds, 1 + 2);
    assert_int_equal(counters(sq).n_split_runs, 20 - 3 - 1);
    assert_int_equal(counters(sq).n_graphs, 2);
    md_sq_destroy(&sq);
}

/* A scalar that is another one at each run moves, too. */
static void scalars_move(void **state)
{
    md_ds_op *scaled = NULL;
    md_sq *sq = NULL;
    int32_t id[7], alpha;
    const int64_t n = 300;
    (void)state;
    assert_ok(md_ds_op_create(&scaled, &runtime, "scalar s; Y[i] = s * X[i]", &op_options));
    md_ds_op_wait(scaled);
    scaled->layout.is_possible = false;
    assert_ok(md_sq_create(&sq, &runtime, NULL));
    assert_ok(md_sq_add_dim(NULL, sq, "n", 0, MOST));
    assert_ok(md_sq_add_scalar(&alpha, sq, "s", MD_F64));
    for (int i = 0; i < 7; i++)
        assert_ok(md_sq_add_tensor(
            &id[i], sq,
            &(md_sequence_tensor){.role = i ? i == 6 ? MD_SEQUENCE_OUTPUT : 0 : MD_SEQUENCE_INPUT, .size = "n"}));
    for (int i = 0; i < 6; i++) {
        const md_sequence_arg args[] = {{.id = alpha}, {.id = id[i + 1]}, {.id = id[i]}};
        assert_ok(md_sq_add_call(sq, i == 3 ? scaled : library, i == 3 ? args : args + 1, i == 3 ? 3 : 2));
    }
    assert_ok(md_sq_finish(sq));
    for (int r = 0; r < RUNS; r++) {
        double by = r % 3 + 2;
        float value[MOST];
        assert_ok(md_sq_run(sq, stream_at(1), &n, (void *const[]){&by, x[0], y[0]}));
        assert_ok(device.base.ops->copy(&device.base, value, y[0], sizeof value));
        for (int i = 0; i < n; i++)
            assert_true(value[i] == 4 * (float)by * (8 * (float)i + 7) + 3);
    }
    assert_int_equal(counters(sq).n_split_runs, RUNS - 3);
    expect_explained(sq, true, "\"segment_graphs\":2,\"launched_calls\":1");
    md_sq_destroy(&sq);
    md_ds_op_destroy(&scaled);
}

/* An output where the input lies, or beside it in one block: each set of addresses is bound anew where they overlap. */
static void overlaps_stay_right(void **state)
{
    md_sq *sq = chain_of("lkllkl", -1, NULL);
    const int64_t n = 700;
    (void)state;
    for (int r = 0; r < 3 * RUNS; r++) {
        float *const from = x[r % BLOCKS], *const to = from + (r % 3 == 0 ? 0 : r % 3 == 1 ? n : 160);
        put(from, r);
        run(sq, 1, n, from, to);
        expect_after(STEPS, to, n, r);
    }
    md_sq_destroy(&sq);
    for (int i = 0; i < BLOCKS; i++)
        put(x[i], i * 100);
}

/* The arena grows under the graphs of a size; other streams; a run that the caller captures. */
static void survive_what_happens_between_runs(void **state)
{
    md_sq *sq = chain_of("lkllkl", -1, NULL);
    (void)state;
    for (int64_t n = 60; n < MOST; n *= 4)
        for (int r = 0; r < 8; r++)
            run_moved(sq, r % 2 ? 60 : n, r / 2 + (int)n);
    const uint64_t split = counters(sq).n_split_runs;
    assert_true(split >= 4);
    for (int r = 0; r < RUNS; r++)
        run_right(sq, r % 3 + 1, 60, r % BLOCKS, r * 2 % BLOCKS);
    assert_true(counters(sq).n_split_runs >= split + RUNS - 3);
    async_device_capture(&device, stream_at(3), true);
    run(sq, 3, 60, x[1], y[1]);
    async_device_capture(&device, stream_at(3), false);
    for (int r = 0; r < 4; r++)
        run_moved(sq, 60, r);
    put(y[1], -1);
    async_device_replay(&device, stream_at(3));
    assert_ok(device.base.ops->sync(&device.base, stream_at(3)));
    expect_after(STEPS, y[1], 60, 100);
    assert_int_equal(counters(sq).n_failures, 0);
    md_sq_destroy(&sq);
    assert_int_equal(device.n_violations, 0);
}

/* Graphs that cannot be made, or do not fit: launches serve. */
static void launches_serve_without(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const md_sequence_options o = {.max_graphs = kind == 1 ? -1 : 0, .max_graph_bytes = kind == 2 ? 100 : 0};
        const char *const kinds = kind == 3 ? "lkkkl" : "lkllkl"; /* 3: so few kernels take no longer than a graph */
        md_sq *sq = chain_of(kinds, -1, &o);
        device.refuses_graphs = kind == 0;
        for (int r = 0; r < RUNS; r++) {
            put(y[r % 2], -1);
            run(sq, 1, 500, x[r % BLOCKS], y[r % 2]);
            expect_after((int)strlen(kinds), y[r % 2], 500, r % BLOCKS * 100);
        }
        device.refuses_graphs = false;
        assert_int_equal(counters(sq).n_split_runs, 0);
        assert_int_equal(counters(sq).n_graphs, 0);
        assert_int_equal(counters(sq).n_failures, kind == 0);
        md_sq_destroy(&sq);
    }
}

/* At the bound, sizes give up the graphs of sizes that were not used for longer. */
static void graphs_are_given_up(void **state)
{
    md_sq *sq = chain_of("lkllkl", -1, &(md_sequence_options){.max_graphs = 2});
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int64_t n = 100; n <= 500; n += 100)
            for (int r = 0; r < 5; r++)
                run_moved(sq, n, r);
    assert_int_equal(counters(sq).n_graphs, 2);
    assert_int_equal(counters(sq).n_failures, 0);
    assert_true(counters(sq).n_split_runs >= 2 * 5 * 2);
    md_sq_destroy(&sq);
}

/* More sizes than graphs, in turn: making graphs costs no more than they save. */
static void sizes_in_turn_make_few_graphs(void **state)
{
    enum { SIZES = 6, ROUNDS = 20 };
    md_sq *sq = chain_of("lkllkl", -1, &(md_sequence_options){.max_graphs = 3});
    (void)state;
    for (int r = 0; r < ROUNDS; r++)
        for (int64_t n = 1; n <= SIZES; n++)
            run_moved(sq, n * 50, r);
    assert_true(counters(sq).n_builds <= counters(sq).n_split_runs + 4);
    assert_true(counters(sq).n_split_runs >= SIZES * (ROUNDS - 4) / 3);
    md_sq_destroy(&sq);
}

/* Calls between callbacks are graphs, also where nothing moves. A callback that fails ends its run alone. */
static void callbacks_stand_between_graphs(void **state)
{
    const int64_t n = 400;
    md_sq *sq = chain_of("llcklkkc", -1, NULL);
    (void)state;
    n_left = 1000;
    for (int r = 0; r < 3 * RUNS; r++) {
        const int from = r < 20 ? 0 : r % BLOCKS, to = r < 20 ? 0 : r * 3 % BLOCKS;
        const int64_t graphs = device.n_graph_launches;
        n_left = r == 15 ? 1 : 1000;
        put(y[to], -1);
        if (r == 15) {
            assert_fails(md_sq_run(sq, stream_at(1), &n, (void *const[]){x[from], y[to]}), MD_UNSUPPORTED, "call 7");
            continue;
        }
        run(sq, 1, n, x[from], y[to]);
        expect_after(8, y[to], n, from * 100);
        if (r >= 2 && r < 20)
            assert_int_equal(device.n_graph_launches, graphs + 2);
    }
    expect_explained(sq, true, "\"segment_graphs\":1,\"launched_calls\":4"); /* the first two calls see x move */
    assert_int_equal(counters(sq).n_split_runs, 3 * RUNS - 2 - 3);
    assert_int_equal(counters(sq).n_graph_runs, 0);
    assert_int_equal(counters(sq).n_failures, 0);
    md_sq_destroy(&sq);
}

/* A chain of kernels alone needs no segments: its few nodes are changed, also where no two runs were equal. */
static void few_nodes_are_changed(void **state)
{
    md_sq *sq = chain_of("kkkkkk", -1, NULL);
    (void)state;
    for (int r = 0; r < RUNS; r++) {
        const int64_t changes = device.n_graph_changes;
        run_moved(sq, 600, r);
        assert_int_equal(device.n_graph_changes - changes, r < 3 ? 0 : 2);
    }
    assert_int_equal(counters(sq).n_graph_runs, RUNS - 3);
    assert_int_equal(counters(sq).n_split_runs, 0);
    assert_int_equal(counters(sq).n_builds, 1);
    md_sq_destroy(&sq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_runs_are_graphs),
        cmocka_unit_test(a_new_size_expects_what_moved),
        cmocka_unit_test(words_that_stay_have_one_graph),
        cmocka_unit_test(one_more_moves),
        cmocka_unit_test(scalars_move),
        cmocka_unit_test(overlaps_stay_right),
        cmocka_unit_test(survive_what_happens_between_runs),
        cmocka_unit_test(launches_serve_without),
        cmocka_unit_test(graphs_are_given_up),
        cmocka_unit_test(sizes_in_turn_make_few_graphs),
        cmocka_unit_test(callbacks_stand_between_graphs),
        cmocka_unit_test(few_nodes_are_changed),
    };
    return cmocka_run_group_tests(tests, set_up_library, tear_down_library);
}
