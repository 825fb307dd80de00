/* The life of a combo. */
#include "base/status.h"
#include "base/task/fork.h"
#include "combo/combo.h"
#include "combo/decide/decide.h"

#include <stdlib.h>

static void free_parts(md_cb *cb)
{
    md_cb_schedule_free(cb);
    for (int32_t i = 0; i < cb->n_parts; i++)
        md_cb_part_finish(&cb->part[i]);
    free(cb->part);
    cb->part = NULL;
    cb->n_parts = 0;
}

md_status md_cb_create(md_cb **out, md_ds_runtime *runtime, const md_combo_part *parts, md_ds_op *const *op, int32_t n)
{
    md_cb *cb = calloc(1, sizeof *cb);
    md_cb_part *part = calloc((size_t)MD_MAX(n, 1), sizeof *part);
    if (!cb || !part) {
        free(cb);
        free(part);
        return md_fail_memory();
    }
    md_mutex_init(&cb->lock);
    cb->runtime = runtime;
    cb->part = part;
    cb->n_parts = n;
    md_status status = md_cb_take(cb, parts, op);
    if (status == MD_OK)
        status = md_cb_check_overlaps(cb);
    if (status == MD_OK)
        md_cb_name(cb, md_cb_hash(parts, op, n));
    if (status != MD_OK) {
        md_cb_destroy(&cb);
        return status;
    }
    *out = cb;
    return MD_OK;
}

void md_cb_close(md_cb *cb)
{
    free_parts(cb);
    md_cb_decide_finish(cb);
    md_cb_choices_finish(cb);
    cb->runtime = NULL;
}

void md_cb_destroy(md_cb **cb)
{
    if (!*cb)
        return;
    md_cb_close(*cb);
    md_mutex_finish(&(*cb)->lock);
    free((*cb)->stats.kind);
    free(*cb);
    *cb = NULL;
}
