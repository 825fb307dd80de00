/* The type multidispatch._core.Plan: building it. run.c calls it. */
#include "python/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *device, *name;
    int select = 0, numeric = 0;
    md_py_state *state = PyType_GetModuleState(type);
    if (!state || !PyArg_ParseTuple(args, "ss|ii", &device, &name, &select, &numeric))
        return NULL;
    (void)kwargs;
    md_py_plan *self = (md_py_plan *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    self->state = state;
    self->select = (md_select)select;
    self->numeric = (md_numeric)numeric;
    /* operations of PyTorch between kernels cut a size's launches into some 20 graphs, so the bounds are wide */
    const md_sequence_options options = {.name = name, .max_graphs = 8192, .max_graph_bytes = (int64_t)512 << 20};
    if (md_py_device_parse(&self->device, state, device) < 0)
        goto fail;
    self->context = md_py_context_of(state, self->device);
    if (!self->context)
        goto fail;
    const md_status status = md_sequence_create(&self->sequence, self->context, &options);
    if (status == MD_OK)
        return (PyObject *)self;
    md_py_raise(state, status);
fail:
    Py_DECREF((PyObject *)self);
    return NULL;
}

static void plan_free(PyObject *object)
{
    md_py_plan *self = (md_py_plan *)object;
    PyTypeObject *type = Py_TYPE(object);
    md_sequence_destroy(&self->sequence);
    for (int32_t i = 0; i < self->n_ops; i++)
        md_op_destroy(&self->op[i]);
    md_py_plan_free_steps(self);
    for (int32_t i = 0; i < self->n_results; i++)
        Py_XDECREF(self->result[i].object);
    Py_XDECREF(self->fallback);
    Py_XDECREF(self->ran);
    Py_XDECREF((PyObject *)self->successor);
    Py_XDECREF(self->empty_strided);
    Py_XDECREF(self->view);
    Py_XDECREF(self->kept);
    free(self->op);
    free(self->dim);
    free(self->input);
    free(self->result);
    for (int32_t i = 0; i < self->n_values; i++)
        free(self->whole[i]);
    free(self->whole);
    free(self->size);
    free(self->value);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

/* ---- The sequence */

static PyObject *plan_dim(PyObject *object, PyObject *args)
{
    md_py_plan *self = md_py_plan_open(object);
    const char *name;
    long long low, high;
    if (!self || !PyArg_ParseTuple(args, "sLL", &name, &low, &high))
        return NULL;
    const md_status status = md_sequence_add_dim(NULL, self->sequence, name, low, high);
    if (status != MD_OK)
        return md_py_raise(self->state, status);
    Py_RETURN_NONE;
}

static PyObject *plan_tensor(PyObject *object, PyObject *args)
{
    md_py_plan *self = md_py_plan_open(object);
    md_sequence_tensor t = {0};
    const char *dtype;
    int role, base, id = 0;
    unsigned long long data;
    if (!self ||
        !PyArg_ParseTuple(args, "siszziziK", &t.name, &role, &dtype, &t.size, &t.stride, &base, &t.offset, &id, &data))
        return NULL;
    t.role = (md_sequence_role)role;
    t.dtype = md_dtype_parse(dtype);
    t.view_of = base;
    t.data = (void *)(uintptr_t)data;
    const md_status status = md_sequence_add_tensor(&id, self->sequence, &t);
    return status == MD_OK ? PyLong_FromLong(id) : md_py_raise(self->state, status);
}

/* ---- Arguments and results */

static int read_ints(int32_t *out, int most, PyObject *list)
{
    const Py_ssize_t n = PySequence_Size(list);
    if (n < 0 || n > most)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PySequence_GetItem(list, i);
        out[i] = one ? (int32_t)PyLong_AsLong(one) : 0;
        Py_XDECREF(one);
    }
    return PyErr_Occurred() ? -1 : (int)n;
}

static int read_port(md_py_port *out, int at, int slot, const char *dtype, PyObject *size, PyObject *stride)
{
    *out = (md_py_port){.at = at, .slot = slot, .dtype = md_dtype_parse(dtype)};
    out->rank = read_ints(out->size, MD_MAX_RANK, size);
    return out->rank >= 0 && read_ints(out->stride, MD_MAX_RANK, stride) == out->rank ? 0 : -1;
}

static int read_inputs(md_py_plan *self, PyObject *list)
{
    const Py_ssize_t n = PyList_Size(list);
    self->input = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *self->input);
    for (Py_ssize_t i = 0; self->input && i < n; i++) {
        int at, slot;
        const char *dtype;
        PyObject *size, *stride;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "iisOO", &at, &slot, &dtype, &size, &stride) ||
            read_port(&self->input[i], at, slot, dtype, size, stride) < 0)
            return -1;
        self->n_inputs++;
    }
    return self->input ? 0 : -1;
}

