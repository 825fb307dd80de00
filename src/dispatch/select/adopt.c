/* Background jobs that add kernels of chains for new lengths of heads. */
#include "dispatch/select/adopt.h"

#include "base/hash.h"
#include "base/status.h"
#include "base/task/fork.h"
#include "dispatch/pool/fill.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/select/stored.h"

#include <stdlib.h>

enum { MOST_SIGHTS = 64 };

/* Lengths, alignment and strides that some shape had. */
typedef struct sight {
    uint64_t id;
    md_ds_sight state;
} sight;

struct md_ds_adoption {
    md_ds_op *op; /* NULL after md_ds_adoption_destroy */
    void (*adopted)(md_ds_op *op);
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int32_t n_users; /* the op, and jobs */
    int32_t n_adopting, n_running;
    int32_t n;
    sight sight[MOST_SIGHTS];
};

/* The lengths that a job is to find kernels for. */
typedef struct wish {
    struct md_ds_adoption *adoption;
    uint64_t id;
    int32_t stage;
    md_kn_shape shape;
} wish;

/* A child after fork has no thread for the jobs: the next call of such lengths begins them anew. */
static void become_orphan(void *user)
{
    struct md_ds_adoption *a = user;
    int32_t n = 0;
    for (int32_t i = 0; i < a->n; i++)
        if (a->sight[i].state == MD_DS_ADOPTED)
            a->sight[n++] = a->sight[i];
    a->n = n;
    a->n_adopting = a->n_running = 0;
    a->n_users = 1;
}

md_status md_ds_adoption_create(struct md_ds_adoption **out, md_ds_op *op, void (*adopted)(md_ds_op *op))
{
    struct md_ds_adoption *a = calloc(1, sizeof *a);
    if (!a)
        return md_fail_memory();
    *a = (struct md_ds_adoption){.op = op, .adopted = adopted, .n_users = 1};
    md_mutex_init(&a->lock);
    md_cond_init(&a->changed);
    md_fork_watch(a, become_orphan);
    *out = a;
    return MD_OK;
}

/* Gives the lock back. */
static void leave(struct md_ds_adoption *a)
{
    const bool is_last = --a->n_users == 0;
    pthread_mutex_unlock(&a->lock);
    if (!is_last)
        return;
    md_fork_leave(a);
    md_cond_finish(&a->changed);
    md_mutex_finish(&a->lock);
    free(a);
}

void md_ds_adoption_destroy(struct md_ds_adoption **adoption)
{
    struct md_ds_adoption *a = *adoption;
    if (!a)
        return;
    *adoption = NULL;
    pthread_mutex_lock(&a->lock);
    a->op = NULL;
    while (a->n_running > 0)
        pthread_cond_wait(&a->changed, &a->lock);
    leave(a);
}

/* ---- What is known */

static uint64_t id_of(const md_fa_target *target, const md_kn_shape *shape)
{
    const md_st_program *program = target->program;
    const md_st_stage *stage = md_fa_stage(target);
    int32_t index[MD_ST_MAX_LENGTHS];
    const int32_t n_lengths = md_st_chain_lengths(index, stage->chain);
    uint32_t own = 0; /* strides of the parts' temporaries do not matter */
    for (int32_t i = 0; i < stage->n_tensors; i++)
        own |= UINT32_C(1) << stage->tensor[i];
    int64_t word[3 + MD_ST_MAX_LENGTHS] = {target->stage, shape->unit & own, shape->aligned16 & own};
    int32_t n = 3;
    for (int32_t i = 0; i < n_lengths; i++)
        word[n++] = shape->size[program->index[index[i]].dim];
    return md_hash64(word, (size_t)n * sizeof *word);
}

static sight *find(struct md_ds_adoption *a, uint64_t id)
{
    for (int32_t i = 0; i < a->n; i++)
        if (a->sight[i].id == id)
            return &a->sight[i];
    return NULL;
}

