/* Calling a plan: sizes from the arguments, checks, new results, one run of the sequence. */
#include "python/plan/plan.h"

#include <md/dlpack.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Arguments */

typedef struct run {
    md_py_plan *plan;
    PyObject *list; /* borrowed: the arguments */
    void **data; /* the address of each input, output and scalar of the sequence */
    md_stream stream;
    char why[160]; /* the reason, where the arguments do not fit the plan */
    md_tensor tensor[]; /* of the inputs */
} run;

/* What the sequence is given for a tensor without elements, whose address may be NULL. */
static const max_align_t nothing[16];

static void *address(const md_tensor *t)
{
    for (int32_t a = 0; a < t->rank; a++)
        if (t->size[a] == 0)
            return (void *)(uintptr_t)nothing;
    return t->data;
}

/* 1: read; 0: of another kind or device than the plan's; -1: an error. */
static int read_input(md_tensor *out, md_py_plan *self, PyObject *object)
{
    md_py_exchange *exchange = &self->state->exchange;
    md_py_dl_tensor t;
    const md_py_type *type = md_py_type_of(exchange, object);
    if (!type)
        return -1;
    if (type->way != MD_PY_EXCHANGE)
        return 0;
    if (self->checks) {
        md_py_view view;
        if (md_py_view_begin(&view, exchange, object, "of a plan", false) < 0)
            return -1;
        *out = view.tensor;
        const bool is_ours = view.device.type == self->device.type && view.device.id == self->device.id;
        md_py_view_end(&view);
        return is_ours;
    }
    if (type->api->borrow(object, &t) != 0)
        return -1;
    return t.device.type == self->device.type && t.device.id == self->device.id &&
           md_tensor_from_dlpack(out, &t) == MD_OK;
}

/* Says why an argument does not fit. Returns 0. */
static int refuse(run *r, int32_t input, const char *what)
{
    static const char none[] = "arguments are not as the graph was made for";
    if (input < 0)
        snprintf(r->why, sizeof r->why, "%s: %s", none, what);
    else
        snprintf(r->why, sizeof r->why, "%s: argument %d has other %s", none, (int)r->plan->input[input].at, what);
    return 0;
}

/* 1: the sizes of the call and what follows from them; 0: there are none; -1: an error. */
static int read_sizes(run *r, md_py_plan *self)
{
    int64_t size[MD_PY_PLAN_DIMS];
    for (int32_t d = 0; d < self->n_dims; d++) {
        const md_py_dim *dim = &self->dim[d];
        if (dim->axis >= 0) {
            size[d] = r->tensor[dim->at].size[dim->axis];
            continue;
        }
        PyObject *number = PyList_GetItem(r->list, dim->at);
        size[d] = number ? PyLong_AsLongLong(number) : -1;
        if (size[d] == -1 && PyErr_Occurred())
            return -1;
        if (__builtin_add_overflow(size[d], (int64_t)dim->added, &size[d]))
            return refuse(r, -1, "a number is too large");
    }
    const size_t n = (size_t)self->n_dims * sizeof *size;
    if (self->has_values && !memcmp(size, self->size, n))
        return 1;
    memcpy(self->size, size, n);
    self->has_values = false;
    for (int32_t i = 0; i < self->n_values; i++)
        if (!md_fx_whole_eval(&self->value[i], self->whole[i], size)) {
            (void)md_fx_whole_fail(self->whole[i]);
            return refuse(r, -1, md_last_error());
        }
    self->has_values = true;
    return 1;
}

/* What a tensor has that the plan was not made for; NULL: nothing. A stride of an axis of size 1 says nothing, nor do
 * those of a tensor without elements. */
static const char *misfit(const md_tensor *t, const md_py_port *port, const int64_t *value)
{
    bool is_empty = false, is_strided = true;
    if (t->rank != port->rank)
        return "number of axes";
    if (t->dtype != port->dtype)
        return "dtype";
    for (int32_t a = 0; a < t->rank; a++) {
        if (t->size[a] != value[port->size[a]])
            return "sizes";
        is_empty |= t->size[a] == 0;
        is_strided &= t->size[a] == 1 || t->stride[a] == value[port->stride[a]];
    }
    return is_empty || is_strided ? NULL : "strides";
}

