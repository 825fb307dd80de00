/* multidispatch._core.Plan: a graph of PyTorch as an md_sequence, called with the graph's arguments in a list. */
#ifndef MD_PYTHON_PLAN_PLAN_H
#define MD_PYTHON_PLAN_PLAN_H

#include "expr/whole.h"
#include "python/state.h"

#include <md/sequence.h>

enum {
    MD_PY_PLAN_DIMS = 64,
    MD_PY_TOGETHER = 256, /* tensors of kernels without order */
    MD_PY_ADOPTED_MOST = 16, /* results of one operation of PyTorch */
};

/* A tensor among the arguments or results. Sizes and strides are numbers of values. */
typedef struct md_py_port {
    int32_t at; /* input: its place among the arguments */
    int32_t slot; /* its place in the sequence's data; -1: no kernel reads it */
    md_dtype dtype;
    int32_t rank;
    int32_t size[MD_MAX_RANK], stride[MD_MAX_RANK];
} md_py_port;

typedef enum md_py_result_kind {
    MD_PY_NEW,
    MD_PY_ARGUMENT,
    MD_PY_VALUE,
    MD_PY_OBJECT,
    MD_PY_VIEW, /* of the memory of another result, or of an argument */
    MD_PY_ADOPTED, /* made by an operation of PyTorch during the run */
} md_py_result_kind;

typedef struct md_py_result {
    md_py_result_kind kind;
    int32_t number; /* of the argument, of the value, or of the result whose memory it is (argument i: -1 - i) */
    /* Owned. MD_PY_OBJECT: the result; MD_PY_NEW: PyTorch's dtype; MD_PY_VIEW: the number of the value that is its
     * offset. */
    PyObject *object;
    md_py_port port;
} md_py_result;

/* Where a dim's size is read: argument `at`, an int, or axis `axis` of it. */
typedef struct md_py_dim {
    int32_t at, axis;
} md_py_dim;

struct md_py_plan;
/* An op that PyTorch runs between the kernels. */
typedef struct md_py_eager {
    struct md_py_plan *plan;
    PyObject *fn; /* owned: fn(tensors, sizes) gives a tuple of the results that are adopted */
    struct md_py_eager *next;
    int32_t n_adopted;
    int32_t adopted[MD_PY_ADOPTED_MOST]; /* their places among the plan's results */
} md_py_eager;

/* After finish() it only changes under the GIL, and so do `size`, `value` and `fits`. */
typedef struct md_py_plan {
    PyObject_HEAD md_py_state *state;
    md_py_dl_device device;
    md_context *context;
    md_sequence *sequence;
    md_op **op;
    int32_t n_ops;
    md_py_eager *eager;
    struct md_py_together *together;
    bool is_finished, checks; /* checks: arguments may be anything; else PyTorch's guards have looked at them */
    md_py_type like; /* how PyTorch's tensors are read */
    PyObject *fallback, *empty_strided, *view, *kept; /* owned */
    int32_t n_args, n_dims, n_inputs, n_results, n_slots, n_values;
    int32_t n_hidden; /* the last results, which only have memory of others */
    md_py_dim *dim;
    md_py_port *input;
    md_py_result *result;
    md_fx_whole **whole; /* expressions over the dims: sizes, strides and offsets of arguments and results */
    int64_t *size; /* of the last call */
    int64_t *value; /* of the expressions at these sizes */
    bool has_values;
    int64_t n_calls, n_fallbacks;
} md_py_plan;

/** The type multidispatch._core.Plan. */
PyObject *md_py_plan_type(PyObject *module);
/** plan(list of arguments) -> tuple of results. */
PyObject *md_py_plan_call(PyObject *self, PyObject *args, PyObject *kwargs);
/** The plan, if it is not finished; else NULL, with an exception. */
md_py_plan *md_py_plan_open(PyObject *object);
/** Methods that add steps. */
PyObject *md_py_plan_make(PyObject *self, PyObject *args);
PyObject *md_py_plan_add_call(PyObject *self, PyObject *args);
PyObject *md_py_plan_add_eager(PyObject *self, PyObject *args);
PyObject *md_py_plan_add_together(PyObject *self, PyObject *args);
void md_py_plan_free_steps(md_py_plan *self);
/** Where the results of the plan that this thread runs are put; NULL: it runs none. */
extern _Thread_local PyObject *md_py_plan_results;
/** The arguments of its call. */
extern _Thread_local PyObject *md_py_plan_arguments;
#endif
