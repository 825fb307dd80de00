/* The call of an op. The thread cache serves most calls; then the op's plan cache; then the slow call. */
#include "dispatch/call/call.h"

#include "dispatch/call/cached_call.h"
#include "dispatch/merged.h"

#include <string.h>

/* What the thread cache found for a call. */
typedef struct fast_try {
    md_ds_fast_result result;
    uint64_t mixed; /* md_ds_mix_probes; 0: not computed */
} fast_try;

/* Reads the arguments as md_ds_call_args_take does, into the entry. False if their key is not the entry's. */
static inline bool match(md_ds_thread_entry *e, const md_ds_op *op, const md_arg *args)
{
    const md_ds_arg_layout *layout = &op->layout;
    uint64_t low = 0, differs = 0, moved = 0;
    const md_ds_half *key = md_ds_thread_entry_halves(e, layout);
    const md_ds_arg_spec *a = layout->arg;
    md_ds_word *data = e->word + e->n_params;
    for (const md_arg *arg = args, *end = args + layout->n_args; arg < end; arg++, a++) {
        if (__builtin_expect(a->is_scalar, 0)) {
            md_ds_word scalar;
            const md_ds_half place = md_ds_thread_entry_halves(e, layout)[md_ds_halves_of(layout) + a->number];
            if (!md_ds_take_scalar(&scalar, a, arg))
                return md_ds_thread_entry_forget(e);
            if (place)
                e->word[place - 1] = scalar;
            else if (a->is_size) /* no kernel reads it as a scalar */
                differs |= scalar ^ *key++;
            continue;
        }
        const md_tensor *t = arg->tensor;
        if (__builtin_expect(arg->kind != MD_ARG_TENSOR || !t, 0))
            return md_ds_thread_entry_forget(e);
        const uint64_t p = (uint64_t)(uintptr_t)t->data;
        const uint32_t rank = a->rank;
        const uint64_t *size = (const uint64_t *)t->size, *stride = (const uint64_t *)t->stride;
        moved |= p ^ *data;
        low |= p;
        differs |= (md_ds_head_of(t) ^ a->head) | !p;
        *data++ = p;
        if (rank > 0)
            differs |= (size[0] ^ key[0]) | (stride[0] ^ key[rank]);
        if (rank > 1)
            differs |= (size[1] ^ key[1]) | (stride[1] ^ key[rank + 1]);
        for (uint32_t k = 2; k < rank; k++)
            differs |= (size[k] ^ key[k]) | (stride[k] ^ key[rank + k]);
        key += 2 * rank;
    }
    if (__builtin_expect(differs != 0, 0))
        return md_ds_thread_entry_forget(e);
    return !moved || md_ds_thread_entry_move(e, op, low);
}

/* A sampled call, or one with a profiler. */
static __attribute__((noinline)) md_ds_fast_result run_special(md_status *status, const md_ds_op *op,
                                                               md_ds_thread_entry *e, md_stream stream, bool is_sample)
{
    md_ds_launch l = {.param_map = e->param_map, .geometry = e->geometry};
    l.params = (const md_kn_word *)e->word;
    if (is_sample)
        return md_ds_launch_timed(status, e->counter, e->is_timed, op, &l, stream);
    *status = md_ds_launch_named(op, &l, stream);
    return MD_DS_FAST_DONE;
}

static inline uint64_t probe_at(const md_ds_arg_layout *layout, const md_tensor *t, int32_t i)
{
    uint64_t word;
    memcpy(&word, (const char *)t + layout->probe_offset[i], sizeof word);
    return word;
}

/* The way of a set that has the tag; NULL: none. *entry is its place. */
static const md_ds_cached *find_way(md_ds_thread_entry **entry, md_ds_thread *thread, uint32_t set, uint64_t tag)
{
    for (uint32_t way = 0; way < MD_DS_CACHE_WAYS; way++)
        if (thread->cached[set][way].tag == tag) {
            *entry = md_ds_thread_entry_in(&thread->place[set][way]);
            return &thread->cached[set][way];
        }
    return NULL;
}

