/* Makes and runs launch plans. */
#include "dispatch/cache/launch_plan.h"

#include "base/status.h"
#include "dispatch/bind/bind.h"
#include "dispatch/packed_operand.h"

#include <string.h>

/* ---- Making */

typedef struct writer {
    md_ds_op *op;
    md_ds_word *word;
    int32_t n;
} writer;

/* Zeroed room for n bytes; NULL if the launch plan is full. */
static void *room(writer *w, size_t n_bytes)
{
    int32_t n = (int32_t)((n_bytes + 7) / 8);
    if (w->n + n > MD_DS_LAUNCH_PLAN_WORDS)
        return NULL;
    void *p = w->word + w->n;
    memset(p, 0, (size_t)n * 8);
    w->n += n;
    return p;
}

static bool write_launch(writer *w, md_ds_launch_head *head, const md_ds_stage_launch *launch, const md_kn_geometry *g,
                         md_kn_call *call)
{
    const md_ds_param_map *param_map;
    if (g->blocks <= 0)
        return true;
    if (md_ds_param_map_of(&param_map, w->op, launch->variant, launch->launch) != MD_OK || !param_map)
        return false;
    md_ds_launch_record *l = room(w, sizeof *l);
    md_dev_map *maps = l ? room(w, (size_t)param_map->n_maps * sizeof *maps) : NULL;
    md_ds_word *literals = maps ? room(w, (size_t)param_map->n_relocations * sizeof *literals) : NULL;
    if (!literals)
        return false;
    *l = (md_ds_launch_record){param_map, *g};
    call->blocks = g->blocks;
    head->n_launches++;
    head->needs_report |= param_map->needs_report;
    head->needs_counters |= param_map->needs_counters;
    return md_ds_literals(literals, maps, w->op, param_map, launch, call);
}

static bool write_stage(writer *w, md_ds_launch_head *head, const md_ds_plan *plan, int32_t stage, md_kn_call *call)
{
    const md_ds_stage_choice *s = &plan->stage[stage];
    if (s->is_idle)
        return true;
    md_ds_stage_launch launch = {plan, s->workspace_offset, w->op->stage[stage].variant[s->pick.variant], 0};
    if (s->geometry.packed_bytes > 0 || md_ds_is_kept_stage(w->op, stage)) {
        head->packing = md_ds_packing_of(w->op, stage, launch.variant, call->shape);
        launch.launch = 1;
    }
    if (md_ds_is_kept_stage(w->op, stage))
        return true;
    for (; launch.launch < launch.variant->n_launches; launch.launch++)
        if (!write_launch(w, head, &launch, &s->geometry.launch[launch.launch], call))
            return false;
    return true;
}

/* Bits of the tensors that may be exactly the output: they have its layout, and kernels read an element only to compute
 * the same element of the output. */
static uint64_t aliases_of(const md_ds_op *op, const md_fx_binding *b, int32_t out)
{
    uint64_t mask = 0;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->formula->tensor[t].role == MD_FX_INPUT && op->layout.number[t] >= 0 &&
            md_ds_same_layout(&b->tensor[out], &b->tensor[t]) && md_st_may_alias(op->program, out, t))
            mask |= (uint64_t)1 << op->layout.number[t];
    return mask;
}

/* Writes spans and aliases. */
static bool write_ranges(writer *w, const md_fx_binding *b)
{
    const md_ds_op *op = w->op;
    int32_t n_outputs = 0;
    md_ds_word *span = room(w, (size_t)op->layout.n_tensors * 8),
               *alias = room(w, (size_t)__builtin_popcount(op->layout.outputs) * 8);
    if (!alias)
        return false;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->layout.number[t] >= 0)
            span[op->layout.number[t]] = md_ds_span(&b->tensor[t]);
    for (int32_t i = 0; i < op->layout.n_args; i++) /* tensors in the order of their numbers */
        if (op->layout.arg[i].is_output)
            alias[n_outputs++] = aliases_of(op, b, op->formula->args[i].id);
    return true;
}