static int read_results(md_py_plan *self, PyObject *list)
{
    const Py_ssize_t n = PyList_Size(list);
    self->result = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *self->result);
    for (Py_ssize_t i = 0; self->result && i < n; i++) {
        md_py_result *r = &self->result[i];
        int kind, slot;
        const char *dtype;
        PyObject *object, *size, *stride;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "iiOisOO", &kind, &r->number, &object, &slot, &dtype, &size,
                              &stride) ||
            read_port(&r->port, -1, slot, dtype, size, stride) < 0)
            return -1;
        r->kind = (md_py_result_kind)kind;
        r->object = Py_NewRef(object);
        self->n_results++;
    }
    return self->result ? 0 : -1;
}

static int read_dims(md_py_plan *self, PyObject *list)
{
    const Py_ssize_t n = PyList_Size(list);
    self->dim = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *self->dim);
    self->size = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *self->size);
    for (Py_ssize_t i = 0; self->dim && self->size && i < n; i++)
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "iiL", &self->dim[i].at, &self->dim[i].axis,
                              &self->dim[i].added))
            return -1;
    self->n_dims = (int32_t)n;
    return self->dim && self->size ? 0 : -1;
}

/* An expression over d0, d1, .. -1 with an error. */
static int read_value(md_py_plan *self, const md_fx_names *dims, PyObject *given)
{
    PyObject *text = PyUnicode_AsUTF8String(given);
    int32_t n = 0;
    if (!text)
        return -1;
    const md_status status =
        md_fx_whole_parse(&self->whole[self->n_values], 1, &n, PyBytes_AsString(text), "a size", dims);
    Py_DECREF(text);
    self->n_values += n;
    if (status == MD_OK && n == 1)
        return 0;
    if (status != MD_OK)
        md_py_raise(self->state, status);
    return -1;
}

static int read_values(md_py_plan *self, PyObject *list)
{
    char text[MD_PY_PLAN_DIMS][8];
    const char *name[MD_PY_PLAN_DIMS];
    const md_fx_names dims = {self->n_dims, name, "no dim"};
    const Py_ssize_t n = PyList_Size(list);
    self->whole = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *self->whole);
    self->value = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *self->value);
    if (!self->whole || !self->value)
        return -1;
    for (int32_t d = 0; d < self->n_dims; d++) {
        snprintf(text[d], sizeof text[d], "d%d", (int)d);
        name[d] = text[d];
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_value(self, &dims, PyList_GetItem(list, i)) < 0)
            return -1;
    return 0;
}

static PyObject *plan_finish(PyObject *object, PyObject *args)
{
    md_py_plan *self = md_py_plan_open(object);
    PyObject *dims, *inputs, *results, *values, *like, *fallback, *ran, *empty_strided, *view, *kept;
    int n_args, n_slots, n_hidden, checks;
    if (!self || !PyArg_ParseTuple(args, "iipOOOiOO(OOOO)O", &n_args, &n_slots, &checks, &dims, &inputs, &results,
                                   &n_hidden, &values, &like, &fallback, &ran, &empty_strided, &view, &kept))
        return NULL;
    if (PyList_Size(dims) > MD_PY_PLAN_DIMS)
        return PyErr_Format(self->state->unsupported, "a graph with more than %d sizes", MD_PY_PLAN_DIMS);
    const md_py_type *type = md_py_type_of(&self->state->exchange, like);
    if (!type || read_dims(self, dims) < 0 || read_inputs(self, inputs) < 0 || read_results(self, results) < 0 ||
        read_values(self, values) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(self->state->argument_error, "bad lists of dims, arguments, results or values");
        return NULL;
    }
    self->like = *type;
    self->n_args = n_args;
    self->n_slots = n_slots;
    self->checks = checks;
    self->fallback = Py_NewRef(fallback);
    self->ran = Py_NewRef(ran);
    self->empty_strided = Py_NewRef(empty_strided);
    self->view = Py_NewRef(view);
    self->n_hidden = n_hidden;
    self->kept = Py_NewRef(kept);
    const md_status status = md_sequence_finish(self->sequence);
    if (status != MD_OK)
        return md_py_raise(self->state, status);
    self->is_finished = true;
    Py_RETURN_NONE;
}

/* Takes over all calls, and the counts of those that were. */
static PyObject *plan_replace(PyObject *object, PyObject *args)
{
    md_py_plan *self = (md_py_plan *)object, *other;
    if (!PyArg_ParseTuple(args, "O!", Py_TYPE(object), &other))
        return NULL;
    if (other == self || self->successor || !other->is_finished) {
        PyErr_SetString(self->state->argument_error, "a plan is replaced once, by a finished one");
        return NULL;
    }
    other->n_calls += self->n_calls;
    other->n_fallbacks += self->n_fallbacks;
    self->successor = (md_py_plan *)Py_NewRef((PyObject *)other);
    Py_RETURN_NONE;
}

