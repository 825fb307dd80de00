/* Runs a combo. */
#include "base/status.h"
#include "combo/combo.h"
#include "dispatch/call/fast_call.h"

/* Each item by a call of its own. */
static md_status run_apart(const md_cb *cb, md_stream stream)
{
    md_arg args[MD_FX_MAX_ARGS];
    md_tensor tensor[MD_FX_MAX_ARGS];
    for (int32_t p = 0; p < cb->n_parts; p++) {
        const md_cb_part *part = &cb->part[p];
        for (int64_t i = 0; i < part->n_items; i++) {
            if (part->is_empty[i])
                continue;
            md_cb_args_of(args, tensor, part, i);
            const md_status s = md_ds_call(part->op, stream, args, part->op->formula->n_args);
            if (s != MD_OK)
                return md_fail_more(s, " (part %d, item %lld)", (int)p, (long long)i);
        }
    }
    return MD_OK;
}

md_status md_cb_run(md_cb *cb, md_stream stream)
{
    if (cb->has_moved) {
        MD_TRY(md_cb_check_overlaps(cb));
        cb->has_moved = false;
    }
    cb->n_runs++;
    return run_apart(cb, stream);
}
