/* The thread pool. */
#include "support/check.h"

#include "base/task/pool.h"
#include "base/task/thread.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_BLOCKS = 5000 };

typedef struct loop_record {
    _Atomic uint32_t hits[MAX_BLOCKS];
    _Atomic uint32_t lane_busy[64];
    _Atomic int is_wrong;
    int64_t grain, n_blocks;
    int32_t threads;
    size_t scratch_bytes;
} loop_record;

/* Each block once, pieces of the grain, one body a lane, scratch that nobody else writes. */
static void check_body(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    loop_record *r = context;
    if (lane < 0 || lane >= r->threads || first >= last || last > r->n_blocks ||
        (last - first != r->grain && last != r->n_blocks && r->threads > 1) ||
        (r->scratch_bytes > 0) != (scratch != NULL)) {
        atomic_store(&r->is_wrong, 1);
        return;
    }
    if (atomic_fetch_add(&r->lane_busy[lane], 1) != 0)
        atomic_store(&r->is_wrong, 2);
    if (scratch) {
        if ((uintptr_t)scratch % 64 != 0)
            atomic_store(&r->is_wrong, 3);
        memset(scratch, (int)first & 0x7f, r->scratch_bytes);
    }
    for (int64_t i = first; i < last; i++)
        atomic_fetch_add_explicit(&r->hits[i], 1, memory_order_relaxed);
    for (size_t i = 0; i < r->scratch_bytes; i++) {
        if (((unsigned char *)scratch)[i] != ((int)first & 0x7f))
            atomic_store(&r->is_wrong, 4);
    }
    atomic_fetch_sub(&r->lane_busy[lane], 1);
}

/* CMocka's asserts work on the main thread only. */
static int is_right(md_pool *pool, loop_record *r, int64_t n_blocks, int64_t grain, size_t scratch_bytes)
{
    memset(r, 0, sizeof *r);
    r->n_blocks = n_blocks;
    r->grain = grain;
    r->threads = md_pool_threads(pool);
    r->scratch_bytes = scratch_bytes;
    if (md_pool_loop(pool, n_blocks, grain, scratch_bytes, check_body, r) != MD_OK || atomic_load(&r->is_wrong))
        return 0;
    for (int64_t i = 0; i < n_blocks; i++) {
        if (atomic_load(&r->hits[i]) != 1)
            return 0;
    }
    return 1;
}

static void run_checked(md_pool *pool, loop_record *r, int64_t n_blocks, int64_t grain, size_t scratch_bytes)
{
    if (!is_right(pool, r, n_blocks, grain, scratch_bytes))
        fail_msg("%lld blocks by %lld, %zu bytes: wrong %d", (long long)n_blocks, (long long)grain, scratch_bytes,
                 atomic_load(&r->is_wrong));
}

static void every_block_runs_once(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    static loop_record r;
    for (int32_t threads = 1; threads <= 16; threads = threads < 4 ? threads + 1 : threads * 2) {
        md_pool *pool = NULL;
        assert_ok(md_pool_create(&pool, threads));
        assert_in_range(md_pool_threads(pool), 1, threads);
        run_checked(pool, &r, 0, 1, 64);
        run_checked(pool, &r, 1, 1, 0);
        run_checked(pool, &r, 1, 1, 100);
        run_checked(pool, &r, 10, INT64_MAX, 8);
        for (int i = 0; i < 300; i++) {
            int64_t n = (int64_t)(check_random(&seed) % (i % 10 ? 40 : MAX_BLOCKS)) + 1;
            int64_t grain = (int64_t)(check_random(&seed) % 7) + 1;
            run_checked(pool, &r, n, grain, check_random(&seed) % 2 ? check_random(&seed) % 3000 : 0);
        }
        md_pool_destroy(&pool);
        assert_null(pool);
    }
    md_pool_destroy(NULL);
}

typedef struct caller {
    md_pool *pool;
    uint64_t seed;
    int n_loops, n_wrong;
} caller;

static void *call_loops(void *context)
{
    caller *c = context;
    loop_record *r = malloc(sizeof *r);
    for (int i = 0; r && i < c->n_loops; i++) {
        uint64_t random = check_random(&c->seed);
        int64_t n_blocks = (int64_t)(random % 60) + 1, grain = (int64_t)(random >> 8 & 3) + 1;
        c->n_wrong += !is_right(c->pool, r, n_blocks, grain, (random >> 20) % 2 * 200);
        if (random % 64 == 0) /* now and then the workers go to sleep */
            nanosleep(&(struct timespec){0, 200 * 1000}, NULL);
    }
    free(r);
    return NULL;
}

