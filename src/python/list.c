/* Formulas over lists: reading them, making them for dtypes and a device, and calling them. The class around these
 * functions is Python's (lists.py). */
#include "python/op/op.h"
#include "expr/list/list.h"

#include <md/list.h>

#include <stdlib.h>

static const char READ[] = "multidispatch.list_read", MADE[] = "multidispatch.list_made";

static void free_read(PyObject *capsule)
{
    md_fx_list *list = PyCapsule_GetPointer(capsule, READ);
    md_fx_list_destroy(&list);
}

static void free_made(PyObject *capsule)
{
    md_list *list = PyCapsule_GetPointer(capsule, MADE);
    md_list_destroy(&list);
}

/* lists() -> {name: (formula, description)} */
PyObject *md_py_lists(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *all = PyDict_New();
    const char *name, *formula, *description;
    for (int32_t i = 0; all && (md_list_catalogue(i, &name, &formula, &description), name); i++) {
        PyObject *pair = Py_BuildValue("(ss)", formula, description);
        if (!pair || PyDict_SetItemString(all, name, pair) < 0)
            Py_CLEAR(all);
        Py_XDECREF(pair);
    }
    return all;
}

/* list_read(formula) -> (what list_call takes, ((name, dtype, is_scalar, is_list, is_input, is_output), ...)) */
PyObject *md_py_list_read(PyObject *module, PyObject *args)
{
    const md_py_state *state = PyModule_GetState(module);
    const char *text;
    md_fx_list *list = NULL;
    if (!PyArg_ParseTuple(args, "s", &text))
        return NULL;
    if (md_fx_list_create(&list, text, NULL) != MD_OK) {
        PyErr_SetString(state->formula_error, md_last_error());
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(list, READ, free_read);
    if (!capsule)
        md_fx_list_destroy(&list);
    PyObject *all = capsule ? PyTuple_New(list->n_args) : NULL;
    for (int32_t i = 0; all && i < list->n_args; i++) {
        const md_fx_list_arg *a = &list->arg[i];
        PyObject *one = Py_BuildValue("(ssOOOO)", a->name, md_dtype_name(a->dtype), a->is_scalar ? Py_True : Py_False,
                                      a->is_list ? Py_True : Py_False, a->is_read ? Py_True : Py_False,
                                      a->is_written ? Py_True : Py_False);
        if (!one || PyTuple_SetItem(all, i, one) < 0)
            Py_CLEAR(all);
    }
    PyObject *out = all ? PyTuple_Pack(2, capsule, all) : NULL;
    Py_XDECREF(capsule);
    Py_XDECREF(all);
    return out;
}

/* list_make(device type, device number, formula) -> the formula with its kernels */
PyObject *md_py_list_make(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    md_py_dl_device device;
    const char *text;
    md_list *list = NULL;
    md_status status;
    if (!PyArg_ParseTuple(args, "iis", &device.type, &device.id, &text))
        return NULL;
    md_context *context = md_py_context_of(state, device);
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = md_list_create(&list, context, text, NULL);
    Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(state, status);
    PyObject *capsule = PyCapsule_New(list, MADE, free_made);
    if (!capsule)
        md_list_destroy(&list);
    return capsule;
}

/* ---- Calls */

typedef struct call {
    md_py_state *state;
    const md_fx_list *read;
    PyObject *list[MD_PY_ARGS]; /* owned: the arrays of an argument, one where it is no list */
    Py_ssize_t n[MD_PY_ARGS]; /* how many arrays the argument has */
    md_py_view *view[MD_PY_ARGS];
    Py_ssize_t n_open[MD_PY_ARGS];
    md_tensor *tensor[MD_PY_ARGS];
    md_arg arg[MD_PY_ARGS];
    PyObject *made; /* a list of the outputs made here that are one number for all items */
    const md_py_view *first;
    md_py_dl_device device;
} call;

static int take_device(call *c, const md_py_view *view, const char *name)
{
    md_py_dl_device d = view->device;
    d = d.type == MD_PY_CUDA_HOST || d.type == MD_PY_CPU ? (md_py_dl_device){MD_PY_CPU, 0}
        : d.type == MD_PY_CUDA_MANAGED                   ? (md_py_dl_device){MD_PY_CUDA, d.id}
                                                         : d;
    if (!c->first) {
        c->first = view;
        c->device = d;
    }
    if (d.type == c->device.type && d.id == c->device.id)
        return 0;
    PyErr_Format(c->state->argument_error, "argument '%s' is on another device than the first tensor", name);
    return -1;
}

static int open_views(call *c, int32_t i)
{
    const md_fx_list_arg *info = &c->read->arg[i];
    c->n[i] = PyList_Size(c->list[i]);
    c->view[i] = calloc((size_t)c->n[i] + 1, sizeof *c->view[i]);
    c->tensor[i] = calloc((size_t)c->n[i] + 1, sizeof *c->tensor[i]);
    if (!c->view[i] || !c->tensor[i]) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < c->n[i]; k++) {
        if (md_py_view_begin(&c->view[i][k], &c->state->exchange, PyList_GetItem(c->list[i], k), info->name,
                             info->is_written) < 0)
            return -1;
        c->n_open[i]++;
        if (take_device(c, &c->view[i][k], info->name) < 0)
            return -1;
        c->tensor[i][k] = c->view[i][k].tensor;
    }
    c->arg[i] = info->is_list ? md_ts(c->tensor[i], c->n[i]) : md_t(c->tensor[i]);
    return 0;
}

