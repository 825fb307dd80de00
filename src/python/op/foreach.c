/* Op._foreach: a call of the op for each item of lists, all of them as one combo. */
#include "python/op/op.h"

#include <md/combo.h>

#include <stdlib.h>
#include <string.h>

typedef struct lists {
    md_py_op *self;
    PyObject *list[MD_PY_ARGS]; /* owned copies as lists; NULL: outputs to be made, or one scalar for all items */
    PyObject *scalar[MD_PY_ARGS]; /* borrowed; one number for all items */
    PyObject *made[MD_PY_ARGS]; /* lists of new outputs */
    Py_ssize_t n, n_open; /* number of items; how many of them have open views */
    md_py_view *view; /* [n][n_args]: of each item's arguments */
    md_arg *arg; /* [n][n_args] */
    md_dtype dtype[MD_PY_ARGS]; /* of the first item */
    md_py_dl_device device;
    const md_py_variant *variant;
    bool is_flat; /* tensors of any shape count as one axis */
} lists;

static int take_list(lists *l, int32_t i, PyObject *given)
{
    const md_arg_info *info = &l->self->arg[i];
    const bool is_list = PyList_Check(given) || PyTuple_Check(given);
    if (given == Py_None && info->is_output && l->is_flat) {
        PyErr_Format(l->self->state->argument_error, "flat: give output '%s' by out=", info->name);
        return -1;
    }
    if (given == Py_None && info->is_output) {
        l->made[i] = PyList_New(0);
        return l->made[i] ? 0 : -1;
    }
    if (!is_list && (info->is_scalar || (info->rank == 0 && !info->is_output))) {
        l->scalar[i] = given;
        return 0;
    }
    l->list[i] = PySequence_List(given);
    if (!l->list[i])
        return -1;
    const Py_ssize_t n = PyList_Size(l->list[i]);
    if (l->n >= 0 && n != l->n) {
        PyErr_Format(l->self->state->argument_error, "argument '%s' is a list of %zd, others have %zd items",
                     info->name, n, l->n);
        return -1;
    }
    l->n = n;
    return 0;
}

