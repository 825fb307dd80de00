/* Runs a bound call by its plan, stage by stage: memory, launches, time, reports. */
#include "dispatch/run/run.h"

#include "base/clock.h"
#include "base/status.h"
#include "dispatch/bind/bind.h"
#include "dispatch/packed_operand.h"
#include "tune/bench/bench.h"

enum { SAMPLE_FIRST = 3, SAMPLE_EVERY = 1024 };

/* ---- Launches */

typedef struct run {
    md_ds_op *op;
    md_ds_shape_entry *entry;
    const md_ds_plan *plan;
    md_stream stream;
    md_ds_bound *bound;
    char *memory; /* temporaries and workspace, then copies of inputs; NULL where all are empty */
    void *packed[MD_ST_MAX_STAGES]; /* operands of each stage; NULL: it packs at the end of the memory, or does not */
    bool packs; /* some stage packs there */
    md_kn_call call;
} run;

/* Bytes of `memory`. */
static size_t bytes_of(const run *r)
{
    return r->plan->workspace_bytes + r->bound->copies.n_bytes + (r->packs ? r->plan->packed_bytes : 0);
}

/* True if a constant operand is read from a copy, since an output overwrites it. */
static bool copies_constants(const run *r)
{
    for (int32_t i = 0; i < r->bound->copies.n; i++)
        if (r->op->policy.constants >> r->bound->copies.tensor[i] & 1)
            return true;
    return false;
}

/* Finds the packed operands of all stages, or makes them. */
static md_status find_packed(run *r)
{
    md_kn_call call;
    if (r->plan->n_packing == 0)
        return MD_OK;
    md_ds_fill_call(&call, r->op, r->bound);
    for (int32_t s = 0; s < r->op->n_stages; s++) {
        const md_ds_stage_choice *stage = &r->plan->stage[s];
        const bool is_kept = md_ds_is_kept_stage(r->op, s);
        if (stage->is_idle || (stage->geometry.packed_bytes <= 0 && !is_kept))
            continue;
        call.stage = &r->op->program->stage[s];
        if (!copies_constants(r))
            MD_TRY(md_ds_packed_get(&r->packed[s], r->op, s, stage, r->stream, &call));
        r->packs |= !r->packed[s] && !is_kept;
    }
    return MD_OK;
}

/* Copies are contiguous, at the end of the memory. */
static md_status copy_inputs(run *r)
{
    md_ds_copies *c = &r->bound->copies;
    md_dev *dev = r->op->runtime->dev;
    char *at = r->memory + r->plan->workspace_bytes;
    for (int32_t i = 0; i < c->n; i++) {
        md_tensor *to = &r->bound->binding.tensor[c->tensor[i]];
        to->data = at;
        at += md_ds_align(md_ds_span(to));
        if (dev->ops->copy_tensor)
            MD_TRY(dev->ops->copy_tensor(dev, r->stream, to, &c->from[i]));
        else
            md_ds_copy_elements(to, &c->from[i]);
    }
    return MD_OK;
}

/* Without packed operands the stage packs behind everything else. */
static void set_packed(run *r, int32_t stage, const md_bd_variant *v)
{
    const bool has = r->packed[stage] != NULL;
    r->call.packed = has ? r->packed[stage] : r->memory + r->plan->workspace_bytes + r->bound->copies.n_bytes;
    r->call.packed_by = has ? v->kernel[0] : NULL;
}

static md_status run_stage(run *r, int32_t stage)
{
    md_ds_op *op = r->op;
    md_dev *dev = op->runtime->dev;
    const md_ds_stage_choice *stage_plan = &r->plan->stage[stage];
    if (stage_plan->is_idle || (r->packed[stage] && md_ds_is_kept_stage(op, stage)))
        return MD_OK;
    const md_bd_variant *v = op->stage[stage].variant[stage_plan->pick.variant];
    r->call.stage = &op->program->stage[stage];
    r->call.workspace = r->memory ? r->memory + stage_plan->workspace_offset : NULL;
    if (v->packs)
        set_packed(r, stage, v);
    if (dev->ops->range_push)
        dev->ops->range_push(dev, v->name);
    md_status s = md_bd_variant_run(v, &stage_plan->geometry, r->stream, &r->call);
    if (dev->ops->range_pop)
        dev->ops->range_pop(dev);
    return s;
}

/* Temporaries lie in the memory of the call; what is kept, where it was made. */
static void place_temporaries(run *r)
{
    const md_ds_op *op = r->op;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->program->is_temp_stored[t])
            r->call.data[t] = r->memory ? r->memory + r->plan->temp_offset[t] : NULL;
    for (int32_t s = 0; s < op->n_stages; s++)
        if (md_ds_is_kept_stage(op, s) && r->packed[s])
            r->call.data[op->program->stage[s].store[0].tensor] = r->packed[s];
}

static md_status launch_all(run *r)
{
    md_ds_op *op = r->op;
    md_dev *dev = op->runtime->dev;
    md_status s = MD_OK;
    place_temporaries(r);
    if (dev->ops->range_push)
        dev->ops->range_push(dev, op->name);
    for (int32_t i = 0; i < op->n_stages && s == MD_OK; i++)
        s = run_stage(r, i);
    if (dev->ops->range_pop)
        dev->ops->range_pop(dev);
    return s;
}

static md_status prepare(run *r)
{
    MD_TRY(copy_inputs(r));
    md_ds_fill_call(&r->call, r->op, r->bound);
    r->call.stream = r->stream;
    return MD_OK;
}

/* ---- Synchronous devices */

