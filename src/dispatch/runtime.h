/* What all ops of a context share below the public layer. open.h opens and closes it. */
#ifndef MD_DISPATCH_RUNTIME_H
#define MD_DISPATCH_RUNTIME_H

#include "build/build.h"

#include <pthread.h>

/* Memory that a call borrows for temporaries between stages and copies of aliased inputs. */
typedef struct md_ds_block {
    void *p;
    size_t n_bytes;
    struct md_ds_block *next;
} md_ds_block;

enum { MD_DS_ALIGNMENT = 256, MD_DS_STREAM_LOCKS = 16 };

typedef struct md_ds_runtime {
    /* Read by warm calls; never changes after the context is open: */
    md_dev *dev;
    md_bd *builder;
    uint64_t id; /* no other runtime of the process has or had it */
    const md_log *log;
    bool verifies; /* MD_VERIFY: pointers are checked at every call */
    bool waits; /* MD_SYNC: a miss waits for the best variant */
    bool samples; /* statistics are on: some calls of asynchronous devices wait, to be timed */
    int32_t n_indices; /* MD_STATS_INDICES: values of each index tensor that statistics keep */
    char padding[64]; /* what follows is written, on other cache lines */
    /* By hash of the stream; held from the request for the stream's workspace to the last launch that uses it. */
    pthread_mutex_t lock_of_streams[MD_DS_STREAM_LOCKS];
    void *(*alloc)(void *user, size_t n_bytes, size_t alignment); /* NULL: the device's */
    void (*free)(void *user, void *p, size_t n_bytes);
    void *alloc_user;
    _Atomic int64_t packed_bytes; /* of packed operands of all ops */
    int64_t most_packed_bytes; /* that they may take; 0: a quarter of the device's memory */
    pthread_mutex_t lock_of_tuning; /* held while the workspace of the device's tuning stream is used */
    _Atomic bool is_warm; /* what timing needs of the device at first use is there (hybrid/hybrid.c) */
    _Atomic bool is_racing; /* a thread times variants between calls (hybrid/race.c): one at a time */
    pthread_mutex_t lock_of_blocks;
    md_ds_block *blocks; /* not lent; most recently used first */
    pthread_mutex_t lock_of_threads;
    struct md_ds_thread *threads; /* of all threads that called, newest first; of ended threads too */
    pthread_key_t thread_key;
    bool has_thread_key;
    _Atomic uint64_t n_ops; /* made so far: their serial numbers */
    pthread_mutex_t lock_of_ops; /* also held while entries of all ops are upgraded */
    pthread_cond_t op_made;
    struct md_ds_op *ops; /* made or being made, newest first */
} md_ds_runtime;

/** True if calls return before the work is done, and the CPU cannot read the device's memory. */
static inline bool md_ds_is_async(const md_ds_runtime *runtime)
{
    return runtime->dev->ops->workspace != NULL;
}

/** True if the stream is being captured: then nothing may be allocated, compiled, waited for or measured. */
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

/** Zeroed memory that starts at a multiple of `alignment` (>= 64) and shares no cache line with other memory; NULL if
 * memory is short. free() frees it. */
void *md_ds_alloc_lines(size_t n_bytes, size_t alignment);

void md_ds_stream_locks_init(md_ds_runtime *runtime);
void md_ds_stream_locks_finish(md_ds_runtime *runtime);

/** Lends at least n_bytes, aligned to 64 bytes. n_bytes 0 gives a NULL block. Thread-safe. */
md_status md_ds_borrow(md_ds_block **out, md_ds_runtime *runtime, size_t n_bytes);
void md_ds_give_back(md_ds_runtime *runtime, md_ds_block *block); /* NULL allowed */
/** Frees the blocks that are not lent. */
void md_ds_free_blocks(md_ds_runtime *runtime);

#endif
