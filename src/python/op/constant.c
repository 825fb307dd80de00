/* Constant operands of an Op: which arrays they are, so that one that was written behind the op's back is seen. */
#include "python/op/op.h"

#include <stdlib.h>
#include <string.h>

struct md_py_constant {
    int32_t arg;
    void *data;
    PyObject *array; /* held, so that no other array gets its memory */
    long long version; /* of a PyTorch tensor; -1: unknown */
};

/* True if the option's text names the argument. */
static bool is_named(const char *names, const char *name)
{
    static const char between[] = ", \t";
    const size_t n = strlen(name);
    for (const char *at = names + strspn(names, between); *at; at += strspn(at, between)) {
        const size_t length = strcspn(at, between);
        if (length == n && !strncmp(at, name, n))
            return true;
        at += length;
    }
    return false;
}

uint32_t md_py_constants_named(const md_py_op *self)
{
    uint32_t named = 0;
    for (int32_t i = 0; self->options.constant && i < self->n_args; i++)
        if (!self->arg[i].is_scalar && is_named(self->options.constant, self->arg[i].name))
            named |= UINT32_C(1) << i;
    return named;
}

static long long version_of(PyObject *array)
{
    PyObject *number = PyObject_GetAttrString(array, "_version");
    const long long version = number && PyLong_Check(number) ? PyLong_AsLongLong(number) : -1;
    Py_XDECREF(number);
    PyErr_Clear(); /* inference tensors have no version */
    return version;
}

static int tell(const md_py_op *self, const char *name, const void *data)
{
    for (int i = 0; i < self->n_variants; i++)
        if (md_op_operand_changed(self->variant[i]->op, name, data) != MD_OK) {
            md_py_raise(self->state, MD_INVALID_ARGUMENT);
            return -1;
        }
    return 0;
}

static int add(md_py_op *self, int32_t arg, void *data, PyObject *array, long long version)
{
    md_py_constant *grown = realloc(self->constant, (size_t)(self->n_constants + 1) * sizeof *grown);
    if (!grown) {
        PyErr_NoMemory();
        return -1;
    }
    self->constant = grown;
    grown[self->n_constants++] = (md_py_constant){arg, data, Py_NewRef(array), version};
    return 0;
}

static int check(md_py_op *self, int32_t arg, void *data, PyObject *array)
{
    const long long version = version_of(array);
    for (int32_t i = 0; i < self->n_constants; i++) {
        md_py_constant *c = &self->constant[i];
        if (c->arg != arg || c->data != data)
            continue;
        if (c->version == version)
            return 0;
        c->version = version;
        if (tell(self, self->arg[arg].name, data) < 0)
            return -1;
        return PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                                "constant '%s' was written since it was packed, and is packed anew: "
                                "op.changed('%s') says so before a call",
                                self->arg[arg].name, self->arg[arg].name);
    }
    return add(self, arg, data, array, version);
}

int md_py_constants_check(md_py_op *self, const md_py_call *call)
{
    for (int32_t i = 0; i < self->n_args; i++)
        if (self->constants >> i & 1 && call->given[i] && check(self, i, call->view[i].tensor.data, call->given[i]) < 0)
            return -1;
    return 0;
}

/* Lets go of the arrays of an argument; -1: of all. */
static void forget(md_py_op *self, int32_t arg)
{
    int32_t n = 0;
    PyObject **dropped = calloc((size_t)self->n_constants + 1, sizeof *dropped);
    int32_t n_dropped = 0;
    for (int32_t i = 0; dropped && i < self->n_constants; i++)
        if (arg >= 0 && self->constant[i].arg != arg)
            self->constant[n++] = self->constant[i];
        else
            dropped[n_dropped++] = self->constant[i].array;
    if (dropped)
        self->n_constants = n;
    for (int32_t i = 0; i < n_dropped; i++) /* may run other code */
        Py_DECREF(dropped[i]);
    free(dropped);
}

/* Other Ops may share the library's: they must not find what was packed from memory that becomes another array's. */
void md_py_constants_free(md_py_op *self)
{
    for (int32_t i = 0; i < self->n_constants; i++)
        (void)tell(self, self->arg[self->constant[i].arg].name, self->constant[i].data);
    forget(self, -1);
    free(self->constant);
}

PyObject *md_py_op_changed(PyObject *object, PyObject *args)
{
    md_py_op *self = (md_py_op *)object;
    const char *name = NULL;
    int32_t arg = -1;
    if (!PyArg_ParseTuple(args, "|z", &name))
        return NULL;
    for (int32_t i = 0; name && i < self->n_args; i++)
        if (!strcmp(self->arg[i].name, name))
            arg = i;
    if (name && (arg < 0 || !(self->constants >> arg & 1)))
        return PyErr_Format(self->state->argument_error, "changed: '%s' is not one of the op's constants", name);
    if (tell(self, name, NULL) < 0)
        return NULL;
    forget(self, arg);
    Py_RETURN_NONE;
}
