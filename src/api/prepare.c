/* Gets kernels ready ahead of calls: md_prepare and md_freeze. */
#include "api/context.h"
#include "base/status.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/create.h"
#include "dispatch/merged.h"

#include <stdlib.h>
#include <string.h>

static md_status prepare_one(md_op *op, const char *sizes)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    md_status s = md_api_bind_sizes(&bound, op, sizes, MD_API_MEMORY_TO_MEASURE);
    bound.is_patient = true;
    if (s == MD_OK)
        s = md_ds_find(&entry, op->ds, NULL, &bound);
    if (entry)
        md_ds_shape_entry_release(entry);
    md_api_unbind_sizes(&bound, op);
    return s;
}

/* The merged op, if there is one, serves some calls and the op itself the others: both get ready. */
static md_status prepare_both(md_op *op, const char *sizes)
{
    md_op merged;
    md_strbuf merged_sizes = {0};
    md_status s = prepare_one(op, sizes);
    if (s == MD_OK && md_api_merged(&merged, &merged_sizes, op, sizes))
        s = prepare_one(&merged, md_strbuf_text(&merged_sizes));
    md_strbuf_finish(&merged_sizes);
    return s;
}

/* Skips blank parts. A text that is blank as a whole is one shape: that of an op whose sizes are all static. */
md_status md_prepare(md_op *op, const char *sizes)
{
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    const char *at = sizes ? sizes : "";
    md_status s = MD_OK;
    bool is_first = true;
    do {
        size_t n = strcspn(at, ";");
        bool is_blank = strspn(at, " \t\n") >= n;
        char *one = strndup(at, n);
        if (!one)
            return md_fail_memory();
        at += n;
        at += *at == ';';
        if (!is_blank || (is_first && !*at))
            s = prepare_both(op, one);
        is_first = is_first && is_blank;
        free(one);
    } while (*at && s == MD_OK);
    return s;
}

/* The kernels of the plan of a shape. */
static md_status keep_plan(const md_ds_op *op, const md_ds_plan *plan)
{
    for (int32_t s = 0; s < op->n_stages && plan; s++) {
        const int32_t i = plan->stage[s].pick.variant;
        if (!plan->by_reference && !plan->stage[s].is_idle && i >= 0)
            MD_TRY(md_bd_bundled_keep(op->stage[s].variant[i]));
    }
    return MD_OK;
}

static md_status keep_one(md_op *op, const char *sizes)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    md_status s = md_api_bind_sizes(&bound, op, sizes, MD_API_MEMORY_TO_MEASURE);
    bound.is_patient = true;
    if (s == MD_OK)
        s = md_ds_find(&entry, op->ds, NULL, &bound);
    if (entry) {
        s = keep_plan(op->ds, md_ds_plan_of(entry));
        md_ds_shape_entry_release(entry);
    }
    md_api_unbind_sizes(&bound, op);
    return s;
}

/* Keeps the kernels of the op and of its merged op, as md_prepare gets both ready. */
md_status md_bundle_keep(md_op *op, const char *sizes)
{
    md_op merged;
    md_strbuf merged_sizes = {0};
    if (!op || !sizes || !op->context->maker)
        return md_fail(MD_INVALID_ARGUMENT, !op     ? "op is NULL"
                                            : sizes ? "call md_bundle_begin first"
                                                    : "sizes is NULL");
    md_status s = keep_one(op, sizes);
    if (s == MD_OK && md_api_merged(&merged, &merged_sizes, op, sizes))
        s = keep_one(&merged, md_strbuf_text(&merged_sizes));
    md_strbuf_finish(&merged_sizes);
    return s;
}

static void freeze(void *user, md_ds_op *op)
{
    atomic_store_explicit(&op->frozen, (int32_t) * (const md_freeze_mode *)user, memory_order_relaxed);
}

static md_status check_mode(md_freeze_mode mode)
{
    _Static_assert((int)MD_FREEZE_READY == (int)MD_DS_FROZEN_READY &&
                       (int)MD_FREEZE_REFERENCE == (int)MD_DS_FROZEN_REFERENCE &&
                       (int)MD_FREEZE_FAIL == (int)MD_DS_FROZEN_FAIL,
                   "modes are the same");
    return (int)mode >= 0 && mode <= MD_FREEZE_FAIL
               ? MD_OK
               : md_fail(MD_INVALID_ARGUMENT, "mode %d is no md_freeze_mode", (int)mode);
}

md_status md_freeze(md_op *op, md_freeze_mode mode)
{
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    MD_TRY(check_mode(mode));
    freeze(&mode, op->ds); /* before waiting, so that nothing new starts */
    if (md_ds_merged_of(op->ds))
        freeze(&mode, md_ds_merged_of(op->ds));
    if (mode != MD_FREEZE_NONE)
        md_ds_op_wait(op->ds);
    return MD_OK;
}

md_status md_freeze_all(md_context *context, md_freeze_mode mode)
{
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    MD_TRY(check_mode(mode));
    md_api_each_op(context, freeze, &mode);
    if (mode != MD_FREEZE_NONE)
        md_bd_wait_all(context->builder);
    md_ds_upgrade_all(&context->runtime);
    return MD_OK;
}
