/* The type multidispatch._core.Op: making it, and calling it. multidispatch.Op is a subclass in Python. */
#include "python/op/op.h"

#include <stdlib.h>
#include <string.h>

/* ---- Making */

/* The module's state, from a type or a subclass of it. */
static md_py_state *state_of(PyTypeObject *type)
{
    for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
        md_py_state *state = PyType_GetModuleState(type);
        if (state)
            return state;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_TypeError, "this type has no module");
    return NULL;
}

static char *copy_text(md_py_op *self, int i, const char *text)
{
    self->text[i] = text ? strdup(text) : NULL;
    return self->text[i];
}

static int read_formula(md_py_op *self, const char *formula)
{
    const md_status status = md_formula_create(&self->formula, formula, &self->options);
    if (status != MD_OK) {
        PyErr_SetString(self->state->formula_error, md_last_error());
        return -1;
    }
    self->n_args = md_formula_n_args(self->formula);
    for (int32_t i = 0; i < self->n_args; i++)
        (void)md_formula_arg(&self->arg[i], self->formula, i);
    self->constants = md_py_constants_named(self);
    return 0;
}

static int set_up(md_py_op *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {
        "formula", "name",           "sizes",        "hints",     "weights", "pin",  "select",   "numeric", "bounds",
        "tune",    "tune_budget_ms", "max_variants", "uncovered", "async_",  "tf32", "constant", NULL};
    const char *formula, *text[MD_PY_TEXTS] = {NULL};
    int select = 0, numeric = 0, bounds = 0, tune = 0, max_variants = 0, async = 0, tf32 = 0;
    md_op_options *const o = &self->options;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|zzzzziiiididppz", (char **)names, &formula, &text[0], &text[1],
                                     &text[2], &text[3], &text[4], &select, &numeric, &bounds, &tune,
                                     &o->tune_budget_ms, &max_variants, &o->uncovered, &async, &tf32, &text[5]))
        return -1;
    o->name = copy_text(self, 0, text[0]);
    o->sizes = copy_text(self, 1, text[1]);
    o->hints = copy_text(self, 2, text[2]);
    o->weights = copy_text(self, 3, text[3]);
    o->pin = copy_text(self, 4, text[4]);
    o->constant = copy_text(self, 5, text[5]);
    o->select = (md_select)select;
    o->numeric = (md_numeric)numeric;
    o->bounds = (md_bounds)bounds;
    o->tune = (md_tune)tune;
    o->max_variants = max_variants;
    o->async = async;
    o->tf32 = tf32;
    return read_formula(self, formula);
}

static PyObject *op_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    md_py_state *state = state_of(type);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *made = state ? allocate(type, 0) : NULL; /* zeroed */
    if (!made)
        return NULL;
    ((md_py_op *)made)->state = state;
    if (set_up((md_py_op *)made, args, kwargs) < 0)
        Py_CLEAR(made);
    return made;
}

static void op_free(PyObject *object)
{
    md_py_op *self = (md_py_op *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->constant)
        md_py_constants_free(self);
    for (int i = 0; i < self->n_variants; i++) {
        md_op_destroy(&self->variant[i]->op);
        md_formula_destroy(&self->variant[i]->formula);
        free(self->variant[i]);
    }
    free(self->variant);
    md_formula_destroy(&self->formula);
    for (int i = 0; i < MD_PY_TEXTS; i++)
        free(self->text[i]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

/* ---- Calling */

/* Adds the sizes by which kernels are chosen in place of the arguments' own: {"b": 37}. */
static int take_sizes(md_py_call *call, const md_py_op *self, const md_py_variant *v, PyObject *sizes)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(sizes, &at, &key, &value)) {
        PyObject *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8String(key) : NULL;
        const int32_t dim = name ? md_op_dim(v->op, PyBytes_AsString(name)) : -1;
        Py_XDECREF(name);
        if (dim < 0 || call->n == MD_PY_ARGS + MD_PY_SIZES) {
            PyErr_Format(self->state->argument_error, "sizes: the op has no dynamic dim %R", key);
            return -1;
        }
        const long long size = PyLong_AsLongLong(value);
        if (size == -1 && PyErr_Occurred())
            return -1;
        call->arg[call->n++] = md_as(dim, size);
    }
    return 0;
}

