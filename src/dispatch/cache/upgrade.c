#include "dispatch/cache/upgrade.h"

#include "base/status.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/cache/plan_cache.h"

#include <stdlib.h>

enum { MOST_WAITING = 1024 }; /* an op; a shape beyond is chosen for anew at each call */

struct md_ds_waiting {
    struct md_ds_waiting *next;
    md_ds_record *record; /* held */
    md_kn_shape shape;
};

struct md_ds_waiting *md_ds_waiting_make(md_ds_op *op, const md_kn_shape *shape)
{
    struct md_ds_waiting *w = NULL;
    if (atomic_load_explicit(&op->n_waiting, memory_order_relaxed) < MOST_WAITING && (w = malloc(sizeof *w)) != NULL)
        *w = (struct md_ds_waiting){.shape = *shape};
    return w;
}

void md_ds_waiting_add(md_ds_op *op, struct md_ds_waiting *waiting, md_ds_record *record)
{
    atomic_fetch_add_explicit(&record->users, 1, memory_order_relaxed);
    waiting->record = record;
    waiting->next = op->waiting;
    op->waiting = waiting;
    atomic_fetch_add_explicit(&op->n_waiting, 1, memory_order_relaxed);
}

void md_ds_waiting_drop(md_ds_op *op)
{
    while (op->waiting) {
        struct md_ds_waiting *w = op->waiting;
        op->waiting = w->next;
        md_ds_record_give_back(op, w->record);
        free(w);
    }
}

bool md_ds_is_due(const md_ds_op *op, const md_ds_way *way)
{
    if (way->is_early && !md_ds_is_growing(op))
        return true;
    for (int32_t s = 0; s < op->n_stages; s++) {
        int32_t wished = way->stage[s].wished;
        if (wished >= 0 && atomic_load_explicit(&op->stage[s].variant[wished]->state, memory_order_acquire) != MD_BD_QUEUED)
            return true;
    }
    return false;
}

static struct md_ds_waiting *take_due(md_ds_op *op)
{
    struct md_ds_waiting *due = NULL;
    pthread_mutex_lock(&op->lock_of_records);
    for (struct md_ds_waiting **at = &op->waiting; *at;) {
        struct md_ds_waiting *w = *at;
        if (!md_ds_is_due(op, md_ds_way_of(w->record))) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = due;
        due = w;
    }
    pthread_mutex_unlock(&op->lock_of_records);
    return due;
}

static bool same_picks(const md_ds_op *op, const md_ds_way *a, const md_ds_way *b)
{
    for (int32_t s = 0; s < op->n_stages; s++)
        if (a->stage[s].pick.variant != b->stage[s].pick.variant)
            return false;
    return true;
}

/* The lock of records is held. */
static void put_way(md_ds_op *op, md_ds_record *record, md_ds_way *way)
{
    way->older = md_ds_way_of(record);
    if (!same_picks(op, way, way->older))
        atomic_fetch_add_explicit(&op->count.promotions, 1, memory_order_relaxed);
    atomic_store_explicit(&record->way, way, memory_order_release);
}

/* Back in the list where it still waits, or where memory is short: then the next build that ends is another chance. */
static void promote(md_ds_op *op, struct md_ds_waiting *w)
{
    md_ds_way *way = NULL;
    md_ds_record *done = NULL;
    md_status s = md_ds_way_make(&way, op, &w->shape, &w->record->as, NULL, MD_DS_ONLY_READY);
    pthread_mutex_lock(&op->lock_of_records);
    if (s == MD_OK)
        put_way(op, w->record, way);
    if (s == MD_OK && !way->is_makeshift) {
        done = w->record;
        atomic_fetch_sub_explicit(&op->n_waiting, 1, memory_order_relaxed);
    } else {
        w->next = op->waiting;
        op->waiting = w;
    }
    pthread_mutex_unlock(&op->lock_of_records);
    if (done) {
        md_ds_record_give_back(op, done);
        free(w);
    }
}

void md_ds_promote_ready(md_ds_op *op)
{
    if (atomic_load_explicit(&op->n_waiting, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&op->lock_of_promotions); /* whoever waits for builds finds what another thread promotes just now done */
    for (struct md_ds_waiting *due = take_due(op); due;) {
        struct md_ds_waiting *w = due;
        due = w->next;
        promote(op, w);
    }
    pthread_mutex_unlock(&op->lock_of_promotions);
}

void md_ds_promote_all(void *user)
{
    md_ds_runtime *runtime = user;
    pthread_mutex_lock(&runtime->lock_of_ops);
    for (md_ds_op *op = runtime->ops; op; op = op->next)
        md_ds_promote_ready(op);
    pthread_mutex_unlock(&runtime->lock_of_ops);
}

md_status md_ds_switch(md_ds_op *op, md_ds_record *record, const md_kn_shape *shape, int32_t stage, const md_ds_pick *pick)
{
    md_ds_way *way = NULL;
    MD_TRY(md_ds_way_with(&way, op, md_ds_way_of(record), shape, stage, pick));
    pthread_mutex_lock(&op->lock_of_records);
    put_way(op, record, way);
    pthread_mutex_unlock(&op->lock_of_records);
    md_ds_slots_renew(atomic_load_explicit(&op->slots, memory_order_acquire), op);
    return MD_OK;
}
