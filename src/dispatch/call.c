#include "dispatch/call.h"

#include "base/clock.h"
#include "base/status.h"

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

md_status md_ds_bind(md_ds_bound *out, md_ds_op *op, const md_arg *args, int32_t n_args)
{
    out->copies = NULL;
    MD_TRY(md_fx_bind(&out->binding, op->formula, args, n_args));
    out->is_empty = has_no_output(op, &out->binding);
    MD_TRY(md_ds_overlaps(&out->copies, op, &out->binding));
    md_ds_shape_of(&out->shape, op, &out->binding);
    return MD_OK;
}

void md_ds_unbind(md_ds_bound *bound, md_ds_op *op)
{
    while (bound->copies) {
        md_ds_block *next = bound->copies->next;
        md_ds_give_back(op->runtime, bound->copies);
        bound->copies = next;
    }
}

static void fill_call(md_kn_call *call, const md_ds_op *op, const md_ds_bound *bound, md_kn_report *report)
{
    const md_fx_formula *f = op->formula;
    memset(call, 0, sizeof *call);
    call->shape = &bound->shape;
    call->report = report;
    call->program = op->program;
    call->threads = op->runtime->dev->facts.threads;
    for (int32_t t = 0; t < f->n_tensors; t++)
        call->data[t] = f->tensor[t].role == MD_FX_TEMP ? NULL : bound->binding.tensor[t].data;
    for (int32_t s = 0; s < f->n_scalars; s++) {
        if (f->scalar[s].type == MD_I64)
            call->scalar[s].i = bound->binding.integer[s];
        else
            call->scalar[s].d = bound->binding.real[s];
    }
}

/* Measuring needs all data; stored temps do not exist before the first run, so such ops ask the model. */
static bool can_measure(const md_ds_op *op)
{
    if (op->policy.select != MD_SELECT_MEASURE)
        return false;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->program->is_temp_stored[t])
            return false;
    return true;
}

md_status md_ds_find(md_ds_record **out, md_ds_op *op, const md_ds_bound *bound)
{
    md_kn_report report = {0};
    md_kn_call call;
    if (!can_measure(op))
        return md_ds_record_hold(out, op, &bound->shape, NULL);
    fill_call(&call, op, bound, &report);
    return md_ds_record_hold(out, op, &bound->shape, &call);
}

static md_status check_report(const md_ds_op *op, bool is_set, int32_t tensor, int32_t axis, int64_t value, const md_kn_shape *shape)
{
    if (!is_set)
        return MD_OK;
    return md_fail(MD_INVALID_ARGUMENT, "op %s: index %lld is outside axis %d of '%s', which has %lld elements", op->name,
                   (long long)value, axis, op->formula->tensor[tensor].name, (long long)shape->extent[tensor][axis]);
}

static void count_run(md_ds_record *record, uint64_t ns)
{
    atomic_fetch_add_explicit(&record->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&record->time_ns, ns, memory_order_relaxed);
}

static md_status run_reference(md_ds_op *op, md_ds_bound *bound)
{
    md_fx_fault fault = {0};
    atomic_fetch_add_explicit(&op->count.by_reference, 1, memory_order_relaxed);
    MD_TRY(md_fx_evaluate(op->formula, &bound->binding, &fault));
    return check_report(op, fault.is_set, fault.tensor, fault.axis, fault.value, &bound->shape);
}

static md_status run_stages(md_ds_op *op, md_ds_record *record, md_stream stream, md_kn_call *call, char *memory)
{
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->program->is_temp_stored[t])
            call->data[t] = memory ? memory + record->temp_offset[t] : NULL; /* no memory: all temporaries are empty */
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_ds_stage_plan *plan = &record->stage[s];
        call->stage = &op->program->stage[s];
        call->workspace = memory ? memory + plan->workspace_offset : NULL;
        atomic_fetch_add_explicit(&op->runtime->launches, 1, memory_order_relaxed);
        MD_TRY(md_bd_variant_run(op->stage[s].variant[plan->pick.variant], &plan->geometry, stream, call));
    }
    return MD_OK;
}

static md_status run_slowly(uint64_t *ns, md_ds_op *op, md_ds_record *record, md_ds_bound *bound)
{
    uint64_t start = md_clock_ns();
    md_status s = run_reference(op, bound);
    uint64_t spent = md_clock_ns() - start;
    if (ns)
        *ns = spent;
    count_run(record, spent);
    return s;
}

md_status md_ds_run(uint64_t *ns, md_ds_op *op, md_ds_record *record, md_stream stream, md_ds_bound *bound)
{
    if (record->by_reference)
        return run_slowly(ns, op, record, bound);
    md_kn_report report = {0};
    md_kn_call call;
    md_ds_block *block = NULL;
    MD_TRY(md_ds_borrow(&block, op->runtime, record->workspace_bytes));
    fill_call(&call, op, bound, &report);
    uint64_t start = md_clock_ns();
    md_status s = run_stages(op, record, stream, &call, block ? block->p : NULL);
    uint64_t spent = md_clock_ns() - start;
    md_ds_give_back(op->runtime, block);
    if (ns)
        *ns = spent;
    if (s != MD_OK)
        return s;
    count_run(record, spent);
    return check_report(op, atomic_load_explicit(&report.is_set, memory_order_acquire) != 0, report.tensor, report.axis, report.value,
                        &bound->shape);
}

md_status md_ds_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args)
{
    md_ds_bound bound;
    md_ds_record *record = NULL;
    md_status s = md_ds_bind(&bound, op, args, n_args);
    atomic_fetch_add_explicit(&op->count.calls, 1, memory_order_relaxed);
    if (s == MD_OK && !bound.is_empty)
        s = md_ds_find(&record, op, &bound);
    if (record) {
        s = md_ds_run(NULL, op, record, stream, &bound);
        md_ds_record_give_back(op, record);
    }
    md_ds_unbind(&bound, op);
    return s;
}

md_status md_ds_reference(md_ds_op *op, const md_arg *args, int32_t n_args)
{
    md_ds_bound bound;
    md_status s = md_ds_bind(&bound, op, args, n_args);
    if (s == MD_OK && !bound.is_empty)
        s = run_reference(op, &bound);
    md_ds_unbind(&bound, op);
    return s;
}