static void hammer(int32_t threads, int n_callers, int n_loops)
{
    md_pool *pool = NULL;
    uint64_t seed = check_seed();
    pthread_t thread[24];
    caller callers[24];
    assert_ok(md_pool_create(&pool, threads));
    for (int i = 0; i < n_callers; i++) {
        callers[i] = (caller){pool, check_random(&seed), n_loops, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, call_loops, &callers[i]), 0);
    }
    for (int i = 0; i < n_callers; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < n_callers; i++)
        assert_int_equal(callers[i].n_wrong, 0);
    md_pool_destroy(&pool);
}

static void several_callers_share_the_workers(void **state)
{
    (void)state;
    hammer(2, 2, 3000);
    hammer(4, 4, 1000);
    hammer(3, 24, 100); /* more loops than slots */
}

static void inner_body(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    (void)scratch;
    atomic_fetch_add((_Atomic int64_t *)context, last - first);
}

typedef struct nested {
    md_pool *pool;
    _Atomic int64_t sum;
} nested;

static void outer_body(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    nested *n = context;
    (void)lane;
    (void)scratch;
    for (int64_t i = first; i < last; i++)
        md_pool_loop(n->pool, 10, 1, 0, inner_body, &n->sum);
}

static void loops_nest(void **state)
{
    (void)state;
    nested n = {0};
    assert_ok(md_pool_create(&n.pool, 3));
    for (int i = 0; i < 200; i++)
        md_pool_loop(n.pool, 20, 1, 0, outer_body, &n);
    assert_int_equal(atomic_load(&n.sum), 200 * 20 * 10);
    md_pool_destroy(&n.pool);
}

static void slow_body(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    (void)scratch;
    /* The last piece ends well after the caller has nothing left to do, so that it sleeps. */
    if (first > 0)
        nanosleep(&(struct timespec){0, 3 * 1000 * 1000}, NULL);
    atomic_fetch_add((_Atomic int64_t *)context, last - first);
}

static void caller_waits_for_slow_workers(void **state)
{
    (void)state;
    md_pool *pool = NULL;
    _Atomic int64_t sum = 0;
    assert_ok(md_pool_create(&pool, 4));
    for (int i = 1; i <= 20; i++) {
        assert_ok(md_pool_loop(pool, 4, 1, 0, slow_body, &sum));
        assert_int_equal(atomic_load(&sum), i * 4);
    }
    md_pool_destroy(&pool);
}

typedef struct meeting {
    _Atomic int n_here, is_late;
    int n;
} meeting;

static void meet(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    meeting *m = context;
    (void)first, (void)last, (void)lane, (void)scratch;
    atomic_fetch_add(&m->n_here, 1);
    for (int ms = 0; atomic_load(&m->n_here) < m->n; ms++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (ms > 20000)
            atomic_store(&m->is_late, 1);
        if (atomic_load(&m->is_late))
            return;
    }
}

/* Workers that sleep are woken, as many as there are pieces for them: each piece waits for all. */
static void sleeping_workers_are_woken(void **state)
{
    (void)state;
    md_pool *pool = NULL;
    assert_ok(md_pool_create(&pool, 4));
    for (int n = 2; n <= 4; n++) {
        meeting m = {.n = n};
        nanosleep(&(struct timespec){.tv_nsec = 20000000},
                  NULL); /* they sleep after a millisecond; if not, all the same */
        assert_ok(md_pool_loop(pool, n, 1, 0, meet, &m));
        assert_false(atomic_load(&m.is_late));
    }
    md_pool_destroy(&pool);
}

static void bad_counts_are_refused(void **state)
{
    (void)state;
    md_pool *pool = NULL;
    assert_fails(md_pool_create(&pool, 0), MD_INVALID_ARGUMENT, "0 threads");
    assert_fails(md_pool_create(&pool, 2000), MD_INVALID_ARGUMENT, "2000 threads");
    assert_null(pool);
    assert_ok(md_pool_create(&pool, 2));
    _Atomic int64_t sum = 0;
    assert_fails(md_pool_loop(pool, 4, 1, SIZE_MAX - 8, inner_body, &sum), MD_OUT_OF_MEMORY, "memory");
    assert_int_equal(atomic_load(&sum), 0);
    assert_ok(md_pool_loop(pool, 4, 1, 8, inner_body, &sum));
    assert_int_equal(atomic_load(&sum), 4);
    md_pool_destroy(&pool);
}

