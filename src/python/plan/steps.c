/* The steps of a multidispatch._core.Plan: kernels, kernels without order, and operations that PyTorch runs. */
#include "python/op/op.h"
#include "python/plan/plan.h"

#include <md/combo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

md_py_plan *md_py_plan_open(PyObject *object)
{
    md_py_plan *self = (md_py_plan *)object;
    if (!self->is_finished)
        return self;
    PyErr_SetString(self->state->argument_error, "the plan is finished");
    return NULL;
}

/* ---- Kernels */

/* What an op of a plan is made from. */
typedef struct described {
    const char *formula, *sizes, *name;
    PyObject *constants; /* places of arguments whose memory does not change; NULL: none */
} described;

/* The names of constant arguments, separated by commas; malloc'ed. NULL with an error. */
static char *names_of(const md_py_plan *self, const described *d, const md_op_options *options)
{
    enum { MOST = MD_PY_ARGS * 64 };
    md_formula *read = NULL;
    md_arg_info info;
    size_t used = 0;
    char *names = calloc(1, MOST);
    md_status status = names ? md_formula_create(&read, d->formula, options) : MD_OUT_OF_MEMORY;
    for (Py_ssize_t i = 0; status == MD_OK && i < PySequence_Size(d->constants); i++) {
        PyObject *place = PySequence_GetItem(d->constants, i);
        status = md_formula_arg(&info, read, place ? (int32_t)PyLong_AsLong(place) : -1);
        Py_XDECREF(place);
        if (status == MD_OK && used < MOST)
            used += (size_t)snprintf(names + used, MOST - used, "%s,", info.name);
    }
    md_formula_destroy(&read);
    if (status == MD_OK && used < MOST)
        return names;
    free(names);
    md_py_raise(self->state, status == MD_OK ? MD_INVALID_ARGUMENT : status);
    return NULL;
}

static int add_op(md_op **out, md_py_plan *self, const described *d)
{
    md_op_options options = {.sizes = d->sizes && *d->sizes ? d->sizes : NULL,
                             .name = d->name,
                             .select = self->select,
                             .numeric = self->numeric,
                             .async = 1,
                             /* PyTorch's products of 8-bit reals are no more exact */
                             .tf32 = strstr(d->formula, ":f8") != NULL};
    md_status status;
    char *names = NULL;
    *out = NULL;
    if (d->constants && PySequence_Size(d->constants) > 0 && !(names = names_of(self, d, &options)))
        return -1;
    options.constant = names;
    Py_BEGIN_ALLOW_THREADS status = md_op_create(out, self->context, d->formula, &options);
    Py_END_ALLOW_THREADS free(names);
    if (status != MD_OK) {
        md_py_raise(self->state, status);
        return -1;
    }
    /* read here, since other threads may have added ops while the GIL was released */
    md_op **grown = realloc(self->op, (size_t)(self->n_ops + 1) * sizeof *grown);
    if (!grown) {
        md_op_destroy(out);
        PyErr_NoMemory();
        return -1;
    }
    self->op = grown;
    self->op[self->n_ops++] = *out;
    return 0;
}

