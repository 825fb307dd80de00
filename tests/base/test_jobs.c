/* Background jobs of the process. */
#include "support/check.h"

#include "base/clock.h"
#include "base/task/jobs.h"
#include "base/task/pool.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The time of day of this program, which is_ahead makes an hour too late. */
static _Atomic bool is_ahead;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int failed = (int)syscall(SYS_clock_gettime, clock, out);
    if (!failed && clock == CLOCK_REALTIME && atomic_load(&is_ahead))
        out->tv_sec += 3600;
    return failed;
}

static void add_one(void *context)
{
    atomic_fetch_add((_Atomic int *)context, 1);
}

static void destroy_waits_for_all_jobs(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= 4; threads++) {
        for (int n = 0; n <= 300; n += 100) {
            md_pool *pool = NULL;
            _Atomic int count = 0;
            assert_ok(md_pool_create(&pool, threads));
            for (int i = 0; i < n; i++)
                md_jobs_submit(md_pool_jobs(pool), add_one, &count);
            md_pool_destroy(&pool);
            assert_int_equal(atomic_load(&count), n);
        }
    }
}

typedef struct meeting {
    pthread_barrier_t barrier;
    _Atomic int count;
} meeting;

static void meet(void *context)
{
    meeting *m = context;
    pthread_barrier_wait(&m->barrier);
    atomic_fetch_add(&m->count, 1);
}

/* As many jobs as threads run at once: each waits for all others. Fewer threads would hang here. */
static void jobs_run_side_by_side(void **state)
{
    (void)state;
    enum { N = 4 };
    md_pool *pool = NULL;
    meeting m = {.count = 0};
    assert_int_equal(pthread_barrier_init(&m.barrier, NULL, N), 0);
    assert_ok(md_pool_create(&pool, N));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N; i++)
            md_jobs_submit(md_pool_jobs(pool), meet, &m);
    }
    md_pool_destroy(&pool);
    assert_int_equal(atomic_load(&m.count), 10 * N);
    pthread_barrier_destroy(&m.barrier);
}

typedef struct chain {
    md_pool *pool;
    _Atomic int left, loops;
} chain;

static void loop_body(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    (void)scratch;
    atomic_fetch_add((_Atomic int *)context, (int)(last - first));
}

/* A job that submits the next one, and runs a loop, also while the pool is being destroyed. */
static void next_in_chain(void *context)
{
    chain *c = context;
    md_pool_loop(c->pool, 8, 1, 0, loop_body, &c->loops);
    if (atomic_fetch_sub(&c->left, 1) > 1)
        md_jobs_submit(md_pool_jobs(c->pool), next_in_chain, c);
}

static void jobs_submit_jobs(void **state)
{
    (void)state;
    chain c = {.left = 200};
    assert_ok(md_pool_create(&c.pool, 3));
    md_pool *pool = c.pool; /* destroy clears its handle at the end only, but jobs read c.pool until then */
    md_jobs_submit(md_pool_jobs(pool), next_in_chain, &c);
    md_pool_destroy(&pool);
    assert_int_equal(atomic_load(&c.left), 0);
    assert_int_equal(atomic_load(&c.loops), 200 * 8);
}

typedef struct in_order {
    int32_t *n; /* jobs that ran */
    int32_t number; /* out: which it was */
} in_order;

static void note_order(void *context)
{
    in_order *o = context;
    o->number = (*o->n)++;
}

static void wait_for(void *context)
{
    while (!atomic_load((_Atomic bool *)context))
        sched_yield();
}

/* With one thread: each job of the queue can be put in front, and the others keep their order. */
static void hastened_jobs_run_first(void **state)
{
    (void)state;
    enum { N = 5 };
    for (int32_t hastened = -1; hastened <= N; hastened++) {
        md_pool *pool = NULL;
        _Atomic bool flag = false;
        int32_t n = 0;
        in_order job[N + 1];
        assert_ok(md_pool_create(&pool, 1));
        md_jobs_submit(md_pool_jobs(pool), wait_for, &flag);
        for (int32_t i = 0; i < N; i++) {
            job[i] = (in_order){&n, -1};
            md_jobs_submit(md_pool_jobs(pool), note_order, &job[i]);
        }
        job[N] = (in_order){&n, -1};
        if (hastened >= 0)
            md_jobs_hasten(md_pool_jobs(pool), note_order, &job[hastened]); /* the last was never submitted */
        md_jobs_submit(md_pool_jobs(pool), note_order, &job[N]); /* the queue's end is still right */
        atomic_store(&flag, true);
        md_pool_destroy(&pool);
        for (int32_t i = 0; i <= N; i++) {
            const bool is_moved = hastened >= 0 && hastened < N;
            assert_int_equal(job[i].number, !is_moved ? i : i == hastened ? 0 : i < hastened ? i + 1 : i);
        }
    }
}

