/* The plan cache: eviction, plan entries that are too short, and many threads on few shape entries. */
#include "dispatch/call/warm.h"
#include "dispatch/call/thread_cache.h"
#include "support/check.h"

#include <pthread.h>
#include <time.h>

/* Plan entries hold shape entries; a shape that finds no place empties all plan entries. */
static void cached_plans_let_go_of_shapes(void **state)
{
    (void)state;
    md_ds_op *op = warm_op(4);
    _Alignas(64) static warm_vectors v;
    uint64_t calls = 0;
    for (int round = 0; round < 20; round++)
        for (int64_t n = 1; n < 40; n++) {
            warm_shape(&v, n, 1, 0);
            for (int i = 0; i < 4; i++, calls++) {
                assert_ok(warm_call(op, &v, 0.5 * (double)n));
                assert_true(warm_is_right(&v, n, 1, 0, 0.5 * (double)n));
            }
        }
    assert_true(md_table_count(op->entries) <= 4);
    assert_true(op->count.evictions > 100);
    assert_int_equal(warm_all_calls(op), calls);
    md_ds_op_destroy(&op);
}

/* Plan entries are as wide as the first plan needs, and somewhat more. */
static void long_plans_after_short_ones(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = 50;
    script_row *wide = script_allow(SCRIPT_BETA, 0, 2.0), *too_wide = script_allow(SCRIPT_GAMMA, 0, 3.0);
    wide->lo = 51;
    wide->hi = 70;
    wide->extra = 60;
    too_wide->lo = 71;
    too_wide->extra = 200;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v;
    for (int round = 0; round < 4; round++)
        for (int64_t n = 40; n <= 78; n += 19) { /* 40, 59, 78 */
            warm_shape(&v, n, 1, 0);
            for (int i = 0; i < 5; i++) {
                assert_ok(warm_call(op, &v, 0.25 * round));
                assert_true(warm_is_right(&v, n, 1, 0, 0.25 * round));
            }
        }
    assert_int_equal(warm_all_calls(op), 4 * 3 * 5);
    assert_int_equal(warm_slow_calls(op),
                     2 + 2 + 20 + 1); /* the narrow one is written anew once; the widest has no plan */
    md_ds_op_destroy(&op);
}

/* ---- Threads */

enum { THREADS = 6, ROUNDS = 4000 };

typedef struct worker {
    md_ds_op *const *op;
    int n_ops;
    uint64_t seed;
    int64_t n_calls[2];
    int n_wrong;
} worker;

static void *work(void *user)
{
    worker *w = user;
    warm_vectors *v = aligned_alloc(64, (sizeof *v + 63) / 64 * 64);
    for (int i = 0; i < 400; i++)
        v->x[i] = (float)(i + 1);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t r = check_random(&w->seed);
        int which = (int)(r >> 60) % w->n_ops;
        int64_t n = r % 3 ? 1 + (int64_t)(r >> 8) % 6 : 1 + (int64_t)(r >> 8) % 60, stride = 1 + (int64_t)(r >> 16) % 2;
        double a = (double)(r >> 40 & 255);
        warm_shape(v, n, stride, (int)(r >> 32 & 1));
        w->n_wrong += warm_call(w->op[which], v, a) != MD_OK || !warm_is_right(v, n, stride, (int)(r >> 32 & 1), a);
        w->n_calls[which]++;
    }
    free(v);
    return NULL;
}

static void *watch(void *user)
{
    md_ds_op *const *op = user;
    for (int i = 0; i < 200; i++)
        (void)warm_all_calls(op[i % 2]);
    return NULL;
}

static void many_threads_few_entries(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    md_ds_op *op[2] = {warm_op(16), warm_op(1000)};
    for (int round = 0; round < 3; round++) { /* threads end, and others take their places */
        pthread_t t[THREADS], watcher;
        worker w[THREADS];
        uint64_t before[2] = {warm_all_calls(op[0]), warm_all_calls(op[1])}, made[2] = {0, 0};
        for (int i = 0; i < THREADS; i++) {
            w[i] = (worker){.op = op, .n_ops = 2, .seed = check_random(&seed)};
            assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
        }
        assert_int_equal(pthread_create(&watcher, NULL, watch, op), 0);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(t[i], NULL);
            assert_int_equal(w[i].n_wrong, 0);
            made[0] += (uint64_t)w[i].n_calls[0];
            made[1] += (uint64_t)w[i].n_calls[1];
        }
        pthread_join(watcher, NULL);
        for (int k = 0; k < 2; k++)
            assert_int_equal(warm_all_calls(op[k]) - before[k], made[k]);
    }
    int n = 0;
    for (const md_ds_thread *p = warm_world.runtime.threads; p; p = p->next)
        n++;
    assert_true(n <= THREADS + 2);
    assert_true(warm_slow_calls(op[1]) < 3 * THREADS * ROUNDS / 4);
    md_ds_op_destroy(&op[0]);
    md_ds_op_destroy(&op[1]);
}

