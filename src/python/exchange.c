/* Arrays of Python as tensors of the library: views for the time of a call, and new arrays for outputs. */
#include "python/exchange.h"

#include <string.h>

/* ---- What the type of an object can do */

int md_py_exchange_start(md_py_exchange *x)
{
    x->text_is_neg = PyUnicode_InternFromString("is_neg");
    x->text_requires_grad = PyUnicode_InternFromString("requires_grad");
    x->text_dlpack = PyUnicode_InternFromString("__dlpack__");
    x->text_dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    return x->text_is_neg && x->text_requires_grad && x->text_dlpack && x->text_dlpack_device ? 0 : -1;
}

void md_py_exchange_finish(md_py_exchange *x)
{
    for (int i = 0; i < x->n_types; i++)
        Py_CLEAR(x->type[i].type);
    x->n_types = 0;
    for (int i = 0; i < MD_PY_DTYPES; i++)
        Py_CLEAR(x->numpy_dtype[i]);
    Py_CLEAR(x->numpy_empty);
    Py_CLEAR(x->is_grad_enabled);
    Py_CLEAR(x->text_is_neg);
    Py_CLEAR(x->text_requires_grad);
    Py_CLEAR(x->text_dlpack);
    Py_CLEAR(x->text_dlpack_device);
}

int md_py_exchange_visit(md_py_exchange *x, visitproc visit, void *arg)
{
    for (int i = 0; i < x->n_types; i++)
        Py_VISIT(x->type[i].type);
    for (int i = 0; i < MD_PY_DTYPES; i++)
        Py_VISIT(x->numpy_dtype[i]);
    Py_VISIT(x->numpy_empty);
    Py_VISIT(x->is_grad_enabled);
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

/* 1: the type is PyTorch's, and has the API or is a subclass; 0: it is not; -1: an error. */
static int find_api(md_py_type *out, md_py_exchange *x, PyTypeObject *type)
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
    if (!x->torch.is_known)
        md_py_torch_find(&x->torch);
    return 1;
}

static int look_at(md_py_type *out, md_py_exchange *x, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    *out = (md_py_type){.type = type};
    const int found = find_api(out, x, type);
    if (found)
        return found < 0 ? -1 : 0;
    if (PyObject_CheckBuffer(object) && !PyBytes_Check(object))
        out->way = MD_PY_BUFFER;
    else if (PyObject_HasAttr(object, x->text_dlpack))
        out->way = MD_PY_DLPACK;
    else
        out->way = MD_PY_NO_ARRAY;
    return 0;
}

const md_py_type *md_py_type_of(md_py_exchange *x, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    for (int i = 0; i < x->n_types; i++)
        if (x->type[i].type == type)
            return &x->type[i];
    md_py_type made;
    if (look_at(&made, x, object) < 0)
        return NULL;
    md_py_type *const to = &x->type[x->next];
    x->next = (x->next + 1) % MD_PY_TYPES;
    if (x->n_types < MD_PY_TYPES)
        x->n_types++;
    Py_XDECREF((PyObject *)to->type);
    Py_INCREF((PyObject *)type);
    *to = made;
    return to;
}

/* ---- Views */

int md_py_refuse(const md_py_exchange *x, const char *name, const char *why)
{
    PyErr_Format(x->argument_error, "argument '%s': %s", name, why);
    return -1;
}

int md_py_wrap_error(const md_py_exchange *x, const char *name)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (type && !PyErr_GivenExceptionMatches(type, PyExc_MemoryError) &&
        PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
        PyErr_Format(x->argument_error, "argument '%s': its memory cannot be read: %S", name, value ? value : type);
        Py_DECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else
        PyErr_Restore(type, value, trace);
    return -1;
}

/* 1: PyTorch records gradients now; 0: no; -1: an error. */
static int grad_is_enabled(md_py_exchange *x)
{
    if (!x->is_grad_enabled) {
        PyObject *torch = PyImport_ImportModule("torch");
        x->is_grad_enabled = torch ? PyObject_GetAttrString(torch, "is_grad_enabled") : NULL;
        Py_XDECREF(torch);
        if (!x->is_grad_enabled)
            return -1;
    }
    PyObject *answer = PyObject_CallNoArgs(x->is_grad_enabled);
    const int is_on = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_on;
}

/* The same flags by PyTorch's Python side. -1: an error. */
static int ask_flags(md_py_exchange *x, PyObject *object)
{
    int flags = 0;
    PyObject *answer = PyObject_GetAttr(object, x->text_requires_grad);
    if (!answer)
        return -1;
    const bool wants_grad = answer == Py_True;
    Py_DECREF(answer);
    if (wants_grad) {
        const int is_on = grad_is_enabled(x);
        if (is_on < 0)
            return -1;
        flags |= is_on ? MD_PY_REQUIRES_GRAD : 0;
    }
    answer = PyObject_CallMethodObjArgs(object, x->text_is_neg, NULL);
    if (!answer)
        return -1;
    flags |= answer == Py_True ? MD_PY_NEGATIVE : 0;
    Py_DECREF(answer);
    return flags;
}

