/* Chooses plans for new shapes, and better plans for entries that wait for one. */
#include "dispatch/cache/upgrade.h"

#include "base/status.h"
#include "dispatch/select/select.h"

#include <stdlib.h>
#include <string.h>

md_status md_ds_shape_entry_of_plan(md_ds_shape_entry **out, md_ds_op *op, const md_ds_request *request,
                                    md_ds_plan *plan)
{
    const md_kn_shape *shape = request->shape;
    md_ds_shape_entry *e = calloc(1, sizeof *e);
    if (!e) {
        free(plan);
        return md_fail_memory();
    }
    e->count = &op->count;
    memcpy(e->size, shape->size, sizeof e->size);
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        e->is_strided |= !(shape->contiguous >> t & 1);
    int64_t sizes[MD_FX_MAX_DIMS] = {0};
    e->as = *request->as;
    md_ds_as_sizes(sizes, &op->space, shape->size, request->as);
    e->nearest = md_ds_nearest_octaves(op, sizes);
    e->is_uncovered = e->nearest > op->policy.uncovered;
    e->is_far = op->hybrid && e->nearest > MD_DS_FAR &&
                atomic_fetch_add_explicit(&op->n_far, 1, memory_order_relaxed) < MD_DS_MOST_LOOKED_FOR;
    atomic_init(&e->plan, plan);
    *out = e;
    return MD_OK;
}

md_status md_ds_shape_entry_make(md_ds_shape_entry **out, md_ds_op *op, const md_ds_request *request)
{
    md_ds_plan *plan = NULL;
    MD_TRY(md_ds_choose(&plan, op, request));
    return md_ds_shape_entry_of_plan(out, op, request, plan);
}

/* False if the plan serves this call only: a later call may build or measure, or no place in the waiting list was free.
 */
static bool is_lasting(const md_ds_op *op, const md_ds_plan *plan, const struct md_ds_waiting *waiting)
{
    return !plan->is_passing && (!plan->is_stand_in || (op->policy.select != MD_SELECT_MEASURE && waiting));
}

/* Chooses without a lock, so that calls of other shapes go on. If two threads choose for one shape, the first to add
 * its entry wins. */
md_status md_ds_shape_entry_add(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key,
                                const md_ds_request *request)
{
    md_ds_shape_entry *e = NULL;
    MD_TRY(md_ds_shape_entry_make(&e, op, request));
    const md_ds_plan *plan = md_ds_plan_of(e);
    if (request->effort != MD_DS_ONLY_READY)
        md_ds_trace_choice(op, e->size, plan);
    bool is_stored = false;
    for (int32_t s = 0; s < op->n_stages; s++)
        is_stored |= plan->stage[s].pick.source == MD_DS_STORED;
    if (is_stored)
        atomic_fetch_add_explicit(&op->count.stored, 1, memory_order_relaxed);
    struct md_ds_waiting *waiting = plan->is_stand_in ? md_ds_waiting_create(op) : NULL;
    e->is_loose = !is_lasting(op, plan, waiting);
    *out = md_ds_table_add(op, key, e, &waiting);
    free(waiting);
    /* The build may have ended before the entry was in the list. Calls do not wait for upgrades of all shapes. */
    const bool is_due = *out == e && md_ds_is_due(op, md_ds_plan_of(e), request->shape);
    if (is_due && request->effort == MD_DS_SOON && md_ds_is_async(op->runtime))
        md_bd_notify_later(op->runtime->builder);
    else if (is_due)
        md_ds_upgrade_ready(op);
    return MD_OK;
}

/* Gives an entry the plan that is best now. */
static md_status choose_again(bool *is_stand_in, md_ds_op *op, md_ds_shape_entry *entry, const md_ds_request *request)
{
    md_ds_plan *plan = NULL;
    MD_TRY(md_ds_choose(&plan, op, request));
    *is_stand_in = plan->is_stand_in;
    if (!plan->is_stand_in)
        md_ds_log_choice(op, entry->size, plan, "now has");
    pthread_mutex_lock(&op->lock_of_entries);
    md_ds_shape_entry_put_plan(entry, plan, op->n_stages);
    pthread_mutex_unlock(&op->lock_of_entries);
    return MD_OK;
}

