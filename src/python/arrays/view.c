/* Arrays of Python as tensors of the library for the time of a call. */
#include "python/arrays/exchange.h"

/* 1: PyTorch records gradients now; 0: no; -1: an error. */
static int grad_is_enabled(md_py_exchange *exchange)
{
    if (!exchange->is_grad_enabled) {
        PyObject *torch = PyImport_ImportModule("torch");
        exchange->is_grad_enabled = torch ? PyObject_GetAttrString(torch, "is_grad_enabled") : NULL;
        Py_XDECREF(torch);
        if (!exchange->is_grad_enabled)
            return -1;
    }
    PyObject *answer = PyObject_CallNoArgs(exchange->is_grad_enabled);
    const int is_on = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_on;
}

/* The flags of md_py_torch_flags, asked of PyTorch's Python attributes. -1: an error. */
static int ask_flags(md_py_exchange *exchange, PyObject *object)
{
    int flags = 0;
    PyObject *answer = PyObject_GetAttr(object, exchange->text_requires_grad);
    if (!answer)
        return -1;
    const bool wants_grad = answer == Py_True;
    Py_DECREF(answer);
    if (wants_grad) {
        const int is_on = grad_is_enabled(exchange);
        if (is_on < 0)
            return -1;
        flags |= is_on ? MD_PY_REQUIRES_GRAD : 0;
    }
    answer = PyObject_CallMethodObjArgs(object, exchange->text_is_neg, NULL);
    if (!answer)
        return -1;
    flags |= answer == Py_True ? MD_PY_NEGATIVE : 0;
    Py_DECREF(answer);
    return flags;
}

/* 0: the memory may be read as it is; -1: an error. */
static int check_flags(md_py_exchange *exchange, PyObject *object, const char *name)
{
    int flags = md_py_torch_flags(&exchange->torch, object);
    if (flags < 0)
        flags = ask_flags(exchange, object);
    if (flags <= 0)
        return flags;
    if (flags & MD_PY_REQUIRES_GRAD)
        return md_py_refuse(
            exchange, name,
            "requires a gradient, and an op has none: call it under torch.no_grad(), or pass x.detach()");
    return md_py_refuse(exchange, name,
                        "has PyTorch's negative or conjugate bit: pass x.resolve_neg() or x.resolve_conj()");
}

int md_py_check_number(md_py_exchange *exchange, PyObject *object, const char *name)
{
    const md_py_type *const type = md_py_type_of(exchange, object);
    if (!type)
        return -1;
    if (type->way != MD_PY_EXCHANGE && type->way != MD_PY_SUBCLASS)
        return 0;
    PyObject *answer = PyObject_GetAttr(object, exchange->text_requires_grad);
    const int is_on = !answer ? -1 : answer == Py_True ? grad_is_enabled(exchange) : 0;
    Py_XDECREF(answer);
    if (is_on <= 0)
        return is_on;
    return md_py_refuse(exchange, name,
                        "is a scalar, into which no gradient flows, and this tensor requires one: pass its number, "
                        "x.item(), or make it a tensor of the formula, x[]");
}

static int borrow(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output)
{
    md_py_dl_tensor t;
    bool is_cuda;
    if (check_flags(exchange, object, name) < 0)
        return -1;
    if (md_py_torch_read(&view->tensor, &is_cuda, &view->device.id, &exchange->torch, object, is_output)) {
        view->device.type = is_cuda ? MD_PY_CUDA : MD_PY_CPU;
        return 0;
    }
    if (view->type.api->borrow(object, &t) != 0)
        return md_py_wrap_error(exchange, name);
    return md_py_take_dlpack(view, exchange, &t, name);
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

static int begin(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output)
{
    view->has_buffer = false;
    view->capsule = view->keeps = NULL;
    const md_py_type *const type = md_py_type_of(exchange, object);
    if (!type)
        return -1;
    view->type = *type;
    switch (view->type.way) {
    case MD_PY_EXCHANGE:
        return borrow(view, exchange, object, name, is_output);
    case MD_PY_BUFFER:
        return md_py_take_buffer(view, exchange, object, name, is_output);
    case MD_PY_DLPACK:
        return md_py_take_capsule(view, exchange, object, name, is_output);
    case MD_PY_SUBCLASS:
        return md_py_refuse(exchange, name,
                            "is of a subclass of torch.Tensor (FakeTensor, DTensor, ...), whose memory is not known");
    default:
        break;
    }
    PyObject *text = PyObject_Repr((PyObject *)view->type.type);
    PyErr_Format(exchange->argument_error, "argument '%s': %V is no array: it has neither a buffer nor __dlpack__",
                 name, text, "this type");
    Py_XDECREF(text);
    return -1;
}

int md_py_view_begin(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output)
{
    if (begin(view, exchange, object, name, is_output) == 0) {
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

int md_py_view_written(const md_py_view *view, const md_py_exchange *exchange, PyObject *object)
{
    if (view->type.way != MD_PY_EXCHANGE || md_py_torch_count_write(&exchange->torch, object))
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
    Py_CLEAR(view->capsule); /* the capsule was not consumed, so its destructor frees the tensor */
    Py_CLEAR(view->keeps);
    view->has_buffer = false;
}
