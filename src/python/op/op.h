/* multidispatch._core.Op: a formula with options, and one md_op for each set of dtypes and each device that it met. */
#ifndef MD_PYTHON_OP_OP_H
#define MD_PYTHON_OP_OP_H

#include "python/state.h"

enum { MD_PY_ARGS = 32, MD_PY_SIZES = 16, MD_PY_TEXTS = 6 };

/* The op of one set of dtypes on one device. Never changes; lives as long as its Op. */
typedef struct md_py_variant {
    md_py_dl_device device;
    md_dtype dtype[MD_PY_ARGS]; /* of each argument; MD_DTYPE_DEFAULT for scalars and outputs that were not given */
    md_context *context;
    md_formula *formula;
    md_op *op;
} md_py_variant;

typedef struct md_py_op {
    PyObject_HEAD md_py_state *state; /* the module's: the type holds the module */
    md_op_options options; /* texts are own copies */
    char *text[MD_PY_TEXTS];
    md_formula *formula; /* with the default dtype: names and order of the arguments */
    int32_t n_args;
    md_arg_info arg[MD_PY_ARGS]; /* texts are the formula's */
    int n_variants;
    md_py_variant **variant;
    uint32_t constants; /* bits of the tensors that option constant names */
    int32_t n_constants; /* arrays that were given for them */
    struct md_py_constant *constant;
} md_py_op;
typedef struct md_py_constant md_py_constant;

/* The arguments of one call, in the order of the formula. */
typedef struct md_py_call {
    PyObject *given[MD_PY_ARGS]; /* borrowed; NULL: an output to be made */
    bool is_open[MD_PY_ARGS]; /* view[i] must be ended */
    md_py_view view[MD_PY_ARGS];
    md_arg arg[MD_PY_ARGS + MD_PY_SIZES];
    md_dtype dtype[MD_PY_ARGS];
    int32_t n; /* length of arg, with the sizes to choose by */
    md_py_dl_device device;
    const md_py_view *first; /* the first tensor that was given */
} md_py_call;

/** The type multidispatch._core.Op, bound to the module. */
PyObject *md_py_op_type(PyObject *module);

/** Reads the arguments. -1 with an error; md_py_call_end in any case. */
int md_py_call_begin(md_py_call *call, md_py_op *self);
/** Tells PyTorch which outputs were written: those that are not in `made`. -1 with an error. */
int md_py_call_written(const md_py_call *call, const md_py_op *self, PyObject *const *made);
void md_py_call_end(md_py_call *call, const md_py_op *self);
/** The op for the arguments' dtypes and device, made if it is new. NULL with an error. */
const md_py_variant *md_py_variant_of(md_py_op *self, const md_dtype *dtype, md_py_dl_device device);

/** Makes the outputs that were not given; `made` gets them. -1 with an error. */
int md_py_make_outputs(md_py_call *call, md_py_op *self, const md_py_variant *v, PyObject **made);
/** The stream that a user gave (NULL or None: PyTorch's current one of the device of `first`). -1 with an error. */
int md_py_stream_of(md_stream *out, const md_py_view *first, PyObject *given);

/** The bits of the constant arguments. */
uint32_t md_py_constants_named(const md_py_op *self);
/** Notes the call's constants. One that PyTorch has written since is told to the ops, with a warning. -1 with an
 * error. */
int md_py_constants_check(md_py_op *self, const md_py_call *call);
void md_py_constants_free(md_py_op *self);
PyObject *md_py_op_changed(PyObject *self, PyObject *args);

PyObject *md_py_op_foreach(PyObject *self, PyObject *args); /* foreach.c */
/* Methods and properties of Op that ask.c has. */
PyObject *md_py_op_arguments(PyObject *self, void *user);
PyObject *md_py_op_explain(PyObject *self, PyObject *args);
PyObject *md_py_op_choice(PyObject *self, PyObject *args);
PyObject *md_py_op_source(PyObject *self, PyObject *args);
PyObject *md_py_op_variants(PyObject *self, PyObject *args);
PyObject *md_py_op_prepare(PyObject *self, PyObject *args);
PyObject *md_py_op_wait(PyObject *self, PyObject *none);
PyObject *md_py_op_freeze(PyObject *self, PyObject *args);

#endif
