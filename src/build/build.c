/* The builder of a context: its life, its listener and its counters. */
#include "build/internal.h"

#include "base/status.h"
#include "base/task/fork.h"
#include "base/task/pool.h"

#include <stdlib.h>

md_status md_bd_create(md_bd **out, md_dev *dev)
{
    md_bd *builder = calloc(1, sizeof *builder);
    if (!builder)
        return md_fail_memory();
    builder->dev = dev;
    builder->texts = md_table_create();
    builder->loads = md_table_create();
    if (!builder->texts || !builder->loads) {
        md_table_destroy(&builder->texts, NULL);
        md_table_destroy(&builder->loads, NULL);
        free(builder);
        return md_fail_memory();
    }
    md_mutex_init(&builder->lock);
    md_cond_init(&builder->changed);
    md_fork_watch(builder, md_bd_orphan_texts);
    if (dev->facts.capability > 0 && dev->pool)
        md_jobs_expect_later(
            md_pool_jobs(dev->pool)); /* calls ask for loads of libraries, and must not wait for a thread to wake */
    *out = builder;
    return MD_OK;
}

void md_bd_use_store(md_bd *builder, md_sr *store)
{
    builder->store = store;
}

void md_bd_listen(md_bd *builder, void (*fn)(void *user), void *user)
{
    pthread_mutex_lock(&builder->lock);
    builder->listener = fn;
    builder->listener_user = user;
    while (builder->n_listening > 0)
        pthread_cond_wait(&builder->changed, &builder->lock);
    pthread_mutex_unlock(&builder->lock);
}

/* Waits for the builds that threads run; orphans have no thread. */
static void wait_for_jobs(md_bd *builder)
{
    pthread_mutex_lock(&builder->lock);
    while (builder->n_jobs > builder->n_orphans)
        pthread_cond_wait(&builder->changed, &builder->lock);
    pthread_mutex_unlock(&builder->lock);
}

void md_bd_wait_all(md_bd *builder)
{
    md_bd_text *text;
    while ((text = md_bd_take_orphan(builder, NULL, 0)) != NULL)
        md_bd_text_start(text); /* done when it returns: there are no threads */
    wait_for_jobs(builder);
}

void md_bd_destroy(md_bd **builder)
{
    if (!builder || !*builder)
        return;
    md_bd *b = *builder;
    wait_for_jobs(b);
    md_fork_leave(b);
    md_table_destroy(&b->texts, md_bd_text_drop);
    md_table_destroy(&b->loads, free);
    md_cond_finish(&b->changed);
    md_mutex_finish(&b->lock);
    free(b);
    *builder = NULL;
}

const md_bd_counters *md_bd_count(const md_bd *builder)
{
    return &builder->count;
}

md_dev *md_bd_device(const md_bd *builder)
{
    return builder->dev;
}
