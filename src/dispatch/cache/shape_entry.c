/* The lifetime of shape entries, and what their calls took. */
#include "dispatch/cache/shape_entry.h"

#include <sched.h>
#include <stdlib.h>

void md_ds_shape_entry_free(void *entry)
{
    md_ds_shape_entry *e = entry;
    md_ds_plan *plan = atomic_load_explicit(&e->plan, memory_order_relaxed);
    struct md_ds_trial *trial = atomic_load_explicit(&e->trial, memory_order_relaxed);
    while (plan) {
        md_ds_plan *older = plan->older;
        free(plan);
        plan = older;
    }
    if (trial)
        e->free_trial(trial);
    free(e->key);
    free(e);
}

uint64_t md_ds_shape_entry_ns(const md_ds_shape_entry *entry)
{
    uint64_t calls = atomic_load_explicit(&entry->calls, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&entry->n_timed, memory_order_relaxed),
             ns = atomic_load_explicit(&entry->time_ns, memory_order_relaxed);
    if (n == 0)
        return (uint64_t)(md_ds_plan_of(entry)->model_us * 1e3 * (double)calls);
    return n >= calls ? ns : (uint64_t)((double)ns / (double)n * (double)calls);
}

void md_ds_shape_entry_count(md_ds_shape_entry *entry, double us)
{
    atomic_fetch_add_explicit(&entry->calls, 1, memory_order_relaxed);
    if (us < 0.0)
        return;
    atomic_fetch_add_explicit(&entry->time_ns, (uint64_t)(us * 1e3), memory_order_relaxed);
    atomic_fetch_add_explicit(&entry->n_timed, 1, memory_order_relaxed);
}

static bool begin_to_serve(md_ds_plan *plan)
{
    int32_t use = atomic_load_explicit(&plan->use, memory_order_acquire);
    return use == MD_DS_SERVES ||
           (use == MD_DS_UNUSED && (atomic_compare_exchange_strong(&plan->use, &use, MD_DS_SERVES) ||
                                    use == MD_DS_SERVES)); /* another call was first */
}

md_ds_plan *md_ds_plan_to_serve(const md_ds_shape_entry *entry)
{
    md_ds_plan *plan = md_ds_plan_of(entry);
    for (; !begin_to_serve(plan); plan = md_ds_plan_of(entry))
        sched_yield(); /* a thread puts another plan */
    return plan;
}

bool md_ds_plan_retire(md_ds_plan *plan)
{
    int32_t unused = MD_DS_UNUSED;
    return atomic_compare_exchange_strong(&plan->use, &unused, MD_DS_RETIRED);
}

static bool same_picks(const md_ds_plan *a, const md_ds_plan *b, int32_t n_stages)
{
    for (int32_t s = 0; s < n_stages; s++)
        if (a->stage[s].is_idle != b->stage[s].is_idle || a->stage[s].pick.variant != b->stage[s].pick.variant)
            return false;
    return true;
}

void md_ds_shape_entry_put_plan(md_ds_shape_entry *entry, md_ds_plan *plan, int32_t n_stages)
{
    plan->older = md_ds_plan_of(entry);
    if (!same_picks(plan, plan->older, n_stages))
        atomic_fetch_add_explicit(&entry->count->upgrades, 1, memory_order_relaxed);
    atomic_store_explicit(&entry->plan, plan, memory_order_release);
}

/* Adds the entry's counts to the sums of the op, which outlive it. */
static void forget(md_ds_shape_entry *e)
{
    atomic_fetch_add_explicit(&e->count->forgotten_calls, atomic_load_explicit(&e->calls, memory_order_relaxed),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&e->count->forgotten_ns, md_ds_shape_entry_ns(e), memory_order_relaxed);
    atomic_fetch_add_explicit(&e->count->forgotten_timed, atomic_load_explicit(&e->n_timed, memory_order_relaxed),
                              memory_order_relaxed);
    md_ds_shape_entry_free(e);
}

void md_ds_shape_entry_release(md_ds_shape_entry *entry)
{
    if (atomic_fetch_sub_explicit(&entry->users, 1, memory_order_acq_rel) == 1)
        forget(entry);
}
