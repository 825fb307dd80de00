/* The thread pool: its threads begin and end, also around a fork. */
#include "base/task/pool_state.h"

#include "base/cpu.h"
#include "base/task/fork.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* How long a thread looks for work, or for the end of a loop, before it sleeps; on a machine with fewer processors than
 * threads. */
enum { SPIN_NS = 50 * 1000, SPIN_CROWDED_NS = 5 * 1000 };

static void start_workers(md_pool *pool, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        md_pool_worker *w = &pool->workers[i];
        w->pool = pool;
        w->lane = i + 1;
        if (!md_thread_start(&w->thread, "md-worker", md_pool_work, w))
            break; /* the pool has fewer lanes */
        pool->n_workers++;
    }
}

static void stop_workers(md_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->is_ending, true);
    pthread_cond_broadcast(&pool->wake_worker);
    pthread_mutex_unlock(&pool->lock);
    for (int32_t i = 0; i < pool->n_workers; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        free(pool->workers[i].own.memory);
        pool->workers[i].own = (md_pool_scratch){NULL, 0};
    }
}

/* Leaves room for the processes of a compiler, where the system limits their number: better few threads with kernels
 * than many with the reference evaluator. */
static void start_with_room(md_pool *pool, int32_t n)
{
    start_workers(pool, n);
    const int32_t missing = n > 0 ? MD_THREAD_ROOM - md_thread_count_room() : 0;
    if (missing <= 0)
        return;
    const int32_t fewer = MD_MAX(pool->n_workers - missing, 0);
    stop_workers(pool);
    atomic_store(&pool->is_ending, false);
    pool->n_workers = 0;
    start_workers(pool, fewer);
}

/* Fork hook: a child has no workers. A slot that another thread held is free, and its scratch is dropped: that thread
 * may have been replacing it. */
static void lose_workers(void *user)
{
    md_pool *pool = user;
    pool->n_workers = 0;
    atomic_store(&pool->n_sleeping, 0);
    for (int32_t i = 0; i < MD_POOL_SLOTS; i++) {
        md_pool_slot *s = &pool->slots[i];
        if (atomic_load(&s->is_taken))
            s->own = (md_pool_scratch){NULL, 0};
        atomic_store(&s->inside, 0);
        atomic_store(&s->caller_sleeps, false);
        atomic_store(&s->is_open, false);
        atomic_store(&s->is_taken, false);
    }
}

static void *alloc_zeroed(size_t n_bytes)
{
    void *memory = md_pool_alloc(n_bytes);
    return memory ? memset(memory, 0, n_bytes) : NULL;
}

md_status md_pool_create(md_pool **out, int32_t threads)
{
    if (threads < 1 || threads > 1024)
        return md_fail(MD_INVALID_ARGUMENT, "a pool of %d threads; 1 to 1024 are possible", threads);
    md_pool *pool = alloc_zeroed(sizeof *pool);
    md_pool_worker *workers = alloc_zeroed((size_t)threads * sizeof *workers);
    if (!pool || !workers || md_jobs_create(&pool->jobs, threads) != MD_OK) {
        free(workers);
        free(pool);
        return md_fail_memory();
    }
    md_mutex_init(&pool->lock);
    md_cond_init(&pool->wake_worker);
    md_cond_init(&pool->wake_caller);
    pool->workers = workers;
    pool->spin_ns = threads > md_cpu_count() ? SPIN_CROWDED_NS : SPIN_NS;
    start_with_room(pool, threads - 1);
    md_fork_watch(pool, lose_workers);
    *out = pool;
    return MD_OK;
}

void md_pool_destroy(md_pool **handle)
{
    md_pool *pool = handle ? *handle : NULL;
    if (!pool)
        return;
    md_jobs_destroy(&pool->jobs); /* ended first: a job may run loops */
    stop_workers(pool);
    md_fork_leave(pool);
    for (int32_t i = 0; i < MD_POOL_SLOTS; i++)
        free(pool->slots[i].own.memory);
    md_cond_finish(&pool->wake_worker);
    md_cond_finish(&pool->wake_caller);
    md_mutex_finish(&pool->lock);
    free(pool->workers);
    free(pool);
    *handle = NULL;
}

int32_t md_pool_threads(const md_pool *pool)
{
    return pool->n_workers + 1;
}

bool md_pool_is_busy(const md_pool *pool)
{
    bool is_busy = false;
    for (int32_t i = 0; i < MD_POOL_SLOTS && !is_busy; i++)
        is_busy = atomic_load_explicit(&pool->slots[i].is_open, memory_order_relaxed);
    return is_busy;
}

md_jobs *md_pool_jobs(md_pool *pool)
{
    return pool->jobs;
}
