#include "dispatch/plan.h"

#include "base/status.h"

#include <string.h>

enum { FIRST_WITH_MAPS = 90 }; /* compute capability */

/* ---- Making */

typedef struct writer {
    md_ds_word *word;
    int32_t n;
} writer;

/* Room for n bytes; NULL where the plan is full. */
static void *room(writer *w, size_t n_bytes)
{
    int32_t n = (int32_t)((n_bytes + 7) / 8);
    if (w->n + n > MD_DS_PLAN_WORDS)
        return NULL;
    void *p = w->word + w->n;
    memset(p, 0, (size_t)n * 8);
    w->n += n;
    return p;
}

/* The word of a parameter, and its patch where it changes from call to call; false for what only the long way can do. */
static bool write_param(md_kn_word *word, md_ds_plan_patch *patch, bool *is_patched, const md_ds_op *op, const md_ds_way *r, size_t workspace_offset,
                        const md_kn_param *q, const md_kn_call *call)
{
    *is_patched = true;
    switch ((md_kn_param_kind)q->kind) {
    case MD_KN_POINTER:
        if (op->warm.number[q->a] >= 0) {
            patch->kind = MD_DS_PATCH_DATA;
            patch->number = (uint8_t)op->warm.number[q->a];
            return true;
        }
        patch->kind = MD_DS_PATCH_MEMORY;
        patch->offset = (int64_t)r->temp_offset[q->a];
        return r->workspace_bytes > 0;
    case MD_KN_SCALAR:
        patch->kind = MD_DS_PATCH_SCALAR;
        patch->number = q->a;
        return true;
    case MD_KN_WORKSPACE:
        patch->kind = MD_DS_PATCH_MEMORY;
        patch->offset = (int64_t)workspace_offset + q->b;
        *is_patched = r->workspace_bytes > 0; /* products name it whether they have one or not */
        return true;
    case MD_KN_COUNTERS:
        patch->kind = MD_DS_PATCH_COUNTERS;
        patch->offset = (int64_t)q->b * MD_KN_COUNTER_UNIT;
        return true;
    case MD_KN_REPORT:
        patch->kind = MD_DS_PATCH_REPORT;
        *is_patched = !op->report.kernel;
        word->p = op->report.kernel;
        return true;
    case MD_KN_STAGE:
        return false;
    default:
        *is_patched = false;
        md_kn_pack(word, q, 1, call);
        return true;
    }
}

static bool write_launch(writer *w, md_ds_plan_head *head, const md_ds_op *op, const md_ds_way *r, int32_t stage, int32_t launch, md_kn_call *call)
{
    const md_ds_stage_plan *plan = &r->stage[stage];
    const md_bd_variant *v = op->stage[stage].variant[plan->pick.variant];
    const md_kn_geometry *g = &plan->geometry.launch[launch];
    md_ds_plan_patch patch[MD_KN_MAX_PARAMS] = {{0}};
    uint32_t n_patches = 0;
    if (g->blocks <= 0)
        return true;
    if (v->is_function[launch])
        return false;
    md_ds_plan_launch *l = room(w, sizeof *l);
    md_kn_word *words = l ? room(w, (size_t)v->n_params[launch] * sizeof *words) : NULL;
    if (!words)
        return false;
    call->blocks = g->blocks;
    for (int32_t i = 0; i < v->n_params[launch]; i++) {
        bool is_patched;
        md_ds_plan_patch *p = &patch[n_patches];
        if (!write_param(&words[i], p, &is_patched, op, r, plan->workspace_offset, &v->param[launch][i], call))
            return false;
        p->word = (uint16_t)i;
        n_patches += is_patched;
        head->needs_call |= v->param[launch][i].kind == MD_KN_MAP;
        head->needs_report |= is_patched && p->kind == MD_DS_PATCH_REPORT;
        head->needs_counters |= is_patched && p->kind == MD_DS_PATCH_COUNTERS;
    }
    *l = (md_ds_plan_launch){v->kernel[launch], v->name, *g, plan->workspace_offset, (uint32_t)v->n_params[launch], n_patches};
    void *patches = room(w, n_patches * sizeof *patch);
    if (patches)
        memcpy(patches, patch, n_patches * sizeof *patch);
    head->n_launches++;
    return patches != NULL;
}

/* Tensors that may be exactly the output: of its layout, and read only where it is written anyway. */
static uint64_t aliases_of(const md_ds_op *op, const md_fx_binding *b, int32_t out)
{
    uint64_t mask = 0;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->formula->tensor[t].role == MD_FX_INPUT && op->warm.number[t] >= 0 && md_ds_same_layout(&b->tensor[out], &b->tensor[t]) &&
            md_st_may_alias(op->program, out, t))
            mask |= (uint64_t)1 << op->warm.number[t];
    return mask;
}