enum { MANY_THREADS = MD_DS_SHARDS + 8, MANY_CALLS = 20000 };

typedef struct one_of_many {
    md_ds_op *op;
    pthread_barrier_t *together;
    int32_t number;
    _Atomic bool has_number;
    uint64_t n_calls;
} one_of_many;

/* Those that have no counter of their own call often, all at once. */
static void *call_as_one_of_many(void *user)
{
    one_of_many *m = user;
    warm_vectors *v = aligned_alloc(64, (sizeof *v + 63) / 64 * 64);
    warm_shape(v, 8, 1, 0);
    pthread_barrier_wait(m->together);
    m->number = md_ds_thread_get(m->op->runtime, m->op->runtime_id)->number;
    pthread_barrier_wait(m->together);
    for (int i = 0; i < (m->number < MD_DS_SHARDS - 1 ? 1 : MANY_CALLS); i++)
        m->n_calls += warm_call(m->op, v, 1.0) == MD_OK;
    pthread_barrier_wait(m->together); /* no thread takes the place of one that has ended */
    free(v);
    return NULL;
}

/* Threads that begin at once have numbers of their own; the last ones share counters, and lose no call. */
static void more_threads_than_counters(void **state)
{
    (void)state;
    md_ds_op *op = warm_op(16);
    pthread_barrier_t together;
    pthread_t thread[MANY_THREADS];
    one_of_many m[MANY_THREADS];
    bool is_taken[MANY_THREADS] = {false};
    uint64_t n_calls = 0;
    assert_int_equal(pthread_barrier_init(&together, NULL, MANY_THREADS), 0);
    for (int i = 0; i < MANY_THREADS; i++) {
        m[i] = (one_of_many){.op = op, .together = &together};
        assert_int_equal(pthread_create(&thread[i], NULL, call_as_one_of_many, &m[i]), 0);
    }
    for (int i = 0; i < MANY_THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < MANY_THREADS; i++) {
        assert_in_range(m[i].number, 0, MANY_THREADS - 1);
        assert_false(is_taken[m[i].number]);
        is_taken[m[i].number] = true;
        n_calls += m[i].n_calls;
    }
    assert_int_equal(n_calls, MD_DS_SHARDS - 1 + 9 * MANY_CALLS);
    assert_int_equal(md_ds_calls_of(op), n_calls);
    assert_int_equal(warm_all_calls(op), n_calls);
    pthread_barrier_destroy(&together);
    md_ds_op_destroy(&op);
}

static void *get_thread(void *user)
{
    one_of_many *m = user;
    m->number = md_ds_thread_get(m->op->runtime, m->op->runtime_id)->number;
    atomic_store(&m->has_number, true);
    return NULL;
}

/* A thread gets its number under the lock, so that no two get one. The wait is for what must not happen. */
static void numbers_are_given_under_a_lock(void **state)
{
    (void)state;
    md_ds_op *op = warm_op(16);
    one_of_many m = {.op = op, .number = -1};
    pthread_t thread;
    pthread_mutex_lock(&warm_world.runtime.lock_of_threads);
    assert_int_equal(pthread_create(&thread, NULL, get_thread, &m), 0);
    for (int i = 0; i < 50 && !atomic_load(&m.has_number); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const bool was_early = atomic_load(&m.has_number);
    pthread_mutex_unlock(&warm_world.runtime.lock_of_threads);
    pthread_join(thread, NULL);
    assert_false(was_early);
    assert_true(m.number >= 0);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cached_plans_let_go_of_shapes, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(long_plans_after_short_ones, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(many_threads_few_entries, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(more_threads_than_counters, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(numbers_are_given_under_a_lock, warm_set_up, warm_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
