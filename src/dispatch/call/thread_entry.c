/* Entries of a thread cache: where they go, what is in them, and new addresses in them. */
#include "dispatch/call/thread_entry.h"

#include <stdlib.h>
#include <string.h>

bool md_ds_no_alias(const md_ds_half *span, const md_ds_arg_layout *layout, const md_ds_word *data)
{
    const uint32_t n = (uint32_t)layout->n_tensors;
    const md_ds_half *alias = span + n;
    for (uint32_t outputs = layout->outputs; outputs; outputs &= outputs - 1, alias++) {
        const uint32_t o = (uint32_t)__builtin_ctz(outputs);
        const uint64_t lo = data[o], length = md_ds_plan_entry_half(span, o);
        for (uint32_t t = 0; t < n; t++) {
            const uint64_t after = data[t] - lo;
            if (after >= length && -after >= md_ds_plan_entry_half(span, t))
                continue;
            if (t != o && (after != 0 || !(md_ds_plan_entry_half(alias, 0) >> t & 1)))
                return false;
        }
    }
    return true;
}

/* ---- Where entries go */

static uint64_t probe_in(const md_ds_arg_layout *layout, const md_ds_call_args *call, int32_t i)
{
    return layout->probe_key[i] >= 0 ? call->key[layout->probe_key[i]]
                                     : layout->arg[i < 2 ? layout->first : layout->last].head;
}

enum { UNMET = 3 }; /* the bits of a tag that count the calls until an entry is made */

/* The way that has the tag, or one that gets it: the first choice, or one that was never used, or the next victim. */
static md_ds_cached *way_for(md_ds_thread *thread, md_ds_cached *set, uint64_t tag, uint32_t first)
{
    md_ds_cached *cached = set, *end = set + MD_DS_CACHE_WAYS;
    for (; cached < end; cached++)
        if ((cached->tag ^ tag) <= UNMET)
            return cached;
    for (cached = &set[first], end = set; cached->tag && end < set + MD_DS_CACHE_WAYS; end++)
        cached = end;
    if (cached->tag)
        cached = &set[thread->next_victim++ % MD_DS_CACHE_WAYS];
    cached->tag = tag | UNMET;
    return cached;
}

/* Puts an empty entry into the way's place. */
static void make_room(md_ds_cached *cached, md_ds_place *place)
{
    if (cached->entry)
        md_ds_thread_entry_clear(cached->entry);
    if (cached->entry != md_ds_thread_entry_in(place))
        free(cached->entry);
    cached->entry = md_ds_thread_entry_in(place);
    cached->entry->room = MD_DS_THREAD_ENTRY_WORDS;
}

md_ds_cached *md_ds_thread_entry_place(md_ds_thread *thread, const md_ds_op *op, const md_ds_call_args *call,
                                       bool at_once)
{
    const md_ds_arg_layout *layout = &op->layout;
    if (call->key[layout->n_key - 1] >> MD_DS_LAUNCH_PLAN_TENSORS & 1)
        return NULL;
    const uint64_t mixed = call->mixed ? call->mixed
                                       : md_ds_mix_probes(op, probe_in(layout, call, 0), probe_in(layout, call, 1),
                                                          probe_in(layout, call, 2));
    const uint64_t tag = md_ds_cache_tag(op, mixed);
    const uint32_t set = md_ds_cache_set(mixed);
    md_ds_cached *cached = way_for(thread, thread->cached[set], tag, md_ds_cache_first_way(mixed));
    if (cached->tag == tag)
        return cached;
    if (!at_once && (--cached->tag & UNMET) > 0)
        return NULL;
    make_room(cached, &thread->place[set][cached - thread->cached[set]]);
    cached->tag = tag;
    return cached;
}

/* ---- What is in them */

void md_ds_thread_entry_clear(md_ds_thread_entry *entry)
{
    if (entry->thread_launch && entry->thread_launch->user == entry)
        entry->thread_launch->user = NULL;
    entry->plan_entry = NULL;
    entry->thread_launch = NULL;
    entry->maps = NULL;
    entry->n_maps = 0;
}

void md_ds_thread_entry_release(md_ds_thread_launch *thread_launch)
{
    if (thread_launch->user)
        md_ds_thread_entry_clear(thread_launch->user);
    thread_launch->user = NULL;
}

/* Finds the parameter of each tensor's address and of each scalar. False if one is several parameters: then there
 * can be no entry. */
