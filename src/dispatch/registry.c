/* Finds equal ops by the bytes that describe them, and counts their owners. */
#include "dispatch/registry.h"

#include "base/status.h"
#include "family/custom/custom.h"

#include <string.h>

/* ---- What an op is */

static void add(md_strbuf *out, const void *bytes, size_t n_bytes)
{
    md_strbuf_bytes(out, bytes, n_bytes);
}

static void add_text(md_strbuf *out, const char *text)
{
    add(out, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void add_number(md_strbuf *out, int64_t value)
{
    add(out, &value, sizeof value);
}

static void add_space(md_strbuf *out, const md_ds_space *space)
{
    add_number(out, space->n);
    add(out, space->weight, (size_t)space->n * sizeof *space->weight);
    add_number(out, space->n_hints);
    for (int32_t h = 0; h < space->n_hints; h++)
        add(out, space->hint[h], (size_t)space->n * sizeof *space->hint[h]);
}

md_status md_ds_identify(md_ds_op *op, md_bounds bounds, const char *pin)
{
    const md_fx_formula *f = op->formula;
    md_strbuf *out = &op->identity;
    add_text(out, op->name);
    add_text(out, md_strbuf_text(&op->compiled->printed));
    for (int32_t t = 0; t < f->n_tensors; t++)
        add_number(out, f->tensor[t].dtype);
    for (int32_t d = 0; d < f->n_dims; d++) {
        add_number(out, f->dim[d].size);
        add_number(out, f->dim[d].lo);
        add_number(out, f->dim[d].hi);
    }
    add_number(out, bounds);
    add_space(out, &op->space);
    add_text(out, pin);
    /* the pin is NULL, so the policy is compared as bytes; other padding only keeps equal ops apart */
    add(out, &op->policy, sizeof op->policy);
    add_number(out, op->max_entries);
    if (op->customs)
        add(out, &op->customs->digest, sizeof op->customs->digest);
    return out->failed ? md_fail_memory() : MD_OK;
}

/* ---- Joining and leaving */

static md_ds_op *find(const md_ds_op *like)
{
    for (md_ds_op *op = like->runtime->ops; op; op = op->next)
        if (!op->has_failed && op->identity.size == like->identity.size &&
            !memcmp(op->identity.text, like->identity.text, like->identity.size))
            return op;
    return NULL;
}

static void unlink_op(md_ds_op *op)
{
    for (md_ds_op **at = &op->runtime->ops; *at; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            return;
        }
}

/* False: the op that others made failed, and the caller builds its own. */
static bool wait_for(md_ds_op *op)
{
    md_ds_runtime *r = op->runtime;
    op->n_owners++;
    while (!op->is_made && !op->has_failed)
        pthread_cond_wait(&r->op_made, &r->lock_of_ops);
    if (op->is_made)
        return true;
    op->n_owners--;
    pthread_cond_broadcast(&r->op_made);
    return false;
}

md_ds_op *md_ds_share(md_ds_op *op)
{
    md_ds_runtime *r = op->runtime;
    md_ds_op *known;
    pthread_mutex_lock(&r->lock_of_ops);
    do
        known = find(op);
    while (known && !wait_for(known));
    if (!known) {
        op->next = r->ops;
        r->ops = op;
    }
    pthread_mutex_unlock(&r->lock_of_ops);
    return known;
}

void md_ds_share_done(md_ds_op *op, bool is_good)
{
    md_ds_runtime *r = op->runtime;
    pthread_mutex_lock(&r->lock_of_ops);
    op->is_made = is_good;
    op->has_failed = !is_good;
    if (!is_good)
        unlink_op(op);
    pthread_cond_broadcast(&r->op_made);
    while (!is_good && op->n_owners > 1) /* until all threads that waited for it have left */
        pthread_cond_wait(&r->op_made, &r->lock_of_ops);
    pthread_mutex_unlock(&r->lock_of_ops);
}

void md_ds_enter(md_ds_op *op)
{
    pthread_mutex_lock(&op->runtime->lock_of_ops);
    op->n_owners++;
    pthread_mutex_unlock(&op->runtime->lock_of_ops);
}

bool md_ds_leave(md_ds_op *op)
{
    md_ds_runtime *r = op->runtime;
    pthread_mutex_lock(&r->lock_of_ops);
    bool is_last = --op->n_owners == 0;
    if (is_last)
        unlink_op(op);
    pthread_mutex_unlock(&r->lock_of_ops);
    return is_last;
}

void md_ds_forget_unmade(void *user)
{
    md_ds_runtime *r = user;
    for (md_ds_op **at = &r->ops; *at;)
        if ((*at)->is_made)
            at = &(*at)->next;
        else
            *at = (*at)->next;
}
