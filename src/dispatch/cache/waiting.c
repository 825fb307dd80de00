/* The list of shape entries that wait for a better plan. */
#include "dispatch/cache/waiting.h"

#include "dispatch/bind/bind.h"
#include "dispatch/select/adopt.h"

#include <stdlib.h>

enum { MOST_WAITING = 1024 }; /* per op; further shapes get no entry, and are chosen for at each call */

struct md_ds_waiting *md_ds_waiting_create(md_ds_op *op)
{
    const bool has_room = atomic_load_explicit(&op->n_waiting, memory_order_relaxed) < MOST_WAITING;
    return has_room ? calloc(1, sizeof(struct md_ds_waiting)) : NULL;
}

void md_ds_waiting_add(md_ds_op *op, struct md_ds_waiting *waiting, md_ds_shape_entry *entry)
{
    md_ds_shape_entry_hold(entry);
    waiting->entry = entry;
    waiting->next = op->waiting;
    op->waiting = waiting;
    atomic_fetch_add_explicit(&op->n_waiting, 1, memory_order_relaxed);
}

void md_ds_waiting_drop(md_ds_op *op)
{
    while (op->waiting) {
        struct md_ds_waiting *w = op->waiting;
        op->waiting = w->next;
        md_ds_shape_entry_release(w->entry);
        free(w);
    }
}

/* True if what the plan wished for has been built and loaded, or cannot be. */
static bool has_come(const md_bd_variant *wished, const md_kn_shape *shape)
{
    const int32_t state = atomic_load_explicit(&wished->state, memory_order_acquire);
    return state == MD_BD_FAILED ||
           (state == MD_BD_READY && md_bd_variant_load(wished, shape, MD_BD_LOAD_LOOK) != MD_BD_NOT_LOADED);
}

bool md_ds_is_due(const md_ds_op *op, const md_ds_plan *plan, const md_kn_shape *shape)
{
    if (plan->is_early && !md_ds_is_filling(op))
        return true;
    for (int32_t s = 0; s < op->n_stages; s++) {
        int32_t wished = plan->stage[s].wished;
        if (wished == MD_DS_SOUGHT && md_ds_adoption_of(op, s, shape) != MD_DS_ADOPTING)
            return true;
        if (wished >= 0 && has_come(op->stage[s].variant[wished], shape))
            return true;
    }
    return false;
}

void md_ds_waiting_shape(md_kn_shape *out, const md_ds_op *op, const struct md_ds_waiting *waiting)
{
    md_ds_as as;
    const md_ds_shape_entry *entry = waiting->entry;
    (void)md_ds_shape_of_key(out, &as, op, entry->key, (int32_t)(entry->key_bytes / sizeof(int64_t)));
}

static bool is_over(const md_ds_op *op, const struct md_ds_waiting *waiting)
{
    md_kn_shape shape;
    md_ds_waiting_shape(&shape, op, waiting);
    return md_ds_is_due(op, md_ds_plan_of(waiting->entry), &shape);
}

/* Takes the whole list, and puts back what is not due: asking about an entry takes microseconds, and calls need the
 * lock. */
struct md_ds_waiting *md_ds_waiting_take_due(md_ds_op *op)
{
    struct md_ds_waiting *due = NULL, *rest = NULL, **end = &rest;
    pthread_mutex_lock(&op->lock_of_entries);
    struct md_ds_waiting *all = op->waiting;
    op->waiting = NULL;
    pthread_mutex_unlock(&op->lock_of_entries);
    for (struct md_ds_waiting *w = all, *next; w; w = next) {
        next = w->next;
        if (is_over(op, w)) {
            w->next = due;
            due = w;
        } else {
            w->next = NULL;
            *end = w;
            end = &w->next;
        }
    }
    pthread_mutex_lock(&op->lock_of_entries);
    *end = op->waiting;
    op->waiting = rest;
    pthread_mutex_unlock(&op->lock_of_entries);
    return due;
}
