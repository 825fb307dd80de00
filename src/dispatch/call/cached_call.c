/* Calls by the op's plan cache. */
#include "dispatch/call/cached_call.h"

#include "base/clock.h"

#include <string.h>

/* ---- Compact plans: launched from their plan entry */

/* A plan entry that is being read. What was read is valid if the sequence number is the same afterwards. */
typedef struct entry_view {
    const _Atomic uint64_t *plan_entry;
    md_ds_counter *counter;
    uint64_t sequence, descriptor;
} entry_view;

static inline bool begin_read(entry_view *out, const _Atomic uint64_t *plan_entry, md_ds_counter *counter)
{
    out->plan_entry = plan_entry;
    out->counter = counter;
    out->sequence = md_ds_plan_entry_word(plan_entry, MD_DS_SEQUENCE);
    out->descriptor = md_ds_plan_entry_word(plan_entry, MD_DS_DESCRIPTOR);
    return !(out->sequence & 1);
}

static inline bool is_unchanged(const entry_view *v)
{
    return atomic_load_explicit(&v->plan_entry[MD_DS_SEQUENCE], memory_order_relaxed) == v->sequence;
}

static inline bool has_key(const _Atomic uint64_t *plan_entry, const md_ds_arg_layout *layout,
                           const md_ds_call_args *call)
{
    const int32_t n = layout->n_key - 1;
    const md_ds_half *half = md_ds_plan_entry_halves(plan_entry);
    uint64_t differs = call->key[n] ^ md_ds_plan_entry_word(plan_entry, MD_DS_ALIGNMENT_WORD);
    for (int32_t k = 0; k < n; k++)
        differs |= call->key[k] ^ md_ds_plan_entry_half(half, (uint32_t)k);
    return !differs;
}

/* Reads geometry and parameters. The param map is valid even if the plan entry is being written meanwhile, and its
 * numbers stay within memory that may be read. */
static inline void prepare(md_ds_launch *out, md_kn_word *params, const entry_view *v, const md_ds_arg_layout *layout,
                           const md_ds_word *from)
{
    const md_ds_param_map *param_map = out->param_map = md_ds_param_map_in(v->descriptor);
    const _Atomic uint64_t *literal = v->plan_entry + MD_DS_HALVES + md_ds_halves_of(layout) / 2;
    const md_ds_relocation *relocation = param_map->relocation;
    md_ds_word *to = (md_ds_word *)params;
    const int32_t n = param_map->n_params, n_relocations = param_map->n_relocations;
    out->params = params;
    md_ds_plan_entry_geometry(&out->geometry, v->plan_entry);
    for (int32_t i = 0; i < n; i++)
        to[i] = from[param_map->source[i]];
    for (int32_t i = 0; i < n_relocations; i++)
        to[relocation[i].word] = md_ds_plan_entry_word(literal, (uint32_t)i);
}

static inline md_status launch_it(const md_ds_op *op, const md_ds_launch *l, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    return dev->ops->launch(dev, stream, l->param_map->kernel, &l->geometry,
                            (md_dev_params){l->params, l->param_map->n_params}, NULL);
}

__attribute__((noinline)) md_status md_ds_launch_named(const md_ds_op *op, const md_ds_launch *l, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    dev->ops->range_push(dev, op->name);
    dev->ops->range_push(dev, l->param_map->variant);
    md_status s = launch_it(op, l, stream);
    dev->ops->range_pop(dev);
    dev->ops->range_pop(dev);
    return s;
}

md_ds_fast_result md_ds_launch_timed(md_status *status, md_ds_counter *counter, bool is_timed, const md_ds_op *op,
                                     const md_ds_launch *l, md_stream stream)
{
    if (!is_timed) {
        md_ds_count_elsewhere(counter);
        return MD_DS_FAST_SAMPLE;
    }
    const uint64_t start = md_clock_ns();
    *status = launch_it(op, l, stream);
    md_ds_count_time(counter, md_clock_ns() - start);
    return MD_DS_FAST_DONE;
}