/* 0: the memory may be read as it is; -1: an error. */
static int check_flags(md_py_exchange *x, PyObject *object, const char *name)
{
    int flags = md_py_torch_flags(&x->torch, object);
    if (flags < 0)
        flags = ask_flags(x, object);
    if (flags <= 0)
        return flags;
    if (flags & MD_PY_REQUIRES_GRAD)
        return md_py_refuse(
            x, name, "requires a gradient, and an op has none: call it under torch.no_grad(), or pass x.detach()");
    return md_py_refuse(x, name, "has PyTorch's negative or conjugate bit: pass x.resolve_neg() or x.resolve_conj()");
}

int md_py_check_number(md_py_exchange *x, PyObject *object, const char *name)
{
    const md_py_type *const type = md_py_type_of(x, object);
    if (!type)
        return -1;
    if (type->way != MD_PY_EXCHANGE && type->way != MD_PY_SUBCLASS)
        return 0;
    PyObject *answer = PyObject_GetAttr(object, x->text_requires_grad);
    const int is_on = !answer ? -1 : answer == Py_True ? grad_is_enabled(x) : 0;
    Py_XDECREF(answer);
    if (is_on <= 0)
        return is_on;
    return md_py_refuse(x, name,
                        "is a scalar, into which no gradient flows, and this tensor requires one: pass its number, "
                        "x.item(), or make it a tensor of the formula, x[]");
}

static int borrow(md_py_view *view, md_py_exchange *x, PyObject *object, const char *name, bool is_output)
{
    md_py_dl_tensor t;
    bool is_cuda;
    if (check_flags(x, object, name) < 0)
        return -1;
    if (md_py_torch_read(&view->tensor, &is_cuda, &view->device.id, &x->torch, object, is_output)) {
        view->device.type = is_cuda ? MD_PY_CUDA : MD_PY_CPU;
        return 0;
    }
    if (view->type.api->borrow(object, &t) != 0)
        return md_py_wrap_error(x, name);
    return md_py_take_dlpack(view, x, &t, name);
}

/* An empty array may have any strides, 0 too, which the library refuses in outputs. */
static void settle_empty(md_tensor *t)
{
    bool is_empty = false;
    for (int32_t a = 0; a < t->rank; a++)
        is_empty |= t->size[a] == 0;
    for (int32_t a = 0; is_empty && a < t->rank; a++)
        t->stride[a] = 1;
}

static int begin(md_py_view *view, md_py_exchange *x, PyObject *object, const char *name, bool is_output)
{
    view->has_buffer = false;
    view->capsule = view->keeps = NULL;
    const md_py_type *const type = md_py_type_of(x, object);
    if (!type)
        return -1;
    view->type = *type;
    switch (view->type.way) {
    case MD_PY_EXCHANGE:
        return borrow(view, x, object, name, is_output);
    case MD_PY_BUFFER:
        return md_py_take_buffer(view, x, object, name, is_output);
    case MD_PY_DLPACK:
        return md_py_take_capsule(view, x, object, name, is_output);
    case MD_PY_SUBCLASS:
        return md_py_refuse(x, name,
                            "is of a subclass of torch.Tensor (FakeTensor, DTensor, ...), whose memory is not known");
    default:
        break;
    }
    PyObject *text = PyObject_Repr((PyObject *)view->type.type);
    PyErr_Format(x->argument_error, "argument '%s': %V is no array: it has neither a buffer nor __dlpack__", name, text,
                 "this type");
    Py_XDECREF(text);
    return -1;
}

int md_py_view_begin(md_py_view *view, md_py_exchange *x, PyObject *object, const char *name, bool is_output)
{
    if (begin(view, x, object, name, is_output) == 0) {
        settle_empty(&view->tensor);
        return 0;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    md_py_view_end(view);
    PyErr_Restore(type, value, trace);
    return -1;
}

void md_py_view_made(md_py_view *view, const md_tensor *made, const md_py_view *like)
{
    view->tensor = *made;
    view->device = like->device;
    view->type = like->type;
    view->has_buffer = false;
    view->capsule = view->keeps = NULL;
    settle_empty(&view->tensor);
}

int md_py_view_written(const md_py_view *view, const md_py_exchange *x, PyObject *object)
{
    if (view->type.way != MD_PY_EXCHANGE || md_py_torch_count_write(&x->torch, object))
        return 0;
    PyObject *module = PyImport_ImportModule("torch.autograd.graph");
    PyObject *done = module ? PyObject_CallMethod(module, "increment_version", "O", object) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

void md_py_view_end(md_py_view *view)
{
    if (view->has_buffer)
        PyBuffer_Release(&view->buffer);
    Py_CLEAR(view->capsule); /* nobody took what it holds, so its destructor gives that back */
    Py_CLEAR(view->keeps);
    view->has_buffer = false;
}