static int take_number(call *c, int32_t i, PyObject *given)
{
    if (PyLong_Check(given)) {
        c->arg[i] = md_i(PyLong_AsLongLong(given));
        return PyErr_Occurred() ? -1 : 0;
    }
    if (md_py_check_number(&c->state->exchange, given, c->read->arg[i].name) < 0)
        return -1;
    PyObject *number = PyNumber_Float(given);
    if (!number) {
        PyErr_Format(c->state->argument_error, "argument '%s' is a scalar: expected a number", c->read->arg[i].name);
        return -1;
    }
    c->arg[i] = md_s(PyFloat_AsDouble(number));
    Py_DECREF(number);
    return 0;
}

static int take(call *c, int32_t i, PyObject *given)
{
    const md_fx_list_arg *info = &c->read->arg[i];
    if (info->is_scalar)
        return take_number(c, i, given);
    if (given == Py_None)
        return 0;
    c->list[i] = info->is_list ? PySequence_List(given) : PyList_New(0);
    if (!c->list[i] || (!info->is_list && PyList_Append(c->list[i], given) < 0))
        return -1;
    return open_views(c, i);
}

static bool is_missing(const call *c, int32_t i)
{
    return !c->read->arg[i].is_scalar && !c->list[i];
}

static int check_given(const call *c)
{
    const char *number = NULL;
    for (int32_t i = 0; i < c->read->n_args; i++) {
        const md_fx_list_arg *info = &c->read->arg[i];
        if (!is_missing(c, i))
            continue;
        if (info->is_list || info->is_read) {
            PyErr_Format(c->state->argument_error, "argument '%s' is missing", info->name);
            return -1;
        }
        number = info->name;
    }
    if (c->first || !number)
        return 0;
    PyErr_Format(c->state->argument_error, "give '%s': nothing says on which device it is to be", number);
    return -1;
}

/* Results for all items that were not given, of the types that follow from the items'. */
static int make_numbers(call *c, const md_list *list)
{
    md_list_info info;
    for (int32_t i = 0; i < c->read->n_args; i++) {
        if (!is_missing(c, i))
            continue;
        (void)md_list_arg(&info, list, i);
        md_tensor shape = {.dtype = info.dtype};
        PyObject *made = md_py_empty(&shape, &c->state->exchange, c->first);
        const int failed = !made || PyList_Append(c->made, made) < 0 || take(c, i, made) < 0;
        Py_XDECREF(made);
        if (failed)
            return -1;
    }
    return 0;
}

static const char *dtype_given(const call *c, int32_t i)
{
    return c->n_open[i] > 0 ? md_dtype_name(c->tensor[i][0].dtype) : "";
}

