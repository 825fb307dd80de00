/* The thread pool inside, for the files that implement it. */
#ifndef MD_BASE_TASK_POOL_STATE_H
#define MD_BASE_TASK_POOL_STATE_H

#include "base/task/jobs.h"
#include "base/task/pool.h"
#include "base/task/thread.h"

#include <stdalign.h>
#include <stdatomic.h>

enum { MD_POOL_SLOTS = 16, MD_CACHE_LINE = 64 };

/* Memory of one thread, for the bodies of loops; kept between them. */
typedef struct md_pool_scratch {
    void *memory;
    size_t n_bytes;
} md_pool_scratch;

/* A loop. */
typedef struct md_pool_slot {
    alignas(MD_CACHE_LINE) _Atomic bool is_taken;
    _Atomic bool is_open;
    _Atomic int32_t cpu; /* the caller's processor; a hint */
    /* Written by the owner while the slot is closed. */
    md_pool_body body;
    void *context;
    int64_t n_blocks, grain, n_pieces;
    size_t scratch_bytes;
    md_pool_scratch own; /* the caller's */
    alignas(MD_CACHE_LINE) _Atomic int64_t next;
    alignas(MD_CACHE_LINE) _Atomic int32_t inside;
    _Atomic bool caller_sleeps;
} md_pool_slot;

typedef struct md_pool_worker {
    alignas(MD_CACHE_LINE) md_pool *pool;
    pthread_t thread;
    int32_t lane;
    md_pool_scratch own;
} md_pool_worker;

struct md_pool {
    md_pool_slot slots[MD_POOL_SLOTS];
    alignas(MD_CACHE_LINE) _Atomic uint32_t epoch;
    _Atomic int32_t n_sleeping;
    _Atomic bool is_ending;
    alignas(MD_CACHE_LINE) pthread_mutex_t lock; /* held only to sleep and to wake */
    pthread_cond_t wake_worker, wake_caller;
    md_jobs *jobs;
    md_pool_worker *workers;
    int32_t n_workers;
    uint64_t spin_ns;
};

/** Memory of whole cache lines, of which no data of other threads are a part. NULL: there is none. */
void *md_pool_alloc(size_t n_bytes);
/** What a worker does until the pool ends; its thread's function. */
void *md_pool_work(void *worker);

#endif