/* ---- Questions: about the plan that takes the calls */

static md_py_plan *serving(PyObject *object)
{
    md_py_plan *self = (md_py_plan *)object;
    while (self->successor)
        self = self->successor;
    return self;
}

static PyObject *plan_explain(PyObject *object, PyObject *none)
{
    md_py_plan *self = serving(object);
    md_py_text text = {0};
    (void)none;
    return md_py_text_take(&text, self->state, md_sequence_explain(self->sequence, 1, md_py_text_add, &text));
}

static PyObject *plan_count(PyObject *object, PyObject *none)
{
    md_py_plan *self = serving(object);
    md_sequence_counters c;
    (void)none;
    const md_status status = md_sequence_count(&c, self->sequence);
    if (status != MD_OK)
        return md_py_raise(self->state, status);
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:K,s:K,s:K,s:K,s:K,s:K}", "calls", (long long)self->n_calls,
                         "fallbacks", (long long)self->n_fallbacks, "n_calls", (long long)c.n_calls, "launches",
                         (long long)c.n_launches, "arena_bytes", (long long)c.arena_bytes, "sum_bytes",
                         (long long)c.sum_bytes, "sizes", (long long)c.n_sizes, "binds", (unsigned long long)c.n_binds,
                         "graph_runs", (unsigned long long)c.n_graph_runs, "graph_builds",
                         (unsigned long long)c.n_builds, "graph_updates", (unsigned long long)c.n_updates, "split_runs",
                         (unsigned long long)c.n_split_runs, "graph_failures", (unsigned long long)c.n_failures);
}

static PyObject *plan_boxed(PyObject *object, void *user)
{
    (void)object;
    (void)user;
    return Py_NewRef(Py_True);
}

static PyObject *plan_wait(PyObject *object, PyObject *none)
{
    md_py_plan *self = serving(object);
    md_status status = MD_OK;
    (void)none;
    Py_BEGIN_ALLOW_THREADS for (int32_t i = 0; i < self->n_ops && status == MD_OK; i++) status =
        md_op_wait(self->op[i]);
    Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(self->state, status);
    Py_RETURN_NONE;
}

static PyObject *plan_changed(PyObject *object, PyObject *none)
{
    const md_py_plan *self = serving(object);
    (void)none;
    for (int32_t i = 0; i < self->n_ops; i++)
        (void)md_op_operand_changed(self->op[i], NULL, NULL); /* cannot fail: it names none */
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"dim", plan_dim, METH_VARARGS, "dim(name, low, high)"},
    {"tensor", plan_tensor, METH_VARARGS, "tensor(name, role, dtype, size, stride, base, offset, id, data) -> id"},
    {"make", md_py_plan_make, METH_VARARGS,
     "make(formula, sizes, name, constants=()): makes the op of a later call; from any thread. constants: places of "
     "arguments that do not change"},
    {"call", md_py_plan_add_call, METH_VARARGS, "call(formula, sizes, name, arguments, constants=()): a kernel"},
    {"eager", md_py_plan_add_eager, METH_VARARGS,
     "eager(fn, ids, adopted): fn(tensors, sizes) runs between the kernels, and gives results of the plan"},
    {"together", md_py_plan_add_together, METH_VARARGS,
     "together(parts): kernels without order; a part: (formula, sizes, name, [ids of the tensors of an item, ...])"},
    {"finish", plan_finish, METH_VARARGS, "finish(...): from then on the plan can be called"},
    {"replace", plan_replace, METH_VARARGS, "replace(plan): from then on that takes all calls"},
    {"explain", plan_explain, METH_NOARGS, "explain() -> JSON of md_sequence_explain"},
    {"count", plan_count, METH_NOARGS, "count() -> counters"},
    {"changed", plan_changed, METH_NOARGS, "changed(): constants were written: kernels pack them anew"},
    {"wait", plan_wait, METH_NOARGS, "wait(): waits until all kernels are built"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"_boxed_call", plan_boxed, NULL, "True: the arguments come in one list.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyObject *md_py_plan_type(PyObject *module)
{
    PyType_Slot slots[] = {{Py_tp_new, (void *)plan_new},
                           {Py_tp_dealloc, (void *)plan_free},
                           {Py_tp_call, (void *)md_py_plan_call},
                           {Py_tp_methods, methods},
                           {Py_tp_getset, properties},
                           {Py_tp_doc, (void *)"A graph of PyTorch as a sequence of kernels."},
                           {0, NULL}};
    PyType_Spec spec = {"multidispatch._core.Plan", sizeof(md_py_plan), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromModuleAndSpec(module, &spec, NULL);
}