/* ---- Other plans: run from the thread's copy */

static bool copy(md_ds_thread_launch *out, const entry_view *v, const md_ds_arg_layout *layout,
                 const md_ds_call_args *call)
{
    md_ds_word *launch_plan = out->launch_args.launch_plan;
    const uint32_t n = (uint32_t)v->descriptor, n_upper = (uint32_t)(v->descriptor >> 32);
    const _Atomic uint64_t *half = v->plan_entry + MD_DS_DESCRIPTOR + 1, *upper = half + (n + 1) / 2;
    if (n < (uint32_t)layout->n_key || n > MD_DS_LAUNCH_PLAN_WORDS || n_upper > n)
        return false;
    for (uint32_t i = 0; i < n; i += 2, half++) {
        const uint64_t two = md_ds_plan_entry_word(half, 0);
        launch_plan[i] = (uint32_t)two;
        launch_plan[i + 1] = two >> 32;
    }
    for (uint32_t i = 0; i < n_upper; i++) {
        const uint64_t word = md_ds_plan_entry_word(upper, i);
        if (word >> 32 < n) /* a reader met the entry while it was written; it will discard the copy */
            launch_plan[word >> 32] |= word << 32;
    }
    out->sequence_of = &v->plan_entry[MD_DS_SEQUENCE];
    out->sequence = v->sequence;
    out->counter = v->counter;
    return is_unchanged(v) && !memcmp(launch_plan, call->key, (size_t)layout->n_key * sizeof *launch_plan);
}

static md_ds_fast_result run_thread_plan(md_status *status, md_ds_op *op, md_ds_thread_launch *thread_launch,
                                         const md_ds_thread *thread, md_stream stream)
{
    if (!md_ds_launch_plan_fits(op, &thread_launch->launch_args))
        return MD_DS_FAST_UNFIT;
    const md_ds_launch_head *head = md_ds_launch_head_of(op, thread_launch->launch_args.launch_plan);
    if (md_ds_count_call(thread_launch->counter, thread, (uint64_t)head->every - 1)) { /* every 0: never sampled */
        *status = md_ds_launch_plan_run(op, &thread_launch->launch_args, stream);
        return MD_DS_FAST_DONE;
    }
    if (head->has_slow_samples) {
        md_ds_count_elsewhere(thread_launch->counter);
        return MD_DS_FAST_SAMPLE;
    }
    const uint64_t start = md_clock_ns();
    *status = md_ds_launch_plan_run(op, &thread_launch->launch_args, stream);
    md_ds_count_time(thread_launch->counter, md_clock_ns() - start);
    return MD_DS_FAST_DONE;
}

static void set_data(md_ds_launch_args *launch_args, const md_ds_arg_layout *layout, const md_ds_call_args *call)
{
    memcpy(launch_args->data, call->data, (size_t)layout->n_tensors * sizeof *call->data);
    memcpy(launch_args->scalar, call->scalar, (size_t)layout->n_scalars * sizeof *call->scalar);
}

md_ds_fast_result md_ds_run_copy(md_status *status, md_ds_op *op, md_ds_thread *thread, md_stream stream,
                                 md_ds_thread_launch *thread_launch, const md_arg *args)
{
    const md_ds_arg_layout *layout = &op->layout;
    md_ds_call_args call;
    if (thread_launch->serial != op->serial ||
        atomic_load_explicit(thread_launch->sequence_of, memory_order_relaxed) != thread_launch->sequence ||
        !md_ds_call_args_take(&call, layout, args, layout->n_args) ||
        memcmp(call.key, thread_launch->launch_args.launch_plan, (size_t)layout->n_key * sizeof *call.key))
        return MD_DS_FAST_UNKNOWN;
    set_data(&thread_launch->launch_args, layout, &call);
    return run_thread_plan(status, op, thread_launch, thread, stream);
}

