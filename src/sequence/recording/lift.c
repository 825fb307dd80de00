/* Makes the tensors and calls of a sequence from its recordings. */
#include "base/dtype.h"
#include "base/status.h"
#include "sequence/recording/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST = 8 * 162, MAX_RECORDINGS = 16 };

/* A tensor that was made, to use it again. */
typedef struct made {
    int32_t id, base;
    md_dtype dtype;
    const void *data; /* of a constant */
    char *text; /* offset, sizes and strides */
} made;

typedef struct lift {
    md_sq *sq;
    const md_sq_records *records;
    md_sq_origins origins;
    int32_t *root; /* by leader of a class: id of its memory's tensor */
    int32_t *named; /* by named memory: its id */
    made *made;
    int32_t n_made;
    int32_t call, arg; /* being lifted */
} lift;

static const md_tensor *tensor_at(const lift *l, int32_t recording, int32_t slot)
{
    return &l->records->recording[recording]->call[slot / MD_FX_MAX_ARGS]->tensor[slot % MD_FX_MAX_ARGS];
}

static md_status name_call(const lift *l, md_status status)
{
    if (status == MD_OK || l->call < 0)
        return status;
    return md_fail_more(status, " (recorded call %d, argument %d)", (int)l->call, (int)l->arg);
}

/* ---- Numbers of tensors as texts */

typedef struct layout {
    char size[LIST], stride[LIST], offset[160];
    bool is_contiguous;
} layout;

static bool is_contiguous(const md_tensor *t)
{
    const md_tensor like = md_tensor_make(t->data, t->dtype, t->rank, t->size);
    return !memcmp(like.stride, t->stride, (size_t)t->rank * sizeof *t->stride);
}

/* The list of sizes, or of strides, of an argument. */
static md_status fit_list(char out[LIST], const lift *l, int32_t slot, bool strides)
{
    size_t n = 0;
    out[0] = 0;
    for (int32_t a = 0; a < tensor_at(l, 0, slot)->rank; a++) {
        int64_t value[MAX_RECORDINGS];
        char text[160];
        for (int32_t k = 0; k < l->records->n; k++)
            value[k] = strides ? tensor_at(l, k, slot)->stride[a] : tensor_at(l, k, slot)->size[a];
        MD_TRY(md_sq_fit(text, l->sq, l->records, value));
        n += (size_t)snprintf(out + n, LIST - n, "%s%s", a ? ", " : "", text);
    }
    return MD_OK;
}

static md_status fit_layout(layout *out, const lift *l, int32_t slot)
{
    out->is_contiguous = true;
    for (int32_t k = 0; k < l->records->n; k++)
        out->is_contiguous = out->is_contiguous && is_contiguous(tensor_at(l, k, slot));
    snprintf(out->offset, sizeof out->offset, "0");
    out->stride[0] = 0;
    MD_TRY(fit_list(out->size, l, slot, false));
    return out->is_contiguous ? MD_OK : fit_list(out->stride, l, slot, true);
}

/* Elements from the start of its memory in each recording. */
static md_status fit_offset(layout *out, const lift *l, int32_t slot, const uintptr_t *low)
{
    const int64_t item = (int64_t)md_dtype_size(tensor_at(l, 0, slot)->dtype);
    int64_t value[MAX_RECORDINGS];
    for (int32_t k = 0; k < l->records->n; k++) {
        value[k] = (int64_t)(md_sq_low(tensor_at(l, k, slot)) - low[k]);
        if (value[k] % item)
            return md_fail(MD_INVALID_ARGUMENT, "a view does not begin at a whole element of its memory");
        value[k] /= item;
    }
    return md_sq_fit(out->offset, l->sq, l->records, value);
}

/* ---- Tensors */

static md_status add(int32_t *id, lift *l, const md_sequence_tensor *t, const layout *x)
{
    char text[2 * LIST + 180];
    snprintf(text, sizeof text, "%s;%s;%s", x->offset, x->size, x->stride);
    for (int32_t i = 0; i < l->n_made; i++)
        if (l->made[i].base == t->view_of && l->made[i].dtype == t->dtype && l->made[i].data == t->data &&
            (t->view_of || t->data) && !strcmp(l->made[i].text, text)) {
            *id = l->made[i].id;
            return MD_OK;
        }
    md_sequence_tensor own = *t;
    own.size = x->size;
    own.stride = x->is_contiguous ? NULL : x->stride;
    own.offset = t->view_of ? x->offset : NULL;
    MD_TRY(md_sq_add_tensor(id, l->sq, &own));
    made *grown = realloc(l->made, ((size_t)l->n_made + 1) * sizeof *grown);
    if (!grown)
        return md_fail_memory();
    l->made = grown;
    l->made[l->n_made] = (made){*id, t->view_of, t->dtype, t->data, strdup(text)};
    return l->made[l->n_made].text ? (l->n_made++, MD_OK) : md_fail_memory();
}

