/* Sequences: checks arguments and takes the sequence's lock. Each handle is in its context's list, so that a context
 * that is destroyed first ends it. */
#include "api/context.h"
#include "base/grow.h"
#include "base/status.h"
#include "dispatch/registry.h"
#include "sequence/sequence.h"

#include <md/sequence.h>
#include <stdlib.h>

struct md_sequence {
    md_context *context; /* NULL once it is gone */
    md_sequence *next;
    md_sq *sq;
    int32_t n_ops;
    md_op *op; /* one reference each */
};

/* ---- Life */

md_status md_sequence_create(md_sequence **out, md_context *context, const md_sequence_options *options)
{
    if (!out || !context)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "context" : "out");
    md_sequence *s = calloc(1, sizeof *s);
    if (!s)
        return md_fail_memory();
    const md_status status = md_sq_create(&s->sq, &context->runtime, options);
    if (status != MD_OK) {
        free(s);
        return status;
    }
    s->context = context;
    pthread_mutex_lock(&context->lock_of_ops);
    s->next = context->sequences;
    context->sequences = s;
    pthread_mutex_unlock(&context->lock_of_ops);
    *out = s;
    return MD_OK;
}

/* Frees all that needs the context. */
static void close_sequence(md_sequence *s)
{
    pthread_mutex_lock(&s->sq->lock);
    md_sq_close(s->sq);
    while (s->n_ops > 0)
        md_api_leave(&s->op[--s->n_ops]);
    s->context = NULL;
    pthread_mutex_unlock(&s->sq->lock);
}

void md_api_close_sequences(md_context *context)
{
    while (context->sequences) {
        md_sequence *s = context->sequences;
        context->sequences = s->next;
        close_sequence(s);
    }
}

static void leave_list(md_sequence *s)
{
    md_context *c = s->context;
    pthread_mutex_lock(&c->lock_of_ops);
    for (md_sequence **at = &c->sequences; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    pthread_mutex_unlock(&c->lock_of_ops);
}

void md_sequence_destroy(md_sequence **sequence)
{
    if (!sequence || !*sequence)
        return;
    md_sequence *s = *sequence;
    if (s->context) {
        leave_list(s);
        close_sequence(s);
    }
    md_sq_destroy(&s->sq);
    free(s->op);
    free(s);
    *sequence = NULL;
}

/* Locks a sequence whose context is there. */
static md_status enter(md_sequence *s)
{
    if (!s)
        return md_fail(MD_INVALID_ARGUMENT, "sequence is NULL");
    pthread_mutex_lock(&s->sq->lock);
    if (s->sq->runtime)
        return MD_OK;
    pthread_mutex_unlock(&s->sq->lock);
    return md_fail(MD_INVALID_ARGUMENT, "sequence %s: its context was destroyed", s->sq->name);
}

static md_status leave(md_sequence *s, md_status status)
{
    pthread_mutex_unlock(&s->sq->lock);
    return status;
}

/* ---- Building */

md_status md_sequence_add_dim(int32_t *number, md_sequence *sequence, const char *name, int64_t low, int64_t high)
{
    MD_TRY(enter(sequence));
    return leave(sequence, md_sq_add_dim(number, sequence->sq, name, low, high));
}

md_status md_sequence_add_tensor(int32_t *id, md_sequence *sequence, const md_sequence_tensor *tensor)
{
    if (!id || !tensor)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", id ? "tensor" : "id");
    MD_TRY(enter(sequence));
    return leave(sequence, md_sq_add_tensor(id, sequence->sq, tensor));
}

md_status md_sequence_add_scalar(int32_t *id, md_sequence *sequence, const char *name, md_dtype dtype)
{
    if (!id)
        return md_fail(MD_INVALID_ARGUMENT, "id is NULL");
    MD_TRY(enter(sequence));
    return leave(sequence, md_sq_add_scalar(id, sequence->sq, name, dtype));
}

/* Keeps one reference to each op. */
static md_status keep_op(md_sequence *s, const md_op *op)
{
    for (int32_t i = 0; i < s->n_ops; i++)
        if (s->op[i].ds == op->ds)
            return MD_OK;
    if (!md_grow(&s->op, (size_t)s->n_ops, sizeof *s->op))
        return md_fail_memory();
    s->op[s->n_ops++] = *op;
    md_ds_enter(op->ds);
    return MD_OK;
}

static md_status add_call(md_sequence *s, const md_op *op, const md_sequence_arg *args, int32_t n_args)
{
    if (op->context != s->context)
        return md_fail(MD_INVALID_ARGUMENT, "op %s is of another context than sequence %s", op->ds->name, s->sq->name);
    MD_TRY(keep_op(s, op));
    return md_sq_add_call(s->sq, op->ds, args, n_args);
}

md_status md_sequence_add_call(md_sequence *sequence, md_op *op, const md_sequence_arg *args, int32_t n_args)
{
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    MD_TRY(enter(sequence));
    return leave(sequence, add_call(sequence, op, args, n_args));
}

md_status md_sequence_add_callback(md_sequence *sequence, md_sequence_fn fn, void *user, const int32_t *ids,
                                   int32_t n_ids)
{
    if (!fn || n_ids < 0 || (n_ids > 0 && !ids))
        return md_fail(MD_INVALID_ARGUMENT, !fn ? "fn is NULL" : n_ids < 0 ? "n_ids is negative" : "ids is NULL");
    MD_TRY(enter(sequence));
    return leave(sequence, md_sq_add_callback(sequence->sq, fn, user, ids, n_ids));
}

md_status md_sequence_finish(md_sequence *sequence)
{
    MD_TRY(enter(sequence));
    return leave(sequence, md_sq_finish(sequence->sq));
}

/* ---- Running */

static md_status check_run(const md_sq *sq, const int64_t *size, int32_t n_sizes, void *const *data, int32_t n_data)
{
    if (!sq->is_finished)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s is not finished: call md_sequence_finish", sq->name);
    if (n_sizes != sq->n_dims || n_data != sq->n_externals)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s takes %d sizes and %d pointers, not %d and %d", sq->name,
                       (int)sq->n_dims, (int)sq->n_externals, (int)n_sizes, (int)n_data);
    if ((n_sizes && !size) || (n_data && !data))
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", n_sizes && !size ? "size" : "data");
    return MD_OK;
}

