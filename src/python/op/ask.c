/* Methods of an Op that ask about choices, or prepare them, and its arguments. The methods take a device's name and a
 * tuple of dtype names. */
#include "python/op/op.h"

/* The op for these names of dtypes. "" stands for scalars, and for outputs of the dtype that the formula gives. NULL
 * with an error. */
static const md_py_variant *named_variant(md_py_op *self, const char *device, PyObject *dtypes)
{
    md_dtype dtype[MD_PY_ARGS] = {0};
    md_py_dl_device d;
    if (md_py_device_parse(&d, self->state, device) < 0)
        return NULL;
    if (PyTuple_Size(dtypes) != self->n_args)
        return (void *)PyErr_Format(self->state->argument_error, "%d dtypes are needed", (int)self->n_args);
    for (int32_t i = 0; i < self->n_args; i++) {
        PyObject *name = PyUnicode_AsUTF8String(PyTuple_GetItem(dtypes, i));
        if (!name)
            return NULL;
        dtype[i] = *PyBytes_AsString(name) ? md_dtype_parse(PyBytes_AsString(name)) : MD_DTYPE_DEFAULT;
        Py_DECREF(name);
    }
    return md_py_variant_of(self, dtype, d);
}

PyObject *md_py_op_explain(PyObject *object, PyObject *args)
{
    md_py_op *self = (md_py_op *)object;
    const char *device, *sizes;
    PyObject *dtypes;
    int json;
    md_status status;
    md_py_text text = {0};
    if (!PyArg_ParseTuple(args, "sOsp", &device, &dtypes, &sizes, &json))
        return NULL;
    const md_py_variant *v = named_variant(self, device, dtypes);
    if (!v)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = md_explain(v->op, sizes, json, md_py_text_add, &text);
    Py_END_ALLOW_THREADS return md_py_text_take(&text, self->state, status);
}

static PyObject *choice_dict(const md_choice *c)
{
    PyObject *stages = PyList_New(0);
    for (int32_t i = 0; stages && i < c->n_stages; i++) {
        PyObject *one = Py_BuildValue("{s:s,s:s,s:d,s:s,s:d}", "variant", c->variant[i], "source", c->source[i],
                                      "distance", c->distance[i], "runner_up", c->runner_up[i], "margin", c->margin[i]);
        if (!one || PyList_Append(stages, one) < 0)
            Py_CLEAR(stages);
        Py_XDECREF(one);
    }
    return stages ? Py_BuildValue("{s:N,s:d,s:O}", "stages", stages, "nearest", c->nearest, "is_uncovered",
                                  c->is_uncovered ? Py_True : Py_False)
                  : NULL;
}

/* Takes all arguments, outputs too, in the order of the formula. */
PyObject *md_py_op_choice(PyObject *object, PyObject *args)
{
    md_py_op *self = (md_py_op *)object;
    md_py_call call;
    md_choice choice;
    md_status status = MD_OK;
    PyObject *out = NULL;
    if (PyTuple_Size(args) != self->n_args)
        return PyErr_Format(self->state->argument_error, "%d arguments are needed", (int)self->n_args);
    call.first = NULL;
    for (int32_t i = 0; i < self->n_args; i++) {
        call.given[i] = PyTuple_GetItem(args, i);
        call.is_open[i] = false;
    }
    const md_py_variant *v = NULL;
    if (md_py_call_begin(&call, self) == 0)
        v = md_py_variant_of(self, call.dtype, call.device);
    if (v) {
        Py_BEGIN_ALLOW_THREADS status = md_choice_of(&choice, v->op, call.arg, call.n);
        Py_END_ALLOW_THREADS out = status == MD_OK ? choice_dict(&choice) : md_py_raise(self->state, status);
    }
    md_py_call_end(&call, self);
    return out;
}

PyObject *md_py_op_source(PyObject *object, PyObject *args)
{
    md_py_op *self = (md_py_op *)object;
    const char *device, *variant;
    PyObject *dtypes;
    int stage;
    md_py_text text = {0};
    if (!PyArg_ParseTuple(args, "sOis", &device, &dtypes, &stage, &variant))
        return NULL;
    const md_py_variant *v = named_variant(self, device, dtypes);
    if (!v)
        return NULL;
    return md_py_text_take(&text, self->state, md_op_source(v->op, stage, variant, md_py_text_add, &text));
}