static bool find_places(md_ds_thread_entry *e, const md_ds_param_map *param_map, md_ds_half *scalar)
{
    memset(e->pointer, -1, sizeof e->pointer);
    for (int32_t i = param_map->n_maps * MD_KN_MAP_WORDS; i < param_map->n_params; i++) {
        const int32_t tensor = param_map->source[i] - MD_DS_DATA, which = param_map->source[i] - MD_DS_SCALAR;
        if (param_map->source[i] >= 0)
            continue;
        if (tensor >= 0 ? e->pointer[tensor] >= 0 : scalar[which] != 0)
            return false;
        if (tensor >= 0)
            e->pointer[tensor] = (int8_t)i;
        else
            scalar[which] = (md_ds_half)(i + 1);
    }
    return true;
}

/* Makes room for n words. The contents of a larger entry are undefined. */
static bool widen(md_ds_cached *cached, int32_t n)
{
    if (n <= cached->entry->room)
        return true;
    md_ds_thread_entry *wide = md_ds_alloc_lines(sizeof *wide + (size_t)n * sizeof *wide->word, 64);
    if (!wide)
        return false;
    if (cached->entry->room > MD_DS_THREAD_ENTRY_WORDS) /* a smaller entry lies in its place in md_ds_thread */
        free(cached->entry);
    cached->entry = wide;
    wide->room = n;
    return true;
}

bool md_ds_thread_entry_set(md_ds_cached *cached, const md_ds_op *op, const md_ds_call_args *call,
                            const md_ds_thread_entry_source *from)
{
    const md_ds_arg_layout *layout = &op->layout;
    /* read before the plan entry is checked */
    const uint64_t generation = atomic_load_explicit(&op->generation, memory_order_acquire);
    const int32_t n = (int32_t)md_ds_halves_of(layout), n_params = from->param_map->n_params,
                  n_maps = from->param_map->n_maps;
    md_ds_thread_entry_clear(cached->entry);
    if (layout->n_tensors > MD_DS_THREAD_ENTRY_TENSORS ||
        !widen(cached, n_params + layout->n_tensors + n_maps + n / 2 + (layout->n_scalars + 1) / 2))
        return false;
    md_ds_thread_entry *e = cached->entry;
    e->n_params = n_params;
    e->n_maps = n_maps;
    md_ds_half *halves = md_ds_thread_entry_halves(e, layout);
    for (int32_t i = 0; i < n; i++)
        halves[i] = (md_ds_half)md_ds_plan_entry_half(from->halves, (uint32_t)i);
    memset(halves + n, 0, (size_t)layout->n_scalars * sizeof *halves);
    memcpy(e->word, from->params, (size_t)n_params * sizeof *e->word);
    memcpy(e->word + n_params, call->data, (size_t)layout->n_tensors * sizeof *e->word);
    for (int32_t i = 0; i < n_maps; i++)
        e->word[n_params + layout->n_tensors + i] = from->maps[i].address;
    e->generation = generation;
    e->sequence = from->sequence;
    e->counter = from->counter;
    e->mask = from->mask;
    e->is_timed = from->is_timed;
    e->kernel = from->param_map->kernel;
    e->param_map = from->param_map;
    e->geometry = *from->geometry;
    e->alignment = call->key[layout->n_key - 1];
    if (!find_places(e, from->param_map, halves + n) ||
        atomic_load_explicit(&from->plan_entry[MD_DS_SEQUENCE], memory_order_relaxed) != from->sequence)
        return false;
    e->maps = from->maps;
    e->thread_launch = from->thread_launch;
    if (e->thread_launch)
        e->thread_launch->user = e;
    e->plan_entry = from->plan_entry;
    return true;
}

bool md_ds_thread_entry_is_current(md_ds_thread_entry *e, const md_ds_op *op)
{
    const uint64_t generation = atomic_load_explicit(&op->generation, memory_order_acquire);
    if (atomic_load_explicit(&e->plan_entry[MD_DS_SEQUENCE], memory_order_acquire) != e->sequence)
        return false;
    e->generation = generation;
    return true;
}