md_status md_ds_shape_entry_improve(md_ds_op *op, md_ds_shape_entry *entry, const md_ds_request *request)
{
    const md_ds_plan *old = md_ds_plan_of(entry);
    bool is_stand_in;
    return old->is_stand_in || old->may_load ? choose_again(&is_stand_in, op, entry, request) : MD_OK;
}

/* An entry whose new plan is a stand-in again, or for which memory was short, goes back to the list. */
static void upgrade(md_ds_op *op, struct md_ds_waiting *w)
{
    md_kn_shape shape;
    const md_ds_request request = {.shape = &shape,
                                   .as = &w->entry->as,
                                   .key = w->entry->key,
                                   .key_bytes = w->entry->key_bytes,
                                   .effort = MD_DS_ONLY_READY};
    bool is_stand_in = true;
    md_ds_waiting_shape(&shape, op, w);
    if (choose_again(&is_stand_in, op, w->entry, &request) == MD_OK && !is_stand_in) {
        if (op->upgraded)
            op->upgraded(op, w->entry, &shape);
        atomic_fetch_sub_explicit(&op->n_waiting, 1, memory_order_relaxed);
        md_ds_shape_entry_release(w->entry);
        free(w);
        return;
    }
    pthread_mutex_lock(&op->lock_of_entries);
    w->next = op->waiting;
    op->waiting = w;
    pthread_mutex_unlock(&op->lock_of_entries);
}

void md_ds_upgrade_ready(md_ds_op *op)
{
    if (atomic_load_explicit(&op->n_waiting, memory_order_relaxed) == 0)
        return;
    /* so that md_ds_op_wait returns only after upgrades that other threads have begun */
    pthread_mutex_lock(&op->lock_of_upgrades);
    for (struct md_ds_waiting *due = md_ds_waiting_take_due(op); due;) {
        struct md_ds_waiting *w = due;
        due = w->next;
        upgrade(op, w);
    }
    pthread_mutex_unlock(&op->lock_of_upgrades);
}

void md_ds_upgrade_all(void *user)
{
    md_ds_runtime *runtime = user;
    pthread_mutex_lock(&runtime->lock_of_ops);
    for (md_ds_op *op = runtime->ops; op; op = op->next)
        if (op->is_made)
            md_ds_upgrade_ready(op);
    pthread_mutex_unlock(&runtime->lock_of_ops);
}

/* ---- Kernels of libraries */

/* Loading begins once the calls of the shape have lost as much as it costs (the ski rental problem). So at most
 * twice as much is lost as by the best decision (Karlin et al., Competitive snoopy caching, 1988). */
static bool pays(const md_ds_stage_choice *stage, uint64_t calls)
{
    return stage->saved_us > 0.0 && (double)calls * stage->saved_us >= MD_DS_LOAD_US;
}

void md_ds_load_if_it_pays(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape)
{
    md_ds_plan *plan = md_ds_plan_of(entry);
    const uint64_t calls = atomic_load_explicit(&entry->calls, memory_order_relaxed);
    bool is_due = false;
    for (int32_t s = 0; s < op->n_stages; s++)
        is_due |= pays(&plan->stage[s], calls);
    if (!is_due || !entry->key || atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN ||
        pthread_mutex_trylock(&op->lock_of_upgrades)) /* a later call begins it: this one does not wait */
        return;
    struct md_ds_waiting *waiting = NULL;
    if (!atomic_exchange_explicit(&plan->has_begun_load, 1, memory_order_relaxed) &&
        (waiting = md_ds_waiting_create(op)) != NULL) {
        for (int32_t s = 0; s < op->n_stages; s++)
            if (pays(&plan->stage[s], calls))
                (void)md_bd_variant_load(op->stage[s].variant[plan->stage[s].unloaded], shape, MD_BD_LOAD_START);
        pthread_mutex_lock(&op->lock_of_entries);
        md_ds_waiting_add(op, waiting, entry);
        op->waiting = waiting->next; /* upgrade puts it back, with a plan that waits for the load */
        pthread_mutex_unlock(&op->lock_of_entries);
        upgrade(op, waiting);
    }
    pthread_mutex_unlock(&op->lock_of_upgrades);
    if (waiting && md_ds_is_due(op, md_ds_plan_of(entry), shape))
        md_ds_upgrade_ready(op); /* the load may have ended before */
}