static md_status run_now(double *us, run *r)
{
    md_ds_runtime *runtime = r->op->runtime;
    md_kn_report report = {0};
    md_ds_block *block = NULL;
    MD_TRY(md_ds_borrow(&block, runtime, bytes_of(r)));
    r->memory = block ? block->p : NULL;
    md_status s = prepare(r);
    r->call.report = &report;
    uint64_t start = md_tn_now_ns(runtime->dev);
    if (s == MD_OK)
        s = launch_all(r);
    *us = (double)(md_tn_now_ns(runtime->dev) - start) / 1e3;
    md_ds_give_back(runtime, block);
    MD_TRY(s);
    md_ds_shape_entry_count(r->entry, *us);
    if (!atomic_load_explicit(&report.is_set, memory_order_acquire))
        return MD_OK;
    const md_ds_fault fault = md_ds_fault_at(&r->bound->shape, report.tensor, report.axis, report.value);
    return md_ds_fail_fault(r->op, &fault);
}

/* ---- Asynchronous devices */

/* Waiting for the time of a call stops the caller, so it is done seldom, and only if statistics are on. */
static bool wants_sample(const run *r)
{
    uint64_t calls = atomic_load_explicit(&r->entry->calls, memory_order_relaxed);
    bool is_due = calls < SAMPLE_FIRST || calls % SAMPLE_EVERY == 0 || r->bound->is_sample;
    return r->op->runtime->samples && !r->bound->is_timed && is_due && !md_ds_is_capturing(r->op->runtime, r->stream);
}

static md_status enqueue(run *r, size_t n_bytes)
{
    md_dev *dev = r->op->runtime->dev;
    if (n_bytes) {
        void *memory = NULL;
        MD_TRY(dev->ops->workspace(&memory, dev, r->stream, n_bytes));
        r->memory = memory;
    }
    MD_TRY(prepare(r));
    return launch_all(r);
}

/* Called inside the device's timing, so that its lock is taken before the stream's, as everywhere. */
static md_status enqueue_in_order(void *user)
{
    run *r = user;
    size_t n_bytes = bytes_of(r);
    pthread_mutex_t *lock = n_bytes ? md_ds_stream_lock(r->op->runtime, r->stream) : NULL;
    if (lock)
        pthread_mutex_lock(lock);
    md_status s = enqueue(r, n_bytes);
    if (lock)
        pthread_mutex_unlock(lock);
    return s;
}

static md_status run_later(double *us, run *r, bool is_timed)
{
    md_dev *dev = r->op->runtime->dev;
    md_status s =
        is_timed || wants_sample(r) ? dev->ops->time(us, dev, r->stream, enqueue_in_order, r) : enqueue_in_order(r);
    if (s == MD_OK)
        md_ds_shape_entry_count(r->entry, *us);
    return s;
}

/* ---- The reference evaluator */

static md_status run_slowly(double *us, run *r)
{
    md_dev *dev = r->op->runtime->dev;
    if (md_ds_is_capturing(r->op->runtime, r->stream))
        return md_fail(MD_UNSUPPORTED,
                       "op %s: no kernel could be built, and the reference cannot run while a stream is captured",
                       r->op->name);
    MD_TRY(dev->ops->sync(dev, r->stream));
    uint64_t start = md_clock_ns();
    atomic_fetch_add_explicit(&r->op->count.by_reference, 1, memory_order_relaxed);
    md_status s = md_ds_evaluate(r->op, &r->bound->binding, &r->bound->copies, &r->bound->shape);
    *us = (double)(md_clock_ns() - start) / 1e3;
    md_ds_shape_entry_count(r->entry, *us);
    return s;
}

md_status md_ds_run(double *us, md_ds_op *op, md_ds_shape_entry *entry, const md_ds_plan *plan, md_stream stream,
                    md_ds_bound *bound)
{
    run r = {
        .op = op, .entry = entry, .plan = plan ? plan : md_ds_plan_to_serve(entry), .stream = stream, .bound = bound};
    double spent = -1.0;
    md_status s;
    if (r.plan->is_stand_in)
        atomic_fetch_add_explicit(&op->count.nearest, 1, memory_order_relaxed);
    if (us && md_ds_is_capturing(op->runtime, stream))
        return md_fail(MD_UNSUPPORTED, "op %s: nothing can be timed while the stream is captured", op->name);
    MD_TRY(find_packed(&r));
    if (r.plan->by_reference)
        s = run_slowly(&spent, &r);
    else
        s = md_ds_is_async(op->runtime) ? run_later(&spent, &r, us != NULL) : run_now(&spent, &r);
    if (us && s == MD_OK)
        *us = spent;
    return s;
}

md_status md_ds_run_in(md_ds_op *op, const md_ds_plan *plan, md_stream stream, md_ds_bound *bound, char *memory)
{
    run r = {.op = op, .plan = plan, .stream = stream, .bound = bound, .memory = memory};
    md_kn_report report = {0};
    if (bound->copies.n > 0 || plan->by_reference || plan->n_packing > 0)
        return md_fail(MD_INTERNAL, "op %s: the plan needs copies of inputs, packed operands or the reference",
                       op->name);
    MD_TRY(prepare(&r));
    if (!md_ds_is_async(op->runtime))
        r.call.report = &report;
    MD_TRY(launch_all(&r));
    if (!atomic_load_explicit(&report.is_set, memory_order_acquire))
        return MD_OK;
    const md_ds_fault fault = md_ds_fault_at(&bound->shape, report.tensor, report.axis, report.value);
    return md_ds_fail_fault(op, &fault);
}