PyObject *md_py_plan_make(PyObject *object, PyObject *args)
{
    md_py_plan *self = md_py_plan_open(object);
    described d = {0};
    md_op *op;
    if (!self || !PyArg_ParseTuple(args, "sss|O", &d.formula, &d.sizes, &d.name, &d.constants) ||
        add_op(&op, self, &d) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Reads an argument of a call: the id of a tensor, or the text of a whole number. */
static int read_arg(md_sequence_arg *out, PyObject **text, PyObject *given)
{
    if (PyLong_Check(given)) {
        out->id = (int32_t)PyLong_AsLong(given);
        return 0;
    }
    *text = PyUnicode_AsUTF8String(given);
    out->integer = *text ? PyBytes_AsString(*text) : NULL;
    return out->integer ? 0 : -1;
}

PyObject *md_py_plan_add_call(PyObject *object, PyObject *args)
{
    md_py_plan *self = md_py_plan_open(object);
    described d = {0};
    PyObject *list, *text[MD_PY_ARGS] = {NULL};
    md_sequence_arg arg[MD_PY_ARGS] = {{0}};
    md_op *op = NULL;
    md_status status = MD_OK;
    if (!self || !PyArg_ParseTuple(args, "sssO|O", &d.formula, &d.sizes, &d.name, &list, &d.constants))
        return NULL;
    const Py_ssize_t n = PySequence_Size(list);
    bool is_right = n >= 0 && n <= MD_PY_ARGS && add_op(&op, self, &d) == 0;
    for (Py_ssize_t i = 0; is_right && i < n; i++) {
        PyObject *one = PySequence_GetItem(list, i);
        is_right = one && read_arg(&arg[i], &text[i], one) == 0;
        Py_XDECREF(one);
    }
    if (is_right)
        status = md_sequence_add_call(self->sequence, op, arg, (int32_t)n);
    for (int i = 0; i < MD_PY_ARGS; i++)
        Py_XDECREF(text[i]);
    if (is_right && status != MD_OK)
        return md_py_raise(self->state, status);
    if (!is_right && !PyErr_Occurred())
        PyErr_SetString(self->state->argument_error, "too many arguments of a call");
    return is_right ? Py_NewRef(Py_None) : NULL;
}

/* ---- Ops that PyTorch runs */

typedef struct wrapped {
    md_py_dl_versioned dl;
    int64_t size[MD_MAX_RANK], stride[MD_MAX_RANK];
} wrapped;

static void free_wrapped(md_py_dl_versioned *dl)
{
    free(dl->manager);
}

/* A tensor of PyTorch over memory of the plan. It must not outlive the callback. */
static PyObject *wrap(const md_py_plan *self, const md_tensor *t)
{
    wrapped *w = calloc(1, sizeof *w);
    void *object = NULL;
    if (!w)
        return PyErr_NoMemory();
    memcpy(w->size, t->size, sizeof w->size);
    memcpy(w->stride, t->stride, sizeof w->stride);
    w->dl = (md_py_dl_versioned){.version = {1, 2},
                                 .manager = w,
                                 .deleter = free_wrapped,
                                 .tensor = {.data = t->data,
                                            .device = self->device,
                                            .ndim = t->rank,
                                            .dtype = md_py_dl_dtype_of(t->dtype),
                                            .shape = w->size,
                                            .strides = w->stride}};
    if (self->like.api->to_object(&w->dl, &object) == 0)
        return object;
    free(w);
    return NULL;
}

_Thread_local PyObject *md_py_plan_arguments;

static PyObject *call_eager(const md_py_eager *e, const md_tensor *tensor, int32_t n, const int64_t *size)
{
    PyObject *tensors = PyList_New(n), *sizes = PyTuple_New(e->plan->n_dims), *out = NULL;
    bool is_right = tensors && sizes;
    for (int32_t i = 0; is_right && i < n; i++) {
        PyObject *one = wrap(e->plan, &tensor[i]);
        is_right = one && PyList_SetItem(tensors, i, one) == 0;
    }
    for (int32_t i = 0; is_right && i < e->plan->n_dims; i++) {
        PyObject *one = PyLong_FromLongLong(size[i]);
        is_right = one && PyTuple_SetItem(sizes, i, one) == 0;
    }
    if (is_right)
        out = PyObject_CallFunctionObjArgs(e->fn, tensors, sizes, md_py_plan_arguments, NULL);
    Py_XDECREF(tensors);
    Py_XDECREF(sizes);
    return out;
}

_Thread_local PyObject *md_py_plan_results;

/* Puts what an operation of PyTorch made for the plan's caller among the results. */
static bool adopt(const md_py_eager *e, PyObject *made)
{
    for (int32_t i = 0; i < e->n_adopted; i++) {
        PyObject *one = PyTuple_GetItem(made, i);
        if (!one || PyTuple_SetItem(md_py_plan_results, e->adopted[i], Py_NewRef(one)) < 0)
            return false;
    }
    return true;
}

static md_status run_eager(void *user, md_stream stream, const md_tensor *tensor, int32_t n_tensors,
                           const int64_t *size)
{
    const md_py_eager *e = user;
    (void)stream; /* PyTorch's current one, on which the plan runs */
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *out = call_eager(e, tensor, n_tensors, size);
    const bool is_right = out && adopt(e, out);
    Py_XDECREF(out);
    PyGILState_Release(gil);
    return is_right ? MD_OK : MD_UNSUPPORTED; /* the exception stays set: the caller is the same thread */
}

PyObject *md_py_plan_add_eager(PyObject *object, PyObject *args)
{
    md_py_plan *self = md_py_plan_open(object);
    PyObject *fn, *list, *adopted;
    int32_t id[64];
    if (!self || !PyArg_ParseTuple(args, "OOO", &fn, &list, &adopted))
        return NULL;
    const Py_ssize_t n = PySequence_Size(list), n_adopted = PySequence_Size(adopted);
    if (n < 0 || n > 64 || n_adopted < 0 || n_adopted > MD_PY_ADOPTED_MOST)
        return PyErr_Format(self->state->argument_error, "an eager op may have 64 tensors");
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PySequence_GetItem(list, i);
        id[i] = one ? (int32_t)PyLong_AsLong(one) : 0;
        Py_XDECREF(one);
        if (PyErr_Occurred())
            return NULL;
    }
    md_py_eager *e = calloc(1, sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    *e = (md_py_eager){.plan = self, .fn = Py_NewRef(fn), .next = self->eager, .n_adopted = (int32_t)n_adopted};
    self->eager = e;
    for (Py_ssize_t i = 0; i < n_adopted; i++) {
        PyObject *one = PySequence_GetItem(adopted, i);
        e->adopted[i] = one ? (int32_t)PyLong_AsLong(one) : 0;
        Py_XDECREF(one);
        if (PyErr_Occurred())
            return NULL;
    }
    const md_status status = md_sequence_add_callback(self->sequence, run_eager, e, id, (int32_t)n);
    if (status != MD_OK)
        return md_py_raise(self->state, status);
    Py_RETURN_NONE;
}

/* ---- Kernels without order */

typedef struct md_py_together {
    struct md_py_together *next;
    md_py_plan *plan;
    md_arg *arg; /* as many as the step has tensors; the parts point into it */
    int32_t n_parts;
    md_combo_part part[];
} md_py_together;

static md_status run_together(void *user, md_stream stream, const md_tensor *tensor, int32_t n, const int64_t *size)
{
    md_py_together *t = user;
    (void)size;
    for (int32_t i = 0; i < n; i++)
        t->arg[i] = md_t(&tensor[i]); /* one run at a time writes these: the sequence's lock is held */
    return md_combo_call(t->plan->context, stream, t->part, t->n_parts);
}

/* Reads a part, and adds its tensors to `id`. */
static int read_part(md_py_together *t, int32_t id[MD_PY_TOGETHER], int *n, PyObject *tuple)
{
    const char *formula, *sizes, *name;
    PyObject *list;
    md_combo_part *part = &t->part[t->n_parts];
    if (!PyArg_ParseTuple(tuple, "sssO", &formula, &sizes, &name, &list) ||
        add_op(&part->op, t->plan, &(described){formula, sizes, name, NULL}) < 0)
        return -1;
    const int first = *n;
    for (Py_ssize_t i = 0; i < PySequence_Size(list); i++) {
        PyObject *one = PySequence_GetItem(list, i);
        if (!one || *n == MD_PY_TOGETHER) {
            Py_XDECREF(one);
            PyErr_SetString(t->plan->state->argument_error, "too many tensors in one step");
            return -1;
        }
        id[(*n)++] = (int32_t)PyLong_AsLong(one);
        Py_DECREF(one);
    }
    part->args = &t->arg[first];
    part->n_args = md_op_n_args(part->op);
    part->n_items = part->n_args > 0 ? (*n - first) / part->n_args : 0;
    t->n_parts++;
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *md_py_plan_add_together(PyObject *object, PyObject *args)
{
    md_py_plan *self = md_py_plan_open(object);
    PyObject *list;
    int32_t id[MD_PY_TOGETHER];
    int n = 0;
    if (!self || !PyArg_ParseTuple(args, "O", &list))
        return NULL;
    const Py_ssize_t n_parts = PySequence_Size(list);
    md_py_together *t = n_parts < 0 ? NULL : calloc(1, sizeof *t + (size_t)n_parts * sizeof t->part[0]);
    if (!t)
        return PyErr_NoMemory();
    t->next = self->together;
    self->together = t; /* freed with the plan */
    t->plan = self;
    t->arg = calloc(MD_PY_TOGETHER, sizeof *t->arg);
    if (!t->arg)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n_parts; i++) {
        PyObject *one = PySequence_GetItem(list, i);
        const int read = one ? read_part(t, id, &n, one) : -1;
        Py_XDECREF(one);
        if (read < 0)
            return NULL;
    }
    const md_status status = md_sequence_add_callback(self->sequence, run_together, t, id, n);
    if (status != MD_OK)
        return md_py_raise(self->state, status);
    Py_RETURN_NONE;
}

void md_py_plan_free_steps(md_py_plan *self)
{
    while (self->eager) {
        md_py_eager *next = self->eager->next;
        Py_XDECREF(self->eager->fn);
        free(self->eager);
        self->eager = next;
    }
    while (self->together) {
        md_py_together *next = self->together->next;
        free(self->together->arg);
        free(self->together);
        self->together = next;
    }
}