/* Runs a call whose arguments are given. New outputs go to `made`, if it is not NULL. */
static int run(md_py_call *call, md_py_op *self, PyObject **made, PyObject *stream, PyObject *sizes)
{
    md_stream on;
    md_status status;
    if (md_py_call_begin(call, self) < 0)
        return -1;
    const md_py_variant *v = md_py_variant_of(self, call->dtype, call->device);
    if (!v || (self->constants && md_py_constants_check(self, call) < 0) ||
        (made && md_py_make_outputs(call, self, v, made) < 0) || (sizes && take_sizes(call, self, v, sizes) < 0) ||
        md_py_stream_of(&on, call->first, stream) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS status = md_call(v->op, on, call->arg, call->n);
    Py_END_ALLOW_THREADS if (status == MD_OK) return md_py_call_written(call, self, made);
    md_py_raise(self->state, status);
    return -1;
}

static PyObject *op_fast_call(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    md_py_op *self = (md_py_op *)object;
    md_py_call call;
    if (n != self->n_args)
        return PyErr_Format(self->state->argument_error, "%zd arguments given, but call() takes all %d, outputs too", n,
                            (int)self->n_args);
    call.first = NULL;
    for (int32_t i = 0; i < self->n_args; i++) {
        call.given[i] = args[i];
        call.is_open[i] = false;
    }
    const int failed = run(&call, self, NULL, NULL, NULL);
    md_py_call_end(&call, self);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static int32_t find_argument(const md_py_op *self, PyObject *name)
{
    for (int32_t i = 0; i < self->n_args; i++)
        if (PyUnicode_CompareWithASCIIString(name, self->arg[i].name) == 0)
            return i;
    return -1;
}

/* out=: one array, or a sequence with one for each output (None: to be made). */
static int give_outputs(md_py_call *call, const md_py_op *self, PyObject *out)
{
    int32_t n_outputs = 0, at = 0;
    for (int32_t i = 0; i < self->n_args; i++)
        n_outputs += self->arg[i].is_output != 0;
    const bool is_list = PyTuple_Check(out) || PyList_Check(out);
    if ((is_list ? PySequence_Size(out) : 1) != n_outputs) {
        PyErr_Format(self->state->argument_error, "out: the op has %d outputs", (int)n_outputs);
        return -1;
    }
    for (int32_t i = 0; i < self->n_args; i++) {
        if (!self->arg[i].is_output)
            continue;
        PyObject *one = !is_list ? out : PyTuple_Check(out) ? PyTuple_GetItem(out, at++) : PyList_GetItem(out, at++);
        if (!one)
            return -1;
        call->given[i] = one == Py_None ? NULL : one;
    }
    return 0;
}

typedef struct keywords {
    PyObject *stream, *sizes; /* borrowed values of these keywords; NULL: not given */
} keywords;

static int give_keyword(md_py_call *call, const md_py_op *self, keywords *k, PyObject *key, PyObject *value)
{
    if (PyUnicode_CompareWithASCIIString(key, "out") == 0)
        return value == Py_None ? 0 : give_outputs(call, self, value);
    if (PyUnicode_CompareWithASCIIString(key, "stream") == 0) {
        k->stream = value;
        return 0;
    }
    if (PyUnicode_CompareWithASCIIString(key, "sizes") == 0) {
        if (value != Py_None && !PyDict_Check(value)) {
            PyErr_SetString(self->state->argument_error, "sizes: expected a dict, {'b': 37}");
            return -1;
        }
        k->sizes = value == Py_None ? NULL : value;
        return 0;
    }
    const int32_t i = find_argument(self, key);
    if (i < 0 || call->given[i]) {
        PyErr_Format(self->state->argument_error, i < 0 ? "the op has no argument %R" : "argument %R is given twice",
                     key);
        return -1;
    }
    call->given[i] = value;
    return 0;
}

static int give_inputs(md_py_call *call, const md_py_op *self, PyObject *const *args, Py_ssize_t n)
{
    Py_ssize_t next = 0;
    for (int32_t i = 0; i < self->n_args; i++) {
        const bool is_next = !self->arg[i].is_output && next < n;
        call->given[i] = is_next ? args[next++] : NULL;
        call->is_open[i] = false;
    }
    if (next == n)
        return 0;
    PyErr_Format(self->state->argument_error, "%zd arguments given, but the op has %zd inputs", n, next);
    return -1;
}

static void raise_missing(const md_py_op *self, int32_t i)
{
    if (self->arg[i].is_size) /* the message has the place in the formula */
        md_py_raise(self->state, md_formula_infer(&(md_tensor){0}, i, self->formula));
    else
        PyErr_Format(self->state->argument_error, "argument '%s' is missing", self->arg[i].name);
}

static int give(md_py_call *call, const md_py_op *self, PyObject *kwargs, keywords *k)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value))
        if (give_keyword(call, self, k, key, value) < 0)
            return -1;
    for (int32_t i = 0; i < self->n_args; i++)
        if (!call->given[i] && !self->arg[i].is_output) {
            raise_missing(self, i);
            return -1;
        }
    return 0;
}