/* With one thread: what is to come last waits for what is queued after it, and keeps its order. */
static void last_jobs_run_last(void **state)
{
    (void)state;
    enum { N = 6 };
    md_pool *pool = NULL;
    _Atomic bool flag = false;
    int32_t n = 0;
    in_order job[N];
    assert_ok(md_pool_create(&pool, 1));
    md_jobs_submit(md_pool_jobs(pool), wait_for, &flag);
    for (int32_t i = 0; i < N; i++) {
        job[i] = (in_order){&n, -1};
        (i % 2 ? md_jobs_submit : md_jobs_submit_last)(md_pool_jobs(pool), note_order, &job[i]);
    }
    atomic_store(&flag, true);
    md_pool_destroy(&pool);
    for (int32_t i = 0; i < N; i++)
        assert_int_equal(job[i].number, i / 2 + (i % 2 ? 0 : N / 2));
}

/* Jobs for later run on another thread, all of them, also those that are left when the pool is destroyed. */
static void note_thread(void *context)
{
    *(pthread_t *)context = pthread_self();
}

static void later_jobs_run_elsewhere(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= 2; threads++) {
        md_pool *pool = NULL;
        _Atomic int count = 0;
        pthread_t thread[3] = {pthread_self(), pthread_self(), pthread_self()};
        assert_ok(md_pool_create(&pool, threads));
        md_jobs_expect_later(md_pool_jobs(pool));
        md_jobs_expect_later(md_pool_jobs(pool));
        for (int i = 0; i < 3; i++)
            md_jobs_submit_later(md_pool_jobs(pool), note_thread, &thread[i]);
        for (int i = 0; i < 100; i++)
            md_jobs_submit_later(md_pool_jobs(pool), add_one, &count);
        while (atomic_load(&count) < 100)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        for (int i = 0; i < 100; i++)
            md_jobs_submit_later(md_pool_jobs(pool), add_one, &count);
        md_pool_destroy(&pool);
        assert_int_equal(atomic_load(&count), 200);
        for (int i = 0; i < 3; i++)
            assert_false(pthread_equal(thread[i], pthread_self()));
    }
}

