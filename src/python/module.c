/* The extension module multidispatch._core: its functions, exceptions and types. */
#include "python/op/op.h"
#include "python/plan/plan.h"

#include <stdio.h>

/* ---- Functions */

static PyObject *py_version(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyUnicode_FromString(md_version());
}

static PyObject *py_catalogue(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    PyObject *all = PyDict_New();
    const char *name, *formula, *description;
    for (int32_t i = 0; all; i++) {
        md_catalogue(i, &name, &formula, &description);
        if (!name)
            break;
        PyObject *entry = Py_BuildValue("(ss)", formula, description);
        if (!entry || PyDict_SetItemString(all, name, entry) < 0)
            Py_CLEAR(all);
        Py_XDECREF(entry);
    }
    return all;
}

/* The context of args[0], a device's name. */
static md_context *context_argument(md_py_state *state, PyObject *args, const char **rest)
{
    const char *name = "host";
    md_py_dl_device device;
    if (!PyArg_ParseTuple(args, "|ss", &name, rest))
        return NULL;
    return md_py_device_parse(&device, state, name) < 0 ? NULL : md_py_context_of(state, device);
}

static PyObject *py_stats(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *format = "json";
    md_py_text text = {0};
    md_context *context = context_argument(state, args, &format);
    if (!context)
        return NULL;
    return md_py_text_take(&text, state, md_stats_report(context, format, md_py_text_add, &text));
}

static PyObject *py_info(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *none = "";
    md_py_text text = {0};
    md_context *context = context_argument(state, args, &none);
    if (!context)
        return NULL;
    return md_py_text_take(&text, state, md_info(context, 1, md_py_text_add, &text));
}

static PyObject *py_digest(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *none = "";
    uint64_t digest[2];
    char hex[40];
    md_context *context = context_argument(state, args, &none);
    if (!context)
        return NULL;
    const md_status status = md_digest(digest, context);
    if (status != MD_OK)
        return md_py_raise(state, status);
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)digest[0], (unsigned long long)digest[1]);
    return PyUnicode_FromString(hex);
}

static PyObject *py_choices_export(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *none = "";
    md_py_text text = {0};
    md_context *context = context_argument(state, args, &none);
    if (!context)
        return NULL;
    return md_py_text_take(&text, state, md_choices_export(context, md_py_text_add, &text));
}

static PyObject *py_choices_import(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *text = "";
    int64_t n_unknown = 0;
    md_status status;
    md_context *context = context_argument(state, args, &text);
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS /* the function may wait for builds, which may log through Python */
        status = md_choices_import(&n_unknown, context, text);
    Py_END_ALLOW_THREADS return status == MD_OK ? PyLong_FromLongLong(n_unknown) : md_py_raise(state, status);
}

static PyObject *py_check(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *none = "";
    md_context *context = context_argument(state, args, &none);
    if (!context)
        return NULL;
    const md_status status = md_check(context);
    if (status != MD_OK)
        return md_py_raise(state, status);
    Py_RETURN_NONE;
}

static PyObject *py_bundle_begin(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *none = "";
    md_context *context = context_argument(state, args, &none);
    if (!context)
        return NULL;
    const md_status status = md_bundle_begin(context, MD_BUNDLE_ALL);
    if (status != MD_OK)
        return md_py_raise(state, status);
    Py_RETURN_NONE;
}

static PyObject *py_bundle_write(PyObject *module, PyObject *args)
{
    md_py_state *state = PyModule_GetState(module);
    const char *path = "";
    md_status status;
    md_context *context = context_argument(state, args, &path);
    if (!context)
        return NULL;
    Py_BEGIN_ALLOW_THREADS /* the function waits for builds, which may log through Python */
        status = md_bundle_write(context, path);
    Py_END_ALLOW_THREADS if (status != MD_OK) return md_py_raise(state, status);
    Py_RETURN_NONE;
}