/* The outputs in the order of the formula: one, or a tuple. Takes over the references of `made`. */
static PyObject *results(const md_py_op *self, const md_py_call *call, PyObject **made)
{
    int32_t n = 0, at = 0, last = 0;
    for (int32_t i = 0; i < self->n_args; i++)
        if (self->arg[i].is_output) {
            if (!made[i]) {
                made[i] = call->given[i];
                Py_INCREF(made[i]);
            }
            last = i;
            n++;
        }
    PyObject *out = n == 1 ? made[last] : PyTuple_New(n);
    for (int32_t i = 0; n > 1 && i < self->n_args; i++)
        if (self->arg[i].is_output && PyTuple_SetItem(out, at++, made[i]) < 0)
            Py_CLEAR(out);
    return out;
}

static PyObject *call_with(md_py_op *self, PyObject *const *args, Py_ssize_t n, PyObject *kwargs)
{
    md_py_call call;
    PyObject *made[MD_PY_ARGS];
    keywords k = {NULL, NULL};
    call.first = NULL;
    memset(made, 0, (size_t)self->n_args * sizeof *made);
    bool needs = false;
    int failed = give_inputs(&call, self, args, n) < 0 || give(&call, self, kwargs, &k) < 0;
    for (int32_t i = 0; !failed && i < self->n_args; i++)
        needs |= !call.given[i];
    if (!failed)
        failed = run(&call, self, needs ? made : NULL, k.stream, k.sizes);
    md_py_call_end(&call, self);
    if (!failed)
        return results(self, &call, made);
    for (int32_t i = 0; i < self->n_args; i++)
        Py_XDECREF(made[i]);
    return NULL;
}

static PyObject *op_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    PyObject *given[MD_PY_ARGS];
    const Py_ssize_t n = PyTuple_Size(args);
    for (Py_ssize_t i = 0; i < n && i < MD_PY_ARGS; i++)
        given[i] = PyTuple_GetItem(args, i);
    return call_with((md_py_op *)object, given, n, kwargs);
}

static PyObject *op_run(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    return call_with((md_py_op *)object, args, n, NULL);
}

/* ---- The type */

static PyObject *op_formula(PyObject *self, void *user)
{
    (void)user;
    return PyUnicode_FromString(md_formula_text(((md_py_op *)self)->formula));
}

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))op_fast_call, METH_FASTCALL,
     "call(*arguments): runs the op; all arguments in the order of the formula, outputs too. The fastest way."},
    {"_run", (PyCFunction)(void (*)(void))op_run, METH_FASTCALL, NULL},
    {"_foreach", md_py_op_foreach, METH_VARARGS, NULL},
    {"_explain", md_py_op_explain, METH_VARARGS, NULL},
    {"_choice", md_py_op_choice, METH_VARARGS, NULL},
    {"_source", md_py_op_source, METH_VARARGS, NULL},
    {"_variants", md_py_op_variants, METH_VARARGS, NULL},
    {"_prepare", md_py_op_prepare, METH_VARARGS, NULL},
    {"_freeze", md_py_op_freeze, METH_VARARGS, NULL},
    {"changed", md_py_op_changed, METH_VARARGS,
     "changed(name=None): the memory of a constant was written, or of all: the next call packs it anew."},
    {"wait", md_py_op_wait, METH_NOARGS, "wait(): waits until every variant of the op is built."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"formula", op_formula, NULL, "The formula as the library prints it.", NULL},
    {"arguments", md_py_op_arguments, NULL, "A tuple of (name, dtype, is_scalar, is_output, dims), in formula order.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyObject *md_py_op_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_new, (void *)op_new},
                           {Py_tp_dealloc, (void *)op_free},
                           {Py_tp_call, (void *)op_call},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, properties},
                           {Py_tp_doc, (void *)"A formula with options."},
                           {0, NULL}};
    PyType_Spec spec = {"multidispatch._core.Op", sizeof(md_py_op), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    return PyType_FromModuleAndSpec(module, &spec, NULL);
}