int32_t md_ds_launch_plan_make(md_ds_word out[MD_DS_LAUNCH_PLAN_WORDS], md_ds_op *op, const md_ds_call_args *args,
                               const md_ds_plan *plan, const md_ds_bound *bound)
{
    writer w = {op, out, 0};
    md_kn_call call;
    if (plan->by_reference || bound->copies.n > 0 || plan->n_packing > 1)
        return 0;
    memcpy(room(&w, (size_t)op->layout.n_key * 8), args->key, (size_t)op->layout.n_key * 8);
    md_ds_launch_head *head = write_ranges(&w, &bound->binding) ? room(&w, sizeof *head) : NULL;
    if (!head)
        return 0;
    head->memory_bytes = plan->workspace_bytes;
    md_ds_fill_call(&call, op, bound);
    for (int32_t s = 0; s < op->n_stages; s++)
        if (!write_stage(&w, head, plan, s, &call))
            return 0;
    if (plan->n_packing > 0 && !head->packing)
        return 0;
    return w.n;
}

/* ---- Running */

/* Notes in the head where the operands of this call are packed; false: they are not, yet. */
__attribute__((cold, noinline)) static bool find_packed(const md_ds_op *op, md_ds_launch_args *launch_args)
{
    md_ds_launch_head *head = md_ds_launch_head_of(op, launch_args->launch_plan);
    if (head->packing)
        head->packed = md_ds_packed_find(op, head->packing, launch_args->data);
    return !head->packing || head->packed;
}

/* Compares outputs with all other tensors, by byte ranges and exact equality. */
__attribute__((hot)) bool md_ds_launch_plan_fits(const md_ds_op *op, md_ds_launch_args *launch_args)
{
    const md_ds_arg_layout *layout = &op->layout;
    if (__builtin_expect(op->packed != NULL, 0) && !find_packed(op, launch_args))
        return false;
    const md_ds_word *data = launch_args->data, *span = launch_args->launch_plan + layout->n_key,
                     *alias = span + layout->n_tensors;
    const int32_t n = layout->n_tensors;
    for (uint32_t outputs = layout->outputs; outputs; outputs &= outputs - 1, alias++) {
        const int32_t o = __builtin_ctz(outputs);
        const uint64_t lo = data[o], length = span[o];
        for (int32_t t = 0; t < n; t++) {
            const uint64_t after = data[t] - lo;
            /* modulo 2^64: the tensor begins inside the output, or ends after the output's start */
            if (after < length || -after < span[t]) {
                if (t != o && (after != 0 || !(*alias >> t & 1)))
                    return false;
            }
        }
    }
    return true;
}

/* Moves the maps whose tensors lie elsewhere than at the last call. The launch plan is the thread's own copy, so the
 * next call finds them moved. */
__attribute__((hot)) static md_status place_maps(md_kn_word *params, md_dev *dev, const md_ds_param_map *param_map,
                                                 md_dev_map *maps, const md_ds_launch_args *launch_args)
{
    for (int32_t i = 0; i < param_map->n_maps; i++) {
        const uint64_t address = launch_args->launch_plan[maps[i].plus] + maps[i].offset;
        if (address != maps[i].address)
            MD_TRY(md_ds_map_move(&maps[i], dev, param_map->kernel, address));
        memcpy(params + i * MD_KN_MAP_WORDS, maps[i].word, sizeof maps[i].word);
    }
    return MD_OK;
}

__attribute__((hot)) static md_status launch_one(md_dev *dev, md_ds_launch_record *l, md_ds_launch_args *launch_args,
                                                 md_stream stream)
{
    const md_ds_param_map *param_map = l->param_map;
    md_kn_word params[MD_KN_MAX_PARAMS];
    md_dev_map *maps = (md_dev_map *)(l + 1);
    if (param_map->n_maps > 0)
        MD_TRY(place_maps(params, dev, param_map, maps, launch_args));
    md_ds_fill_params(params, param_map, launch_args->launch_plan, (const md_ds_word *)(maps + param_map->n_maps));
    return dev->ops->launch(dev, stream, param_map->kernel, &l->geometry, (md_dev_params){params, param_map->n_params},
                            NULL);
}

static md_ds_launch_record *after(md_ds_launch_record *l)
{
    md_dev_map *maps = (md_dev_map *)(l + 1);
    return (md_ds_launch_record *)(uintptr_t)((md_ds_word *)(maps + l->param_map->n_maps) +
                                              l->param_map->n_relocations);
}