/* True if all parameters of the launch are known but for the call's addresses and scalars. */
static bool is_plain(const md_ds_launch_head *head, const md_ds_param_map *param_map, const md_dev_map *maps)
{
    if (head->memory_bytes || head->needs_counters || head->needs_report || head->packing ||
        param_map->n_params > INT8_MAX)
        return false;
    for (int32_t i = 0; i < param_map->n_maps; i++)
        if (maps[i].plus < MD_DS_DATA || maps[i].plus >= 0)
            return false;
    for (int32_t i = 0; i < param_map->n_relocations; i++)
        if (param_map->relocation[i].plus != MD_DS_BASE + (int32_t)MD_DS_NOTHING)
            return false;
    return true;
}

bool md_ds_thread_entry_set_copy(md_ds_cached *cached, const md_ds_op *op, const md_ds_call_args *call,
                                 const _Atomic uint64_t *plan_entry, md_ds_thread_launch *thread_launch)
{
    md_kn_word params[MD_KN_MAX_PARAMS];
    md_ds_word halves[(MD_DS_LAUNCH_PLAN_KEY + 2 * MD_DS_LAUNCH_PLAN_TENSORS + 1) / 2] = {0};
    md_ds_launch_head *head = md_ds_launch_head_of(op, thread_launch->launch_args.launch_plan);
    md_ds_launch_record *l = (md_ds_launch_record *)(head + 1);
    md_dev_map *maps = (md_dev_map *)(l + 1);
    if (head->n_launches != 1 || !is_plain(head, l->param_map, maps) ||
        !md_ds_pack_halves(halves, &op->layout, thread_launch->launch_args.launch_plan))
        return false;
    thread_launch->launch_args.base[MD_DS_NOTHING] = 0;
    for (int32_t i = 0; i < l->param_map->n_maps; i++) {
        const uint64_t address = thread_launch->launch_args.launch_plan[maps[i].plus] + maps[i].offset;
        if (address != maps[i].address &&
            md_ds_map_move(&maps[i], op->runtime->dev, l->param_map->kernel, address) != MD_OK)
            return false;
        memcpy(params + i * MD_KN_MAP_WORDS, maps[i].word, sizeof maps[i].word);
    }
    md_ds_fill_params(params, l->param_map, thread_launch->launch_args.launch_plan,
                      (const md_ds_word *)(maps + l->param_map->n_maps));
    const md_ds_thread_entry_source from = {.plan_entry = plan_entry,
                                            .sequence = thread_launch->sequence,
                                            .counter = thread_launch->counter,
                                            .mask = (uint64_t)head->every - 1,
                                            .is_timed = !head->has_slow_samples,
                                            .param_map = l->param_map,
                                            .geometry = &l->geometry,
                                            .params = params,
                                            .halves = (const md_ds_half *)(const void *)halves,
                                            .thread_launch = thread_launch,
                                            .maps = maps};
    return md_ds_thread_entry_set(cached, op, call, &from);
}

/* Moves the maps among the parameters. */
static bool move_maps(md_ds_thread_entry *e, const md_ds_op *op)
{
    md_dev *dev = op->runtime->dev;
    md_ds_word *data = e->word + e->n_params, *at = data + op->layout.n_tensors;
    for (int32_t i = 0; i < e->n_maps; i++) {
        const uint64_t address = data[e->maps[i].plus - MD_DS_DATA] + e->maps[i].offset;
        if (address == at[i])
            continue;
        md_kn_word *map = (md_kn_word *)e->word + i * MD_KN_MAP_WORDS;
        at[i] = 0; /* cleared until the map has been moved */
        if (!md_dev_map_store(map, e->maps[i].at, address) && dev->ops->map_move(map, dev, e->kernel, address) != MD_OK)
            return false;
        at[i] = address;
    }
    return true;
}

__attribute__((hot)) bool md_ds_thread_entry_move(md_ds_thread_entry *e, const md_ds_op *op, uint64_t low)
{
    const md_ds_arg_layout *layout = &op->layout;
    md_ds_word *params = e->word, *data = params + e->n_params;
    if ((low & 63 ? md_ds_call_args_alignment(layout, data) : layout->all_aligned) != e->alignment ||
        !md_ds_no_alias(md_ds_thread_entry_halves(e, layout) + layout->n_key - 1, layout, data))
        return md_ds_thread_entry_forget(e);
    for (int32_t t = 0; t < layout->n_tensors; t++)
        if (e->pointer[t] >= 0)
            params[e->pointer[t]] = data[t];
    return e->n_maps == 0 || move_maps(e, op) || md_ds_thread_entry_forget(e);
}