static int take_lists(lists *l, PyObject *given)
{
    l->n = -1;
    if (!PyTuple_Check(given) || PyTuple_Size(given) != l->self->n_args) {
        PyErr_Format(l->self->state->argument_error, "the op takes %d arguments", (int)l->self->n_args);
        return -1;
    }
    for (int32_t i = 0; i < l->self->n_args; i++)
        if (take_list(l, i, PyTuple_GetItem(given, i)) < 0)
            return -1;
    l->n = l->n < 0 ? 0 : l->n;
    l->view = calloc((size_t)(l->n * l->self->n_args) + 1, sizeof *l->view);
    l->arg = calloc((size_t)(l->n * l->self->n_args) + 1, sizeof *l->arg);
    if (l->view && l->arg)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* The op of the first item's dtypes and device serves all. */
static int find_variant(lists *l, const md_py_call *call, Py_ssize_t at)
{
    const size_t n_bytes = (size_t)l->self->n_args * sizeof *l->dtype;
    if (at == 0) {
        memcpy(l->dtype, call->dtype, n_bytes);
        l->device = call->device;
        l->variant = md_py_variant_of(l->self, l->dtype, l->device);
        return l->variant ? 0 : -1;
    }
    if (!memcmp(l->dtype, call->dtype, n_bytes) && l->device.type == call->device.type &&
        l->device.id == call->device.id)
        return 0;
    PyErr_SetString(l->self->state->argument_error, "other dtypes than those of item 0, or another device");
    return -1;
}

static int keep_outputs(lists *l, PyObject **made)
{
    int failed = 0;
    for (int32_t i = 0; i < l->self->n_args; i++) {
        if (made[i] && !failed)
            failed = PyList_Append(l->made[i], made[i]);
        Py_XDECREF(made[i]);
    }
    return failed;
}

static int flatten(md_py_call *call, const lists *l, Py_ssize_t item)
{
    md_tensor *tensor[MD_PY_ARGS];
    int32_t n = 0;
    for (int32_t i = 0; i < l->self->n_args; i++)
        if (!l->self->arg[i].is_scalar && l->self->arg[i].rank == 1)
            tensor[n++] = &call->view[i].tensor;
    return md_py_flatten(tensor, n, item, l->self->state->argument_error);
}

/* Opens the views of an item. */
static int open_item(lists *l, Py_ssize_t at)
{
    const int32_t n_args = l->self->n_args;
    md_py_call call;
    PyObject *made[MD_PY_ARGS] = {NULL};
    bool needs = false;
    call.first = NULL;
    for (int32_t i = 0; i < n_args; i++) {
        call.given[i] = l->list[i] ? PyList_GetItem(l->list[i], at) : l->scalar[i];
        call.is_open[i] = false;
        needs |= !call.given[i];
    }
    int failed = md_py_call_begin(&call, l->self);
    if (!failed && l->is_flat)
        failed = flatten(&call, l, at);
    if (!failed)
        failed = find_variant(l, &call, at);
    if (!failed && needs)
        failed = md_py_make_outputs(&call, l->self, l->variant, made);
    failed |= keep_outputs(l, made);
    if (failed) {
        md_py_call_end(&call, l->self);
        return -1;
    }
    for (int32_t i = 0; i < n_args; i++) {
        md_py_view *view = &l->view[at * n_args + i];
        l->arg[at * n_args + i] = call.arg[i];
        if (!call.is_open[i])
            continue;
        *view = call.view[i];
        l->arg[at * n_args + i] = md_t(&view->tensor);
    }
    l->n_open++;
    return 0;
}

static void close_all(lists *l)
{
    for (Py_ssize_t k = 0; k < l->n_open * l->self->n_args; k++)
        if (!l->self->arg[k % l->self->n_args].is_scalar)
            md_py_view_end(&l->view[k]);
    for (int32_t i = 0; i < l->self->n_args; i++)
        Py_XDECREF(l->list[i]);
    free(l->view);
    free(l->arg);
}

static const md_py_view *first_view(const lists *l)
{
    for (int32_t i = 0; i < l->self->n_args; i++)
        if (!l->self->arg[i].is_scalar)
            return &l->view[i];
    return NULL;
}

/* Puts the item's number in front of the error's text. */
static void name_item(Py_ssize_t at)
{
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    if (text)
        PyErr_Format(kind, "item %zd: %U", at, text);
    else
        PyErr_SetNone(kind);
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

static int note_written(const lists *l)
{
    const int32_t n_args = l->self->n_args;
    for (int32_t i = 0; i < n_args; i++)
        for (Py_ssize_t at = 0; l->self->arg[i].is_output && l->list[i] && at < l->n; at++)
            if (md_py_view_written(&l->view[at * n_args + i], &l->self->state->exchange,
                                   PyList_GetItem(l->list[i], at)) < 0)
                return -1;
    return 0;
}

static int run(lists *l, PyObject *stream)
{
    md_stream on;
    md_status status;
    for (Py_ssize_t at = 0; at < l->n; at++)
        if (open_item(l, at) < 0) {
            name_item(at);
            return -1;
        }
    if (l->n == 0)
        return 0;
    if (md_py_stream_of(&on, first_view(l), stream) < 0)
        return -1;
    const md_combo_part part = {l->variant->op, l->arg, l->self->n_args, l->n};
    Py_BEGIN_ALLOW_THREADS status = md_combo_call(l->variant->context, on, &part, 1);
    Py_END_ALLOW_THREADS if (status == MD_OK) return note_written(l);
    md_py_raise(l->self->state, status);
    return -1;
}

/* The lists of new outputs, in the order of the formula: None, one, or a tuple. */
static PyObject *results(lists *l)
{
    PyObject *all = PyList_New(0);
    for (int32_t i = 0; i < l->self->n_args; i++)
        if (all && l->made[i] && PyList_Append(all, l->made[i]) < 0)
            Py_CLEAR(all);
    if (!all || PyList_Size(all) > 1)
        return all;
    PyObject *one = PyList_Size(all) == 1 ? PyList_GetItem(all, 0) : Py_None;
    Py_INCREF(one);
    Py_DECREF(all);
    return one;
}

/* _foreach((list, scalar or None for each argument), stream, flat) */
PyObject *md_py_op_foreach(PyObject *object, PyObject *args)
{
    PyObject *given, *stream = NULL, *out = NULL;
    lists l = {.self = (md_py_op *)object};
    int is_flat = 0;
    if (!PyArg_ParseTuple(args, "O|Op", &given, &stream, &is_flat))
        return NULL;
    l.is_flat = is_flat != 0;
    if (take_lists(&l, given) == 0 && run(&l, stream) == 0)
        out = results(&l);
    close_all(&l);
    for (int32_t i = 0; i < l.self->n_args; i++)
        Py_XDECREF(l.made[i]);
    return out;
}
