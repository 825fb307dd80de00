/* Which ways of reading arrays a Python type offers, looked up once a type; and errors that name the argument. */
#include "python/arrays/exchange.h"

/* ---- What the type of an object can do */

int md_py_exchange_start(md_py_exchange *exchange)
{
    exchange->text_is_neg = PyUnicode_InternFromString("is_neg");
    exchange->text_requires_grad = PyUnicode_InternFromString("requires_grad");
    exchange->text_dlpack = PyUnicode_InternFromString("__dlpack__");
    exchange->text_dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    return exchange->text_is_neg && exchange->text_requires_grad && exchange->text_dlpack &&
                   exchange->text_dlpack_device
               ? 0
               : -1;
}

void md_py_exchange_finish(md_py_exchange *exchange)
{
    for (int i = 0; i < exchange->n_types; i++)
        Py_CLEAR(exchange->type[i].type);
    exchange->n_types = 0;
    for (int i = 0; i < MD_PY_DTYPES; i++)
        Py_CLEAR(exchange->numpy_dtype[i]);
    Py_CLEAR(exchange->numpy_empty);
    Py_CLEAR(exchange->is_grad_enabled);
    Py_CLEAR(exchange->text_is_neg);
    Py_CLEAR(exchange->text_requires_grad);
    Py_CLEAR(exchange->text_dlpack);
    Py_CLEAR(exchange->text_dlpack_device);
}

int md_py_exchange_visit(md_py_exchange *exchange, visitproc visit, void *arg)
{
    for (int i = 0; i < exchange->n_types; i++)
        Py_VISIT(exchange->type[i].type);
    for (int i = 0; i < MD_PY_DTYPES; i++)
        Py_VISIT(exchange->numpy_dtype[i]);
    Py_VISIT(exchange->numpy_empty);
    Py_VISIT(exchange->is_grad_enabled);
    return 0;
}

/* True if the attribute stands in the type itself, or the type is PyTorch's Parameter: a subclass that only inherits
 * it, like FakeTensor, may have no memory behind it. */
static int has_own_api(PyTypeObject *type)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");
    int is_own = -1;
    if (module && name)
        is_own = (PyUnicode_CompareWithASCIIString(module, "torch") == 0 &&
                  PyUnicode_CompareWithASCIIString(name, "Tensor") == 0) ||
                 (PyUnicode_CompareWithASCIIString(module, "torch.nn.parameter") == 0 &&
                  PyUnicode_CompareWithASCIIString(name, "Parameter") == 0);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return is_own;
}

/* 1: the type is PyTorch's tensor or a subclass; 0: it has no exchange API; -1: an error. */
static int find_api(md_py_type *out, md_py_exchange *exchange, PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (!capsule) {
        PyErr_Clear();
        return 0;
    }
    const md_py_dl_api *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule); /* the struct is static */
    if (!api)
        return -1;
    if (api->version.major != 1 || !api->borrow || !api->allocate || !api->to_object || !api->current_stream)
        return 0;
    const int is_own = has_own_api(type);
    if (is_own < 0)
        return -1;
    out->way = is_own ? MD_PY_EXCHANGE : MD_PY_SUBCLASS;
    out->api = api;
    if (!exchange->torch.is_known) {
        md_py_torch found = {0};
        md_py_torch_find(&found);
        exchange->torch = found; /* whole: threads that call first at the same time read it, or look themselves */
    }
    return 1;
}

static int look_at(md_py_type *out, md_py_exchange *exchange, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    *out = (md_py_type){.type = type};
    const int found = find_api(out, exchange, type);
    if (found)
        return found < 0 ? -1 : 0;
    if (PyObject_CheckBuffer(object) && !PyBytes_Check(object))
        out->way = MD_PY_BUFFER;
    else if (PyObject_HasAttr(object, exchange->text_dlpack))
        out->way = MD_PY_DLPACK;
    else
        out->way = MD_PY_NO_ARRAY;
    return 0;
}

const md_py_type *md_py_type_of(md_py_exchange *exchange, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    for (int i = 0; i < exchange->n_types; i++)
        if (exchange->type[i].type == type)
            return &exchange->type[i];
    md_py_type made;
    if (look_at(&made, exchange, object) < 0)
        return NULL;
    md_py_type *const to = &exchange->type[exchange->next];
    exchange->next = (exchange->next + 1) % MD_PY_TYPES;
    if (exchange->n_types < MD_PY_TYPES)
        exchange->n_types++;
    PyTypeObject *const evicted = to->type;
    Py_INCREF((PyObject *)type);
    *to = made;
    Py_XDECREF((PyObject *)evicted); /* last: it may run other code, which looks at the table */
    return to;
}

/* ---- Errors */

int md_py_refuse(const md_py_exchange *exchange, const char *name, const char *why)
{
    PyErr_Format(exchange->argument_error, "argument '%s': %s", name, why);
    return -1;
}

int md_py_wrap_error(const md_py_exchange *exchange, const char *name)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (type && !PyErr_GivenExceptionMatches(type, PyExc_MemoryError) &&
        PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
        PyErr_Format(exchange->argument_error, "argument '%s': its memory cannot be read: %S", name,
                     value ? value : type);
        Py_DECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else
        PyErr_Restore(type, value, trace);
    return -1;
}
