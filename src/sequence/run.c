/* Runs a sequence: as one graph where that is possible and pays, else as a chain of launches. */
#include "base/status.h"
#include "dispatch/bind/bind.h"
#include "dispatch/call/call.h"
#include "dispatch/run/run.h"
#include "sequence/find.h"

#include <string.h>

/* A graph is made when a shape runs for the second time in a row with the same words. */
enum { RUNS_BEFORE_FLUSH = 256, RUNS_BEFORE_GRAPH = 1 };

static md_status fail_step(md_status status, const md_sq *sq, int32_t step)
{
    const md_ds_op *op = sq->step[step].op;
    return md_fail_more(status, " (call %d of sequence %s, %s)", (int)step, sq->name, op ? op->name : "a callback");
}

/* ---- Steps */

static md_status run_launches(const md_sq_shape *shape, md_dev *dev, const md_sq_part *part, md_stream stream)
{
    const md_sq_launch *l = &shape->launch[part->first];
    for (int32_t i = 0; i < part->n; i++, l++)
        MD_TRY(dev->ops->launch(dev, stream, l->kernel, &l->geometry, (md_dev_params){l->params, l->n_params}, NULL));
    return MD_OK;
}

/* Fails with the fault that a kernel left in the part's report, on a device that runs launches at once. */
static md_status check_report(const md_sq_shape *shape, int32_t step)
{
    md_kn_report *r = &shape->report[step];
    const md_sq_part *part = &shape->part[step];
    if (!part->needs_report || !atomic_load_explicit(&r->is_set, memory_order_acquire))
        return MD_OK;
    atomic_store_explicit(&r->is_set, 0, memory_order_relaxed);
    const int64_t extent = r->axis < 0 ? -1 : part->extent[r->tensor * MD_MAX_RANK + r->axis];
    const md_ds_fault fault = {r->tensor, r->axis, r->value, extent};
    return md_ds_fail_fault(part->op, &fault);
}

static md_status run_plan(const md_sq *sq, const md_sq_part *part, const md_sq_step *step, md_stream stream)
{
    md_ds_merged_args room;
    md_ds_bound bound;
    const md_arg *args = md_sq_args_for(&room, part->op, step, part->arg);
    if (!args) /* the part's arguments have the right sizes and strides; only addresses change */
        return md_fail(MD_INTERNAL, "the arguments of a merged op are not contiguous");
    MD_TRY(md_ds_bind(&bound, part->op, args, step->n_args));
    return md_ds_run_in(part->op, part->plan, stream, &bound, (char *)sq->arena + part->memory);
}

static md_status run_callback(const md_sq_part *part, const md_sq_step *step, const int64_t *size, md_stream stream)
{
    const char hidden = md_hide_message();
    const md_status s = step->fn(step->user, stream, part->tensor, step->n_args, size);
    return md_show_message(hidden, s, "the callback");
}

static md_status run_other(const md_sq *sq, const md_sq_shape *shape, int32_t i, md_stream stream)
{
    const md_sq_part *part = &shape->part[i];
    const md_sq_step *step = &sq->step[i];
    switch (part->form) {
    case MD_SQ_PLAN:
        return run_plan(sq, part, step, stream);
    case MD_SQ_CALL:
        return md_ds_call(step->op, stream, part->arg, step->n_args);
    case MD_SQ_CALLBACK:
        return run_callback(part, step, shape->size, stream);
    case MD_SQ_NOTHING:
    case MD_SQ_LAUNCHES:
        break;
    }
    return MD_OK;
}

/* Overwrites memory whose life ends with a step. */
static void poison(const md_sq *sq, const md_sq_shape *shape, int32_t step)
{
    for (int32_t m = 0; m < sq->n_memories; m++) {
        const md_sq_memory *memory = &sq->memory[sq->memory[m].place];
        if (memory->role == MD_SEQUENCE_TEMPORARY && memory->first >= 0 && memory->last == step)
            memset((char *)sq->arena + shape->offset[sq->memory[m].place], 0xff, shape->bytes[m]);
    }
}

static md_status run_named(const md_sq *sq, const md_sq_shape *shape, int32_t i, md_stream stream)
{
    md_dev *dev = sq->runtime->dev;
    dev->ops->range_push(dev, sq->step[i].op->name);
    const md_status s = run_launches(shape, dev, &shape->part[i], stream);
    dev->ops->range_pop(dev);
    return s;
}

static md_status run_step(md_sq *sq, const md_sq_shape *shape, int32_t i, md_stream stream)
{
    md_dev *dev = sq->runtime->dev;
    const md_sq_part *part = &shape->part[i];
    md_status s;
    if (part->form != MD_SQ_LAUNCHES)
        s = run_other(sq, shape, i, stream);
    else
        s = dev->ops->range_push ? run_named(sq, shape, i, stream) : run_launches(shape, dev, part, stream);
    if (s == MD_OK && part->needs_report)
        s = check_report(shape, i);
    if (__builtin_expect(s != MD_OK, 0))
        return fail_step(s, sq, i);
    if (sq->options.poisons)
        poison(sq, shape, i);
    return MD_OK;
}

