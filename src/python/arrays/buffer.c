/* Arrays by Python's buffer protocol. All that a buffer may leave out is looked at: it may have no format (bytes), no
 * shape (one axis) and no strides (no gaps). */
#include "python/arrays/exchange.h"

#include <md/dlpack.h>

#include <string.h>

/* The dtype of a buffer's format: its one letter says integer, unsigned or real, and the item's size says the width. */
static md_dtype dtype_of_format(const char *format, Py_ssize_t size)
{
    if (!format)
        return size == 1 ? MD_U8 : MD_DTYPE_DEFAULT;
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (!*format || format[1])
        return MD_DTYPE_DEFAULT;
    if (*format == '?')
        return size == 1 ? MD_BOOL : MD_DTYPE_DEFAULT;
    if (strchr("efd", *format))
        return md_dtype_from_dlpack(2, (int)size * 8, 1);
    if (strchr("bhilqn", *format))
        return md_dtype_from_dlpack(0, (int)size * 8, 1);
    return strchr("BHILQN", *format) ? md_dtype_from_dlpack(1, (int)size * 8, 1) : MD_DTYPE_DEFAULT;
}

/* Why a format has no dtype here, with what to do; NULL where there is nothing to add. */
static const char *why_not(const char *format)
{
    const char first = *format ? *format : ' ', letter = strchr("@=<>!", first) ? format[1] : first;
    if (first == '>' || first == '!')
        return "its elements are big endian: give a copy in the machine's order, "
               "x.astype(x.dtype.newbyteorder('='))";
    switch (letter) {
    case 'Z':
        return "its elements are complex: give their parts, x.real and x.imag, or x.view(x.real.dtype)";
    case 'T':
        return "its elements are structs: give one field, x['name']";
    case 'O':
        return "its elements are Python objects: convert them, x.astype('float32')";
    case 'g':
        return "its elements are long doubles: convert them, x.astype('float64')";
    default:
        return NULL;
    }
}

static int refuse_format(const md_py_exchange *exchange, const Py_buffer *b, const char *name)
{
    const char *const why = b->format ? why_not(b->format) : NULL;
    if (why)
        return md_py_refuse(exchange, name, why);
    PyErr_Format(exchange->argument_error,
                 "argument '%s': its elements, of format '%s' and %zd bytes, have no dtype here", name,
                 b->format ? b->format : "", b->itemsize);
    return -1;
}

/* Takes sizes and strides from the buffer; a buffer without a shape is one axis of bytes or elements. */
static int take_axes(md_tensor *t, const md_py_exchange *exchange, const Py_buffer *b, const char *name)
{
    t->rank = b->shape || b->ndim == 0 ? b->ndim : 1;
    for (int a = 0; b->suboffsets && a < b->ndim; a++)
        if (b->suboffsets[a] >= 0)
            return md_py_refuse(exchange, name, "its rows are reached by pointers (suboffsets): give a copy");
    int64_t stride = 1;
    for (int a = t->rank - 1; a >= 0; a--) {
        t->size[a] = b->shape ? b->shape[a] : b->len / b->itemsize;
        t->stride[a] = b->strides ? b->strides[a] / b->itemsize : stride;
        if (b->strides && b->strides[a] % b->itemsize != 0)
            return md_py_refuse(exchange, name, "its strides are no whole elements");
        if (t->size[a] < 0)
            return md_py_refuse(exchange, name, "its buffer has an axis of negative size");
        stride *= t->size[a] > 1 ? t->size[a] : 1;
    }
    return 0;
}

/* Fills in the view from its open buffer. `dtype` replaces the buffer's format, unless it is MD_DTYPE_DEFAULT. */
static int take_elements(md_py_view *view, const md_py_exchange *exchange, const char *name, md_dtype dtype)
{
    const Py_buffer *const b = &view->buffer;
    if (b->itemsize <= 0)
        return md_py_refuse(exchange, name, "its elements have no bytes");
    if (b->ndim < 0 || b->ndim > MD_MAX_RANK) {
        PyErr_Format(exchange->argument_error, "argument '%s' has %d axes, and the most are %d", name, b->ndim,
                     MD_MAX_RANK);
        return -1;
    }
    view->tensor.dtype = dtype ? dtype : dtype_of_format(b->format, b->itemsize);
    if (view->tensor.dtype == MD_DTYPE_DEFAULT)
        return refuse_format(exchange, b, name);
    view->device = (md_py_dl_device){MD_PY_CPU, 0};
    view->tensor.data = b->buf;
    return take_axes(&view->tensor, exchange, b, name);
}