/* The call that is restored for tensor maps knows the arguments only. */
static bool has_temporaries(const md_ds_op *op)
{
    bool has = false;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        has = has || op->program->is_temp_stored[t];
    return has;
}

int32_t md_ds_plan_make(md_ds_word out[MD_DS_PLAN_WORDS], const md_ds_op *op, const md_ds_warm_call *warm_call, const md_ds_way *way,
                        const md_ds_bound *bound)
{
    writer w = {out, 0};
    md_kn_call call;
    if (way->by_reference || way->is_makeshift || bound->copies.n > 0)
        return 0;
    memcpy(room(&w, (size_t)op->warm.n_key * 8), warm_call->key, (size_t)op->warm.n_key * 8);
    md_ds_word *span = room(&w, (size_t)op->warm.n_tensors * 8), *alias = room(&w, (size_t)op->warm.n_tensors * 8);
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        int32_t number = op->warm.number[t];
        if (number < 0)
            continue;
        span[number] = md_ds_span(&bound->binding.tensor[t]);
        alias[number] = op->formula->tensor[t].role == MD_FX_OUTPUT ? aliases_of(op, &bound->binding, t) : 0;
    }
    md_ds_plan_head *head = room(&w, sizeof *head);
    head->memory_bytes = way->workspace_bytes;
    head->n_dims = (uint8_t)(op->runtime->dev->facts.capability >= FIRST_WITH_MAPS ? op->formula->n_dims : 0);
    md_ds_word *size = room(&w, (size_t)head->n_dims * 8);
    if (!size)
        return 0;
    memcpy((void *)size, bound->shape.size, (size_t)head->n_dims * 8);
    md_ds_fill_call(&call, op, bound);
    for (int32_t s = 0; s < op->n_stages; s++)
        for (int32_t i = 0; i < op->stage[s].variant[way->stage[s].pick.variant]->n_launches; i++)
            if (!write_launch(&w, head, op, way, s, i, &call))
                return 0;
    return head->needs_call && (head->n_dims == 0 || has_temporaries(op)) ? 0 : w.n;
}

/* ---- Running */

/* The shape of a call again, as far as tensor maps ask: sizes, strides, data. The workspace is each launch's. */
static void restore_call(md_kn_call *call, md_kn_shape *shape, const md_ds_op *op, const md_ds_word *plan, const md_ds_word *size,
                         const md_ds_warm_call *warm_call)
{
    const md_fx_formula *f = op->formula;
    memset(call, 0, sizeof *call);
    call->shape = shape;
    memcpy(shape->size, (const void *)size, (size_t)f->n_dims * 8);
    int32_t at = 0;
    for (int32_t i = 0; i < op->warm.n_args; i++) {
        int32_t id = f->args[i].id, rank = op->warm.arg[i].rank;
        if (op->warm.arg[i].is_scalar)
            continue;
        memcpy(shape->stride[id], (const void *)&plan[at + rank], (size_t)rank * 8);
        call->data[id] = warm_call->data[op->warm.arg[i].slot];
        at += 2 * rank;
    }
}

/* Outputs against everything else, as far as ranges of bytes and exact equality tell. */
bool md_ds_plan_fits(const md_ds_op *op, const md_ds_word plan[MD_DS_PLAN_WORDS], const md_ds_warm_call *call)
{
    const md_ds_warm *warm = &op->warm;
    const md_ds_word *span = plan + warm->n_key, *alias = span + warm->n_tensors;
    for (uint32_t outputs = warm->outputs; outputs; outputs &= outputs - 1) {
        int32_t o = __builtin_ctz(outputs);
        uintptr_t lo = (uintptr_t)call->data[o], hi = lo + span[o];
        for (int32_t t = 0; t < warm->n_tensors; t++) {
            uintptr_t at = (uintptr_t)call->data[t];
            if (t == o || at >= hi || lo >= at + span[t])
                continue;
            if (at != lo || !(alias[o] >> t & 1))
                return false;
        }
    }
    return true;
}

typedef struct sources {
    const md_ds_warm_call *call;
    md_kn_call *restored; /* NULL where nothing asks for it */
    char *memory, *counters;
    md_kn_report *report;
} sources;

static void apply(md_kn_word *params, const md_ds_plan_patch *patch, uint32_t n, const sources *s)
{
    for (uint32_t i = 0; i < n; i++) {
        md_kn_word *w = &params[patch[i].word];
        switch ((md_ds_patch_kind)patch[i].kind) {
        case MD_DS_PATCH_DATA:
            w->p = s->call->data[patch[i].number];
            break;
        case MD_DS_PATCH_SCALAR:
            *w = s->call->scalar[patch[i].number];
            break;
        case MD_DS_PATCH_MEMORY:
            w->p = s->memory + patch[i].offset;
            break;
        case MD_DS_PATCH_COUNTERS:
            w->p = s->counters + patch[i].offset;
            break;
        case MD_DS_PATCH_REPORT:
            w->p = s->report;
            break;
        }
    }
}

