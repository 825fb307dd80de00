/* Graphs of sequences on a device whose work is done later: made, changed, reused, given up; launches serve else. */
#include "sequence/device_chain.h"

#include "dispatch/select/plan.h"

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

/* A graph of other kernels than its shape's, which no key tells apart: launches serve, and it is made anew. */
static void a_graph_of_other_kernels_is_not_changed(void **state)
{
    float *x = device_memory(), *y[] = {device_memory(), device_memory()};
    (void)state;
    put(x, 5);
    for (int has_fewer = 0; has_fewer < 2; has_fewer++) {
        md_sq *sq = chain(NULL);
        for (int i = 0; i < 3; i++)
            run(sq, 1, 1000, x, y[0]);
        assert_int_equal(counters(sq).n_graph_runs, 1);
        if (has_fewer)
            sq->last->n_launches--;
        else
            sq->last->graph->launch[0].n_params--;
        for (int i = 0; i < 3; i++) {
            put(y[1], 0);
            run(sq, 1, 1000, x, y[1]);
            expect(y[1], 1000, 5);
        }
        assert_int_equal(counters(sq).n_builds, 2);
        assert_int_equal(counters(sq).n_updates, 0);
        sq->last->n_launches += has_fewer;
        md_sq_destroy(&sq);
    }
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

static void put_copy(md_ds_shape_entry *entry, bool is_stand_in)
{
    const md_ds_plan *plan = md_ds_plan_of(entry);
    md_ds_plan *copy = md_ds_plan_create(op);
    assert_non_null(copy);
    memcpy(copy, plan, sizeof *plan + (size_t)op->n_stages * sizeof plan->stage[0]);
    copy->older = NULL;
    copy->is_stand_in = is_stand_in;
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
    put_copy(sq->last->part[0].entry, true); /* the sizes are bound while a better kernel may come */
    md_sq *later = chain(NULL);
    put(y, 0);
    run(later, 1, 777, x, y);
    expect(y, 777, 2);
    put_copy(sq->last->part[0].entry, false);
    for (int i = 0; i < 3; i++)
        run(later, 1, 777, x, y);
    assert_int_equal(counters(later).n_graph_runs, 2);
    assert_int_equal(counters(later).n_binds, 1);
    md_sq_destroy(&later);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_come_and_go),         cmocka_unit_test(nodes_are_changed),
        cmocka_unit_test(graphs_outlive_their_sizes), cmocka_unit_test(equal_plans_bind_nothing),
        cmocka_unit_test(works_without_graphs),       cmocka_unit_test(a_graph_of_other_kernels_is_not_changed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