static md_status run_steps(md_sq *sq, const md_sq_shape *shape, int32_t first, int32_t n, md_stream stream)
{
    for (int32_t i = first; i < first + n; i++)
        MD_TRY(run_step(sq, shape, i, stream));
    return MD_OK;
}

static md_status run_all(md_sq *sq, const md_sq_shape *shape, md_stream stream)
{
    return run_steps(sq, shape, 0, shape->n_parts, stream);
}

static md_status run_segments(md_sq *sq, const md_sq_shape *shape, md_stream stream)
{
    md_dev *dev = sq->runtime->dev;
    for (int32_t i = 0; i < shape->n_segments; i++) {
        const md_sq_segment *s = &shape->segment[i];
        MD_TRY(s->is_graph ? dev->ops->graph_launch(dev, s->graph->made, stream)
                           : run_steps(sq, shape, s->first, s->n, stream));
    }
    sq->count.n_split_runs++;
    return MD_OK;
}

/* ---- Runs */

/* Makes a run on another stream wait, on the device, for the end of the last run. */
static md_status order_streams(md_sq *sq, md_stream stream)
{
    md_dev *dev = sq->runtime->dev;
    if (!sq->has_run || sq->last_stream == stream || !dev->ops->mark_wait)
        return MD_OK;
    if (!sq->mark)
        MD_TRY(dev->ops->mark_create(&sq->mark, dev));
    MD_TRY(dev->ops->mark_put(dev, sq->mark, sq->last_stream));
    return dev->ops->mark_wait(dev, sq->mark, stream);
}

/* Fails if kernels of earlier runs have reported a fault, on a device that works behind the host. */
static md_status check_ops(const md_sq *sq)
{
    for (int32_t i = 0; i < sq->n_steps; i++)
        for (md_ds_op *op = sq->step[i].op; op; op = md_ds_merged_of(op))
            if (op->report.host && atomic_load_explicit(&op->report.host->is_set, memory_order_relaxed))
                MD_TRY(md_ds_check(op));
    return MD_OK;
}

/* Checks and waits that come before the launches of a run, on a device that works behind the host. */
static md_status begin_run(md_sq *sq, md_stream stream, bool is_captured)
{
    if (!is_captured) {
        MD_TRY(check_ops(sq));
        MD_TRY(order_streams(sq, stream));
    }
    sq->last_stream = stream;
    sq->has_run = true;
    return MD_OK;
}

/* Runs a shape that may have graphs, and makes them behind its launches. */
static md_status run_by_graphs(md_sq *sq, md_sq_shape *shape, md_stream stream)
{
    md_dev *dev = sq->runtime->dev;
    if (md_sq_graph_serves(sq, shape)) {
        MD_TRY(dev->ops->graph_launch(dev, shape->graph->made, stream));
        sq->count.n_graph_runs++;
        return MD_OK;
    }
    if (md_sq_segments_serve(sq, shape))
        return run_segments(sq, shape, stream);
    MD_TRY(run_all(sq, shape, stream));
    if (md_sq_segments_after(sq, shape, run_steps) || !shape->is_capturable)
        return MD_OK;
    if (shape->n_same >= RUNS_BEFORE_GRAPH || md_sq_few_nodes_move(sq, shape))
        md_sq_graph_after(sq, shape, run_steps);
    return MD_OK;
}

static md_status run_async(md_sq *sq, md_stream stream, const int64_t *size)
{
    const bool is_captured = md_ds_is_capturing(sq->runtime, stream);
    md_sq_find_how how = {.stream = stream, .start = is_captured ? NULL : run_step};
    md_sq_shape *shape = NULL;
    MD_TRY(begin_run(sq, stream, is_captured));
    md_sq_note_words(sq);
    MD_TRY(md_sq_find(&shape, sq, size, &how));
    shape->n_runs++;
    sq->is_captured |= is_captured;
    if (how.has_run)
        return MD_OK;
    return !is_captured && md_sq_can_have_graph(sq, shape) ? run_by_graphs(sq, shape, stream)
                                                           : run_all(sq, shape, stream);
}

md_status md_sq_run(md_sq *sq, md_stream stream, const int64_t *size, void *const *data)
{
    md_sq_shape *shape = NULL;
    md_sq_take_words(sq, data, true);
    sq->count.n_runs++;
    if (md_ds_is_async(sq->runtime)) {
        MD_TRY(run_async(sq, stream, size));
        shape = sq->last;
    } else {
        MD_TRY(md_sq_find(&shape, sq, size, &(md_sq_find_how){.stream = stream}));
        shape->n_runs++;
        MD_TRY(run_all(sq, shape, stream));
    }
    if (shape->n_runs >= RUNS_BEFORE_FLUSH)
        md_sq_shape_flush(shape);
    return MD_OK;
}

md_status md_sq_prepare(md_sq *sq, const int64_t *size, void *const *data)
{
    md_sq_shape *shape = NULL;
    md_sq_take_words(sq, data, false);
    return md_sq_find(&shape, sq, size, &(md_sq_find_how){.is_patient = true});
}