/* 1: all arguments are the plan's; 0: the graph has to run op by op; -1: an error. */
static int read_arguments(run *r)
{
    md_py_plan *self = r->plan;
    if (PyList_Size(r->list) != self->n_args)
        return refuse(r, -1, "another number of them");
    for (int32_t i = 0; i < self->n_inputs; i++) {
        const int got = read_input(&r->tensor[i], self, PyList_GetItem(r->list, self->input[i].at));
        if (got != 1)
            return got < 0 ? got : refuse(r, i, "memory: another device, or no tensor");
    }
    const int sizes = read_sizes(r, self);
    if (sizes != 1)
        return sizes;
    for (int32_t i = 0; i < self->n_inputs; i++) {
        const char *what = misfit(&r->tensor[i], &self->input[i], self->value);
        if (what)
            return refuse(r, i, what);
        if (self->input[i].slot >= 0)
            r->data[self->input[i].slot] = address(&r->tensor[i]);
    }
    return 1;
}

/* ---- Results */

static PyObject *tuple_of(const int32_t *number, int32_t n, const int64_t *value)
{
    PyObject *out = PyTuple_New(n);
    for (int32_t i = 0; out && i < n; i++) {
        PyObject *one = PyLong_FromLongLong(value[number[i]]);
        if (!one || PyTuple_SetItem(out, i, one) < 0)
            Py_CLEAR(out);
    }
    return out;
}

static PyObject *new_strided(const md_py_plan *self, const md_py_result *r)
{
    PyObject *size = tuple_of(r->port.size, r->port.rank, self->value);
    PyObject *stride = size ? tuple_of(r->port.stride, r->port.rank, self->value) : NULL;
    PyObject *out = stride ? PyObject_CallFunctionObjArgs(self->empty_strided, size, stride, r->object, NULL) : NULL;
    Py_XDECREF(size);
    Py_XDECREF(stride);
    return out;
}

static int read_new(md_tensor *out, const md_py_plan *self, PyObject *object)
{
    md_py_dl_tensor t;
    return self->like.api->borrow(object, &t) == 0 && md_tensor_from_dlpack(out, &t) == MD_OK ? 0 : -1;
}

static PyObject *new_tensor(run *r, const md_py_result *result)
{
    const md_py_plan *self = r->plan;
    const md_py_port *port = &result->port;
    md_tensor shape = {.dtype = port->dtype, .rank = port->rank};
    bool is_contiguous = true;
    int64_t stride = 1;
    for (int32_t a = port->rank - 1; a >= 0; a--) {
        shape.size[a] = self->value[port->size[a]];
        is_contiguous &= shape.size[a] == 1 || self->value[port->stride[a]] == stride;
        stride *= shape.size[a] > 1 ? shape.size[a] : 1;
    }
    const md_py_view like = {.device = self->device, .type = self->like};
    PyObject *out = is_contiguous ? md_py_empty(&shape, &self->state->exchange, &like) : new_strided(self, result);
    if (!out)
        return NULL;
    if (!shape.data && read_new(&shape, self, out) < 0) {
        Py_DECREF(out);
        return NULL;
    }
    if (port->slot >= 0)
        r->data[port->slot] = address(&shape);
    return out;
}

static PyObject *make_result(run *r, const md_py_result *result)
{
    switch (result->kind) {
    case MD_PY_NEW:
        return new_tensor(r, result);
    case MD_PY_ARGUMENT:
        return Py_NewRef(PyList_GetItem(r->list, result->number));
    case MD_PY_ADOPTED:
        return Py_NewRef(Py_None); /* replaced when the operation has run (adopt in steps.c) */
    case MD_PY_VALUE:
        return PyLong_FromLongLong(r->plan->value[result->number]);
    default:
        return Py_NewRef(result->object);
    }
}

static PyObject *view_of(const run *plan, const md_py_result *r, PyObject *results)
{
    const md_py_plan *self = plan->plan;
    PyObject *size = tuple_of(r->port.size, r->port.rank, self->value);
    PyObject *stride = tuple_of(r->port.stride, r->port.rank, self->value);
    PyObject *offset = PyLong_FromLongLong(self->value[PyLong_AsLong(r->object)]);
    PyObject *base = r->number < 0 ? PyList_GetItem(plan->list, -1 - r->number) : PyTuple_GetItem(results, r->number);
    PyObject *out = NULL;
    if (size && stride && offset && base)
        out = PyObject_CallFunctionObjArgs(self->view, base, size, stride, offset, NULL);
    Py_XDECREF(size);
    Py_XDECREF(stride);
    Py_XDECREF(offset);
    return out;
}