/* ---- By the plan entry */

static md_ds_fast_result run_compact(md_status *status, const entry_view *v, md_ds_op *op, md_ds_thread *thread,
                                     const md_ds_call_args *call, md_stream stream)
{
    md_ds_launch l;
    md_kn_word params[MD_DS_MOST_COMPACT_PARAMS];
    const md_ds_half *halves = md_ds_plan_entry_halves(v->plan_entry);
    if (!md_ds_no_alias(halves + op->layout.n_key - 1, &op->layout, call->data))
        return is_unchanged(v) ? MD_DS_FAST_UNFIT : MD_DS_FAST_UNKNOWN;
    prepare(&l, params, v, &op->layout, call->key);
    if (!is_unchanged(v))
        return MD_DS_FAST_UNKNOWN;
    md_ds_cached *cached = md_ds_thread_entry_place(thread, op, call, false);
    const uint64_t mask = md_ds_every_mask(v->descriptor);
    const bool is_timed = v->descriptor & MD_DS_TIMED;
    if (cached)
        (void)md_ds_thread_entry_set(cached, op, call,
                                     &(md_ds_thread_entry_source){.plan_entry = v->plan_entry,
                                                                  .sequence = v->sequence,
                                                                  .counter = v->counter,
                                                                  .mask = mask,
                                                                  .is_timed = is_timed,
                                                                  .param_map = l.param_map,
                                                                  .geometry = &l.geometry,
                                                                  .params = l.params,
                                                                  .halves = halves});
    if (!md_ds_count_call(v->counter, thread, mask))
        return md_ds_launch_timed(status, v->counter, is_timed, op, &l, stream);
    *status = op->runtime->dev->ops->range_push ? md_ds_launch_named(op, &l, stream) : launch_it(op, &l, stream);
    return MD_DS_FAST_DONE;
}

static __attribute__((noinline)) md_ds_fast_result run_by_copy(md_status *status, md_ds_op *op, md_ds_thread *thread,
                                                               md_stream stream, const entry_view *v,
                                                               const md_ds_call_args *call)
{
    md_ds_thread_launch *l = &thread->thread_launch[thread->next_victim++ % MD_DS_THREAD_LAUNCHES];
    md_ds_thread_entry_release(l);
    l->serial = 0;
    if (!copy(l, v, &op->layout, call))
        return MD_DS_FAST_UNKNOWN;
    l->serial = op->serial;
    set_data(&l->launch_args, &op->layout, call);
    md_ds_cached *cached = md_ds_thread_entry_place(thread, op, call, true);
    if (cached && !(md_ds_launch_plan_fits(op, &l->launch_args) &&
                    md_ds_thread_entry_set_copy(cached, op, call, v->plan_entry, l))) {
        md_ds_thread_entry_clear(cached->entry);
        cached->entry->thread_launch = l;
    }
    return run_thread_plan(status, op, l, thread, stream);
}

__attribute__((hot)) md_ds_fast_result md_ds_run_cached(md_status *status, md_ds_op *op, md_ds_thread *thread,
                                                        md_stream stream, const md_ds_call_args *call)
{
    entry_view v;
    md_ds_counter *counter;
    md_ds_plan_cache *plan_cache = atomic_load_explicit(&op->plan_cache, memory_order_acquire);
    const _Atomic uint64_t *plan_entry =
        plan_cache ? md_ds_plan_cache_find(&counter, plan_cache, call->hash, thread->number) : NULL;
    if (!plan_entry || !begin_read(&v, plan_entry, counter))
        return MD_DS_FAST_UNKNOWN;
    if (!(v.descriptor & MD_DS_COMPACT)) {
        const entry_view own = v;
        return run_by_copy(status, op, thread, stream, &own, call);
    }
    if (!has_key(plan_entry, &op->layout, call))
        return MD_DS_FAST_UNKNOWN;
    return run_compact(status, &v, op, thread, call, stream);
}
