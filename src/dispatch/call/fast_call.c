/* The warm way: a call of a shape that was met twice runs by its plan. */
#include "dispatch/call/thread_entry.h"

#include "base/clock.h"

#include <string.h>

typedef enum fast_result {
    FAST_DONE,
    FAST_UNKNOWN, /* no plan of this call was found */
    FAST_UNFIT, /* the long way must look at the arguments */
    FAST_SAMPLE /* the long way shall take its time */
} fast_result;

/* ---- Brief plans: launched from where they lie */

/* A slot under way: all that is read counts if the sequence number is the same at the end. */
typedef struct view {
    const _Atomic uint64_t *slot;
    md_ds_counter *counter;
    uint64_t sequence, what;
} view;

static inline bool look(view *out, const _Atomic uint64_t *slot, md_ds_counter *counter)
{
    out->slot = slot;
    out->counter = counter;
    out->sequence = md_ds_slot_word(slot, MD_DS_SEQUENCE);
    out->what = md_ds_slot_word(slot, MD_DS_WHAT);
    return !(out->sequence & 1);
}

static inline bool is_still(const view *v)
{
    return atomic_load_explicit(&v->slot[MD_DS_SEQUENCE], memory_order_relaxed) == v->sequence;
}

static inline bool has_key(const _Atomic uint64_t *slot, const md_ds_arg_layout *layout, const md_ds_call_args *call)
{
    const int32_t n = layout->n_key - 1;
    const md_ds_half *half = md_ds_slot_halves(slot);
    uint64_t differs = call->key[n] ^ md_ds_slot_word(slot, MD_DS_ALIGNMENT_WORD);
    for (int32_t k = 0; k < n; k++)
        differs |= call->key[k] ^ md_ds_slot_half(half, (uint32_t)k);
    return !differs;
}

