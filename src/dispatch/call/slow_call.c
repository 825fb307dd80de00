#include "dispatch/call/slow_call.h"
#include "dispatch/online/online.h"
#include "dispatch/call/index_sample.h"
#include "dispatch/cache/plan_cache.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static bool has_no_output(const md_ds_op *op, const md_fx_binding *b)
{
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        if (op->formula->tensor[t].role != MD_FX_OUTPUT)
            continue;
        bool is_empty = false;
        for (int32_t a = 0; a < b->tensor[t].rank; a++)
            is_empty |= b->tensor[t].size[a] == 0;
        if (!is_empty)
            return false;
    }
    return true;
}

md_status md_ds_bind(md_ds_bound *out, const md_ds_op *op, const md_arg *args, int32_t n_args)
{
    MD_TRY(md_ds_as_take(&out->as, &op->space, args, &n_args));
    MD_TRY(md_fx_bind(&out->binding, op->formula, args, n_args));
    out->is_empty = has_no_output(op, &out->binding);
    out->plan = NULL;
    out->is_timed = out->is_sample = out->is_patient = false;
    MD_TRY(md_ds_find_aliases(&out->copies, op, &out->binding));
    md_ds_shape_of(&out->shape, op, &out->binding);
    return MD_OK;
}

/* "host", "cuda:1". */
static void device_name(char out[32], const md_dev *dev)
{
    if (dev->facts.kind == MD_DEV_CUDA)
        snprintf(out, 32, "cuda:%d", (int)dev->facts.index);
    else
        snprintf(out, 32, "%s", dev->ops->name);
}

static md_status check_pointer(const md_ds_op *op, int32_t tensor, const md_tensor *x)
{
    md_dev *dev = op->runtime->dev;
    char why[200], device[32];
    if (!x->data || md_ds_span(x) == 0)
        return MD_OK;
    md_status s = dev->ops->check_pointer(dev, x->data);
    if (s == MD_OK)
        return MD_OK;
    snprintf(why, sizeof why, "%s", md_last_error());
    device_name(device, dev);
    return md_fail(s, "op %s: argument '%s': %s; the op runs on %s", op->name, op->formula->tensor[tensor].name, why,
                   device);
}

md_status md_ds_check_pointers(const md_ds_op *op, const md_ds_bound *bound)
{
    if (!op->runtime->dev->ops->check_pointer)
        return MD_OK;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->formula->tensor[t].role != MD_FX_TEMP)
            MD_TRY(check_pointer(op, t, &bound->binding.tensor[t]));
    for (int32_t i = 0; i < bound->copies.n; i++)
        MD_TRY(check_pointer(op, bound->copies.tensor[i], &bound->copies.from[i]));
    return MD_OK;
}

static md_status check_stream(const md_ds_op *op, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    char why[200];
    if (!dev->ops->check_stream || dev->ops->check_stream(dev, stream) == MD_OK)
        return MD_OK;
    snprintf(why, sizeof why, "%s", md_last_error());
    return md_fail(MD_INVALID_ARGUMENT, "op %s: %s", op->name, why);
}

static md_status fail_frozen(const md_ds_op *op)
{
    return md_fail(MD_UNSUPPORTED,
                   "op %s is frozen, and this shape was not met before: call md_prepare for it before md_freeze",
                   op->name);
}

static md_status choose_captured(md_ds_shape_entry **out, md_ds_op *op, const md_ds_bound *bound, const md_ds_key *key)
{
    atomic_fetch_add_explicit(&op->count.captured_misses, 1, memory_order_relaxed);
    if (atomic_load_explicit(&op->frozen, memory_order_relaxed) == MD_DS_FROZEN_FAIL)
        return fail_frozen(op);
    md_status s = md_ds_shape_entry_add(out, op, key, &bound->shape, &bound->as, NULL, MD_DS_ONLY_READY);
    return s != MD_NOT_FOUND
               ? s
               : md_fail(MD_UNSUPPORTED,
                         "op %s: no kernel that is ready fits this shape, and none can be built while a stream is "
                         "captured: call md_prepare for it before",
                         op->name);
}

/* Nothing is built; what the reference is used for is not remembered. */
static md_status choose_frozen(md_ds_shape_entry **out, md_ds_op *op, const md_ds_bound *bound, const md_ds_key *key)
{
    int32_t frozen = atomic_load_explicit(&op->frozen, memory_order_relaxed);
    atomic_fetch_add_explicit(&op->count.frozen_misses, 1, memory_order_relaxed);
    if (frozen == MD_DS_FROZEN_FAIL)
        return fail_frozen(op);
    md_status s = md_ds_shape_entry_add(out, op, key, &bound->shape, &bound->as, NULL, MD_DS_ONLY_READY);
    if (s == MD_NOT_FOUND && frozen == MD_DS_FROZEN_REFERENCE)
        return md_ds_shape_entry_add(out, op, key, &bound->shape, &bound->as, NULL, MD_DS_REFERENCE_ONLY);
    return s != MD_NOT_FOUND
               ? s
               : md_fail(MD_UNSUPPORTED,
                         "op %s is frozen, and no kernel that is ready fits this shape: call md_prepare for it "
                         "before md_freeze",
                         op->name);
}

