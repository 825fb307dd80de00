/* Opens and closes the runtime of a context. */
#include "dispatch/open.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/task/fork.h"
#include "dispatch/call/thread_cache.h"
#include "dispatch/registry.h"

#include <string.h>

void md_ds_runtime_init(md_ds_runtime *runtime)
{
    memset(runtime, 0, sizeof *runtime);
    const uint64_t seed[2] = {md_clock_ns(), (uint64_t)(uintptr_t)runtime};
    runtime->id = md_hash64(seed, sizeof seed) | 1;
    md_mutex_init(&runtime->lock_of_blocks);
    md_mutex_init(&runtime->lock_of_tuning);
    md_mutex_init(&runtime->lock_of_threads);
    md_mutex_init(&runtime->lock_of_ops);
    md_cond_init(&runtime->op_made);
    md_fork_watch(runtime, md_ds_forget_unmade);
    runtime->has_thread_key = pthread_key_create(&runtime->thread_key, md_ds_thread_leave) == 0;
    md_ds_stream_locks_init(runtime);
}

void md_ds_runtime_finish(md_ds_runtime *runtime)
{
    md_fork_leave(runtime);
    md_ds_free_blocks(runtime);
    if (runtime->has_thread_key)
        (void)pthread_key_delete(runtime->thread_key);
    md_ds_threads_free(runtime);
    md_mutex_finish(&runtime->lock_of_threads);
    md_mutex_finish(&runtime->lock_of_ops);
    md_cond_finish(&runtime->op_made);
    md_mutex_finish(&runtime->lock_of_blocks);
    md_mutex_finish(&runtime->lock_of_tuning);
    md_ds_stream_locks_finish(runtime);
}
