/* The slow call: binds and checks the arguments, finds the shape entry or chooses for a new shape, publishes a launch
 * plan for the next calls, and runs. */
#include "dispatch/call/call.h"

#include "base/status.h"
#include "dispatch/bind/bind.h"
#include "dispatch/cache/encode.h"
#include "dispatch/cache/plan_cache.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/index_sample.h"
#include "dispatch/call/thread_cache.h"
#include "dispatch/hybrid/hybrid.h"
#include "dispatch/run/run.h"

/* ---- New shapes */

static md_status fail_frozen(const md_ds_op *op)
{
    return md_fail(MD_UNSUPPORTED,
                   "op %s is frozen, and this shape was not met before: call md_prepare for it before md_freeze",
                   op->name);
}

static md_status choose_captured(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key,
                                 const md_ds_request *request)
{
    atomic_fetch_add_explicit(&op->count.captured_misses, 1, memory_order_relaxed);
    if (atomic_load_explicit(&op->frozen, memory_order_relaxed) == MD_DS_FROZEN_FAIL)
        return fail_frozen(op);
    md_status s = md_ds_shape_entry_add(out, op, key, request);
    return s != MD_NOT_FOUND
               ? s
               : md_fail(MD_UNSUPPORTED,
                         "op %s: no kernel that is ready fits this shape, and none can be built while a stream is "
                         "captured: call md_prepare for it before",
                         op->name);
}

static md_status choose_frozen(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key, md_ds_request *request)
{
    int32_t frozen = atomic_load_explicit(&op->frozen, memory_order_relaxed);
    atomic_fetch_add_explicit(&op->count.frozen_misses, 1, memory_order_relaxed);
    if (frozen == MD_DS_FROZEN_FAIL)
        return fail_frozen(op);
    md_status s = md_ds_shape_entry_add(out, op, key, request);
    if (s == MD_NOT_FOUND && frozen == MD_DS_FROZEN_REFERENCE) {
        request->effort = MD_DS_REFERENCE_ONLY;
        return md_ds_shape_entry_add(out, op, key, request);
    }
    return s != MD_NOT_FOUND
               ? s
               : md_fail(MD_UNSUPPORTED,
                         "op %s is frozen, and no kernel that is ready fits this shape: call md_prepare for it "
                         "before md_freeze",
                         op->name);
}

/* A miss that measures needs the data of the call. Stored temporaries and copies of inputs have none yet; measuring
 * makes some up. */
static md_status choose_new(md_ds_shape_entry **out, md_ds_op *op, md_stream stream, const md_ds_bound *bound,
                            const md_ds_key *key)
{
    md_kn_call call;
    md_ds_request request = {.shape = &bound->shape,
                             .as = &bound->as,
                             .key = key->word,
                             .key_bytes = (size_t)key->n * sizeof *key->word,
                             .effort = MD_DS_ONLY_READY};
    MD_TRY(md_ds_check_pointers(op, bound));
    if (md_ds_is_capturing(op->runtime, stream))
        return choose_captured(out, op, key, &request);
    MD_TRY(md_ds_check_stream(op, stream));
    if (atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN)
        return choose_frozen(out, op, key, &request);
    request.effort = bound->is_patient || op->runtime->waits ? MD_DS_BEST : MD_DS_SOON;
    if (op->policy.select == MD_SELECT_MEASURE) {
        md_ds_fill_call(&call, op, bound);
        call.stream = stream;
        request.call = &call;
    }
    return md_ds_shape_entry_add(out, op, key, &request);
}

md_status md_ds_find(md_ds_shape_entry **out, md_ds_op *op, md_stream stream, const md_ds_bound *bound)
{
    md_ds_key key;
    md_ds_key_of(&key, op, &bound->shape, &bound->as);
    *out = md_ds_table_find(op, &key);
    if (!*out)
        return choose_new(out, op, stream, bound, &key);
    if (!bound->is_patient || atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN)
        return MD_OK;
    const md_ds_request request = {.shape = &bound->shape,
                                   .as = &bound->as,
                                   .key = key.word,
                                   .key_bytes = (size_t)key.n * sizeof *key.word,
                                   .effort = MD_DS_BEST};
    return md_ds_shape_entry_improve(op, *out, &request);
}

/* ---- Launch plans: made when a shape is met for the second time */

/* The plan cache with room for a plan; NULL if memory is short. A cache whose plan entries are too short is emptied and
 * replaced. */
static md_ds_plan_cache *plan_cache_for(md_ds_op *op, const md_ds_packed_launch *encoded)
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
    md_ds_packed_launch encoded;
    md_ds_plan_cache *plan_cache = NULL;
    md_ds_plan *plan = md_ds_plan_of(entry);
    if (entry->is_loose || plan->is_stand_in || plan->may_load ||
        atomic_load_explicit(&plan->has_no_launch_plan, memory_order_relaxed))
        return;
    plan = md_ds_plan_to_serve(entry);
    int32_t n = md_ds_launch_plan_make(launch_plan, op, call, plan, bound);
    if (n) {
        md_ds_launch_head *head = md_ds_launch_head_of(op, launch_plan);
        head->has_slow_samples = !md_ds_times_launches(op) || md_ds_hybrid_watches(op, entry);
        head->every = (uint16_t)md_ds_hybrid_every(op, entry, op->takes_times ? MD_DS_SAMPLE_EVERY : 0);
        md_ds_encode(&encoded, op, launch_plan, n);
        plan_cache = plan_cache_for(op, &encoded);
    }
    if (plan_cache)
        md_ds_plan_cache_publish(plan_cache, op, call->hash, &encoded, entry, plan);
    else if (bound->copies.n == 0) /* other calls of the shape may need no copies, and can have a launch plan */
        atomic_store_explicit(&plan->has_no_launch_plan, true, memory_order_relaxed);
}

/* ---- The call */

static md_status check(md_ds_op *op, md_stream stream, const md_ds_bound *bound)
{
    const bool is_capturing = md_ds_is_capturing(op->runtime, stream);
    if (op->runtime->verifies)
        MD_TRY(md_ds_check_pointers(op, bound));
    if (op->runtime->verifies && !is_capturing)
        MD_TRY(md_ds_check_stream(op, stream));
    if (op->report.host && !is_capturing)
        MD_TRY(md_ds_check(op));
    return MD_OK;
}

md_status md_ds_slow_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args,
                          const md_ds_call_args *call, bool is_sample)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    atomic_fetch_add_explicit(&op->count.calls, 1, memory_order_relaxed);
    MD_TRY(md_ds_bind(&bound, op, args, n_args));
    if (bound.is_empty) {
        atomic_fetch_add_explicit(&op->count.empty, 1, memory_order_relaxed);
        return MD_OK;
    }
    bound.is_sample = is_sample;
    MD_TRY(check(op, stream, &bound));
    MD_TRY(md_ds_find(&entry, op, stream, &bound));
    if (md_ds_plan_of(entry)->may_load)
        md_ds_load_if_it_pays(op, entry, &bound.shape);
    if (op->indices)
        md_ds_indices_take(op->indices, op, stream, &bound.binding);
    if (call && atomic_load_explicit(&entry->calls, memory_order_relaxed) > 0 &&
        (!is_sample || md_ds_hybrid_wants_launch_plan(op, entry)))
        md_ds_add_launch_plan(op, call, entry, &bound);
    md_status s =
        op->hybrid ? md_ds_hybrid_run(op, entry, stream, &bound) : md_ds_run(NULL, op, entry, NULL, stream, &bound);
    md_ds_shape_entry_release(entry);
    return s;
}
