#include "dispatch/select/async_fill.h"

#include "base/task/fork.h"
#include "base/status.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/pool/fill.h"

#include <stdlib.h>

typedef enum stage_of_growth { WAITS, GROWS, GROWN } stage_of_growth;

struct md_ds_async_fill {
    md_ds_op *op; /* NULL when it has gone */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stage_of_growth state;
    int32_t n_users; /* the op, and the job that is queued */
};

/* A child after fork has no thread that would go on: whoever meets a new shape does. */
static void become_orphan(void *user)
{
    struct md_ds_async_fill *g = user;
    g->n_users = 1;
    if (g->state == GROWN || !g->op)
        return;
    g->state = WAITS;
    atomic_store_explicit(&g->op->is_orphan, true, memory_order_relaxed);
}

static void leave(struct md_ds_async_fill *g)
{
    pthread_mutex_lock(&g->lock);
    const bool is_last = --g->n_users == 0;
    pthread_mutex_unlock(&g->lock);
    if (!is_last)
        return;
    md_fork_leave(g);
    md_cond_finish(&g->changed);
    md_mutex_finish(&g->lock);
    free(g);
}

/* By whoever is first: the job, or somebody who waits for it. */
static bool claim(struct md_ds_async_fill *g)
{
    pthread_mutex_lock(&g->lock);
    const bool is_mine = g->state == WAITS;
    if (is_mine)
        g->state = GROWS;
    pthread_mutex_unlock(&g->lock);
    return is_mine;
}

static void grow(struct md_ds_async_fill *g)
{
    md_ds_op *op = g->op;
    for (int32_t s = 0; s < op->n_stages; s++)
        if (md_ds_pool_fill_rest(&op->stage[s]) != MD_OK)
            md_log_at(op->runtime->log, MD_LOG_WARN, "op %s, stage %d: the pool stays as small as it is: %s", op->name,
                      s, md_last_error());
    atomic_store_explicit(&op->is_filling, false, memory_order_release);
    md_ds_upgrade_ready(op);
    pthread_mutex_lock(&g->lock);
    g->state = GROWN;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void run_job(void *user)
{
    struct md_ds_async_fill *g = user;
    if (claim(g))
        grow(g);
    leave(g);
}

md_status md_ds_async_fill_start(md_ds_op *op)
{
    struct md_ds_async_fill *g = calloc(1, sizeof *g);
    if (!g)
        return md_fail_memory();
    *g = (struct md_ds_async_fill){.op = op, .n_users = 2};
    md_mutex_init(&g->lock);
    md_cond_init(&g->changed);
    md_fork_watch(g, become_orphan);
    op->async_fill = g;
    atomic_store_explicit(&op->is_filling, true, memory_order_release);
    md_pool_submit(op->runtime->dev->pool, run_job, g);
    return MD_OK;
}

static void wait_for(struct md_ds_async_fill *g)
{
    pthread_mutex_lock(&g->lock);
    while (g->state == GROWS)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

void md_ds_async_fill_wait(md_ds_op *op)
{
    struct md_ds_async_fill *g = op->async_fill;
    if (!g || !md_ds_is_filling(op))
        return;
    if (claim(g))
        grow(g);
    else
        wait_for(g);
}

void md_ds_async_fill_finish(md_ds_op *op)
{
    struct md_ds_async_fill *g = op->async_fill;
    if (!g)
        return;
    op->async_fill = NULL;
    if (!claim(g))
        wait_for(g);
    pthread_mutex_lock(&g->lock);
    g->op = NULL;
    pthread_mutex_unlock(&g->lock);
    leave(g);
}