static md_status launch_all(md_ds_op *op, md_ds_word *at, int32_t n_launches, const sources *s, md_stream stream)
{
    md_dev *dev = op->runtime->dev;
    const md_dev_ops *ops = dev->ops;
    md_status status = MD_OK;
    if (ops->range_push)
        ops->range_push(dev, op->name);
    for (int32_t i = 0; i < n_launches && status == MD_OK; i++) {
        md_ds_plan_launch *l = (md_ds_plan_launch *)at;
        md_kn_word *params = (md_kn_word *)(l + 1);
        const md_ds_plan_patch *patch = (const md_ds_plan_patch *)(params + l->n_params);
        apply(params, patch, l->n_patches, s);
        if (s->restored)
            s->restored->workspace = s->memory ? s->memory + l->workspace_offset : NULL;
        if (ops->range_push)
            ops->range_push(dev, l->variant);
        status = ops->launch(dev, stream, l->kernel, &l->geometry, params, (int32_t)l->n_params, s->restored);
        if (ops->range_pop)
            ops->range_pop(dev);
        at = (md_ds_word *)(uintptr_t)(patch + l->n_patches);
    }
    if (ops->range_pop)
        ops->range_pop(dev);
    return status;
}

static md_status run_with_memory(md_ds_op *op, const md_ds_plan_head *head, sources *s, md_stream stream)
{
    md_ds_runtime *runtime = op->runtime;
    md_dev *dev = runtime->dev;
    md_ds_block *block = NULL;
    md_status status;
    md_ds_word *at = (md_ds_word *)(uintptr_t)(head + 1) + head->n_dims;
    if (!md_ds_is_async(runtime)) {
        MD_TRY(md_ds_borrow(&block, runtime, head->memory_bytes));
        s->memory = block->p;
        status = launch_all(op, at, head->n_launches, s, stream);
        md_ds_give_back(runtime, block);
        return status;
    }
    void *memory = NULL;
    pthread_mutex_t *lock = md_ds_stream_lock(runtime, stream);
    pthread_mutex_lock(lock);
    status = dev->ops->workspace(&memory, dev, stream, head->memory_bytes);
    s->memory = memory;
    if (status == MD_OK)
        status = launch_all(op, at, head->n_launches, s, stream);
    pthread_mutex_unlock(lock);
    return status;
}

static int64_t extent_of(const md_ds_op *op, const md_ds_warm_call *call, const md_kn_report *report)
{
    int32_t at = 0;
    for (int32_t i = 0; i < op->warm.n_args; i++) {
        const md_ds_warm_arg *a = &op->warm.arg[i];
        if (!a->is_scalar && a->slot == op->warm.number[report->tensor])
            return call->key[at + report->axis];
        at += a->is_scalar ? 0 : 2 * a->rank;
    }
    return -1; /* a temporary's */
}

static md_status run_plan(md_ds_op *op, md_ds_plan_head *head, sources *s, md_stream stream)
{
    md_kn_report report;
    if (head->needs_report) {
        report = (md_kn_report){0};
        s->report = &report;
    }
    if (head->needs_counters) {
        void *counters = NULL;
        MD_TRY(op->runtime->dev->ops->counters(&counters, op->runtime->dev, stream));
        s->counters = counters;
    }
    if (head->memory_bytes)
        MD_TRY(run_with_memory(op, head, s, stream));
    else
        MD_TRY(launch_all(op, (md_ds_word *)(head + 1) + head->n_dims, head->n_launches, s, stream));
    if (head->needs_report && atomic_load_explicit(&report.is_set, memory_order_acquire))
        return md_ds_fault(op, &report, extent_of(op, s->call, &report));
    return MD_OK;
}

/* Apart, since it takes kilobytes of the stack. */
static __attribute__((noinline)) md_status run_with_call(md_ds_op *op, const md_ds_word *plan, md_ds_plan_head *head, sources *s, md_stream stream)
{
    md_kn_call call;
    md_kn_shape shape;
    restore_call(&call, &shape, op, plan, (const md_ds_word *)(head + 1), s->call);
    s->restored = &call;
    return run_plan(op, head, s, stream);
}

md_status md_ds_plan_run(md_ds_op *op, md_ds_word plan[MD_DS_PLAN_WORDS], const md_ds_warm_call *call, md_stream stream)
{
    md_ds_plan_head *head = (md_ds_plan_head *)(plan + op->warm.n_key + 2 * op->warm.n_tensors);
    sources s = {.call = call};
    return head->needs_call ? run_with_call(op, plan, head, &s, stream) : run_plan(op, head, &s, stream);
}
