/* Runs a combo: by loops over lists where the device has them, else each item by a call of its own. */
#include "base/status.h"
#include "combo/combo.h"
#include "dispatch/call/fast_call.h"
#include "dispatch/call/thread_cache.h"

enum { COUNT_EVERY = 256 }; /* runs until statistics are told */

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

static md_status run_apart(const md_cb *cb, md_stream stream)
{
    for (int32_t p = 0; p < cb->n_parts; p++)
        for (int64_t i = 0; i < cb->part[p].n_items; i++)
            if (!cb->part[p].is_empty[i])
                MD_TRY(call_item(cb, stream, p, i));
    return MD_OK;
}

/* Those that cannot run together with others. */
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

static md_status run_loops(md_cb *cb)
{
    md_ds_block *block = NULL;
    MD_TRY(md_ds_borrow(&block, cb->runtime, cb->plan->memory_bytes));
    md_cb_rebase(cb, block ? block->p : NULL);
    const md_status status = md_cb_run_loops(cb);
    md_ds_give_back(cb->runtime, block);
    return status;
}

/* The plan with the addresses and scalars of now. */
static md_status bring_up_to_date(md_cb *cb, md_stream stream)
{
    if (cb->plan && !md_cb_plan_is_old(cb->plan) && ((!cb->has_moved && !cb->has_scalars) || md_cb_update(cb)))
        return MD_OK;
    return md_cb_plan_make(cb, stream);
}

const char *md_cb_form(const md_cb *cb)
{
    return !cb->plan ? "each item by a call of its own" : "one parallel loop for the items of a level";
}

md_status md_cb_prepare(md_cb *cb)
{
    return cb->runtime->dev->ops->launch_list ? md_cb_plan_make(cb, NULL) : MD_OK;
}

md_status md_cb_run(md_cb *cb, md_stream stream)
{
    if (cb->has_moved)
        MD_TRY(md_cb_check_overlaps(cb));
    if (!cb->runtime->dev->ops->launch_list || md_ds_recorder_of(cb->runtime)) {
        cb->n_runs++;
        cb->has_moved = false;
        return run_apart(cb, stream);
    }
    MD_TRY(bring_up_to_date(cb, stream));
    cb->has_moved = false;
    cb->n_runs++;
    MD_TRY(run_loops(cb));
    MD_TRY(run_rest(cb, stream));
    if (++cb->plan->uncounted >= COUNT_EVERY)
        md_cb_plan_count(cb);
    return MD_OK;
}
