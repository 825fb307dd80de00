/* What all ops of a context share below the public layer. */
#ifndef MD_DISPATCH_RUNTIME_H
#define MD_DISPATCH_RUNTIME_H

#include "build/build.h"

#include <pthread.h>

/* A block of memory lent for the length of a call: temporaries between stages, copies of aliased inputs. */
typedef struct md_ds_block {
    void *p;
    size_t n_bytes;
    struct md_ds_block *next;
} md_ds_block;

enum { MD_DS_ALIGNMENT = 256, MD_DS_STREAM_LOCKS = 16 };

typedef struct md_ds_runtime {
    md_dev *dev; /* this and the next ones are read by warm calls; what is written lies at the end */
    md_bd *builder;
    uint64_t id; /* no other runtime has it, alive or gone */
    const md_log *log;
    bool verifies; /* MD_VERIFY: pointers are checked at every call */
    bool waits; /* MD_SYNC: a miss waits for the best, as if nothing were built in the background */
    bool samples; /* statistics were asked for: calls of asynchronous devices may wait now and then, to be timed */
    int32_t n_indices; /* MD_STATS_INDICES: values of index tensors that statistics keep */
    char apart[64]; /* from what is written */
    /* by hash: held from getting a stream's workspace to the last launch that uses it */
    pthread_mutex_t lock_of_streams[MD_DS_STREAM_LOCKS];
    void *(*alloc)(void *user, size_t n_bytes, size_t alignment); /* NULL: the device's */
    void (*free)(void *user, void *p, size_t n_bytes);
    void *alloc_user;
    pthread_mutex_t lock_of_tuning; /* held by what uses the workspace of the device's tuning stream */
    _Atomic bool is_racing; /* a thread times variants beside calls (idle.h): one at a time */
    pthread_mutex_t lock_of_blocks;
    md_ds_block *blocks; /* idle ones, most recently used first */
    pthread_mutex_t lock_of_threads;
    struct md_ds_thread *threads; /* all that called, newest first; of threads that ended too */
    pthread_key_t thread_key;
    bool has_thread_key;
    _Atomic uint64_t n_ops; /* made so far: their serial numbers */
    pthread_mutex_t lock_of_ops; /* held while records are promoted, too */
    pthread_cond_t op_made;
    struct md_ds_op *ops; /* alive or in the making, newest first */
} md_ds_runtime;

/** Whether calls return before the work is done, and the CPU cannot read the device's memory. */
static inline bool md_ds_is_async(const md_ds_runtime *runtime)
{
    return runtime->dev->ops->workspace != NULL;
}

/** Whether work on this stream is recorded, not run: nothing may be allocated, compiled, waited for or measured then. */
static inline bool md_ds_is_capturing(const md_ds_runtime *runtime, md_stream stream)
{
    md_dev *dev = runtime->dev;
    return dev->ops->is_capturing && dev->ops->is_capturing(dev, stream);
}

static inline pthread_mutex_t *md_ds_stream_lock(md_ds_runtime *runtime, md_stream stream)
{
    return &runtime->lock_of_streams[((uintptr_t)stream * 0x9e3779b97f4a7c15u >> 40) % MD_DS_STREAM_LOCKS];
}

static inline size_t md_ds_align(size_t n)
{
    return (n + MD_DS_ALIGNMENT - 1) & ~(size_t)(MD_DS_ALIGNMENT - 1);
}

/** Zeros, on lines of the cache that nobody else has (alignment >= 64); NULL where memory is short. free() frees
 * them. */
void *md_ds_lines(size_t n_bytes, size_t alignment);

void md_ds_runtime_init(md_ds_runtime *runtime);
void md_ds_runtime_finish(md_ds_runtime *runtime);

/** Lends at least n_bytes, 64-byte aligned. n_bytes 0 gives a NULL block. */
md_status md_ds_borrow(md_ds_block **out, md_ds_runtime *runtime, size_t n_bytes);
void md_ds_give_back(md_ds_runtime *runtime, md_ds_block *block); /* NULL allowed */

#endif
