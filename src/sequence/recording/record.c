/* Records the calls of a thread. Each call is noted and then runs as always. */
#include "sequence/recording/record.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more element of a list; arrays double at powers of two. */
static bool grow(void **list, int32_t n, size_t item)
{
    if (n & (n - 1))
        return true;
    void *grown = realloc(*list, (n ? 2 * (size_t)n : 1) * item);
    if (grown)
        *list = grown;
    return grown != NULL;
}

static void free_recording(md_sq_recording *r)
{
    for (int32_t i = 0; i < r->n_calls; i++)
        free(r->call[i]);
    free(r->call);
    free(r->named);
    free(r);
}

void md_sq_records_free(md_sq_records *x)
{
    if (!x)
        return;
    if (md_ds_current_thread.recorder == &x->recorder)
        md_ds_record(NULL);
    for (int32_t k = 0; k < x->n; k++)
        free_recording(x->recording[k]);
    free(x->recording);
    free(x);
}

/* The recording cannot be used; its end says why. */
static void spoil(md_sq_records *x, md_status status, const char *why)
{
    if (x->status != MD_OK)
        return;
    x->status = status;
    snprintf(x->why, sizeof x->why, "%s", why);
}

static md_sq_recorded_call *note(const md_ds_op *op, const md_arg *args, int32_t n_args)
{
    md_sq_recorded_call *c = calloc(1, sizeof *c);
    for (int32_t i = 0; c && i < n_args; i++) {
        c->arg[i] = args[i];
        if (args[i].kind != MD_ARG_TENSOR || !args[i].tensor)
            continue;
        c->tensor[i] = *args[i].tensor;
        c->arg[i].tensor = &c->tensor[i];
    }
    if (c)
        c->op = (md_ds_op *)(uintptr_t)op;
    return c;
}

static md_status take(md_ds_recorder *recorder, md_ds_op *op, const md_arg *args, int32_t n_args)
{
    md_sq_records *x = (md_sq_records *)recorder;
    md_sq *sq = x->sq;
    md_sq_recording *r = x->recording[x->n - 1];
    pthread_mutex_lock(&sq->lock);
    if (n_args != op->formula->n_args || !args) {
        spoil(x, MD_UNSUPPORTED, "a call had sizes to choose by, or a wrong number of arguments");
    } else if (x->status == MD_OK) {
        md_sq_recorded_call *c = note(op, args, n_args);
        if (!c || !grow((void **)&r->call, r->n_calls, sizeof *r->call) || sq->hold(sq->hold_user, op) != MD_OK) {
            free(c);
            spoil(x, MD_OUT_OF_MEMORY, "memory is short");
        } else {
            r->call[r->n_calls++] = c;
        }
    }
    pthread_mutex_unlock(&sq->lock);
    return MD_OK;
}

static md_status check_begin(const md_sq *sq, const int64_t *size)
{
    const md_sq_records *x = sq->records;
    if (sq->is_finished || sq->n_tensors || sq->n_steps)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s has tensors of its own, or is finished: it cannot record",
                       sq->name);
    if (md_ds_current_thread.recorder || (x && x->is_recording))
        return md_fail(MD_INVALID_ARGUMENT, "%s is being recorded already",
                       md_ds_current_thread.recorder ? "this thread" : "the sequence");
    for (int32_t d = 0; d < sq->n_dims; d++) {
        if (size[d] < sq->dim[d].low || size[d] > sq->dim[d].high)
            return md_fail(MD_INVALID_ARGUMENT, "sequence %s: %s=%lld is beyond its bounds", sq->name, sq->dim[d].name,
                           (long long)size[d]);
        if (x && x->n == 1 && x->recording[0]->size[d] == size[d])
            return md_fail(MD_INVALID_ARGUMENT, "sequence %s: %s=%lld as in the first recording; each dim must differ",
                           sq->name, sq->dim[d].name, (long long)size[d]);
    }
    return MD_OK;
}

md_status md_sq_record_begin(md_sq *sq, const int64_t *size)
{
    MD_TRY(check_begin(sq, size));
    if (!sq->records)
        sq->records = calloc(1, sizeof *sq->records);
    md_sq_records *x = sq->records;
    md_sq_recording *r = calloc(1, sizeof *r);
    if (!x || !r || !grow((void **)&x->recording, x->n, sizeof *x->recording)) {
        free(r);
        return md_fail_memory();
    }
    if (sq->n_dims > 0) /* else `size` may be NULL */
        memcpy(r->size, size, (size_t)sq->n_dims * sizeof *size);
    x->recording[x->n++] = r;
    x->recorder = (md_ds_recorder){sq->runtime, take};
    x->sq = sq;
    x->status = MD_OK;
    x->is_recording = true;
    md_ds_record(&x->recorder);
    return MD_OK;
}

static md_status check_recording(const md_sq *sq)
{
    if (sq->records && sq->records->is_recording && md_ds_current_thread.recorder == &sq->records->recorder)
        return MD_OK;
    return md_fail(MD_INVALID_ARGUMENT, "sequence %s is not being recorded on this thread", sq->name);
}

md_status md_sq_record_memory(md_sq *sq, const char *name, md_sequence_role role, void *data, size_t n_bytes)
{
    MD_TRY(check_recording(sq));
    md_sq_recording *r = sq->records->recording[sq->records->n - 1];
    if (!data || n_bytes == 0 || role == MD_SEQUENCE_TEMPORARY || role < 0 || role > MD_SEQUENCE_CONSTANT)
        return md_fail(MD_INVALID_ARGUMENT, "memory '%s' is empty, or neither input, output nor constant",
                       name ? name : "");
    for (int32_t i = 0; i < r->n_named; i++)
        if ((char *)data < (char *)r->named[i].data + r->named[i].n_bytes &&
            (char *)r->named[i].data < (char *)data + n_bytes)
            return md_fail(MD_INVALID_ARGUMENT, "memory '%s' overlaps '%s'", name ? name : "", r->named[i].name);
    if (!grow((void **)&r->named, r->n_named, sizeof *r->named))
        return md_fail_memory();
    md_sq_named *m = &r->named[r->n_named++];
    *m = (md_sq_named){.role = role, .data = data, .n_bytes = n_bytes};
    snprintf(m->name, sizeof m->name, "%s", name ? name : "");
    return MD_OK;
}

/* Recordings differ only in numbers. */
static void compare(md_sq_records *x)
{
    const md_sq_recording *a = x->recording[0], *b = x->recording[x->n - 1];
    bool is_alike = a->n_calls == b->n_calls && a->n_named == b->n_named;
    for (int32_t i = 0; is_alike && i < a->n_named; i++)
        is_alike = a->named[i].role == b->named[i].role &&
                   (a->named[i].role != MD_SEQUENCE_CONSTANT || a->named[i].data == b->named[i].data);
    if (!is_alike)
        spoil(x, MD_INVALID_ARGUMENT, "its calls or its memory are not those of the first recording");
    for (int32_t i = 0; is_alike && i < a->n_calls; i++)
        if (a->call[i]->op != b->call[i]->op)
            spoil(x, MD_INVALID_ARGUMENT, "its calls are not those of the first recording");
}

md_status md_sq_record_end(md_sq *sq)
{
    MD_TRY(check_recording(sq));
    md_sq_records *x = sq->records;
    md_ds_record(NULL);
    x->is_recording = false;
    compare(x);
    if (x->status == MD_OK)
        return MD_OK;
    free_recording(x->recording[--x->n]);
    return md_fail(x->status, "sequence %s: the recording is dropped: %s", sq->name, x->why);
}
