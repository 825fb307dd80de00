/* The thread pool: parallel loops over blocks. */
#include "base/task/pool.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/task/fork.h"
#include "base/task/jobs.h"
#include "base/status.h"
#include "base/task/thread.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How a loop runs. The caller takes a slot, fills it, opens it and advances `epoch`. Awake workers see the new epoch
 * and search the slots. Caller and workers take pieces by adding to `next`. Then the caller closes the slot and waits
 * until no worker is inside. A worker increments `inside` before it checks that the slot is open, and the caller closes
 * the slot before it reads `inside`. By sequential consistency one of them sees the other, so a closed slot with
 * `inside` 0 belongs to its caller alone. A worker that enters a closed slot only delays the caller. */
enum { N_SLOTS = 16, CACHE_LINE = 64 };
enum { SPIN_NS = 50 * 1000, SPIN_CROWDED_NS = 5 * 1000, PAUSES_PER_LOOK = 64 };

typedef struct scratch {
    void *memory;
    size_t n_bytes;
} scratch;

typedef struct slot {
    alignas(CACHE_LINE) _Atomic bool is_taken;
    _Atomic bool is_open;
    _Atomic int32_t cpu; /* the caller's processor; a hint */
    /* Written by the owner while the slot is closed. */
    md_pool_body body;
    void *context;
    int64_t n_blocks, grain, n_pieces;
    size_t scratch_bytes;
    scratch own; /* the caller's scratch; kept between loops */
    alignas(CACHE_LINE) _Atomic int64_t next;
    alignas(CACHE_LINE) _Atomic int32_t inside;
    _Atomic bool caller_sleeps;
} slot;

typedef struct worker {
    alignas(CACHE_LINE) md_pool *pool;
    pthread_t thread;
    int32_t lane;
    scratch own;
} worker;

struct md_pool {
    slot slots[N_SLOTS];
    alignas(CACHE_LINE) _Atomic uint32_t epoch;
    _Atomic int32_t n_sleeping;
    _Atomic bool is_ending;
    alignas(CACHE_LINE) pthread_mutex_t lock; /* held only to sleep and to wake */
    pthread_cond_t wake_worker, wake_caller;
    md_jobs *jobs;
    worker *workers;
    int32_t n_workers;
    uint64_t spin_ns;
};

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* True while waiting since `start` may spin. (sched_yield does not help: on a busy machine it costs a whole time slice,
 * but a sleeping thread is woken at once.) */
static bool may_spin(uint64_t start, uint64_t limit_ns)
{
    return md_clock_ns() - start < limit_ns;
}

/* ---- Scratch */

