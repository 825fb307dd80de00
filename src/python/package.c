/* Packages (md/package.h): functions of the module. */
#include "python/state.h"

#include <md/package.h>

#include <stdlib.h>

#define CAPSULE "multidispatch.package"

static void close_capsule(PyObject *capsule)
{
    md_package *package = PyCapsule_GetPointer(capsule, CAPSULE);
    md_package_close(&package);
}

/* ---- Writing */

/* Reads the buffers of weights. Returns how many were read; fewer than `n` with an error. */
static Py_ssize_t read_weights(md_package_weight *weight, Py_buffer *buffer, PyObject *list, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PySequence_GetItem(list, i);
        const int got = one ? PyObject_GetBuffer(one, &buffer[i], PyBUF_SIMPLE) : -1;
        Py_XDECREF(one);
        if (got < 0)
            return i;
        weight[i] = (md_package_weight){buffer[i].buf, buffer[i].len};
    }
    return n;
}

PyObject *md_py_package_write(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *path, *plan;
    PyObject *list;
    md_status status = MD_OK;
    if (!PyArg_ParseTuple(args, "ssO", &path, &plan, &list))
        return NULL;
    const Py_ssize_t n = PySequence_Size(list);
    if (n < 0)
        return NULL;
    md_package_weight *weight = calloc((size_t)n + 1, sizeof *weight);
    Py_buffer *buffer = calloc((size_t)n + 1, sizeof *buffer);
    const Py_ssize_t got = weight && buffer ? read_weights(weight, buffer, list, n) : 0;
    if (got == n) {
        Py_BEGIN_ALLOW_THREADS status = md_package_write(path, plan, weight, (int32_t)n, NULL);
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; i < got; i++)
        PyBuffer_Release(&buffer[i]);
    free(weight);
    free(buffer);
    if (got < n)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    if (status != MD_OK)
        return md_py_raise(state, status);
    Py_RETURN_NONE;
}

/* ---- Opening, and questions */

PyObject *md_py_package_open(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *path;
    md_package *package = NULL;
    md_status status;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = md_package_open(&package, path, NULL);
    Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(state, status);
    PyObject *capsule = PyCapsule_New(package, CAPSULE, close_capsule);
    if (!capsule)
        md_package_close(&package);
    return capsule;
}

PyObject *md_py_package_describe(PyObject *module, PyObject *capsule)
{
    md_package *package = PyCapsule_GetPointer(capsule, CAPSULE);
    md_py_text text = {0};
    if (!package)
        return NULL;
    return md_py_text_take(&text, PyModule_GetState(module), md_package_describe(package, md_py_text_add, &text));
}

/* ---- Calls */

/* The arrays of a call. */
typedef struct call {
    md_package *package;
    Py_ssize_t n, n_begun; /* inputs, then outputs */
    md_py_view *view;
    md_tensor *tensor;
} call;

static void end_call(call *c)
{
    for (Py_ssize_t i = 0; i < c->n_begun; i++)
        md_py_view_end(&c->view[i]);
    free(c->view);
    free(c->tensor);
}

static int begin_views(call *c, md_py_state *state, PyObject *list, bool is_output)
{
    const Py_ssize_t n = PySequence_Size(list);
    const int32_t wanted = is_output ? md_package_n_outputs(c->package) : md_package_n_inputs(c->package);
    if (n != wanted) {
        if (n >= 0)
            PyErr_Format(state->argument_error, "%zd tensors, not %d", n, (int)wanted);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PySequence_GetItem(list, i);
        const int got =
            one ? md_py_view_begin(&c->view[c->n_begun], &state->exchange, one, "of a package", is_output) : -1;
        Py_XDECREF(one); /* the list keeps it */
        if (got < 0)
            return -1;
        c->tensor[c->n_begun] = c->view[c->n_begun].tensor;
        c->n_begun++;
    }
    return 0;
}

/* -1 with an error. */
static int begin_call(call *c, md_py_state *state, PyObject *capsule, PyObject *inputs, PyObject *outputs)
{
    *c = (call){.package = PyCapsule_GetPointer(capsule, CAPSULE)};
    if (!c->package)
        return -1;
    c->n = md_package_n_inputs(c->package) + (Py_ssize_t)md_package_n_outputs(c->package);
    c->view = calloc((size_t)c->n + 1, sizeof *c->view);
    c->tensor = calloc((size_t)c->n + 1, sizeof *c->tensor);
    if (!c->view || !c->tensor) {
        PyErr_NoMemory();
        return -1;
    }
    return begin_views(c, state, inputs, false) < 0 ? -1 : outputs ? begin_views(c, state, outputs, true) : 0;
}

/* (dtype, sizes, strides) */
static PyObject *shape_of(const md_tensor *t)
{
    PyObject *size = PyTuple_New(t->rank), *stride = PyTuple_New(t->rank);
    for (int32_t a = 0; size && stride && a < t->rank; a++) {
        PyTuple_SetItem(size, a, PyLong_FromLongLong(t->size[a]));
        PyTuple_SetItem(stride, a, PyLong_FromLongLong(t->stride[a]));
    }
    if (size && stride && !PyErr_Occurred())
        return Py_BuildValue("(sNN)", md_dtype_name(t->dtype), size, stride);
    Py_XDECREF(size);
    Py_XDECREF(stride);
    return NULL;
}

static PyObject *shapes_of(const md_tensor *tensor, int32_t n)
{
    PyObject *out = PyList_New(n);
    for (int32_t i = 0; out && i < n; i++) {
        PyObject *one = shape_of(&tensor[i]);
        if (!one || PyList_SetItem(out, i, one) < 0)
            Py_CLEAR(out);
    }
    return out;
}

PyObject *md_py_package_outputs(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    PyObject *capsule, *inputs, *out = NULL;
    call c = {0};
    if (!PyArg_ParseTuple(args, "OO", &capsule, &inputs))
        return NULL;
    if (begin_call(&c, state, capsule, inputs, NULL) == 0) {
        md_tensor *const made = &c.tensor[c.n_begun];
        const md_status status = md_package_outputs(made, c.package, c.tensor);
        out = status == MD_OK ? shapes_of(made, md_package_n_outputs(c.package)) : md_py_raise(state, status);
    }
    end_call(&c);
    return out;
}

PyObject *md_py_package_call(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    PyObject *capsule, *inputs, *outputs, *out = NULL;
    void *stream = NULL;
    call c = {0};
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &inputs, &outputs))
        return NULL;
    if (begin_call(&c, state, capsule, inputs, outputs) == 0 &&
        (c.n == 0 || md_py_current_stream(&stream, &c.view[0]) == 0)) {
        md_status status;
        const md_tensor *made = &c.tensor[md_package_n_inputs(c.package)];
        Py_BEGIN_ALLOW_THREADS status = md_package_call(c.package, stream, c.tensor, made);
        Py_END_ALLOW_THREADS out = status == MD_OK ? Py_NewRef(Py_None) : md_py_raise(state, status);
    }
    end_call(&c);
    return out;
}
