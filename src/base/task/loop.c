/* Parallel loops over blocks, on the threads of a pool. */
#include "base/task/pool_state.h"

#include "base/clock.h"
#include "base/status.h"

#include <stdlib.h>

/* How a loop runs. The caller takes a slot, fills it, opens it and advances `epoch`. Awake workers see the new epoch
 * and search the slots. Caller and workers take pieces by adding to `next`. Then the caller closes the slot and waits
 * until no worker is inside. A worker increments `inside` before it checks that the slot is open, and the caller closes
 * the slot before it reads `inside`. By sequential consistency one of them sees the other, so a closed slot with
 * `inside` 0 belongs to its caller alone. A worker that enters a closed slot only delays the caller. */
enum { PAUSES_PER_LOOK = 64 };

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

void *md_pool_alloc(size_t n_bytes)
{
    const size_t rounded = (n_bytes + MD_CACHE_LINE - 1) / MD_CACHE_LINE * MD_CACHE_LINE;
    return n_bytes > PTRDIFF_MAX - MD_CACHE_LINE ? NULL : aligned_alloc(MD_CACHE_LINE, rounded);
}

static bool scratch_reserve(md_pool_scratch *s, size_t n_bytes)
{
    if (n_bytes <= s->n_bytes)
        return true;
    void *memory = md_pool_alloc(n_bytes);
    if (!memory)
        return false;
    free(s->memory);
    *s = (md_pool_scratch){memory, n_bytes};
    return true;
}

/* ---- Pieces */

static void run_pieces(md_pool_slot *s, int32_t lane, void *memory)
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

static bool has_pieces(md_pool_slot *s)
{
    return atomic_load(&s->is_open) && atomic_load_explicit(&s->next, memory_order_relaxed) < s->n_pieces;
}

static void help(md_pool_worker *w, md_pool_slot *s)
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

void *md_pool_work(void *context)
{
    md_pool_worker *w = context;
    md_thread_default_floats();
    md_thread_visit_cpu(w->lane);
    while (!atomic_load(&w->pool->is_ending)) {
        uint32_t seen = atomic_load(&w->pool->epoch);
        for (int32_t i = 0; i < MD_POOL_SLOTS; i++)
            help(w, &w->pool->slots[i]);
        wait_for_work(w->pool, seen);
    }
    return NULL;
}

/* ---- The caller */

static md_pool_slot *take_slot(md_pool *pool)
{
    for (int32_t i = 0; i < MD_POOL_SLOTS; i++) {
        md_pool_slot *s = &pool->slots[i];
        if (!atomic_load_explicit(&s->is_taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&s->is_taken, true, memory_order_acquire))
            return s;
    }
    return NULL;
}

static void release_slot(md_pool_slot *s)
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

static void wait_for_workers(md_pool *pool, md_pool_slot *s)
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

static void run_shared(md_pool *pool, md_pool_slot *s, int64_t n_pieces)
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
    md_pool_scratch own = {NULL, 0};
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
    md_pool_slot *s = take_slot(pool);
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