/* The names of the variants: a list for each stage. */
PyObject *md_py_op_variants(PyObject *object, PyObject *args)
{
    md_py_op *self = (md_py_op *)object;
    const char *device;
    PyObject *dtypes;
    if (!PyArg_ParseTuple(args, "sO", &device, &dtypes))
        return NULL;
    const md_py_variant *v = named_variant(self, device, dtypes);
    PyObject *all = v ? PyList_New(0) : NULL;
    for (int32_t stage = 0; all && stage < md_op_n_stages(v->op); stage++) {
        PyObject *names = PyList_New(0);
        for (int32_t i = 0; names && i < md_op_n_variants(v->op, stage); i++) {
            PyObject *name = PyUnicode_FromString(md_op_variant(v->op, stage, i));
            if (!name || PyList_Append(names, name) < 0)
                Py_CLEAR(names);
            Py_XDECREF(name);
        }
        if (!names || PyList_Append(all, names) < 0)
            Py_CLEAR(all);
        Py_XDECREF(names);
    }
    return all;
}

PyObject *md_py_op_prepare(PyObject *object, PyObject *args)
{
    md_py_op *self = (md_py_op *)object;
    const char *device, *sizes;
    PyObject *dtypes;
    md_status status;
    if (!PyArg_ParseTuple(args, "sOs", &device, &dtypes, &sizes))
        return NULL;
    const md_py_variant *v = named_variant(self, device, dtypes);
    if (!v)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = md_prepare(v->op, sizes);
    Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(self->state, status);
    Py_RETURN_NONE;
}

/* Variants are only added, and live as long as the Op: the list may grow meanwhile, its entries stay. */
PyObject *md_py_op_wait(PyObject *object, PyObject *none)
{
    md_py_op *self = (md_py_op *)object;
    (void)none;
    for (int i = 0; i < self->n_variants; i++) {
        md_op *op = self->variant[i]->op;
        md_status status;
        Py_BEGIN_ALLOW_THREADS status = md_op_wait(op);
        Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(self->state, status);
    }
    Py_RETURN_NONE;
}

PyObject *md_py_op_freeze(PyObject *object, PyObject *args)
{
    md_py_op *self = (md_py_op *)object;
    int mode;
    if (!PyArg_ParseTuple(args, "i", &mode))
        return NULL;
    for (int i = 0; i < self->n_variants; i++) {
        md_op *op = self->variant[i]->op;
        md_status status;
        Py_BEGIN_ALLOW_THREADS status = md_freeze(op, (md_freeze_mode)mode);
        Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(self->state, status);
    }
    Py_RETURN_NONE;
}

/* ((name, dtype, is_scalar, is_output, (dim or size, ...)), ...) */
PyObject *md_py_op_arguments(PyObject *object, void *user)
{
    (void)user;
    const md_py_op *self = (md_py_op *)object;
    PyObject *all = PyTuple_New(self->n_args);
    for (int32_t i = 0; all && i < self->n_args; i++) {
        const md_arg_info *info = &self->arg[i];
        PyObject *dims = PyTuple_New(info->rank);
        for (int32_t a = 0; dims && a < info->rank; a++) {
            PyObject *dim = info->static_size[a] >= 0 ? PyLong_FromLongLong(info->static_size[a])
                                                      : PyUnicode_FromString(info->dim[a]);
            if (!dim || PyTuple_SetItem(dims, a, dim) < 0)
                Py_CLEAR(dims);
        }
        PyObject *one =
            dims ? Py_BuildValue("(ssOON)", info->name, md_dtype_name(info->dtype),
                                 info->is_scalar ? Py_True : Py_False, info->is_output ? Py_True : Py_False, dims)
                 : NULL;
        if (!one || PyTuple_SetItem(all, i, one) < 0)
            Py_CLEAR(all);
    }
    return all;
}