/* Makes the results that own memory first, then the views into them. */
static PyObject *make_results(run *r)
{
    const md_py_plan *self = r->plan;
    PyObject *out = PyTuple_New(self->n_results);
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; out && i < self->n_results; i++) {
            const md_py_result *result = &self->result[i];
            if ((result->kind == MD_PY_VIEW) != pass)
                continue;
            PyObject *one = pass ? view_of(r, result, out) : make_result(r, result);
            if (!one || PyTuple_SetItem(out, i, one) < 0)
                Py_CLEAR(out);
        }
    return out;
}

/* The results without the hidden ones at the end, whose memory the views keep alive. */
static PyObject *without_hidden(PyObject *results, const md_py_plan *self)
{
    if (self->n_hidden == 0)
        return results;
    PyObject *out = PyTuple_GetSlice(results, 0, self->n_results - self->n_hidden);
    Py_DECREF(results);
    return out;
}

/* ---- The call */

/* `status`: of the run that failed; MD_OK: there was none, since the arguments do not fit. */
static PyObject *run_eagerly(md_py_plan *self, PyObject *list, const char *why, md_status status)
{
    self->n_fallbacks++;
    PyObject *text = PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace");
    PyObject *number = PyLong_FromLong((long)status);
    PyObject *out = NULL;
    if (text && number)
        out = PyObject_CallFunctionObjArgs(self->fallback, list, text, number, (PyObject *)self, NULL);
    Py_XDECREF(text);
    Py_XDECREF(number);
    return out;
}

/* Calls `ran`, whose failure is no failure of the call. */
static void tell_ran(md_py_plan *self)
{
    PyObject *ran = self->ran;
    self->ran = NULL;
    PyObject *out = ran == Py_None ? Py_NewRef(ran) : PyObject_CallFunctionObjArgs(ran, (PyObject *)self, NULL);
    if (!out)
        PyErr_WriteUnraisable(ran);
    Py_XDECREF(out);
    Py_DECREF(ran);
}

static PyObject *run_plan(run *r)
{
    md_py_plan *self = r->plan;
    md_status status;
    const md_py_view like = {.device = self->device, .type = self->like};
    const int reads = read_arguments(r);
    if (reads < 0)
        return NULL;
    if (reads == 0)
        return run_eagerly(self, r->list, r->why, MD_OK);
    if (md_py_current_stream(&r->stream, &like) < 0)
        return NULL;
    PyObject *out = make_results(r);
    if (!out)
        return NULL;
    PyObject *outer = md_py_plan_results, *outer_list = md_py_plan_arguments; /* an operation may call another plan */
    int64_t size[MD_PY_PLAN_DIMS]; /* another thread may call the plan with other sizes */
    memcpy(size, self->size, (size_t)self->n_dims * sizeof *size);
    md_py_plan_results = out;
    md_py_plan_arguments = r->list;
    Py_BEGIN_ALLOW_THREADS status =
        md_sequence_run(self->sequence, r->stream, size, self->n_dims, r->data, self->n_slots);
    Py_END_ALLOW_THREADS md_py_plan_results = outer;
    md_py_plan_arguments = outer_list;
    if (status == MD_OK) {
        if (self->ran)
            tell_ran(self);
        return without_hidden(out, self);
    }
    Py_DECREF(out);
    return PyErr_Occurred() ? NULL : run_eagerly(self, r->list, md_last_error(), status);
}

PyObject *md_py_plan_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    md_py_plan *self = (md_py_plan *)object;
    PyObject *list;
    (void)kwargs;
    if (self->successor)
        return md_py_plan_call((PyObject *)self->successor, args, kwargs);
    if (!self->is_finished) {
        PyErr_SetString(self->state->argument_error, "the plan is not finished");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O", &list))
        return NULL;
    if (!PyList_Check(list)) {
        PyErr_SetString(self->state->argument_error, "the plan takes a list");
        return NULL;
    }
    run *r = malloc(sizeof *r + (size_t)self->n_inputs * sizeof *r->tensor + (size_t)self->n_slots * sizeof *r->data);
    if (!r)
        return PyErr_NoMemory();
    r->data = (void **)(void *)&r->tensor[self->n_inputs];
    r->plan = self;
    r->list = list;
    r->stream = NULL;
    self->n_calls++;
    PyObject *out = run_plan(r);
    free(r);
    return out;
}
