#include "dispatch/runtime.h"
#include "dispatch/call/thread_cache.h"
#include "dispatch/registry.h"

#include "base/clock.h"
#include "base/task/fork.h"
#include "base/hash.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

void *md_ds_lines(size_t n_bytes, size_t alignment)
{
    const size_t n = (n_bytes + alignment - 1) / alignment * alignment;
    void *p = aligned_alloc(alignment, n);
    if (p)
        memset(p, 0, n);
    return p;
}

void md_ds_runtime_init(md_ds_runtime *runtime)
{
    memset(runtime, 0, sizeof *runtime);
    const uint64_t who[2] = {md_clock_ns(), (uint64_t)(uintptr_t)runtime};
    runtime->id = md_hash64(who, sizeof who) | 1;
    md_mutex_init(&runtime->lock_of_blocks);
    md_mutex_init(&runtime->lock_of_tuning);
    md_mutex_init(&runtime->lock_of_threads);
    md_mutex_init(&runtime->lock_of_ops);
    md_cond_init(&runtime->op_made);
    md_fork_watch(runtime, md_ds_forget_unmade);
    runtime->has_thread_key = pthread_key_create(&runtime->thread_key, md_ds_thread_leave) == 0;
    for (int32_t i = 0; i < MD_DS_STREAM_LOCKS; i++)
        pthread_mutex_init(&runtime->lock_of_streams[i], NULL);
}

static void free_block(md_ds_runtime *r, md_ds_block *b)
{
    if (r->free)
        r->free(r->alloc_user, b->p, b->n_bytes);
    else
        r->dev->ops->free(r->dev, b->p);
    free(b);
}

void md_ds_runtime_finish(md_ds_runtime *runtime)
{
    md_fork_leave(runtime);
    while (runtime->blocks) {
        md_ds_block *b = runtime->blocks;
        runtime->blocks = b->next;
        free_block(runtime, b);
    }
    if (runtime->has_thread_key)
        (void)pthread_key_delete(runtime->thread_key);
    while (runtime->threads) {
        md_ds_thread *t = runtime->threads;
        runtime->threads = t->next;
        md_ds_thread_free(t);
    }
    md_mutex_finish(&runtime->lock_of_threads);
    md_mutex_finish(&runtime->lock_of_ops);
    md_cond_finish(&runtime->op_made);
    md_mutex_finish(&runtime->lock_of_blocks);
    md_mutex_finish(&runtime->lock_of_tuning);
    for (int32_t i = 0; i < MD_DS_STREAM_LOCKS; i++)
        pthread_mutex_destroy(&runtime->lock_of_streams[i]);
}

static md_ds_block *take_idle(md_ds_runtime *r, size_t n_bytes)
{
    pthread_mutex_lock(&r->lock_of_blocks);
    md_ds_block **at = &r->blocks;
    while (*at && (*at)->n_bytes < n_bytes)
        at = &(*at)->next;
    md_ds_block *b = *at;
    if (b)
        *at = b->next;
    pthread_mutex_unlock(&r->lock_of_blocks);
    return b;
}

/* Idle blocks that were all too small make room for the one that is not. */
static void drop_idle(md_ds_runtime *r)
{
    pthread_mutex_lock(&r->lock_of_blocks);
    md_ds_block *b = r->blocks;
    r->blocks = NULL;
    pthread_mutex_unlock(&r->lock_of_blocks);
    while (b) {
        md_ds_block *next = b->next;
        free_block(r, b);
        b = next;
    }
}

static md_status get_memory(void **p, md_ds_runtime *r, size_t n_bytes)
{
    if (!r->alloc)
        return r->dev->ops->alloc(p, r->dev, n_bytes);
    *p = r->alloc(r->alloc_user, n_bytes, 64);
    return *p ? MD_OK : md_fail(MD_OUT_OF_MEMORY, "the caller's allocator gave no %zu bytes", n_bytes);
}

md_status md_ds_borrow(md_ds_block **out, md_ds_runtime *runtime, size_t n_bytes)
{
    *out = NULL;
    if (n_bytes == 0 || (*out = take_idle(runtime, n_bytes)) != NULL)
        return MD_OK;
    drop_idle(runtime);
    md_ds_block *b = calloc(1, sizeof *b);
    if (!b)
        return md_fail_memory();
    b->n_bytes = (n_bytes + 4095) & ~(size_t)4095;
    md_status s = get_memory(&b->p, runtime, b->n_bytes);
    if (s != MD_OK) {
        free(b);
        return s;
    }
    *out = b;
    return MD_OK;
}

void md_ds_give_back(md_ds_runtime *runtime, md_ds_block *block)
{
    if (!block)
        return;
    pthread_mutex_lock(&runtime->lock_of_blocks);
    block->next = runtime->blocks;
    runtime->blocks = block;
    pthread_mutex_unlock(&runtime->lock_of_blocks);
}