/* Asks the array for its buffer. Where it refuses, its exception stays set. */
static bool open_buffer(md_py_view *view, PyObject *object, bool is_output)
{
    const int flags = PyBUF_STRIDED_RO | PyBUF_FORMAT | (is_output ? PyBUF_WRITABLE : 0);
    view->has_buffer = PyObject_GetBuffer(object, &view->buffer, flags) == 0;
    return view->has_buffer;
}

/* ---- What NumPy's own buffers cannot say: the dtypes of ml_dtypes */

/* The dtype of an array's attribute `dtype` by its name, and the bytes of its elements. MD_DTYPE_DEFAULT, without an
 * error, for others. */
static md_dtype named_dtype(PyObject *object, const char **bytes)
{
    static const struct {
        const char *name, *bytes;
        md_dtype dtype;
    } row[] = {{"bfloat16", "u2", MD_BF16}, {"float8_e4m3fn", "u1", MD_F8E4M3}, {"float8_e5m2", "u1", MD_F8E5M2}};
    md_dtype found = MD_DTYPE_DEFAULT;
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    for (size_t i = 0; name && PyUnicode_Check(name) && i < sizeof row / sizeof *row; i++)
        if (PyUnicode_CompareWithASCIIString(name, row[i].name) == 0) {
            found = row[i].dtype;
            *bytes = row[i].bytes;
        }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return found;
}

static int refuse_read_only(const md_py_exchange *exchange, const char *name)
{
    return md_py_refuse(exchange, name, "is an output, and this array is read-only");
}

/* The functions named take_.. below return 1 if the array is read, 0 if this function cannot read it (no exception is
 * set) and -1 with an exception. */

static int take_as_integers(md_py_view *view, const md_py_exchange *exchange, PyObject *object, const char *name,
                            bool is_output)
{
    const char *bytes = NULL;
    const md_dtype dtype = named_dtype(object, &bytes);
    view->keeps = dtype ? PyObject_CallMethod(object, "view", "s", bytes) : NULL;
    if (view->keeps && PyObject_CheckBuffer(view->keeps) && open_buffer(view, view->keeps, is_output))
        return take_elements(view, exchange, name, dtype) < 0 ? -1 : 1;
    PyErr_Clear();
    if (!is_output || !view->keeps || !open_buffer(view, view->keeps, false))
        return 0;
    return refuse_read_only(exchange, name);
}

static int take_by_dlpack(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name,
                          bool is_output)
{
    if (PyObject_HasAttr(object, exchange->text_dlpack) &&
        md_py_take_capsule(view, exchange, object, name, is_output) == 0)
        return 1;
    Py_CLEAR(view->capsule);
    PyErr_Clear(); /* the buffer's error says more: NumPy's arrays have __dlpack__, too */
    return 0;
}

/* ---- Buffers */

static int take_otherwise(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name,
                          bool is_output)
{
    if (is_output && open_buffer(view, object, false))
        return refuse_read_only(exchange, name);
    PyErr_Clear();
    const int taken = take_by_dlpack(view, exchange, object, name, is_output);
    return taken ? taken : take_as_integers(view, exchange, object, name, is_output);
}

int md_py_take_buffer(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output)
{
    PyObject *type, *value, *trace;
    if (open_buffer(view, object, is_output))
        return take_elements(view, exchange, name, MD_DTYPE_DEFAULT);
    if (PyErr_ExceptionMatches(PyExc_MemoryError))
        return -1;
    PyErr_Fetch(&type, &value, &trace);
    const int taken = take_otherwise(view, exchange, object, name, is_output);
    if (taken == 0) {
        PyErr_Restore(type, value, trace); /* the array's reason for having no buffer is the error to show */
        return md_py_wrap_error(exchange, name);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return taken < 0 ? -1 : 0;
}