/* A job that is to come after a while does not come before it, unless somebody hastens it or the queue ends. */
static void jobs_come_after_a_while(void **state)
{
    (void)state;
    const uint64_t soon_ns = 20000000, never_ns = UINT64_C(1000000000000);
    md_pool *pool = NULL;
    _Atomic int count = 0;
    assert_ok(md_pool_create(&pool, 1));
    md_jobs *jobs = md_pool_jobs(pool);
    assert_false(md_jobs_submit_after(jobs, 0, add_one, &count)); /* no thread runs it */
    md_jobs_expect_later(jobs);
    const uint64_t start_ns = md_clock_ns();
    assert_true(md_jobs_submit_after(jobs, never_ns, add_one, &count));
    assert_true(md_jobs_submit_after(jobs, soon_ns, add_one, &count));
    while (atomic_load(&count) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(md_clock_ns() - start_ns >= soon_ns);
    assert_int_equal(atomic_load(&count), 1);
    md_jobs_hasten_later(jobs, add_one);
    while (atomic_load(&count) == 1)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(md_jobs_submit_after(jobs, never_ns, add_one, &count));
    md_pool_destroy(&pool);
    assert_int_equal(atomic_load(&count), 3);
}

/* A time of day that is set back by an hour, between reading it and waiting, delays no job. */
static void clocks_may_be_set_back(void **state)
{
    (void)state;
    enum { PAUSE_NS = 1000000, N_PAUSES = 20000 };
    md_pool *pool = NULL;
    _Atomic int count = 0;
    assert_ok(md_pool_create(&pool, 1));
    md_jobs_expect_later(md_pool_jobs(pool));
    atomic_store(&is_ahead, true);
    assert_true(md_jobs_submit_after(md_pool_jobs(pool), 20000000, add_one, &count));
    for (int i = 0; i < N_PAUSES && atomic_load(&count) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    atomic_store(&is_ahead, false);
    assert_int_equal(atomic_load(&count), 1);
    md_pool_destroy(&pool);
}

/* A caller that is pinned to one processor shares it with no background thread. */
static void note_processors(void *context)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    *(int *)context = CPU_COUNT(&set);
}

static void jobs_run_where_the_pool_was_made(void **state)
{
    (void)state;
    md_pool *pool = NULL;
    cpu_set_t all, one;
    int n_processors[2] = {0};
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_ok(md_pool_create(&pool, 2));
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    md_jobs_expect_later(md_pool_jobs(pool));
    md_jobs_submit(md_pool_jobs(pool), note_processors, &n_processors[0]);
    md_jobs_submit_later(md_pool_jobs(pool), note_processors, &n_processors[1]);
    md_pool_destroy(&pool);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(n_processors[0], CPU_COUNT(&all));
    assert_int_equal(n_processors[1], CPU_COUNT(&all));
}

typedef struct slow {
    int to; /* a pipe: '<' when it begins, '>' when it ends, which is a while after exit() began */
} slow;

static _Atomic bool has_exit_begun;

static void note_exit(void)
{
    atomic_store(&has_exit_begun, true);
}

static void run_slowly(void *context)
{
    const slow *s = context;
    (void)!write(s->to, "<", 1);
    while (!atomic_load(&has_exit_begun))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    (void)!write(s->to, ">", 1);
}

/* exit() waits for the job that runs, and lets the other one not begin, whichever queue they are in. */
static void exit_waits_for_running_jobs(void **state)
{
    (void)state;
    for (int is_later = 0; is_later < 2; is_later++) {
        int end[2];
        char text[8] = "";
        assert_int_equal(pipe(end), 0);
        const pid_t child = fork();
        if (child == 0) {
            md_pool *pool = NULL;
            slow s = {end[1]};
            struct pollfd begun = {.fd = end[0], .events = POLLIN};
            alarm(20);
            md_jobs_rest_at_exit();
            atexit(note_exit); /* called before that */
            if (md_pool_create(&pool, 1) != MD_OK)
                _exit(1);
            md_jobs_expect_later(md_pool_jobs(pool));
            for (int i = 0; i < 2; i++)
                is_later ? md_jobs_submit_later(md_pool_jobs(pool), run_slowly, &s)
                         : md_jobs_submit(md_pool_jobs(pool), run_slowly, &s);
            (void)poll(&begun, 1, 10000);
            exit(0);
        }
        assert_true(child > 0);
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        close(end[1]);
        const ssize_t n = read(end[0], text, sizeof text - 1);
        close(end[0]);
        assert_int_equal(status, 0);
        assert_int_equal(n, 2);
        assert_string_equal(text, "<>");
    }
}

static void later_jobs_need_no_expectation(void **state)
{
    (void)state;
    md_pool *pool = NULL;
    _Atomic int count = 0;
    assert_ok(md_pool_create(&pool, 2));
    md_jobs_submit_later(md_pool_jobs(pool), add_one, &count);
    md_pool_destroy(&pool);
    assert_int_equal(atomic_load(&count), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroy_waits_for_all_jobs),
        cmocka_unit_test(jobs_run_side_by_side),
        cmocka_unit_test(jobs_submit_jobs),
        cmocka_unit_test(hastened_jobs_run_first),
        cmocka_unit_test(last_jobs_run_last),
        cmocka_unit_test(later_jobs_run_elsewhere),
        cmocka_unit_test(jobs_come_after_a_while),
        cmocka_unit_test(clocks_may_be_set_back),
        cmocka_unit_test(exit_waits_for_running_jobs),
        cmocka_unit_test(jobs_run_where_the_pool_was_made),
        cmocka_unit_test(later_jobs_need_no_expectation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