/* For profilers: names each launch by its variant, and all by the op. */
static md_status launch_named(md_ds_op *op, md_ds_launch_head *head, md_ds_launch_args *launch_args, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    md_status status = MD_OK;
    md_ds_launch_record *l = (md_ds_launch_record *)(head + 1);
    dev->ops->range_push(dev, op->name);
    for (uint32_t i = 0; i < head->n_launches && status == MD_OK; i++, l = after(l)) {
        dev->ops->range_push(dev, l->param_map->variant);
        status = launch_one(dev, l, launch_args, stream);
        dev->ops->range_pop(dev);
    }
    dev->ops->range_pop(dev);
    return status;
}

__attribute__((hot)) static md_status launch_all(md_ds_op *op, md_ds_launch_head *head, md_ds_launch_args *launch_args,
                                                 md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    if (dev->ops->range_push)
        return launch_named(op, head, launch_args, stream);
    md_ds_launch_record *l = (md_ds_launch_record *)(head + 1);
    for (uint32_t left = head->n_launches; left > 1; left--, l = after(l))
        MD_TRY(launch_one(dev, l, launch_args, stream));
    return head->n_launches > 0 ? launch_one(dev, l, launch_args, stream) : MD_OK;
}

static md_status run_with_memory(md_ds_op *op, md_ds_launch_head *head, md_ds_launch_args *launch_args,
                                 md_stream stream)
{
    md_ds_runtime *runtime = op->runtime;
    md_dev *dev = runtime->dev;
    md_ds_block *block = NULL;
    md_status status;
    if (!md_ds_is_async(runtime)) {
        MD_TRY(md_ds_borrow(&block, runtime, head->memory_bytes));
        launch_args->base[MD_DS_MEMORY] = (uint64_t)(uintptr_t)block->p;
        status = launch_all(op, head, launch_args, stream);
        md_ds_give_back(runtime, block);
        return status;
    }
    void *memory = NULL;
    pthread_mutex_t *lock = md_ds_stream_lock(runtime, stream);
    pthread_mutex_lock(lock);
    status = dev->ops->workspace(&memory, dev, stream, head->memory_bytes);
    launch_args->base[MD_DS_MEMORY] = (uint64_t)(uintptr_t)memory;
    if (status == MD_OK)
        status = launch_all(op, head, launch_args, stream);
    pthread_mutex_unlock(lock);
    return status;
}

/* -1: not known here. */
static int64_t extent_of(const md_ds_op *op, const md_ds_launch_args *launch_args, const md_kn_report *report)
{
    int32_t at = 0;
    if (report->axis < 0)
        return -1;
    for (int32_t i = 0; i < op->layout.n_args; i++) {
        const md_ds_arg_spec *a = &op->layout.arg[i];
        if (!a->is_scalar && a->number == op->layout.number[report->tensor])
            return (int64_t)launch_args->launch_plan[at + report->axis];
        at += a->is_scalar ? 0 : 2 * a->rank;
    }
    return -1; /* a temporary has no such number */
}

__attribute__((hot)) static md_status run_with(md_ds_op *op, md_ds_launch_head *head, md_ds_launch_args *launch_args,
                                               md_stream stream)
{
    return head->memory_bytes ? run_with_memory(op, head, launch_args, stream)
                              : launch_all(op, head, launch_args, stream);
}

/* Synchronous devices report faults into the call's own memory. */
static md_status run_reported(md_ds_op *op, md_ds_launch_head *head, md_ds_launch_args *launch_args, md_stream stream)
{
    md_kn_report report = {0};
    launch_args->base[MD_DS_REPORT] = (uint64_t)(uintptr_t)&report;
    MD_TRY(run_with(op, head, launch_args, stream));
    if (!atomic_load_explicit(&report.is_set, memory_order_acquire))
        return MD_OK;
    const md_ds_fault fault = {report.tensor, report.axis, report.value, extent_of(op, launch_args, &report)};
    return md_ds_fail_fault(op, &fault);
}

__attribute__((hot)) md_status md_ds_launch_plan_run(md_ds_op *op, md_ds_launch_args *launch_args, md_stream stream)
{
    md_ds_launch_head *head = (md_ds_launch_head *)(launch_args->launch_plan + op->layout.n_key + op->layout.n_tensors +
                                                    op->layout.n_outputs);
    if (head->needs_counters) {
        void *counters = NULL;
        MD_TRY(op->runtime->dev->ops->counters(&counters, op->runtime->dev, stream));
        launch_args->base[MD_DS_COUNTERS] = (uint64_t)(uintptr_t)counters;
    }
    return head->needs_report ? run_reported(op, head, launch_args, stream) : run_with(op, head, launch_args, stream);
}
