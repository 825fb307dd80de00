/* Tuning in pieces, and wisdom as text: functions of the module. Each waits without the GIL. */
#include "python/state.h"

#include <md/md.h>
#include <stdlib.h>

static md_context *context_named(md_py_state *state, const char *name)
{
    md_py_dl_device device;
    return md_py_device_parse(&device, state, name) < 0 ? NULL : md_py_context_of(state, device);
}

/* A list of whole numbers as an array. -1 with an error. */
static int read_indices(int64_t **out, int64_t *n, PyObject *list)
{
    *out = NULL;
    *n = list && list != Py_None ? (int64_t)PySequence_Size(list) : 0;
    if (*n < 0 || (*n > 0 && !(*out = malloc((size_t)*n * sizeof **out)))) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < *n; i++) {
        PyObject *item = PySequence_GetItem(list, (Py_ssize_t)i);
        (*out)[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            free(*out);
            return -1;
        }
    }
    return 0;
}

PyObject *md_py_tune_pieces(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    md_py_text text = {0};
    const char *device, *formula;
    int bounds, numeric, rigor, tf32;
    PyObject *list;
    int64_t *indices;
    md_op_options o = {0};
    md_tune_options t = {.write = md_py_text_add, .user = &text, .seed = 1};
    md_status status;
    if (!PyArg_ParseTuple(args, "sszziipidiO", &device, &formula, &o.sizes, &o.hints, &bounds, &numeric, &tf32, &rigor,
                          &t.budget_ms, &t.max_builds, &list))
        return NULL;
    md_context *context = context_named(state, device);
    if (!context || read_indices(&indices, &t.n_indices, list) < 0)
        return NULL;
    o.bounds = (md_bounds)bounds;
    o.numeric = (md_numeric)numeric;
    o.tf32 = tf32;
    t.rigor = (md_tune)rigor;
    t.indices = indices;
    Py_BEGIN_ALLOW_THREADS status = md_tune_pieces(context, formula, &o, &t);
    Py_END_ALLOW_THREADS free(indices);
    return md_py_text_take(&text, state, status);
}

PyObject *md_py_tune_piece(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    md_py_text text = {0};
    const char *device, *piece;
    md_status status;
    if (!PyArg_ParseTuple(args, "ss", &device, &piece))
        return NULL;
    md_context *context = context_named(state, device);
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = md_tune_piece(context, piece, NULL, md_py_text_add, &text);
    Py_END_ALLOW_THREADS return md_py_text_take(&text, state, status);
}

PyObject *md_py_wisdom_import(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    md_wisdom_counts count;
    const char *device, *text;
    Py_ssize_t n;
    md_status status;
    if (!PyArg_ParseTuple(args, "ss#", &device, &text, &n))
        return NULL;
    md_context *context = context_named(state, device);
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = md_wisdom_import(&count, context, text, (size_t)n, NULL, NULL);
    Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(state, status);
    return Py_BuildValue("{s:L,s:L,s:L,s:L}", "lines", (long long)count.n_lines, "taken", (long long)count.n_taken,
                         "related", (long long)count.n_related, "foreign", (long long)count.n_foreign);
}

PyObject *md_py_wisdom_export(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    md_py_text text = {0};
    const char *device;
    md_status status;
    if (!PyArg_ParseTuple(args, "s", &device))
        return NULL;
    md_context *context = context_named(state, device);
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = md_wisdom_export(context, md_py_text_add, &text);
    Py_END_ALLOW_THREADS return md_py_text_take(&text, state, status);
}
