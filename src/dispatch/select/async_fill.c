/* Fills the pools of an op once: by a background job, or by the first thread that needs them. */
#include "dispatch/select/async_fill.h"

#include "base/status.h"
#include "base/task/fork.h"

#include <stdlib.h>

typedef enum fill_state { QUEUED, FILLING, FILLED } fill_state;

struct md_ds_async_fill {
    md_ds_op *op; /* NULL after md_ds_async_fill_finish */
    void (*fill)(md_ds_op *op), (*filled)(md_ds_op *op);
    pthread_mutex_t lock;
    pthread_cond_t changed;
    fill_state state;
    int32_t n_users; /* the op, and the job that is queued */
};

/* A child after fork has no thread for the job: the first call of a new shape fills the pools. */
static void become_orphan(void *user)
{
    struct md_ds_async_fill *f = user;
    f->n_users = 1;
    if (f->state == FILLED || !f->op)
        return;
    f->state = QUEUED;
    atomic_store_explicit(&f->op->is_orphan, true, memory_order_relaxed);
}

static void leave(struct md_ds_async_fill *f)
{
    pthread_mutex_lock(&f->lock);
    const bool is_last = --f->n_users == 0;
    pthread_mutex_unlock(&f->lock);
    if (!is_last)
        return;
    md_fork_leave(f);
    md_cond_finish(&f->changed);
    md_mutex_finish(&f->lock);
    free(f);
}

/* True for the first caller: the job, or a thread that waits for it. */
static bool claim(struct md_ds_async_fill *f)
{
    pthread_mutex_lock(&f->lock);
    const bool is_mine = f->state == QUEUED;
    if (is_mine)
        f->state = FILLING;
    pthread_mutex_unlock(&f->lock);
    return is_mine;
}

static void fill_now(struct md_ds_async_fill *f)
{
    md_ds_op *op = f->op;
    f->fill(op);
    atomic_store_explicit(&op->is_filling, false, memory_order_release);
    f->filled(op);
    pthread_mutex_lock(&f->lock);
    f->state = FILLED;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void run_job(void *user)
{
    struct md_ds_async_fill *f = user;
    if (claim(f))
        fill_now(f);
    leave(f);
}

md_status md_ds_async_fill_start(md_ds_op *op, void (*fill)(md_ds_op *op), void (*filled)(md_ds_op *op))
{
    struct md_ds_async_fill *f = calloc(1, sizeof *f);
    if (!f)
        return md_fail_memory();
    *f = (struct md_ds_async_fill){.op = op, .fill = fill, .filled = filled, .n_users = 2};
    md_mutex_init(&f->lock);
    md_cond_init(&f->changed);
    md_fork_watch(f, become_orphan);
    op->async_fill = f;
    atomic_store_explicit(&op->is_filling, true, memory_order_release);
    md_jobs_submit_last(md_pool_jobs(op->runtime->dev->pool), run_job, f); /* behind other ops' first kernels */
    return MD_OK;
}

static void wait_for(struct md_ds_async_fill *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->state == FILLING)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

void md_ds_async_fill_wait(md_ds_op *op)
{
    struct md_ds_async_fill *f = op->async_fill;
    if (!f || !md_ds_is_filling(op))
        return;
    if (claim(f))
        fill_now(f);
    else
        wait_for(f);
}

void md_ds_async_fill_finish(md_ds_op *op)
{
    struct md_ds_async_fill *f = op->async_fill;
    if (!f)
        return;
    op->async_fill = NULL;
    if (!claim(f))
        wait_for(f);
    pthread_mutex_lock(&f->lock);
    f->op = NULL;
    pthread_mutex_unlock(&f->lock);
    leave(f);
}