/* Memory of bytes. */
static md_status add_bytes(int32_t *id, lift *l, const md_sequence_tensor *t, const int64_t *n_bytes)
{
    md_sequence_tensor own = *t;
    char size[160];
    own.dtype = MD_U8;
    own.size = size;
    MD_TRY(md_sq_fit(size, l->sq, l->records, n_bytes));
    return md_sq_add_tensor(id, l->sq, &own);
}

static md_status add_named(lift *l)
{
    l->call = -1;
    for (int32_t i = 0; i < l->records->recording[0]->n_named; i++) {
        const md_sq_named *m = &l->records->recording[0]->named[i];
        int64_t n_bytes[MAX_RECORDINGS];
        for (int32_t k = 0; k < l->records->n; k++)
            n_bytes[k] = (int64_t)l->records->recording[k]->named[i].n_bytes;
        const md_sequence_tensor t = {
            .name = m->name, .role = m->role, .data = m->role == MD_SEQUENCE_CONSTANT ? m->data : NULL};
        MD_TRY(add_bytes(&l->named[i], l, &t, n_bytes));
    }
    return MD_OK;
}

/* The bytes of a class in a recording. */
static void range_of(uintptr_t *low, uintptr_t *high, const lift *l, int32_t recording, int32_t class)
{
    *low = UINTPTR_MAX;
    *high = 0;
    for (int32_t slot = 0; slot < l->origins.n; slot++) {
        const md_sq_origin *o = &l->origins.origin[slot];
        if (o->kind != MD_SQ_WRITTEN || md_sq_class_of(&l->origins, o->number) != class)
            continue;
        *low = MD_MIN(*low, md_sq_low(tensor_at(l, recording, slot)));
        *high = MD_MAX(*high, md_sq_high(tensor_at(l, recording, slot)));
    }
}

/* A tensor of memory that calls wrote. A class of one write has that write's tensor, others have bytes. */
static md_status lift_written(int32_t *id, lift *l, int32_t slot, int32_t class, layout *x)
{
    uintptr_t low[MAX_RECORDINGS], high[MAX_RECORDINGS];
    int64_t n_bytes[MAX_RECORDINGS];
    const md_dtype dtype = tensor_at(l, 0, slot)->dtype;
    for (int32_t k = 0; k < l->records->n; k++) {
        range_of(&low[k], &high[k], l, k, class);
        n_bytes[k] = (int64_t)(high[k] - low[k]);
    }
    if (!l->root[class] && l->origins.n_members[class] > 1)
        MD_TRY(add_bytes(&l->root[class], l, &(md_sequence_tensor){0}, n_bytes));
    if (!l->root[class]) {
        MD_TRY(add(&l->root[class], l, &(md_sequence_tensor){.dtype = dtype}, x));
        *id = l->root[class];
        return MD_OK;
    }
    MD_TRY(fit_offset(x, l, slot, low));
    for (int32_t i = 0; i < l->n_made; i++) { /* the whole of it, not a view */
        char text[2 * LIST + 180];
        snprintf(text, sizeof text, "%s;%s;%s", x->offset, x->size, x->stride);
        if (l->made[i].id == l->root[class] && l->made[i].dtype == dtype && !strcmp(text, l->made[i].text)) {
            *id = l->root[class];
            return MD_OK;
        }
    }
    return add(id, l, &(md_sequence_tensor){.dtype = dtype, .view_of = l->root[class]}, x);
}

static md_status lift_named(int32_t *id, lift *l, int32_t slot, int32_t number, layout *x)
{
    uintptr_t low[MAX_RECORDINGS];
    for (int32_t k = 0; k < l->records->n; k++)
        low[k] = (uintptr_t)l->records->recording[k]->named[number].data;
    MD_TRY(fit_offset(x, l, slot, low));
    return add(id, l, &(md_sequence_tensor){.dtype = tensor_at(l, 0, slot)->dtype, .view_of = l->named[number]}, x);
}