/* Only where a kernel is for a single length does a new length need others. Numeric policies have chosen once. */
static bool may_adopt(const md_ds_op *op, int32_t stage)
{
    const md_ds_pool *pool = &op->stage[stage];
    return op->adoption && md_fa_stage(&pool->target)->kind == MD_ST_CHAIN && pool->target.facts->capability > 0 &&
           pool->pinned < 0 && !pool->numeric;
}

md_ds_sight md_ds_adoption_of(const md_ds_op *op, int32_t stage, const md_kn_shape *shape)
{
    struct md_ds_adoption *a = op->adoption;
    if (!may_adopt(op, stage))
        return MD_DS_ADOPTED;
    const uint64_t id = id_of(&op->stage[stage].target, shape);
    pthread_mutex_lock(&a->lock);
    const sight *s = find(a, id);
    const md_ds_sight state = s ? s->state : a->n < MOST_SIGHTS ? MD_DS_UNSEEN : MD_DS_ADOPTED;
    pthread_mutex_unlock(&a->lock);
    return state;
}

/* ---- Jobs */

/* A job whose op is gone, or which a fork has forgotten, has nothing to do. */
static md_ds_op *begin(struct md_ds_adoption *a)
{
    pthread_mutex_lock(&a->lock);
    md_ds_op *op = a->op;
    a->n_running += op != NULL;
    pthread_mutex_unlock(&a->lock);
    return op;
}

static void end(struct md_ds_adoption *a, md_ds_op *op, uint64_t id)
{
    pthread_mutex_lock(&a->lock);
    sight *s = find(a, id);
    if (s)
        s->state = MD_DS_ADOPTED;
    a->n_adopting--;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (op)
        a->adopted(op);
    pthread_mutex_lock(&a->lock);
    a->n_running -= op != NULL;
    pthread_cond_broadcast(&a->changed);
    leave(a);
}

static void run_job(void *user)
{
    wish *w = user;
    bool has_fallback = false;
    md_ds_op *op = begin(w->adoption);
    if (op) {
        md_ds_async_fill_wait(op); /* filling the pools uses what is not thread-safe */
        const md_status s = md_ds_pool_adopt(&has_fallback, &op->stage[w->stage], &w->shape);
        if (has_fallback)
            atomic_fetch_add_explicit(&op->count.adopted, 1, memory_order_relaxed);
        if (s != MD_OK)
            md_log_at(op->runtime->log, MD_LOG_DEBUG, "op %s, stage %d: no fused kernel is added: %s", op->name,
                      w->stage, md_last_error());
        md_ds_stored_teach(op);
    }
    end(w->adoption, op, w->id);
    free(w);
}

md_ds_sight md_ds_adopt(md_ds_op *op, int32_t stage, const md_kn_shape *shape)
{
    struct md_ds_adoption *a = op->adoption;
    wish *w = may_adopt(op, stage) ? malloc(sizeof *w) : NULL;
    if (!w)
        return MD_DS_ADOPTED;
    *w = (wish){.adoption = a, .id = id_of(&op->stage[stage].target, shape), .stage = stage, .shape = *shape};
    pthread_mutex_lock(&a->lock);
    const sight *s = find(a, w->id);
    const bool is_new = !s && a->n < MOST_SIGHTS;
    const md_ds_sight state = is_new ? MD_DS_ADOPTING : s ? s->state : MD_DS_ADOPTED;
    if (is_new) {
        a->sight[a->n++] = (sight){w->id, MD_DS_ADOPTING};
        a->n_adopting++;
        a->n_users++;
    }
    pthread_mutex_unlock(&a->lock);
    if (is_new)
        md_jobs_submit(md_pool_jobs(op->runtime->dev->pool), run_job, w);
    else
        free(w);
    return state;
}

void md_ds_adoption_wait(md_ds_op *op)
{
    struct md_ds_adoption *a = op->adoption;
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    while (a->n_adopting > 0)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}
