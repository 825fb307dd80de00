#include "dispatch/cache/upgrade.h"

#include "base/status.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/cache/plan_cache.h"

#include <stdlib.h>

enum { MOST_WAITING = 1024 }; /* an op; a shape beyond is chosen for anew at each call */

struct md_ds_upgrade {
    struct md_ds_upgrade *next;
    md_ds_shape_entry *entry; /* held */
    md_kn_shape shape;
};

struct md_ds_upgrade *md_ds_upgrade_make(md_ds_op *op, const md_kn_shape *shape)
{
    struct md_ds_upgrade *w = NULL;
    if (atomic_load_explicit(&op->n_waiting, memory_order_relaxed) < MOST_WAITING && (w = malloc(sizeof *w)) != NULL)
        *w = (struct md_ds_upgrade){.shape = *shape};
    return w;
}

void md_ds_upgrade_add(md_ds_op *op, struct md_ds_upgrade *waiting, md_ds_shape_entry *entry)
{
    atomic_fetch_add_explicit(&entry->users, 1, memory_order_relaxed);
    waiting->entry = entry;
    waiting->next = op->waiting;
    op->waiting = waiting;
    atomic_fetch_add_explicit(&op->n_waiting, 1, memory_order_relaxed);
}

void md_ds_upgrade_drop(md_ds_op *op)
{
    while (op->waiting) {
        struct md_ds_upgrade *w = op->waiting;
        op->waiting = w->next;
        md_ds_shape_entry_give_back(op, w->entry);
        free(w);
    }
}

bool md_ds_is_due(const md_ds_op *op, const md_ds_plan *plan)
{
    if (plan->is_early && !md_ds_is_filling(op))
        return true;
    for (int32_t s = 0; s < op->n_stages; s++) {
        int32_t wished = plan->stage[s].wished;
        if (wished >= 0 &&
            atomic_load_explicit(&op->stage[s].variant[wished]->state, memory_order_acquire) != MD_BD_QUEUED)
            return true;
    }
    return false;
}

static struct md_ds_upgrade *take_due(md_ds_op *op)
{
    struct md_ds_upgrade *due = NULL;
    pthread_mutex_lock(&op->lock_of_entries);
    for (struct md_ds_upgrade **at = &op->waiting; *at;) {
        struct md_ds_upgrade *w = *at;
        if (!md_ds_is_due(op, md_ds_plan_of(w->entry))) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = due;
        due = w;
    }
    pthread_mutex_unlock(&op->lock_of_entries);
    return due;
}

static bool same_picks(const md_ds_op *op, const md_ds_plan *a, const md_ds_plan *b)
{
    for (int32_t s = 0; s < op->n_stages; s++)
        if (a->stage[s].pick.variant != b->stage[s].pick.variant)
            return false;
    return true;
}

/* The lock of records is held. */
static void put_plan(md_ds_op *op, md_ds_shape_entry *entry, md_ds_plan *plan)
{
    plan->older = md_ds_plan_of(entry);
    if (!same_picks(op, plan, plan->older))
        atomic_fetch_add_explicit(&op->count.promotions, 1, memory_order_relaxed);
    atomic_store_explicit(&entry->plan, plan, memory_order_release);
}

/* Back in the list where it still waits, or where memory is short: then the next build that ends is another chance. */
static void promote(md_ds_op *op, struct md_ds_upgrade *w)
{
    md_ds_plan *plan = NULL;
    md_ds_shape_entry *done = NULL;
    md_status s = md_ds_plan_make(&plan, op, &w->shape, &w->entry->as, NULL, MD_DS_ONLY_READY);
    pthread_mutex_lock(&op->lock_of_entries);
    if (s == MD_OK)
        put_plan(op, w->entry, plan);
    if (s == MD_OK && !plan->is_makeshift) {
        done = w->entry;
        atomic_fetch_sub_explicit(&op->n_waiting, 1, memory_order_relaxed);
    } else {
        w->next = op->waiting;
        op->waiting = w;
    }
    pthread_mutex_unlock(&op->lock_of_entries);
    if (done) {
        md_ds_shape_entry_give_back(op, done);
        free(w);
    }
}

void md_ds_upgrade_ready(md_ds_op *op)
{
    if (atomic_load_explicit(&op->n_waiting, memory_order_relaxed) == 0)
        return;
    /* whoever waits for builds finds what another thread promotes just now done */
    pthread_mutex_lock(&op->lock_of_promotions);
    for (struct md_ds_upgrade *due = take_due(op); due;) {
        struct md_ds_upgrade *w = due;
        due = w->next;
        promote(op, w);
    }
    pthread_mutex_unlock(&op->lock_of_promotions);
}

void md_ds_upgrade_all(void *user)
{
    md_ds_runtime *runtime = user;
    pthread_mutex_lock(&runtime->lock_of_ops);
    for (md_ds_op *op = runtime->ops; op; op = op->next)
        md_ds_upgrade_ready(op);
    pthread_mutex_unlock(&runtime->lock_of_ops);
}

md_status md_ds_switch(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t stage,
                       const md_ds_pick *pick)
{
    md_ds_plan *plan = NULL;
    MD_TRY(md_ds_plan_with(&plan, op, md_ds_plan_of(entry), shape, stage, pick));
    pthread_mutex_lock(&op->lock_of_entries);
    put_plan(op, entry, plan);
    pthread_mutex_unlock(&op->lock_of_entries);
    md_ds_plan_cache_renew(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op);
    return MD_OK;
}
