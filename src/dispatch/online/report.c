/* What calls, launch plans and statistics read of a trial. */
#include "dispatch/online/report.h"

#include "dispatch/online/state.h"

uint32_t md_ds_hybrid_every(const md_ds_op *op, const md_ds_shape_entry *entry, uint32_t otherwise)
{
    md_ds_trial *t = op->hybrid ? md_ds_trial_in(entry) : NULL;
    if (op->hybrid && op->hybrid->is_idle_only)
        return otherwise;
    if (!t)
        return !op->hybrid || atomic_load_explicit(&entry->trial_state, memory_order_relaxed) == MD_DS_TRIAL_VAIN
                   ? otherwise
                   : MD_DS_TRIAL_EVERY;
    const int32_t every = atomic_load_explicit(&t->every, memory_order_relaxed);
    atomic_store_explicit(&t->published_every, every, memory_order_relaxed);
    return (uint32_t)every;
}

bool md_ds_hybrid_wants_launch_plan(const md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    return t && atomic_load_explicit(&t->wants_launch_plan, memory_order_relaxed) &&
           atomic_exchange_explicit(&t->wants_launch_plan, false, memory_order_relaxed);
}

bool md_ds_trial_of(md_ds_trial_state *out, const md_ds_op *op, const md_ds_shape_entry *entry)
{
    const md_ds_trial *t = md_ds_trial_in(entry);
    if (!t)
        return false;
    pthread_mutex_lock(&op->hybrid->lock);
    *out = (md_ds_trial_state){.stage = t->stage,
                               .challengers = t->n_challengers - 1,
                               .timed = t->timed,
                               .switches = t->switches,
                               .demotions = t->demotions,
                               .is_over = t->is_over,
                               .is_raced = t->is_raced,
                               .load = op->hybrid->budget.load};
    for (int32_t i = 0; i < t->n_challengers; i++) {
        const md_ds_challenger *r = &t->challenger[i];
        out->of[i] =
            (md_ds_tried){r->variant, r->n, r->expected, md_ds_challenger_summary(r).us, r->idle_us, r->is_out};
    }
    pthread_mutex_unlock(&op->hybrid->lock);
    return true;
}
