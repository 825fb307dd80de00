/* What the files above share: text for callers, arguments described, ops visited, checked and left. */
#include "api/context.h"
#include "base/grow.h"
#include "base/status.h"
#include "dispatch/bind/bind.h"
#include "dispatch/create.h"
#include "dispatch/merged.h"
#include "dispatch/registry.h"

#include <stdlib.h>
#include <string.h>

md_status md_api_write(const md_strbuf *text, md_write_fn write, void *user)
{
    if (text->failed)
        return md_fail_memory();
    if (!write)
        return md_fail(MD_INVALID_ARGUMENT, "write is NULL");
    if (write(user, md_strbuf_text(text), text->size))
        return md_fail(MD_IO, "the caller's write function stopped the output");
    return MD_OK;
}

void md_api_describe_arg(md_arg_info *out, const md_fx_formula *f, int32_t i)
{
    const int32_t id = f->args[i].id;
    memset(out, 0, sizeof *out);
    if (f->args[i].is_scalar) {
        out->name = f->scalar[id].name;
        out->is_scalar = 1;
        out->dtype = f->scalar[id].type;
        out->is_size = f->scalar[id].is_size;
        return;
    }
    const md_fx_tensor *t = &f->tensor[id];
    out->name = t->name;
    out->is_output = t->role == MD_FX_OUTPUT;
    out->dtype = t->dtype;
    out->rank = t->rank;
    for (int32_t a = 0; a < t->rank; a++) {
        out->dim[a] = t->at_least[a] ? "" : f->dim[t->dim[a]].name;
        out->static_size[a] = t->at_least[a] ? -1 : f->dim[t->dim[a]].size;
    }
}

/* An op that some thread is still making is in the list, so that equal ones wait for it. It has no owner yet, and is
 * left out. */
void md_api_each_op(md_context *context, void (*fn)(void *user, md_ds_op *op), void *user)
{
    pthread_mutex_lock(&context->runtime.lock_of_ops);
    for (md_ds_op *op = context->runtime.ops; op; op = op->next)
        if (op->is_made)
            fn(user, op);
    pthread_mutex_unlock(&context->runtime.lock_of_ops);
}

/* The lock of ops is held. */
static void hold(void *user, md_ds_op *op)
{
    md_api_ops *h = user;
    h->failed |= !md_grow(&h->op, (size_t)h->n, sizeof(md_ds_op *));
    if (h->failed)
        return;
    op->n_owners++;
    h->op[h->n++] = op;
}

md_status md_api_hold_ops(md_api_ops *out, md_context *context)
{
    *out = (md_api_ops){0};
    md_api_each_op(context, hold, out);
    return out->failed ? md_fail_memory() : MD_OK;
}

void md_api_release_ops(md_api_ops *ops, md_context *context)
{
    for (int32_t i = 0; i < ops->n; i++)
        md_api_leave(&(md_op){context, ops->op[i]});
    free(ops->op);
    *ops = (md_api_ops){0};
}

/* Holds the lock of statistics, so that readers find an op either alive or retired, never both or neither. */
void md_api_leave(md_op *op)
{
    md_context *c = op->context;
    pthread_mutex_lock(&c->lock_of_ops);
    md_ds_op *merged = NULL;
    bool is_last = md_ds_leave(op->ds);
    if (is_last) {
        md_ss_rows_retire(&c->retired, op->ds);
        merged = md_ds_unmerge_op(op->ds);
    }
    if (merged && md_ds_leave(merged))
        md_ss_rows_retire(&c->retired, merged);
    else
        merged = NULL;
    pthread_mutex_unlock(&c->lock_of_ops);
    if (is_last)
        md_ds_op_free(&op->ds);
    if (merged)
        md_ds_op_free(&merged);
}

/* Keeps the first error that any op reports. */
static void check_op(void *user, md_ds_op *op)
{
    md_status *s = user;
    if (*s == MD_OK)
        *s = md_ds_check(op);
}

md_status md_check(md_context *context)
{
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    md_status s = MD_OK;
    md_api_each_op(context, check_op, &s);
    return s;
}
