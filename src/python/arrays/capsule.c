/* Arrays by __dlpack__, in capsules of both forms: with a version and flags, and without. */
#include "python/arrays/exchange.h"

#include <md/dlpack.h>

enum { READ_ONLY = 1, IS_COPIED = 2 }; /* bits of DLPack's flags */
enum { COMPLEX = 5 }; /* DLPack's code of complex numbers */

int md_py_take_dlpack(md_py_view *view, const md_py_exchange *exchange, const md_py_dl_tensor *t, const char *name)
{
    view->device = t->device;
    if (t->ndim > 0 && t->ndim <= MD_MAX_RANK && !t->shape)
        return md_py_refuse(exchange, name, "its DLPack tensor has axes, but no shape");
    for (int32_t a = 0; a < t->ndim && a < MD_MAX_RANK; a++)
        if (t->shape[a] < 0)
            return md_py_refuse(exchange, name, "its DLPack tensor has an axis of negative size");
    if (t->device.id < 0)
        return md_py_refuse(exchange, name, "its DLPack tensor has a negative device number");
    if (md_tensor_from_dlpack(&view->tensor, t) == MD_OK)
        return 0;
    if (t->dtype.code == COMPLEX)
        return md_py_refuse(exchange, name, "its elements are complex: give their parts, x.real and x.imag");
    if (t->ndim < 0 || t->ndim > MD_MAX_RANK)
        PyErr_Format(exchange->argument_error, "argument '%s' has %d axes, and the most are %d", name, (int)t->ndim,
                     MD_MAX_RANK);
    else
        PyErr_Format(exchange->argument_error,
                     "argument '%s': its elements, of DLPack's code %d, %d bits and %d lanes, have no dtype here", name,
                     (int)t->dtype.code, (int)t->dtype.bits, (int)t->dtype.lanes);
    return -1;
}

/* object.__dlpack__(...) with the version up to which capsules are understood here; without it where the producer is
 * older than that argument. NULL with an error. */
static PyObject *capsule_for(md_py_exchange *exchange, PyObject *object, bool is_cuda)
{
    PyObject *method = PyObject_GetAttr(object, exchange->text_dlpack), *none = PyTuple_New(0);
    PyObject *named = Py_BuildValue("{s:(ii)}", "max_version", 1, 2), *stream = PyLong_FromLong(1);
    PyObject *capsule = NULL;
    /* stream 1 is CUDA's legacy default stream: what is launched there sees the data */
    if (method && none && named && stream && (!is_cuda || PyDict_SetItemString(named, "stream", stream) == 0))
        capsule = PyObject_Call(method, none, named);
    if (!capsule && method && none && named && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyDict_DelItemString(named, "max_version") == 0 ? PyObject_Call(method, none, named) : NULL;
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(named);
    Py_XDECREF(stream);
    return capsule;
}

static PyObject *capsule_of(md_py_exchange *exchange, PyObject *object)
{
    PyObject *device = PyObject_CallMethodObjArgs(object, exchange->text_dlpack_device, NULL);
    PyObject *first = device && PyTuple_Check(device) && PyTuple_Size(device) == 2 ? PyTuple_GetItem(device, 0) : NULL;
    const long type = first ? PyLong_AsLong(first) : -1;
    if (device && !first)
        PyErr_SetString(PyExc_TypeError, "__dlpack_device__() gave no pair of numbers");
    Py_XDECREF(device);
    return PyErr_Occurred() ? NULL : capsule_for(exchange, object, type == MD_PY_CUDA);
}

static int take_versioned(md_py_view *view, const md_py_exchange *exchange, const char *name, bool is_output)
{
    const md_py_dl_versioned *v = PyCapsule_GetPointer(view->capsule, "dltensor_versioned");
    if (v->version.major != 1) {
        PyErr_Format(exchange->argument_error,
                     "argument '%s': its DLPack capsule is of version %u.%u, and 1 is understood", name,
                     (unsigned)v->version.major, (unsigned)v->version.minor);
        return -1;
    }
    if (is_output && v->flags & READ_ONLY)
        return md_py_refuse(exchange, name, "is an output, and this array is read-only");
    if (is_output && v->flags & IS_COPIED)
        return md_py_refuse(exchange, name, "is an output, and __dlpack__ gave a copy of this array");
    return md_py_take_dlpack(view, exchange, &v->tensor, name);
}

int md_py_take_capsule(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output)
{
    view->capsule = capsule_of(exchange, object);
    if (!view->capsule)
        return md_py_wrap_error(exchange, name);
    if (PyCapsule_IsValid(view->capsule, "dltensor_versioned"))
        return take_versioned(view, exchange, name, is_output);
    if (PyCapsule_IsValid(view->capsule, "dltensor")) {
        const md_py_dl_managed *m = PyCapsule_GetPointer(view->capsule, "dltensor");
        return md_py_take_dlpack(view, exchange, &m->tensor, name);
    }
    const bool was_used = PyCapsule_IsValid(view->capsule, "used_dltensor") ||
                          PyCapsule_IsValid(view->capsule, "used_dltensor_versioned");
    return md_py_refuse(exchange, name,
                        was_used ? "__dlpack__ gave a capsule that was consumed before"
                                 : "__dlpack__ gave no DLPack capsule");
}
