/* Plans that are replaced while threads call: switches, upgrades, and first calls of many threads. */
#include "dispatch/cache/marks.h"
#include "dispatch/hybrid/internal.h"
#include "support/check.h"

#include <pthread.h>

static md_ds_shape_entry *entry_at(const md_ds_op *op, int64_t n)
{
    for (int64_t i = 0; i < op->n_entries; i++)
        if (op->ring[i] && op->ring[i]->size[0] == n)
            return op->ring[i];
    return NULL;
}

static void a_switch_replaces_plans(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&marks_world, marks_formula, NULL);
    for (int i = 0; i < 5; i++)
        assert_int_equal(marks_call(op, 3), 0);
    md_ds_shape_entry *entry = entry_at(op, 3);
    assert_true(entry && entry->users == 2); /* the table, the plan */
    md_kn_shape shape = {.size = {3}, .stride = {{1}, {1}}, .extent = {{3}, {3}}};
    for (int round = 0; round < 20; round++) {
        md_ds_pick pick = md_ds_plan_of(entry)->stage[0].pick;
        pick.variant = !pick.variant;
        assert_ok(md_ds_switch(op, entry, &shape, 0, &pick, false));
        for (int i = 0; i < 5; i++)
            assert_int_equal(marks_call(op, 3), pick.variant ? 10 : 0);
        assert_int_equal(entry->users, 2);
    }
    assert_int_equal(op->count.upgrades, 20);
    assert_int_equal(op->count.misses, 1);
    md_ds_op_destroy(&op);
}

/* ---- Threads */

enum { THREADS = 16 };

typedef struct caller {
    md_ds_op *op;
    pthread_barrier_t *start;
    int64_t n, n_shapes;
    int32_t n_wrong;
} caller;

static void *call_often(void *user)
{
    caller *c = user;
    md_status status;
    pthread_barrier_wait(c->start);
    for (int i = 0; i < 200; i++) {
        int32_t mark = marks_call_status(&status, c->op, c->n + i % c->n_shapes);
        c->n_wrong += status != MD_OK || (mark != 0 && mark != 10);
    }
    return NULL;
}

static void crowd(md_ds_op *op, int64_t n, int64_t step, int64_t n_shapes, void (*meanwhile)(md_ds_op *op))
{
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    caller callers[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){op, &start, n + step * i, n_shapes, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, &callers[i]), 0);
    }
    meanwhile(op);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(callers[i].n_wrong, 0);
    }
    pthread_barrier_destroy(&start);
}

static void release(md_ds_op *op)
{
    (void)op;
    marks_hold(NULL);
}

static void upgrade_under_calls(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        marks_hold("COPY 10");
        md_ds_op_options o = script_options();
        o.is_async = true;
        o.max_shapes = round % 2 ? 8 : 1000;
        md_ds_op *op = script_op(&marks_world, round < 2 ? marks_formula : "scalar a; Y[n] = X[n] - a", &o);
        crowd(op, 1000, round < 2 ? 0 : 50, 50, release);
        md_ds_op_wait(op);
        assert_int_equal(op->n_waiting, 0);
        for (int64_t n = 1001; n < 1050; n++)
            assert_int_equal(marks_call(op, n), 10);
        md_ds_op_destroy(&op);
    }
}

static void nothing(md_ds_op *op)
{
    (void)op;
}

/* 16 first calls of one shape, and of 16, that nothing fits: what is made for them is made once. */
static void first_calls_of_many_threads(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = 5000;
    script_now.row[SCRIPT_BETA][0].hi = 0;
    script_now.row[SCRIPT_BETA][0].legal_lo = 5000;
    marks_world.device.compile_ms = 5;
    for (int64_t step = 0; step < 2; step++) {
        md_ds_op *op = script_op(&marks_world, step ? marks_formula : "scalar a; Y[n] = X[n] + a", NULL);
        assert_int_equal(op->stage[0].n_variants, 1);
        int32_t n = marks_world.device.n_compiled;
        crowd(op, 6000, step, 1, nothing);
        assert_int_equal(op->stage[0].n_variants, 2);
        assert_int_equal(op->count.adopted, 1);
        assert_true(marks_world.device.n_compiled <= n + 1);
        md_ds_op_destroy(&op);
    }
}