/* Counts a call; false once in so many calls as the mask says: its time shall be taken. */
static inline bool count(md_ds_counter *c, const md_ds_thread *thread, uint64_t mask)
{
    const uint64_t n = atomic_load_explicit(c, memory_order_relaxed);
    if (thread->number < MD_DS_SHARDS - 1) /* nobody else adds here */
        atomic_store_explicit(c, n + 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
    return (~n & mask) != 0;
}

typedef struct launch { /* of a brief plan: nothing of it lies in the slot any more */
    const md_ds_param_map *param_map;
    md_kn_geometry geometry;
    const md_kn_word *params;
} launch;

/* The recipe is right whatever the slot's other words are now; its numbers are within what may be read. */
static inline void prepare(launch *out, md_kn_word *params, const view *v, const md_ds_arg_layout *layout,
                           const md_ds_word *from)
{
    const md_ds_param_map *param_map = out->param_map = md_ds_param_map_in(v->what);
    const _Atomic uint64_t *literal = v->slot + MD_DS_HALVES + md_ds_halves_of(layout) / 2;
    const md_ds_relocation *relocation = param_map->relocation;
    md_ds_word *to = (md_ds_word *)params;
    const int32_t n = param_map->n_params, n_relocations = param_map->n_relocations;
    out->params = params;
    md_ds_slot_geometry(&out->geometry, v->slot);
    for (int32_t i = 0; i < n; i++)
        to[i] = from[param_map->source[i]];
    for (int32_t i = 0; i < n_relocations; i++)
        to[relocation[i].word] = md_ds_slot_word(literal, (uint32_t)i);
}

static inline md_status launch_it(const md_ds_op *op, const launch *l, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    return dev->ops->launch(dev, stream, l->param_map->kernel, &l->geometry,
                            (md_dev_params){l->params, l->param_map->n_params}, NULL);
}

/* For profilers: the launch by its variant's name, in the op's. */
static __attribute__((noinline)) md_status launch_named(const md_ds_op *op, const launch *l, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    dev->ops->range_push(dev, op->name);
    dev->ops->range_push(dev, l->param_map->variant);
    md_status s = launch_it(op, l, stream);
    dev->ops->range_pop(dev);
    dev->ops->range_pop(dev);
    return s;
}

static fast_result run_timed(md_status *status, md_ds_counter *counter, bool is_timed, const md_ds_op *op,
                             const launch *l, md_stream stream)
{
    if (!is_timed) {
        md_ds_count_elsewhere(counter);
        return FAST_SAMPLE;
    }
    const uint64_t start = md_clock_ns();
    *status = launch_it(op, l, stream);
    md_ds_count_time(counter, md_clock_ns() - start);
    return FAST_DONE;
}

/* ---- Others: from the thread's copy, which is made by the slot's words */

static bool copy(md_ds_thread_plan *out, const view *v, const md_ds_arg_layout *layout, const md_ds_call_args *call)
{
    md_ds_word *launch_plan = out->plan_args.launch_plan;
    const uint32_t n = (uint32_t)v->what, n_upper = (uint32_t)(v->what >> 32);
    const _Atomic uint64_t *half = v->slot + MD_DS_WHAT + 1, *upper = half + (n + 1) / 2;
    if (n < (uint32_t)layout->n_key || n > MD_DS_LAUNCH_PLAN_WORDS || n_upper > n)
        return false;
    for (uint32_t i = 0; i < n; i += 2, half++) {
        const uint64_t two = md_ds_slot_word(half, 0);
        launch_plan[i] = (uint32_t)two;
        launch_plan[i + 1] = two >> 32;
    }
    for (uint32_t i = 0; i < n_upper; i++) {
        const uint64_t word = md_ds_slot_word(upper, i);
        if (word >> 32 < n) /* else it is being written, and all this is thrown away */
            launch_plan[word >> 32] |= word << 32;
    }
    out->sequence_of = &v->slot[MD_DS_SEQUENCE];
    out->sequence = v->sequence;
    out->counter = v->counter;
    return is_still(v) && !memcmp(launch_plan, call->key, (size_t)layout->n_key * sizeof *launch_plan);
}

static fast_result run_last(md_status *status, md_ds_op *op, md_ds_thread_plan *thread_plan, const md_ds_thread *thread,
                            md_stream stream)
{
    if (!md_ds_launch_plan_fits(op, &thread_plan->plan_args))
        return FAST_UNFIT;
    const uint64_t every = md_ds_launch_plan_head_of(op, thread_plan->plan_args.launch_plan)->every;
    if (count(thread_plan->counter, thread, every - 1)) { /* 0: never */
        *status = md_ds_launch_plan_run(op, &thread_plan->plan_args, stream);
        return FAST_DONE;
    }
    if (!md_ds_times_itself(op)) {
        md_ds_count_elsewhere(thread_plan->counter);
        return FAST_SAMPLE;
    }
    const uint64_t start = md_clock_ns();
    *status = md_ds_launch_plan_run(op, &thread_plan->plan_args, stream);
    md_ds_count_time(thread_plan->counter, md_clock_ns() - start);
    return FAST_DONE;
}

static void set_data(md_ds_plan_args *plan_args, const md_ds_arg_layout *layout, const md_ds_call_args *call)
{
    memcpy(plan_args->data, call->data, (size_t)layout->n_tensors * sizeof *call->data);
    memcpy(plan_args->scalar, call->scalar, (size_t)layout->n_scalars * sizeof *call->scalar);
}

static __attribute__((noinline)) fast_result run_copy(md_status *status, md_ds_op *op, md_ds_thread *thread,
                                                      md_stream stream, md_ds_thread_plan *thread_plan,
                                                      const md_arg *args)
{
    const md_ds_arg_layout *w = &op->layout;
    md_ds_call_args call;
    if (thread_plan->serial != op->serial ||
        atomic_load_explicit(thread_plan->sequence_of, memory_order_relaxed) != thread_plan->sequence ||
        !md_ds_call_args_take(&call, w, args, w->n_args) ||
        memcmp(call.key, thread_plan->plan_args.launch_plan, (size_t)w->n_key * sizeof *call.key))
        return FAST_UNKNOWN;
    set_data(&thread_plan->plan_args, w, &call);
    return run_last(status, op, thread_plan, thread, stream);
}

/* ---- By entries of the thread */

static fast_result run_brief(md_status *status, const view *v, md_ds_op *op, md_ds_thread *thread,
                             const md_ds_call_args *call, md_stream stream)
{
    launch l;
    md_kn_word params[MD_DS_MOST_BRIEF_PARAMS];
    const md_ds_half *halves = md_ds_slot_halves(v->slot);
    if (!md_ds_no_alias(halves + op->layout.n_key - 1, &op->layout, call->data))
        return is_still(v) ? FAST_UNFIT : FAST_UNKNOWN;
    prepare(&l, params, v, &op->layout, call->key);
    if (!is_still(v))
        return FAST_UNKNOWN;
    md_ds_cache_line *front = md_ds_thread_entry_place(thread, op, call, false);
    const uint64_t mask = md_ds_every_mask(v->what);
    const bool is_timed = v->what & MD_DS_TIMED;
    if (front)
        (void)md_ds_thread_entry_set(front, op, call,
                                     &(md_ds_thread_entry_source){.slot = v->slot,
                                                                  .sequence = v->sequence,
                                                                  .counter = v->counter,
                                                                  .mask = mask,
                                                                  .is_timed = is_timed,
                                                                  .param_map = l.param_map,
                                                                  .geometry = &l.geometry,
                                                                  .params = l.params,
                                                                  .halves = halves});
    if (!count(v->counter, thread, mask))
        return run_timed(status, v->counter, is_timed, op, &l, stream);
    *status = op->runtime->dev->ops->range_push ? launch_named(op, &l, stream) : launch_it(op, &l, stream);
    return FAST_DONE;
}

/* Takes a call as md_ds_call_args_take does, but only where its key is the entry's. */
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
            const md_ds_half place = md_ds_thread_entry_halves(e, layout)[md_ds_halves_of(layout) + a->slot];
            if (!md_ds_take_scalar(&scalar, a, arg))
                return md_ds_thread_entry_forget(e);
            if (place)
                e->word[place - 1] = scalar;
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

static __attribute__((noinline)) fast_result run_rarely(md_status *status, const md_ds_op *op, md_ds_thread_entry *e,
                                                        md_stream stream, bool is_sample)
{
    launch l = {.param_map = e->param_map, .geometry = e->geometry};
    l.params = (const md_kn_word *)e->word;
    if (is_sample)
        return run_timed(status, e->counter, e->is_timed, op, &l, stream);
    *status = launch_named(op, &l, stream);
    return FAST_DONE;
}

static inline uint64_t look_at(const md_ds_arg_layout *layout, const md_tensor *t, int32_t i)
{
    uint64_t word;
    memcpy(&word, (const char *)t + layout->look[i], sizeof word);
    return word;
}

/* In another way of the set than the first; NULL. */
static const md_ds_cache_line *find_front(md_ds_thread_entry **entry, md_ds_thread *thread, uint32_t set, uint64_t tag)
{
    for (uint32_t way = 0; way < MD_DS_CACHE_WAYS; way++)
        if (thread->front[set][way].tag == tag) {
            *entry = md_ds_thread_entry_in(&thread->place[set][way]);
            return &thread->front[set][way];
        }
    return NULL;
}

/* By a plan that the thread used before; UNKNOWN where there is none of these sizes. `mix`: what was made of them,
 * if it came so far. */
__attribute__((always_inline)) static inline fast_result
run_by_args(md_status *status, uint64_t *mix, md_ds_op *op, md_ds_thread *thread, md_stream stream, const md_arg *args)
{
    const md_ds_arg_layout *w = &op->layout;
    const md_arg *a = &args[w->first], *z = &args[w->last];
    if (a->kind != MD_ARG_TENSOR || !a->tensor || z->kind != MD_ARG_TENSOR || !z->tensor)
        return FAST_UNKNOWN;
    const uint64_t mixed = md_ds_mix(op, look_at(w, a->tensor, 0), look_at(w, a->tensor, 1), look_at(w, z->tensor, 2)),
                   tag = md_ds_cache_tag(op, mixed);
    *mix = mixed;
    const uint32_t set = md_ds_cache_set(mixed), first = md_ds_cache_way(mixed);
    const md_ds_cache_line *f = &thread->front[set][first];
    md_ds_thread_entry *e = md_ds_thread_entry_in(&thread->place[set][first]);
    if (__builtin_expect(f->tag != tag, 0) && !(f = find_front(&e, thread, set, tag)))
        return FAST_UNKNOWN;
    for (int32_t line = 1; line < 6; line++)
        __builtin_prefetch((const char *)e + 64 * line, 1);
    if (__builtin_expect(f->entry != e, 0)) {
        e = f->entry;
        /* so that else nothing waits for the front: the processor goes on with the entry that it expects */
        __asm__("" : "+r"(e));
    }
    if (__builtin_expect(!e->slot, 0))
        return e->thread_plan ? run_copy(status, op, thread, stream, e->thread_plan, args) : FAST_UNKNOWN;
    if (atomic_load_explicit(&op->generation, memory_order_relaxed) != e->generation &&
        !md_ds_thread_entry_is_still(e, op))
        return FAST_UNKNOWN;
    if (!match(e, op, args))
        return FAST_UNKNOWN;
    md_dev *dev = op->runtime->dev;
    const bool is_sample = !count(e->counter, thread, e->mask);
    if (__builtin_expect(is_sample || dev->ops->range_push, 0))
        return run_rarely(status, op, e, stream, is_sample);
    *status = dev->ops->launch(dev, stream, e->kernel, &e->geometry,
                               (md_dev_params){(const md_kn_word *)e->word, e->n_params}, NULL);
    return FAST_DONE;
}

/* A plan that is not brief is copied to the thread. */
static __attribute__((noinline)) fast_result run_by_copy(md_status *status, md_ds_op *op, md_ds_thread *thread,
                                                         md_stream stream, const view *v, const md_ds_call_args *call)
{
    md_ds_thread_plan *l = &thread->thread_plan[thread->turn++ % MD_DS_THREAD_PLANS];
    md_ds_thread_entry_let_go(l);
    l->serial = 0;
    if (!copy(l, v, &op->layout, call))
        return FAST_UNKNOWN;
    l->serial = op->serial;
    set_data(&l->plan_args, &op->layout, call);
    md_ds_cache_line *front = md_ds_thread_entry_place(thread, op, call, true);
    if (front &&
        !(md_ds_launch_plan_fits(op, &l->plan_args) && md_ds_thread_entry_set_copy(front, op, call, v->slot, l))) {
        md_ds_thread_entry_clear(front->entry);
        front->entry->thread_plan = l;
    }
    return run_last(status, op, l, thread, stream);
}

/* By the plan in the op's slots. */
__attribute__((hot)) static fast_result run_by_call(md_status *status, md_ds_op *op, md_ds_thread *thread,
                                                    md_stream stream, const md_ds_call_args *call)
{
    view v;
    md_ds_counter *counter;
    md_ds_plan_cache *plan_cache = atomic_load_explicit(&op->plan_cache, memory_order_acquire);
    const _Atomic uint64_t *slot =
        plan_cache ? md_ds_plan_cache_find(&counter, plan_cache, call->hash, thread->number) : NULL;
    if (!slot || !look(&v, slot, counter))
        return FAST_UNKNOWN;
    if (!(v.what & MD_DS_BRIEF)) {
        const view own = v;
        return run_by_copy(status, op, thread, stream, &own, call);
    }
    if (!has_key(slot, &op->layout, call))
        return FAST_UNKNOWN;
    return run_brief(status, &v, op, thread, call, stream);
}

/* NULL where the long way must look first. */
static inline md_ds_thread *thread_for(const md_ds_op *op)
{
    if (!op->has_fast_call || (op->report.host && atomic_load_explicit(&op->report.host->is_set, memory_order_relaxed)))
        return NULL;
    return md_ds_thread_get(op->runtime, op->runtime_id);
}

bool md_ds_call_launch_plan(md_status *status, md_ds_op *op, const md_ds_call_args *call, md_stream stream)
{
    md_ds_thread *thread = thread_for(op);
    return thread && run_by_call(status, op, thread, stream, call) == FAST_DONE;
}

/* Apart, since the long way takes kilobytes of the stack. */
static __attribute__((noinline)) md_status call_on(md_ds_op *op, md_ds_thread *thread, md_stream stream,
                                                   const md_arg *args, int32_t n_args, fast_result result,
                                                   uint64_t mixed)
{
    md_ds_call_args call;
    md_status s = MD_OK;
    if (thread && result == FAST_UNKNOWN) {
        result = FAST_UNFIT;
        if (md_ds_call_args_take(&call, &op->layout, args, n_args)) {
            call.mixed = mixed;
            result = run_by_call(&s, op, thread, stream, &call);
        }
    }
    if (result == FAST_DONE)
        return s;
    bool with_plan = (result == FAST_UNKNOWN && thread) ||
                     (result == FAST_SAMPLE && op->hybrid && md_ds_call_args_take(&call, &op->layout, args, n_args));
    return md_ds_slow_call(op, stream, args, n_args, with_plan ? &call : NULL, result == FAST_SAMPLE);
}

__attribute__((hot)) md_status md_ds_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args)
{
    md_status s;
    md_ds_thread *thread = thread_for(op);
    fast_result result = FAST_UNKNOWN;
    uint64_t mixed = 0;
    if (__builtin_expect(thread && n_args == op->layout.n_args && args, 1) &&
        (result = run_by_args(&s, &mixed, op, thread, stream, args)) == FAST_DONE)
        return s;
    return call_on(op, thread, stream, args, n_args, result, mixed);
}