/* Runs a launch plan from the thread cache. */
__attribute__((always_inline)) static inline md_ds_fast_result run_by_entry(md_status *status, uint64_t *mixed_probes,
                                                                            md_ds_op *op, md_ds_thread *thread,
                                                                            md_stream stream, const md_arg *args)
{
    const md_ds_arg_layout *layout = &op->layout;
    const md_arg *a = &args[layout->first], *z = &args[layout->last];
    if (a->kind != MD_ARG_TENSOR || !a->tensor || z->kind != MD_ARG_TENSOR || !z->tensor)
        return MD_DS_FAST_UNKNOWN;
    const uint64_t mixed = md_ds_mix_probes(op, probe_at(layout, a->tensor, 0), probe_at(layout, a->tensor, 1),
                                            probe_at(layout, z->tensor, 2)),
                   tag = md_ds_cache_tag(op, mixed);
    *mixed_probes = mixed;
    const uint32_t set = md_ds_cache_set(mixed), first = md_ds_cache_first_way(mixed);
    const md_ds_cached *cached = &thread->cached[set][first];
    md_ds_thread_entry *e = md_ds_thread_entry_in(&thread->place[set][first]);
    if (__builtin_expect(cached->tag != tag, 0) && !(cached = find_way(&e, thread, set, tag)))
        return MD_DS_FAST_UNKNOWN;
    for (int32_t line = 1; line < 6; line++)
        __builtin_prefetch((const char *)e + 64 * line, 1);
    if (__builtin_expect(cached->entry != e, 0)) {
        e = cached->entry;
        /* Keeps this a branch: with a conditional move, the entry's loads would wait for `f->entry`. */
        __asm__("" : "+r"(e));
    }
    if (__builtin_expect(!e->plan_entry, 0))
        return e->thread_launch ? md_ds_run_copy(status, op, thread, stream, e->thread_launch, args)
                                : MD_DS_FAST_UNKNOWN;
    if (atomic_load_explicit(&op->generation, memory_order_relaxed) != e->generation &&
        !md_ds_thread_entry_is_current(e, op))
        return MD_DS_FAST_UNKNOWN;
    if (!match(e, op, args))
        return MD_DS_FAST_UNKNOWN;
    md_dev *dev = op->runtime->dev;
    const bool is_sample = !md_ds_count_call(e->counter, thread, e->mask);
    if (__builtin_expect(is_sample || dev->ops->range_push, 0))
        return run_special(status, op, e, stream, is_sample);
    *status = dev->ops->launch(dev, stream, e->kernel, &e->geometry,
                               (md_dev_params){(const md_kn_word *)e->word, e->n_params}, NULL);
    return MD_DS_FAST_DONE;
}

/* NULL if the slow call has to serve: no launch plans, or a fault to report. */
static inline md_ds_thread *thread_for(const md_ds_op *op)
{
    if (!op->has_fast_call || (op->report.host && atomic_load_explicit(&op->report.host->is_set, memory_order_relaxed)))
        return NULL;
    return md_ds_thread_get(op->runtime, op->runtime_id);
}

bool md_ds_call_launch_plan(md_status *status, md_ds_op *op, const md_ds_call_args *call, md_stream stream)
{
    md_ds_thread *thread = thread_for(op);
    return thread && md_ds_run_cached(status, op, thread, stream, call) == MD_DS_FAST_DONE;
}

/* Calls whose tensors lie contiguously in merged dims. False: the op itself serves, or says what is wrong. */
static __attribute__((noinline)) bool call_merged(md_status *status, md_ds_op *op, md_stream stream, const md_arg *args,
                                                  int32_t n_args)
{
    md_ds_merged_args merged;
    if (!md_ds_merged_take(&merged, op, args, n_args))
        return false;
    *status = md_ds_call(md_ds_merged_of(op), stream, merged.arg, n_args);
    return *status != MD_INVALID_ARGUMENT;
}

/* Not inlined, since it takes kilobytes of the stack. */
static __attribute__((noinline)) md_status call_on_miss(md_ds_op *op, md_ds_thread *thread, md_stream stream,
                                                        const md_arg *args, int32_t n_args, fast_try tried)
{
    md_ds_fast_result result = tried.result;
    md_ds_call_args call;
    md_status s = MD_OK;
    if (op->merged && call_merged(&s, op, stream, args, n_args))
        return s;
    if (thread && result == MD_DS_FAST_UNKNOWN) {
        result = MD_DS_FAST_UNFIT;
        if (md_ds_call_args_take(&call, &op->layout, args, n_args)) {
            call.mixed = tried.mixed;
            result = md_ds_run_cached(&s, op, thread, stream, &call);
        }
    }
    if (result == MD_DS_FAST_DONE)
        return s;
    const bool wants_plan =
        (result == MD_DS_FAST_UNKNOWN && thread) ||
        (result == MD_DS_FAST_SAMPLE && op->hybrid && md_ds_call_args_take(&call, &op->layout, args, n_args));
    return md_ds_slow_call(op, stream, args, n_args, wants_plan ? &call : NULL, result == MD_DS_FAST_SAMPLE);
}

__attribute__((hot)) md_status md_ds_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args)
{
    md_status s;
    md_ds_thread *thread = thread_for(op);
    md_ds_fast_result result = MD_DS_FAST_UNKNOWN;
    uint64_t mixed = 0;
    if (__builtin_expect(thread && n_args == op->layout.n_args && args, 1) &&
        (result = run_by_entry(&s, &mixed, op, thread, stream, args)) == MD_DS_FAST_DONE)
        return s;
    return call_on_miss(op, thread, stream, args, n_args, (fast_try){result, mixed});
}