/* What a miss that measures needs; stored temporaries and copies of inputs have no data yet, and measuring makes
 * some up. */
static md_status choose_new(md_ds_shape_entry **out, md_ds_op *op, md_stream stream, const md_ds_bound *bound,
                            const md_ds_key *key)
{
    md_kn_call call;
    MD_TRY(md_ds_check_pointers(op, bound));
    md_ds_effort effort = bound->is_patient || op->runtime->waits ? MD_DS_BEST : MD_DS_SOON;
    if (md_ds_is_capturing(op->runtime, stream))
        return choose_captured(out, op, bound, key);
    MD_TRY(check_stream(op, stream));
    if (atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN)
        return choose_frozen(out, op, bound, key);
    if (op->policy.select != MD_SELECT_MEASURE)
        return md_ds_shape_entry_add(out, op, key, &bound->shape, &bound->as, NULL, effort);
    md_ds_fill_call(&call, op, bound);
    call.stream = stream;
    return md_ds_shape_entry_add(out, op, key, &bound->shape, &bound->as, &call, effort);
}

md_status md_ds_find(md_ds_shape_entry **out, md_ds_op *op, md_stream stream, const md_ds_bound *bound)
{
    md_ds_key key;
    md_ds_key_of(&key, op, &bound->shape, &bound->as);
    *out = md_ds_shape_entry_find(op, &key);
    return *out ? MD_OK : choose_new(out, op, stream, bound, &key);
}

/* ---- Plans: a shape that was met twice has one */

/* Room for a plan; NULL where there is none. A table that is too narrow is emptied, and a wider one put in front of
 * it. */
static md_ds_plan_cache *plan_cache_for(md_ds_op *op, const md_ds_encoded_plan *encoded)
{
    md_ds_plan_cache *old = atomic_load_explicit(&op->plan_cache, memory_order_acquire);
    if (old && md_ds_plan_cache_hold(old, encoded))
        return old;
    md_ds_plan_cache *plan_cache = md_ds_plan_cache_create(op->max_entries, encoded, old);
    if (!plan_cache)
        return NULL;
    md_ds_plan_cache *seen = old;
    if (atomic_compare_exchange_strong_explicit(&op->plan_cache, &seen, plan_cache, memory_order_acq_rel,
                                                memory_order_acquire)) {
        (void)md_ds_plan_cache_drop(old, op);
        return plan_cache;
    }
    md_ds_plan_cache_disown(plan_cache); /* another thread was first */
    return md_ds_plan_cache_hold(seen, encoded) ? seen : NULL;
}

void md_ds_add_launch_plan(md_ds_op *op, const md_ds_call_args *call, md_ds_shape_entry *entry,
                           const md_ds_bound *bound)
{
    md_ds_word launch_plan[MD_DS_LAUNCH_PLAN_WORDS];
    md_ds_encoded_plan encoded;
    md_ds_plan_cache *plan_cache = NULL;
    md_ds_plan *plan = md_ds_plan_of(entry);
    if (entry->is_loose || plan->is_makeshift || atomic_load_explicit(&plan->has_no_launch_plan, memory_order_relaxed))
        return;
    int32_t n = md_ds_launch_plan_make(launch_plan, op, call, plan, bound);
    if (n) {
        md_ds_launch_plan_head_of(op, launch_plan)->every =
            (uint16_t)md_ds_hybrid_every(op, entry, op->takes_times || op->hybrid ? MD_DS_SAMPLE_EVERY : 0);
        md_ds_encoded_plan_make(&encoded, op, launch_plan, n);
        plan_cache = plan_cache_for(op, &encoded);
    }
    if (plan_cache)
        md_ds_plan_cache_publish(plan_cache, op, call->hash, &encoded, entry, plan);
    else if (bound->copies.n == 0) /* inputs that must be copied are this call's, not the shape's */
        atomic_store_explicit(&plan->has_no_launch_plan, true, memory_order_relaxed);
}

/* ---- The long way */

md_status md_ds_slow_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args,
                          const md_ds_call_args *layout, bool is_sample)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    atomic_fetch_add_explicit(&op->count.calls, 1, memory_order_relaxed);
    MD_TRY(md_ds_bind(&bound, op, args, n_args));
    if (bound.is_empty)
        return MD_OK;
    bound.is_sample = is_sample;
    if (op->runtime->verifies)
        MD_TRY(md_ds_check_pointers(op, &bound));
    if (op->runtime->verifies && !md_ds_is_capturing(op->runtime, stream))
        MD_TRY(check_stream(op, stream));
    if (op->report.host && !md_ds_is_capturing(op->runtime, stream))
        MD_TRY(md_ds_check(op));
    MD_TRY(md_ds_find(&entry, op, stream, &bound));
    if (op->indices)
        md_ds_indices_take(op->indices, op, stream, &bound);
    if (layout && atomic_load_explicit(&entry->calls, memory_order_relaxed) > 0 &&
        (!is_sample || md_ds_hybrid_wants_launch_plan(entry)))
        md_ds_add_launch_plan(op, layout, entry, &bound);
    md_status s = op->hybrid ? md_ds_hybrid_run(op, entry, stream, &bound) : md_ds_run(NULL, op, entry, stream, &bound);
    md_ds_shape_entry_give_back(op, entry);
    return s;
}