static md_status check_scalars(const md_sq *sq, void *const *data)
{
    for (int32_t k = 0; k < sq->n_externals; k++)
        if (sq->external[k].is_scalar && !data[k])
            return md_fail(MD_INVALID_ARGUMENT, "sequence %s: data %d, a scalar, is NULL", sq->name, (int)k);
    return MD_OK;
}

md_status md_sequence_run(md_sequence *sequence, md_stream stream, const int64_t *size, int32_t n_sizes,
                          void *const *data, int32_t n_data)
{
    MD_TRY(enter(sequence));
    md_status s = check_run(sequence->sq, size, n_sizes, data, n_data);
    if (s == MD_OK)
        s = check_scalars(sequence->sq, data);
    if (s == MD_OK)
        s = md_sq_run(sequence->sq, stream, size, data);
    return leave(sequence, s);
}

md_status md_sequence_prepare(md_sequence *sequence, const int64_t *size, int32_t n_sizes, void *const *data,
                              int32_t n_data)
{
    MD_TRY(enter(sequence));
    md_status s = check_run(sequence->sq, size, n_sizes, data, n_data);
    if (s == MD_OK)
        s = md_sq_prepare(sequence->sq, size, data);
    return leave(sequence, s);
}

md_status md_sequence_count(md_sequence_counters *out, md_sequence *sequence)
{
    if (!out || !sequence)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "sequence" : "out");
    pthread_mutex_lock(&sequence->sq->lock);
    md_sq_count(out, sequence->sq);
    return leave(sequence, MD_OK);
}

md_status md_sequence_explain(md_sequence *sequence, int32_t json, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    MD_TRY(enter(sequence));
    md_status s = leave(sequence, md_sq_explain(&text, sequence->sq, json != 0));
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}
