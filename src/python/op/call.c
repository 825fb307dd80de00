/* The arguments of a call: arrays become views, numbers scalars; dtypes and device say which md_op serves. */
#include "python/op/op.h"

#include <stdlib.h>
#include <string.h>

static int take_scalar(md_arg *out, md_py_state *state, PyObject *given, const char *name)
{
    if (PyFloat_Check(given))
        *out = md_s(PyFloat_AsDouble(given));
    else if (PyLong_Check(given))
        *out = md_i(PyLong_AsLongLong(given));
    else {
        if (md_py_check_number(&state->exchange, given, name) < 0)
            return -1;
        PyObject *number = PyNumber_Float(given);
        if (!number) {
            PyErr_Format(state->argument_error, "argument '%s' is a scalar: expected a number", name);
            return -1;
        }
        *out = md_s(PyFloat_AsDouble(number));
        Py_DECREF(number);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* The device that computes: pinned memory of CUDA is the host's, managed memory a GPU's. */
static md_py_dl_device kernel_device(md_py_dl_device device)
{
    if (device.type == MD_PY_CUDA_HOST || device.type == MD_PY_CPU)
        return (md_py_dl_device){MD_PY_CPU, 0};
    return (md_py_dl_device){device.type == MD_PY_CUDA_MANAGED ? MD_PY_CUDA : device.type, device.id};
}

static int take_device(md_py_call *call, const md_py_state *state, const md_py_view *view, const char *name)
{
    const md_py_dl_device d = kernel_device(view->device);
    if (!call->first) {
        call->first = view;
        call->device = d;
    }
    if (d.type == call->device.type && d.id == call->device.id)
        return 0;
    PyErr_Format(state->argument_error,
                 "argument '%s' is on another device than the first tensor: DLPack's %d:%d, not %d:%d", name,
                 (int)d.type, (int)d.id, (int)call->device.type, (int)call->device.id);
    return -1;
}

/* An argument declared i4 or u4 may be given as bytes, two elements in each, if its rows have no gaps. */
static void take_halves(md_tensor *t, md_dtype dtype)
{
    if ((dtype != MD_I4 && dtype != MD_U4) || t->dtype != MD_U8 || t->rank < 1 ||
        t->size[t->rank - 1] > INT64_MAX / 2 || (t->stride[t->rank - 1] != 1 && t->size[t->rank - 1] > 1))
        return;
    t->dtype = dtype;
    t->size[t->rank - 1] *= 2;
    t->stride[t->rank - 1] = 1;
    for (int32_t a = 0; a + 1 < t->rank; a++)
        t->stride[a] *= 2;
}

int md_py_call_begin(md_py_call *call, md_py_op *self)
{
    for (int32_t i = 0; i < self->n_args; i++) {
        const md_arg_info *info = &self->arg[i];
        md_py_view *const view = &call->view[i];
        if (info->is_scalar) {
            call->dtype[i] = MD_DTYPE_DEFAULT;
            if (take_scalar(&call->arg[i], self->state, call->given[i], info->name) < 0)
                return -1;
            continue;
        }
        call->arg[i] = md_t(&view->tensor);
        call->dtype[i] = MD_DTYPE_DEFAULT;
        if (!call->given[i])
            continue;
        call->is_open[i] = true;
        if (md_py_view_begin(view, &self->state->exchange, call->given[i], info->name, info->is_output != 0) < 0 ||
            take_device(call, self->state, view, info->name) < 0)
            return -1;
        take_halves(&view->tensor, info->dtype);
        call->dtype[i] = view->tensor.dtype;
    }
    if (!call->first)
        call->device = (md_py_dl_device){MD_PY_CPU, 0};
    call->n = self->n_args;
    return 0;
}

int md_py_call_written(const md_py_call *call, const md_py_op *self, PyObject *const *made)
{
    for (int32_t i = 0; i < self->n_args; i++)
        if (self->arg[i].is_output && !(made && made[i]) &&
            md_py_view_written(&call->view[i], &self->state->exchange, call->given[i]) < 0)
            return -1;
    return 0;
}

void md_py_call_end(md_py_call *call, const md_py_op *self)
{
    for (int32_t i = 0; i < self->n_args; i++)
        if (call->is_open[i])
            md_py_view_end(&call->view[i]);
}

/* ---- Outputs and the stream */

int md_py_make_outputs(md_py_call *call, md_py_op *self, const md_py_variant *v, PyObject **made)
{
    md_tensor shape[MD_PY_ARGS];
    for (int32_t i = 0; i < self->n_args; i++)
        shape[i] = call->given[i] ? call->view[i].tensor : (md_tensor){0};
    const md_status status = md_formula_infer(shape, self->n_args, v->formula);
    if (status != MD_OK) {
        md_py_raise(self->state, status);
        return -1;
    }
    for (int32_t i = 0; i < self->n_args; i++) {
        if (call->given[i])
            continue;
        made[i] = md_py_empty(&shape[i], &self->state->exchange, call->first);
        if (!made[i])
            return -1;
        call->is_open[i] = true;
        if (shape[i].data)
            md_py_view_made(&call->view[i], &shape[i], call->first);
        else if (md_py_view_begin(&call->view[i], &self->state->exchange, made[i], self->arg[i].name, true) < 0)
            return -1;
    }
    return 0;
}

int md_py_stream_of(md_stream *out, const md_py_view *first, PyObject *given)
{
    *out = NULL;
    if (!given || given == Py_None)
        return first ? md_py_current_stream(out, first) : 0;
    PyObject *number = PyLong_Check(given) ? NULL : PyObject_GetAttrString(given, "cuda_stream");
    if (!number && !PyLong_Check(given)) {
        PyErr_Clear();
        number = PyObject_GetAttrString(given, "ptr");
    }
    if (!number && !PyLong_Check(given))
        return -1;
    *out = PyLong_AsVoidPtr(number ? number : given);
    Py_XDECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- The op for dtypes and device */

static PyObject *names_of(const md_py_op *self, const md_dtype *dtype)
{
    PyObject *names = PyTuple_New(self->n_args);
    for (int32_t i = 0; names && i < self->n_args; i++) {
        PyObject *name = PyUnicode_FromString(dtype[i] == MD_DTYPE_DEFAULT ? "" : md_dtype_name(dtype[i]));
        if (!name || PyTuple_SetItem(names, i, name) < 0)
            Py_CLEAR(names);
    }
    return names;
}

static void free_variant(md_py_variant *v)
{
    md_op_destroy(&v->op);
    md_formula_destroy(&v->formula);
    free(v);
}

static int make_variant(md_py_variant *v, md_py_op *self, const char *text, const char *dtype)
{
    md_op_options options = self->options;
    md_status status;
    options.dtype = md_dtype_parse(dtype);
    v->context = md_py_context_of(self->state, v->device);
    if (!v->context)
        return -1;
    Py_BEGIN_ALLOW_THREADS status = md_formula_create(&v->formula, text, &options);
    if (status == MD_OK)
        status = md_op_create(&v->op, v->context, text, &options);
    Py_END_ALLOW_THREADS if (status == MD_OK) return 0;
    md_py_raise(self->state, status);
    return -1;
}

static const md_py_variant *find_variant(const md_py_op *self, const md_dtype *dtype, md_py_dl_device device)
{
    for (int i = 0; i < self->n_variants; i++) {
        const md_py_variant *v = self->variant[i];
        if (v->device.type == device.type && v->device.id == device.id &&
            !memcmp(v->dtype, dtype, (size_t)self->n_args * sizeof *dtype))
            return v;
    }
    return NULL;
}

static const md_py_variant *add_variant(md_py_op *self, md_py_variant *made)
{
    md_py_variant **grown = realloc(self->variant, (size_t)(self->n_variants + 1) * sizeof *grown);
    if (!grown) {
        free_variant(made);
        PyErr_NoMemory();
        return NULL;
    }
    self->variant = grown;
    return grown[self->n_variants++] = made;
}

const md_py_variant *md_py_variant_of(md_py_op *self, const md_dtype *dtype, md_py_dl_device device)
{
    const md_py_variant *found = find_variant(self, dtype, device);
    const char *text, *base;
    if (found)
        return found;
    PyObject *names = names_of(self, dtype);
    PyObject *typed = names ? PyObject_CallMethodObjArgs((PyObject *)self, self->state->text_typed, names, NULL) : NULL;
    md_py_variant *made = typed ? calloc(1, sizeof *made) : NULL;
    Py_XDECREF(names);
    if (!made || !PyArg_ParseTuple(typed, "ss", &text, &base))
        goto fail;
    made->device = device;
    memcpy(made->dtype, dtype, (size_t)self->n_args * sizeof *dtype);
    if (make_variant(made, self, text, base) < 0)
        goto fail;
    Py_DECREF(typed);
    found = find_variant(self, dtype, device); /* another thread may have made it while the GIL was released */
    if (found)
        free_variant(made);
    return found ? found : add_variant(self, made);
fail:
    if (made)
        free_variant(made);
    Py_XDECREF(typed);
    return NULL;
}