/* The formula with kernels for the dtypes and the device, which Python keeps. */
static PyObject *find_made(const call *c, PyObject *find)
{
    PyObject *dtypes = PyTuple_New(c->read->n_args);
    for (int32_t i = 0; dtypes && i < c->read->n_args; i++) {
        PyObject *name = PyUnicode_FromString(dtype_given(c, i));
        if (!name || PyTuple_SetItem(dtypes, i, name) < 0)
            Py_CLEAR(dtypes);
    }
    PyObject *made = dtypes ? PyObject_CallFunction(find, "Oii", dtypes, (int)c->device.type, (int)c->device.id) : NULL;
    Py_XDECREF(dtypes);
    return made;
}

/* The tensors of each item as one axis each. */
static int flatten(call *c)
{
    Py_ssize_t n_items = 0;
    for (int32_t i = 0; i < c->read->n_args; i++)
        n_items = c->n[i] > n_items && c->read->arg[i].is_list ? c->n[i] : n_items;
    for (Py_ssize_t k = 0; k < n_items; k++) {
        md_tensor *tensor[MD_PY_ARGS];
        int32_t n = 0;
        for (int32_t i = 0; i < c->read->n_args; i++)
            if (c->read->arg[i].is_list && c->read->arg[i].rank == 1 && k < c->n[i])
                tensor[n++] = &c->tensor[i][k];
        if (md_py_flatten(tensor, n, k, c->state->argument_error) < 0)
            return -1;
    }
    return 0;
}

static int note_written(const call *c)
{
    for (int32_t i = 0; i < c->read->n_args; i++)
        for (Py_ssize_t k = 0; c->read->arg[i].is_written && k < c->n_open[i]; k++)
            if (md_py_view_written(&c->view[i][k], &c->state->exchange, PyList_GetItem(c->list[i], k)) < 0)
                return -1;
    return 0;
}

static int run(call *c, PyObject *find, PyObject *given, PyObject *stream, bool is_flat)
{
    md_stream on;
    md_status status;
    for (int32_t i = 0; i < c->read->n_args; i++)
        if (take(c, i, PyTuple_GetItem(given, i)) < 0)
            return -1;
    if (check_given(c) < 0 || (is_flat && flatten(c) < 0))
        return -1;
    if (!c->first)
        c->device = (md_py_dl_device){MD_PY_CPU, 0};
    PyObject *made = md_py_stream_of(&on, c->first, stream) < 0 ? NULL : find_made(c, find);
    md_list *list = made ? PyCapsule_GetPointer(made, MADE) : NULL;
    if (!list || make_numbers(c, list) < 0) {
        Py_XDECREF(made);
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS status = md_list_call(list, on, c->arg, c->read->n_args);
    Py_END_ALLOW_THREADS Py_DECREF(made);
    if (status == MD_OK)
        return note_written(c);
    md_py_raise(c->state, status);
    return -1;
}

static void close_views(call *c)
{
    for (int32_t i = 0; i < c->read->n_args; i++) {
        for (Py_ssize_t k = 0; k < c->n_open[i]; k++)
            md_py_view_end(&c->view[i][k]);
        free(c->view[i]);
        free(c->tensor[i]);
        Py_XDECREF(c->list[i]);
    }
}

/* list_call(read, find, (list, array, number or None for each argument), stream, flat) -> [new results] */
PyObject *md_py_list_call(PyObject *module, PyObject *args)
{
    PyObject *read, *find, *given, *stream = NULL;
    int is_flat = 0;
    if (!PyArg_ParseTuple(args, "OOO!|Op", &read, &find, &PyTuple_Type, &given, &stream, &is_flat))
        return NULL;
    call *c = calloc(1, sizeof *c);
    if (!c)
        return PyErr_NoMemory();
    c->state = PyModule_GetState(module);
    c->read = PyCapsule_GetPointer(read, READ);
    c->made = c->read ? PyList_New(0) : NULL;
    int failed = !c->made;
    if (!failed && PyTuple_Size(given) != c->read->n_args) {
        PyErr_Format(c->state->argument_error, "the formula takes %d arguments", (int)c->read->n_args);
        failed = 1;
    }
    if (!failed)
        failed = run(c, find, given, stream, is_flat != 0) < 0;
    PyObject *made = c->made;
    if (c->read)
        close_views(c);
    free(c);
    if (failed)
        Py_CLEAR(made);
    return made;
}
