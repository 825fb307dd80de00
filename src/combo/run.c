/* Runs a combo: by loops over lists where the device has them, else each item by a call of its own. */
#include "base/clock.h"
#include "base/status.h"
#include "combo/combo.h"
#include "combo/decide/decide.h"
#include "combo/merge.h"
#include "dispatch/bind/bind.h"
#include "dispatch/call/call.h"
#include "dispatch/call/thread_cache.h"
#include "dispatch/merged.h"

/* COUNT_EVERY: runs between two reports to the statistics. TIME_EVERY: of so many runs one is timed. */
enum { COUNT_EVERY = 256, TIME_EVERY = 16 };

/* ---- Each item by a call of its own */

static md_status call_item(const md_cb *cb, md_stream stream, int32_t p, int64_t item)
{
    md_arg args[MD_FX_MAX_ARGS];
    md_tensor tensor[MD_FX_MAX_ARGS];
    const md_cb_part *part = &cb->part[p];
    md_cb_args_of(args, tensor, part, item);
    const md_status s = md_ds_call(part->op, stream, args, part->op->formula->n_args);
    return s == MD_OK ? s : md_fail_more(s, " (part %d, item %lld)", (int)p, (long long)item);
}

md_status md_cb_run_apart(const md_cb *cb, md_stream stream)
{
    for (int32_t p = 0; p < cb->n_parts; p++)
        for (int64_t i = 0; i < cb->part[p].n_items; i++)
            if (!cb->part[p].is_empty[i])
                MD_TRY(call_item(cb, stream, p, i));
    return MD_OK;
}

/* Runs the items that cannot share a launch with others. */
static md_status run_rest(const md_cb *cb, md_stream stream)
{
    int32_t p = 0;
    for (int64_t i = 0; i < cb->plan->n_apart; i++) {
        const int64_t item = cb->plan->apart[i];
        while (item >= cb->part[p].first + cb->part[p].n_items)
            p++;
        MD_TRY(call_item(cb, stream, p, item - cb->part[p].first));
    }
    return MD_OK;
}

/* ---- Together */

static md_status run_loops(md_cb *cb, md_cb_how how)
{
    md_ds_block *block = NULL;
    MD_TRY(md_ds_borrow(&block, cb->runtime, cb->plan->memory_bytes));
    md_cb_rebase(cb, block ? block->p : NULL);
    const md_status status = how == MD_CB_ONE ? md_cb_run_loops(cb) : md_cb_run_each(cb, NULL);
    md_ds_give_back(cb->runtime, block);
    return status;
}

/* On a GPU. The memory belongs to the stream until its next work. */
static md_status enqueue(md_cb *cb, md_stream stream, md_cb_how how)
{
    md_dev *dev = cb->runtime->dev;
    void *memory = NULL;
    if (cb->plan->memory_bytes > 0)
        MD_TRY(dev->ops->workspace(&memory, dev, stream, cb->plan->memory_bytes));
    md_cb_rebase(cb, memory);
    return how == MD_CB_ONE ? md_cb_run_merged(cb, stream) : md_cb_run_each(cb, stream);
}

static md_status run_merged(md_cb *cb, md_stream stream, md_cb_how how)
{
    pthread_mutex_t *lock = cb->plan->memory_bytes > 0 ? md_ds_stream_lock(cb->runtime, stream) : NULL;
    if (lock)
        pthread_mutex_lock(lock);
    const md_status status = enqueue(cb, stream, how);
    if (lock)
        pthread_mutex_unlock(lock);
    return status;
}

/* Fails if earlier work reported an index out of range. */
static md_status check_reports(const md_cb *cb, md_stream stream)
{
    if (md_ds_is_capturing(cb->runtime, stream))
        return MD_OK;
    for (int32_t p = 0; p < cb->n_parts; p++) {
        md_ds_op *op = cb->part[p].op, *joined = md_ds_merged_of(op);
        if (op->report.host)
            MD_TRY(md_ds_check(op));
        if (joined && joined->report.host)
            MD_TRY(md_ds_check(joined));
    }
    return MD_OK;
}

static bool runs_merged(const md_cb *cb)
{
    const md_dev *dev = cb->runtime->dev;
    return dev->facts.kind == MD_DEV_CUDA && !dev->ops->is_simulated;
}

/* Puts the current addresses and scalars into the plan. */
static md_status bring_up_to_date(md_cb *cb, md_stream stream)
{
    if (!cb->plan || md_cb_schedule_is_old(cb) || ((cb->has_moved || cb->has_scalars) && !md_cb_update(cb)))
        MD_TRY(md_cb_schedule_make(cb, stream));
    if (cb->merged && md_cb_has_refused(cb))
        md_cb_merged_free(cb);
    if (runs_merged(cb) && !cb->merged)
        MD_TRY(md_cb_merge(cb));
    md_cb_decide(cb);
    return MD_OK;
}

const char *md_cb_form(const md_cb *cb)
{
    return !cb->plan                        ? "each item by a call of its own"
           : cb->decision.how == MD_CB_EACH ? "each item by a launch of its own"
           : cb->merged                     ? "kernels for many items, where they are built"
                                            : "one parallel loop for the items of a level";
}

md_status md_cb_prepare(md_cb *cb)
{
    return runs_merged(cb) || cb->runtime->dev->ops->launch_list ? bring_up_to_date(cb, NULL) : MD_OK;
}

md_status md_cb_run_schedule(md_cb *cb, md_stream stream, md_cb_how how)
{
    MD_TRY(runs_merged(cb) ? run_merged(cb, stream, how) : run_loops(cb, how));
    return run_rest(cb, stream);
}

md_status md_cb_run(md_cb *cb, md_stream stream)
{
    const bool is_merged = runs_merged(cb);
    if (cb->has_moved)
        MD_TRY(md_cb_check_overlaps(cb));
    if (!is_merged && !cb->runtime->dev->ops->launch_list) {
        cb->n_runs++;
        cb->stats.runs++;
        cb->stats.runs_by_calls++;
        cb->has_moved = false;
        return md_cb_run_apart(cb, stream);
    }
    MD_TRY(check_reports(cb, stream));
    MD_TRY(bring_up_to_date(cb, stream));
    cb->has_moved = false;
    const bool is_timed = !is_merged && cb->n_runs % TIME_EVERY == 0;
    const uint64_t start = is_timed ? md_clock_ns() : 0;
    cb->n_runs++;
    cb->stats.runs++;
    cb->plan->untold++;
    const md_cb_how how = md_cb_decide_begin(cb, stream);
    MD_TRY(md_cb_run_schedule(cb, stream, how));
    md_cb_decide_end(cb, how, stream);
    if (is_timed) {
        cb->stats.timed_us += (double)(md_clock_ns() - start) / 1e3;
        cb->stats.n_timed++;
    }
    if (++cb->plan->uncounted >= COUNT_EVERY)
        md_cb_schedule_count(cb);
    return MD_OK;
}