static void add_blocks(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane, (void)scratch;
    atomic_fetch_add((_Atomic int64_t *)context, last - first);
}

static void add_one(void *context)
{
    atomic_fetch_add((_Atomic int64_t *)context, 1);
}

/* A child has none of its parent's threads: its loops and jobs run on the caller, and nothing waits for who is not
 * there. */
static void a_forked_child_works_alone(void **state)
{
    (void)state;
    md_pool *pool = NULL;
    _Atomic int64_t n = 0;
    int ended = 0;
    assert_ok(md_pool_create(&pool, 4));
    assert_ok(md_pool_loop(pool, 1000, 1, 0, add_blocks, (void *)&n));
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        n = 0;
        const int is_good = md_pool_loop(pool, 1000, 1, 64, add_blocks, (void *)&n) == MD_OK && n == 1000;
        md_jobs_submit(md_pool_jobs(pool), add_one, (void *)&n);
        md_pool_destroy(&pool);
        _exit(is_good && n == 1001 && !pool ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    assert_ok(md_pool_loop(pool, 1000, 1, 0, add_blocks, (void *)&n));
    assert_int_equal(n, 2000);
    md_pool_destroy(&pool);
}

/* ---- A limit of threads, as of processes */

static _Atomic int n_threads, most_threads = INT32_MAX;

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_join(pthread_t, void **);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *user)
{
    if (atomic_fetch_add(&n_threads, 1) < atomic_load(&most_threads))
        return __real_pthread_create(thread, attributes, body, user);
    atomic_fetch_sub(&n_threads, 1);
    return EAGAIN;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
    const int status = __real_pthread_join(thread, result);
    atomic_fetch_sub(&n_threads, 1);
    return status;
}

/* A compiler needs MD_THREAD_ROOM: workers are as many as leave that, none if need be. */
static void a_pool_leaves_room_for_others(void **state)
{
    static const struct {
        int most, workers;
    } rows[] = {{100, 15},
                {15 + MD_THREAD_ROOM, 15},
                {14 + MD_THREAD_ROOM, 14},
                {MD_THREAD_ROOM + 1, 1},
                {MD_THREAD_ROOM, 0},
                {3, 0},
                {0, 0}};
    static loop_record r;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        md_pool *pool = NULL;
        atomic_store(&n_threads, 0);
        atomic_store(&most_threads, rows[i].most);
        assert_ok(md_pool_create(&pool, 16));
        const int32_t threads = md_pool_threads(pool);
        run_checked(pool, &r, 1000, 3, 64);
        md_pool_destroy(&pool);
        atomic_store(&most_threads, INT32_MAX);
        if (threads != rows[i].workers + 1 || n_threads != 0)
            fail_msg("at most %d threads: a pool of %d, %d left", rows[i].most, (int)threads, n_threads);
    }
}

/* ---- What a pool allocates goes with it */

static size_t bytes_in_use(void)
{
    const struct mallinfo2 facts = mallinfo2(); /* zeros with a sanitizer, which finds leaks itself */
    return facts.uordblks + facts.hblkhd;
}

static void a_pool_frees_its_scratch(void **state)
{
    enum { SCRATCH = 1 << 20, POOLS = 40 };
    static loop_record r;
    size_t before = 0;
    (void)state;
    for (int i = -2; i < POOLS; i++) {
        md_pool *pool = NULL;
        assert_ok(md_pool_create(&pool, 3));
        run_checked(pool, &r, 2, 1, SCRATCH);
        run_checked(pool, &r, 1, 1, SCRATCH * 2);
        md_pool_destroy(&pool);
        before = i < 0 ? bytes_in_use() : before;
    }
    assert_true(bytes_in_use() < before + (size_t)SCRATCH * POOLS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_leaves_room_for_others),     cmocka_unit_test(a_pool_frees_its_scratch),
        cmocka_unit_test(a_forked_child_works_alone),        cmocka_unit_test(every_block_runs_once),
        cmocka_unit_test(several_callers_share_the_workers), cmocka_unit_test(loops_nest),
        cmocka_unit_test(caller_waits_for_slow_workers),     cmocka_unit_test(bad_counts_are_refused),
        cmocka_unit_test(sleeping_workers_are_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