static md_status lift_constant(int32_t *id, lift *l, int32_t slot, layout *x)
{
    const md_tensor *t = tensor_at(l, 0, slot);
    for (int32_t k = 1; k < l->records->n; k++)
        if (tensor_at(l, k, slot)->data != t->data)
            return md_fail(MD_INVALID_ARGUMENT, "memory that is only read moved between recordings: name it");
    return add(id, l, &(md_sequence_tensor){.dtype = t->dtype, .role = MD_SEQUENCE_CONSTANT, .data = t->data}, x);
}

static md_status lift_tensor(int32_t *id, lift *l, int32_t slot)
{
    const md_sq_origin *o = &l->origins.origin[slot];
    layout x;
    MD_TRY(fit_layout(&x, l, slot));
    if (o->kind == MD_SQ_NAMED)
        return lift_named(id, l, slot, o->number, &x);
    if (o->kind == MD_SQ_ONLY_READ)
        return lift_constant(id, l, slot, &x);
    return lift_written(id, l, slot, md_sq_class_of(&l->origins, o->number), &x);
}

/* ---- Calls */

static md_status lift_scalar(md_sequence_arg *out, char text[160], const lift *l)
{
    int64_t value[MAX_RECORDINGS];
    const md_arg *first = &l->records->recording[0]->call[l->call]->arg[l->arg];
    for (int32_t k = 0; k < l->records->n; k++) {
        const md_arg *arg = &l->records->recording[k]->call[l->call]->arg[l->arg];
        value[k] = arg->integer;
        if (arg->kind != first->kind ||
            (arg->kind == MD_ARG_REAL && memcmp(&arg->real, &first->real, sizeof arg->real)))
            return md_fail(MD_INVALID_ARGUMENT, "a real scalar differs between recordings: build the sequence by "
                                                "functions, with md_sequence_add_scalar");
    }
    out->real = first->real;
    if (first->kind != MD_ARG_INT)
        return MD_OK;
    out->integer = text;
    return md_sq_fit(text, l->sq, l->records, value);
}

static md_status lift_call(lift *l)
{
    const md_sq_recorded_call *c = l->records->recording[0]->call[l->call];
    const md_fx_formula *f = c->op->formula;
    md_sequence_arg arg[MD_FX_MAX_ARGS] = {{0}};
    char text[MD_FX_MAX_ARGS][160];
    /* outputs last: the tensors that a call reads are there already, or are constants */
    for (l->arg = 0; l->arg < f->n_args; l->arg++)
        MD_TRY(name_call(l, f->args[l->arg].is_scalar ? lift_scalar(&arg[l->arg], text[l->arg], l)
                                                      : lift_tensor(&arg[l->arg].id, l, md_sq_slot(l->call, l->arg))));
    return md_sq_add_call(l->sq, c->op, arg, f->n_args);
}

static md_status lift_all(lift *l)
{
    if (!l->root || !l->named)
        return md_fail_memory();
    MD_TRY(md_sq_find_origins(&l->origins, l->records));
    MD_TRY(add_named(l));
    for (l->call = 0; l->call < l->records->recording[0]->n_calls; l->call++)
        MD_TRY(lift_call(l));
    return MD_OK;
}

md_status md_sq_lift(md_sq *sq, const md_sq_records *records)
{
    if (records->is_recording || records->n < (sq->n_dims ? 2 : 1) || records->n > MAX_RECORDINGS)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s has %d recordings%s; it takes %d to %d", sq->name,
                       (int)records->n, records->is_recording ? ", one still under way" : "", sq->n_dims ? 2 : 1,
                       MAX_RECORDINGS);
    lift l = {.sq = sq,
              .records = records,
              .root = calloc((size_t)records->recording[0]->n_calls * MD_FX_MAX_ARGS + 1, sizeof *l.root),
              .named = calloc((size_t)records->recording[0]->n_named + 1, sizeof *l.named)};
    const md_status s = lift_all(&l);
    for (int32_t i = 0; i < l.n_made; i++)
        free(l.made[i].text);
    free(l.made);
    free(l.root);
    free(l.named);
    md_sq_origins_free(&l.origins);
    return s;
}
