/* Memory that calls borrow, and the locks of streams. open.c opens and closes the rest of a runtime. */
#include "dispatch/runtime.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

void *md_ds_alloc_lines(size_t n_bytes, size_t alignment)
{
    const size_t n = (n_bytes + alignment - 1) / alignment * alignment;
    void *p = aligned_alloc(alignment, n);
    if (p)
        memset(p, 0, n);
    return p;
}

void md_ds_stream_locks_init(md_ds_runtime *runtime)
{
    for (int32_t i = 0; i < MD_DS_STREAM_LOCKS; i++)
        pthread_mutex_init(&runtime->lock_of_streams[i], NULL);
}

void md_ds_stream_locks_finish(md_ds_runtime *runtime)
{
    for (int32_t i = 0; i < MD_DS_STREAM_LOCKS; i++)
        pthread_mutex_destroy(&runtime->lock_of_streams[i]);
}

static void free_block(md_ds_runtime *r, md_ds_block *b)
{
    if (r->free)
        r->free(r->alloc_user, b->p, b->n_bytes);
    else
        r->dev->ops->free(r->dev, b->p);
    free(b);
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

void md_ds_free_blocks(md_ds_runtime *r)
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
    md_ds_free_blocks(runtime); /* no idle block was large enough: they are freed, and a larger one is made */
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