static PyObject *py_share_memory(PyObject *module, PyObject *none)
{
    md_py_state *state = PyModule_GetState(module);
    (void)none;
    for (int i = 0; i < state->n_contexts; i++)
        if (state->context[i].device.type == MD_PY_CUDA && !state->exchange.torch_memory.is_shared) {
            PyErr_SetString(state->argument_error, "share_torch_memory(): ops were made on a GPU before it");
            return NULL;
        }
    if (!md_py_torch_share_memory(&state->exchange.torch_memory)) {
        PyErr_SetString(state->unsupported, "PyTorch sees no GPU here, or has no functions for its memory");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"share_torch_memory", py_share_memory, METH_NOARGS,
     "share_torch_memory(): from now on temporaries on GPUs are memory of PyTorch's caching allocator, so that the "
     "two\n"
     "share what is free. Call it before the first op on a GPU. Raises Unsupported where PyTorch has no GPU."},
    {"version", py_version, METH_NOARGS, "version() -> str"},
    {"catalogue", py_catalogue, METH_NOARGS, "catalogue() -> {name: (formula, description)}"},
    {"stats", py_stats, METH_VARARGS, "stats(device='host', format='json') -> str"},
    {"info", py_info, METH_VARARGS, "info(device='host') -> JSON"},
    {"digest", py_digest, METH_VARARGS, "digest(device='host') -> 32 hexadecimal digits"},
    {"choices_export", py_choices_export, METH_VARARGS, "choices_export(device='host') -> str"},
    {"choices_import", py_choices_import, METH_VARARGS, "choices_import(device, text) -> number of unknown lines"},
    {"bundle_begin", py_bundle_begin, METH_VARARGS, "bundle_begin(device='host')"},
    {"bundle_write", py_bundle_write, METH_VARARGS, "bundle_write(device, path)"},
    {"lists", md_py_lists, METH_NOARGS, "lists() -> {name: (formula, description)}"},
    {"list_read", md_py_list_read, METH_VARARGS, "list_read(formula) -> (read, arguments)"},
    {"list_make", md_py_list_make, METH_VARARGS, "list_make(device type, number, formula) -> made"},
    {"list_call", md_py_list_call, METH_VARARGS,
     "list_call(read, find, arguments, stream=None, flat=False) -> results"},
    {"agree", md_py_agree, METH_VARARGS, "agree(device, rank, ranks, seconds, gather) -> dict"},
    {"package_write", md_py_package_write, METH_VARARGS, "package_write(path, plan, weights): plan is JSON"},
    {"package_open", md_py_package_open, METH_VARARGS, "package_open(path) -> a package"},
    {"package_describe", md_py_package_describe, METH_O, "package_describe(package) -> JSON"},
    {"package_outputs", md_py_package_outputs, METH_VARARGS,
     "package_outputs(package, inputs) -> [(dtype, sizes, strides), ...]"},
    {"package_call", md_py_package_call, METH_VARARGS, "package_call(package, inputs, outputs)"},
    {"tune_pieces", md_py_tune_pieces, METH_VARARGS,
     "tune_pieces(device, formula, sizes, hints, bounds, numeric, tf32, rigor, budget_ms, builds, indices) -> lines"},
    {"tune_piece", md_py_tune_piece, METH_VARARGS, "tune_piece(device, piece) -> wisdom"},
    {"wisdom_import", md_py_wisdom_import, METH_VARARGS, "wisdom_import(device, text) -> counts"},
    {"wisdom_export", md_py_wisdom_export, METH_VARARGS, "wisdom_export(device) -> text"},
    {"check", py_check, METH_VARARGS, "check(device='host'): raises what a kernel reported"},
    {NULL, NULL, 0, NULL},
};

/* ---- The module */

/* Stands for stdin in a jansson that is linked statically (meson.build). */
extern FILE *const md_py_no_stdin;
FILE *const md_py_no_stdin = NULL;

static PyObject *make_error(PyObject *module, const char *name, const char *doc, PyObject *base, PyObject *second)
{
    char full[64];
    PyObject *bases = second ? PyTuple_Pack(2, base, second) : PyTuple_Pack(1, base);
    snprintf(full, sizeof full, "multidispatch.%s", name);
    PyObject *made = bases ? PyErr_NewExceptionWithDoc(full, doc, bases, NULL) : NULL;
    Py_XDECREF(bases);
    if (made && PyModule_AddObjectRef(module, name, made) < 0)
        Py_CLEAR(made);
    return made;
}

static int start(PyObject *module)
{
    md_py_state *s = PyModule_GetState(module);
    s->error =
        make_error(module, "MdError", "What the library refuses; the base of all others.", PyExc_Exception, NULL);
    if (!s->error)
        return -1;
    s->formula_error = make_error(module, "FormulaError", "A formula that cannot be read: line, column and a caret.",
                                  s->error, PyExc_ValueError);
    s->argument_error =
        make_error(module, "ArgumentError", "An argument that does not fit; names it.", s->error, PyExc_ValueError);
    s->device_error =
        make_error(module, "DeviceError", "The device, its driver or a compiler failed.", s->error, PyExc_RuntimeError);
    s->unsupported =
        make_error(module, "Unsupported", "Legal, but not possible here.", s->error, PyExc_NotImplementedError);
    s->text_typed = PyUnicode_InternFromString("_typed");
    if (!s->formula_error || !s->argument_error || !s->device_error || !s->unsupported || !s->text_typed)
        return -1;
    s->exchange.argument_error = s->argument_error;
    if (md_py_exchange_start(&s->exchange) < 0)
        return -1;
    PyObject *type = md_py_op_type(module);
    const int added = type ? PyModule_AddObjectRef(module, "Op", type) : -1;
    Py_XDECREF(type);
    if (added < 0)
        return -1;
    type = md_py_plan_type(module);
    const int added_plan = type ? PyModule_AddObjectRef(module, "Plan", type) : -1;
    Py_XDECREF(type);
    return added_plan;
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    md_py_state *s = PyModule_GetState(module);
    Py_VISIT(s->error);
    Py_VISIT(s->formula_error);
    Py_VISIT(s->argument_error);
    Py_VISIT(s->device_error);
    Py_VISIT(s->unsupported);
    return md_py_exchange_visit(&s->exchange, visit, arg);
}

static int clear_state(PyObject *module)
{
    md_py_state *s = PyModule_GetState(module);
    md_py_exchange_finish(&s->exchange);
    Py_CLEAR(s->text_typed);
    Py_CLEAR(s->formula_error);
    Py_CLEAR(s->argument_error);
    Py_CLEAR(s->device_error);
    Py_CLEAR(s->unsupported);
    Py_CLEAR(s->error);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,         .m_name = "multidispatch._core", .m_doc = "The compiled part of multidispatch.",
    .m_size = sizeof(md_py_state), .m_methods = functions,          .m_slots = slots,
    .m_traverse = visit_state,     .m_clear = clear_state,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