static void switch_often(md_ds_op *op)
{
    md_kn_shape shape = {.size = {1003}, .stride = {{1}, {1}}, .extent = {{1003}, {1003}}};
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&op->lock_of_entries);
        md_ds_shape_entry *entry = entry_at(op, 1003);
        if (entry)
            atomic_fetch_add(&entry->users, 1);
        pthread_mutex_unlock(&op->lock_of_entries);
        if (!entry) {
            sched_yield();
            continue;
        }
        md_ds_pick pick = md_ds_plan_of(entry)->stage[0].pick;
        pick.variant = !pick.variant;
        assert_ok(md_ds_switch(op, entry, &shape, 0, &pick, false));
        atomic_fetch_sub(&entry->users, 1);
    }
}

static void switches_under_calls(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&marks_world, marks_formula, NULL);
    crowd(op, 1000, 0, 8, switch_often);
    md_ds_shape_entry *entry = entry_at(op, 1003);
    for (int i = 0; i < 5; i++)
        /* no plan of another way is left */
        assert_int_equal(marks_call(op, 1003), md_ds_plan_of(entry)->stage[0].pick.variant ? 10 : 0);
    md_ds_op_destroy(&op);
}

typedef struct one_call {
    md_ds_op *op;
    pthread_barrier_t *start;
    int64_t n;
    int32_t mark;
} one_call;

static void *call_once(void *user)
{
    one_call *c = user;
    md_status status;
    pthread_barrier_wait(c->start);
    c->mark = marks_call_status(&status, c->op, c->n);
    return NULL;
}

/* Of a call and a switch that may replace an unused plan alone, one is first: no call has the old plan's bits where the
 * switch took place. */
static void a_used_plan_is_not_replaced(void **state)
{
    (void)state;
    enum { ROUNDS = 300 };
    int32_t n_switched = 0;
    md_ds_op *op = script_op(&marks_world, marks_formula, NULL);
    for (int64_t n = 1000; n < 1000 + ROUNDS; n++) {
        pthread_t thread;
        pthread_barrier_t start;
        one_call call = {op, &start, n, -1};
        md_kn_shape shape = {.size = {n}, .stride = {{1}, {1}}, .extent = {{n}, {n}}};
        const int32_t mark = marks_call(op, n);
        md_ds_shape_entry *entry = entry_at(op, n);
        md_ds_pick pick = md_ds_plan_of(entry)->stage[0].pick;
        pick.variant = !pick.variant;
        assert_int_equal(md_ds_switch(op, entry, &shape, 0, &pick, true), MD_NOT_FOUND);
        atomic_store(&md_ds_plan_of(entry)->use, MD_DS_UNUSED);
        pthread_barrier_init(&start, NULL, 2);
        assert_int_equal(pthread_create(&thread, NULL, call_once, &call), 0);
        pthread_barrier_wait(&start);
        for (int64_t i = 0; i < n % 16; i++)
            sched_yield();
        const md_status status = md_ds_switch(op, entry, &shape, 0, &pick, true);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&start);
        assert_true(status == MD_OK || status == MD_NOT_FOUND);
        assert_int_equal(call.mark, status == MD_OK ? 10 - mark : mark);
        assert_int_equal(marks_call(op, n), call.mark);
        n_switched += status == MD_OK;
    }
    printf("%d of %d calls came second\n", n_switched, ROUNDS);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_switch_replaces_plans, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(upgrade_under_calls, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(first_calls_of_many_threads, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(switches_under_calls, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(a_used_plan_is_not_replaced, marks_set_up, marks_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
