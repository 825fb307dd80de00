/* New arrays for outputs, of the kind of the inputs; and the stream that PyTorch uses now. */
#include "python/arrays/exchange.h"

#include <string.h>

static void set_error(void *user, const char *kind, const char *message)
{
    (void)user;
    (void)kind;
    PyErr_SetString(PyExc_RuntimeError, message);
}

md_py_dl_dtype md_py_dl_dtype_of(md_dtype dtype)
{
    /* in the order of md_dtype */
    static const md_py_dl_dtype dtypes[] = {{0, 0, 0},  {2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {4, 16, 1}, {0, 32, 1},
                                            {0, 64, 1}, {1, 8, 1},  {6, 8, 1},  {0, 8, 1},  {10, 8, 1}, {12, 8, 1},
                                            {0, 16, 1}, {1, 16, 1}, {1, 32, 1}, {1, 64, 1}, {0, 4, 1},  {1, 4, 1}};
    return dtypes[dtype];
}

static PyObject *empty_exchange(md_tensor *shape, const md_py_exchange *exchange, const md_py_view *like)
{
    if (like->device.type == MD_PY_CPU || like->device.type == MD_PY_CUDA) {
        PyObject *made = md_py_torch_empty(shape, &exchange->torch, like->device.type == MD_PY_CUDA, like->device.id);
        if (made)
            return made; /* where it fails, the exchange API below fails too and sets the exception */
        shape->data = NULL;
    }
    md_py_dl_tensor prototype = {.device = like->device, .ndim = shape->rank, .dtype = md_py_dl_dtype_of(shape->dtype)};
    md_py_dl_versioned *made = NULL;
    void *object = NULL;
    int64_t size[MD_MAX_RANK];
    memcpy(size, shape->size, sizeof size);
    prototype.shape = size;
    if (like->type.api->allocate(&prototype, &made, NULL, set_error) != 0)
        return NULL;
    return like->type.api->to_object(made, &object) == 0 ? object : NULL;
}

/* The scalar type of a dtype: NumPy's own, or of ml_dtypes, where it is installed. NULL with an error. */
static PyObject *scalar_type(const md_py_exchange *exchange, PyObject *numpy, md_dtype dtype)
{
    static const char *const name[] = {
        "",     "float32",       "float64",     "float16", "bfloat16", "int32",  "int64",  "uint8", "bool_",
        "int8", "float8_e4m3fn", "float8_e5m2", "int16",   "uint16",   "uint32", "uint64", NULL,    NULL};
    const bool is_foreign = dtype == MD_BF16 || dtype == MD_F8E4M3 || dtype == MD_F8E5M2;
    PyObject *foreign = is_foreign ? PyImport_ImportModule("ml_dtypes") : NULL;
    PyObject *found = NULL;
    if (name[dtype] && (foreign || !is_foreign))
        found = PyObject_GetAttrString(foreign ? foreign : numpy, name[dtype]);
    Py_XDECREF(foreign);
    if (!found)
        PyErr_Format(exchange->argument_error, "NumPy has no dtype %s for the output: give out=%s",
                     md_dtype_name(dtype), is_foreign ? ", or install ml_dtypes" : "");
    return found;
}

static PyObject *numpy_dtype(md_py_exchange *exchange, md_dtype dtype)
{
    if (exchange->numpy_dtype[dtype])
        return exchange->numpy_dtype[dtype];
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *scalar = numpy ? scalar_type(exchange, numpy, dtype) : NULL;
    PyObject *maker = scalar ? PyObject_GetAttrString(numpy, "dtype") : NULL;
    if (scalar && maker)
        exchange->numpy_dtype[dtype] = PyObject_CallFunctionObjArgs(maker, scalar, NULL);
    if (scalar && !exchange->numpy_empty)
        exchange->numpy_empty = PyObject_GetAttrString(numpy, "empty");
    Py_XDECREF(numpy);
    Py_XDECREF(scalar);
    Py_XDECREF(maker);
    return scalar && exchange->numpy_empty ? exchange->numpy_dtype[dtype] : NULL;
}

PyObject *md_py_empty(md_tensor *shape, md_py_exchange *exchange, const md_py_view *like)
{
    shape->data = NULL;
    if (like && like->type.way == MD_PY_EXCHANGE)
        return empty_exchange(shape, exchange, like);
    if (like && like->device.type == MD_PY_CUDA) {
        PyErr_SetString(exchange->argument_error, "give out=: arrays of this type on a GPU cannot be made here");
        return NULL;
    }
    PyObject *dtype = numpy_dtype(exchange, shape->dtype);
    PyObject *size = dtype ? PyTuple_New(shape->rank) : NULL;
    for (int32_t a = 0; size && a < shape->rank; a++) {
        PyObject *n = PyLong_FromLongLong(shape->size[a]);
        if (!n || PyTuple_SetItem(size, a, n) < 0)
            Py_CLEAR(size);
    }
    PyObject *made = size ? PyObject_CallFunctionObjArgs(exchange->numpy_empty, size, dtype, NULL) : NULL;
    Py_XDECREF(size);
    return made;
}

int md_py_current_stream(void **stream, const md_py_view *view)
{
    *stream = NULL;
    if (view->type.way != MD_PY_EXCHANGE || view->device.type != MD_PY_CUDA)
        return 0;
    return view->type.api->current_stream(view->device.type, view->device.id, stream);
}