static bool scratch_reserve(scratch *s, size_t n_bytes)
{
    if (n_bytes <= s->n_bytes)
        return true;
    if (n_bytes > PTRDIFF_MAX - CACHE_LINE)
        return false;
    size_t rounded = (n_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    void *memory = aligned_alloc(CACHE_LINE, rounded);
    if (!memory)
        return false;
    free(s->memory);
    *s = (scratch){memory, rounded};
    return true;
}

/* ---- Pieces */

static void run_pieces(slot *s, int32_t lane, void *memory)
{
    int64_t piece;
    while ((piece = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->n_pieces) {
        int64_t first = piece * s->grain;
        int64_t last = s->n_blocks - first < s->grain ? s->n_blocks : first + s->grain;
        s->body(s->context, first, last, lane, memory);
    }
}

static void run_alone(int64_t n_blocks, int64_t grain, md_pool_body body, void *context, void *memory)
{
    for (int64_t first = 0; first < n_blocks;) {
        int64_t last = n_blocks - first < grain ? n_blocks : first + grain;
        body(context, first, last, 0, memory);
        first = last;
    }
}

/* ---- Workers */

static bool has_pieces(slot *s)
{
    return atomic_load(&s->is_open) && atomic_load_explicit(&s->next, memory_order_relaxed) < s->n_pieces;
}

static void help(worker *w, slot *s)
{
    if (!atomic_load(&s->is_open))
        return; /* cheap test first: most slots are closed */
    int32_t cpu = atomic_load_explicit(&s->cpu, memory_order_relaxed);
    if (cpu == md_thread_cpu())
        md_thread_leave_cpu(cpu); /* before entering, so that the caller does not wait for the move */
    atomic_fetch_add(&s->inside, 1);
    /* Without memory for scratch this worker skips the loop; the caller does the work. */
    if (has_pieces(s) && scratch_reserve(&w->own, s->scratch_bytes))
        run_pieces(s, w->lane, s->scratch_bytes ? w->own.memory : NULL);
    if (atomic_fetch_sub(&s->inside, 1) == 1 && atomic_load(&s->caller_sleeps)) {
        pthread_mutex_lock(&w->pool->lock);
        pthread_cond_broadcast(&w->pool->wake_caller);
        pthread_mutex_unlock(&w->pool->lock);
    }
}

static void sleep_worker(md_pool *pool, uint32_t seen)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while (atomic_load(&pool->epoch) == seen && !atomic_load(&pool->is_ending))
        pthread_cond_wait(&pool->wake_worker, &pool->lock);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_work(md_pool *pool, uint32_t seen)
{
    uint64_t start = md_clock_ns();
    do {
        for (int32_t i = 0; i < PAUSES_PER_LOOK; i++) {
            if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen || atomic_load(&pool->is_ending))
                return;
            pause_cpu();
        }
    } while (may_spin(start, pool->spin_ns));
    sleep_worker(pool, seen);
}

static void *work(void *context)
{
    worker *w = context;
    md_thread_default_floats();
    md_thread_visit_cpu(w->lane);
    while (!atomic_load(&w->pool->is_ending)) {
        uint32_t seen = atomic_load(&w->pool->epoch);
        for (int32_t i = 0; i < N_SLOTS; i++)
            help(w, &w->pool->slots[i]);
        wait_for_work(w->pool, seen);
    }
    return NULL;
}

/* ---- The caller */

static slot *take_slot(md_pool *pool)
{
    for (int32_t i = 0; i < N_SLOTS; i++) {
        slot *s = &pool->slots[i];
        if (!atomic_load_explicit(&s->is_taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&s->is_taken, true, memory_order_acquire))
            return s;
    }
    return NULL;
}

static void release_slot(slot *s)
{
    atomic_store_explicit(&s->is_taken, false, memory_order_release);
}

static void wake_workers(md_pool *pool, int64_t n_wanted)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->n_sleeping) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    if (n_wanted >= pool->n_workers) {
        pthread_cond_broadcast(&pool->wake_worker);
    } else {
        for (int64_t i = 0; i < n_wanted; i++)
            pthread_cond_signal(&pool->wake_worker);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_workers(md_pool *pool, slot *s)
{
    if (atomic_load(&s->inside) == 0)
        return;
    uint64_t start = md_clock_ns();
    do {
        for (int32_t i = 0; i < PAUSES_PER_LOOK; i++) {
            if (atomic_load(&s->inside) == 0)
                return;
            pause_cpu();
        }
    } while (may_spin(start, pool->spin_ns));
    pthread_mutex_lock(&pool->lock);
    atomic_store(&s->caller_sleeps, true);
    while (atomic_load(&s->inside) != 0)
        pthread_cond_wait(&pool->wake_caller, &pool->lock);
    atomic_store(&s->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

static void run_shared(md_pool *pool, slot *s, int64_t n_pieces)
{
    s->n_pieces = n_pieces;
    atomic_store_explicit(&s->cpu, md_thread_cpu(), memory_order_relaxed);
    atomic_store_explicit(&s->next, 0, memory_order_relaxed);
    atomic_store(&s->is_open, true);
    wake_workers(pool, n_pieces - 1);
    run_pieces(s, 0, s->scratch_bytes ? s->own.memory : NULL);
    atomic_store(&s->is_open, false);
    wait_for_workers(pool, s);
}

/* Runs a loop on the caller alone. All slots are taken by other loops, so the workers are busy anyway. */
static md_status run_without_slot(int64_t n_blocks, int64_t grain, size_t scratch_bytes, md_pool_body body,
                                  void *context)
{
    scratch own = {NULL, 0};
    if (!scratch_reserve(&own, scratch_bytes))
        return md_fail_memory();
    run_alone(n_blocks, grain, body, context, own.memory);
    free(own.memory);
    return MD_OK;
}

md_status md_pool_loop(md_pool *pool, int64_t n_blocks, int64_t grain, size_t scratch_bytes, md_pool_body body,
                       void *context)
{
    if (n_blocks <= 0)
        return MD_OK;
    int64_t n_pieces = n_blocks / grain + (n_blocks % grain != 0);
    bool is_alone = n_pieces == 1 || pool->n_workers == 0;
    if (is_alone && scratch_bytes == 0) {
        run_alone(n_blocks, grain, body, context, NULL);
        return MD_OK;
    }
    slot *s = take_slot(pool);
    if (!s)
        return run_without_slot(n_blocks, grain, scratch_bytes, body, context);
    if (!scratch_reserve(&s->own, scratch_bytes)) {
        release_slot(s);
        return md_fail_memory();
    }
    if (is_alone) {
        run_alone(n_blocks, grain, body, context, s->own.memory);
    } else {
        s->body = body;
        s->context = context;
        s->n_blocks = n_blocks;
        s->grain = grain;
        s->scratch_bytes = scratch_bytes;
        run_shared(pool, s, n_pieces);
    }
    release_slot(s);
    return MD_OK;
}

/* ---- Life */

static void start_workers(md_pool *pool, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->lane = i + 1;
        if (!md_thread_start(&w->thread, "md-worker", work, w))
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
        pool->workers[i].own = (scratch){NULL, 0};
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
    for (int32_t i = 0; i < N_SLOTS; i++) {
        slot *s = &pool->slots[i];
        if (atomic_load(&s->is_taken))
            s->own = (scratch){NULL, 0};
        atomic_store(&s->inside, 0);
        atomic_store(&s->caller_sleeps, false);
        atomic_store(&s->is_open, false);
        atomic_store(&s->is_taken, false);
    }
}

static void *alloc_zeroed(size_t n_bytes)
{
    size_t rounded = (n_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    unsigned char *p = aligned_alloc(CACHE_LINE, rounded);
    for (size_t i = 0; p && i < rounded; i++)
        p[i] = 0;
    return p;
}

md_status md_pool_create(md_pool **out, int32_t threads)
{
    if (threads < 1 || threads > 1024)
        return md_fail(MD_INVALID_ARGUMENT, "a pool of %d threads; 1 to 1024 are possible", threads);
    md_pool *pool = alloc_zeroed(sizeof *pool);
    worker *workers = alloc_zeroed((size_t)threads * sizeof *workers);
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
    for (int32_t i = 0; i < N_SLOTS; i++)
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
    for (int32_t i = 0; i < N_SLOTS && !is_busy; i++)
        is_busy = atomic_load_explicit(&pool->slots[i].is_open, memory_order_relaxed);
    return is_busy;
}

md_jobs *md_pool_jobs(md_pool *pool)
{
    return pool->jobs;
}
