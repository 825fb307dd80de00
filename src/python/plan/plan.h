/* multidispatch._core.Plan: a graph of PyTorch as an md_sequence, called with the graph's arguments in a list. */
#ifndef MD_PYTHON_PLAN_PLAN_H
#define MD_PYTHON_PLAN_PLAN_H

#include "expr/whole.h"
#include "python/state.h"

#include <md/sequence.h>

enum {
    MD_PY_PLAN_DIMS = 64,
    MD_PY_TOGETHER = 256, /* the most tensors of a step of kernels without order */
    MD_PY_ADOPTED_MOST = 16, /* the most results of the plan that one operation of PyTorch makes */
};

/* A tensor among the arguments or results. Sizes and strides are indices into md_py_plan.value. */
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
    /* ARGUMENT: its place; VALUE: its index; VIEW: the result whose memory it has, or -1 - i for argument i */
    int32_t number;
    /* Owned. OBJECT: the result; NEW: PyTorch's dtype; VIEW: the index of the value that is its offset. */
    PyObject *object;
    md_py_port port;
} md_py_result;

/* Where a dim's size is read: argument `at`, an int, to which `added` is added, or axis `axis` of it. */
typedef struct md_py_dim {
    int32_t at, axis;
    long long added; /* 0 for sizes; numbers may be negative */
} md_py_dim;

struct md_py_plan;
/* An op that PyTorch runs between the kernels. */
typedef struct md_py_eager {
    struct md_py_plan *plan;
    PyObject *fn; /* owned: fn(tensors, sizes) gives a tuple of the results that are adopted */
    struct md_py_eager *next;
    int32_t n_adopted;
    int32_t adopted[MD_PY_ADOPTED_MOST]; /* where each adopted result stands among the plan's results */
} md_py_eager;

/* After finish() only `successor`, `ran`, `size`, `value`, `has_values` and the counters change, under the GIL. */
typedef struct md_py_plan {
    PyObject_HEAD md_py_state *state;
    md_py_dl_device device;
    md_context *context;
    md_sequence *sequence;
    md_select select; /* how its ops pick kernels; 0: as the environment says */
    md_numeric numeric;
    md_op **op;
    int32_t n_ops;
    md_py_eager *eager;
    struct md_py_together *together;
    bool is_finished, checks; /* checks: arguments are checked in full, since no guards of PyTorch have seen them */
    md_py_type like; /* how PyTorch's tensors are read */
    PyObject *fallback, *empty_strided, *view, *kept; /* owned */
    PyObject *ran; /* owned: called once, with the plan, after its first run; then NULL */
    struct md_py_plan *successor; /* owned: the plan that takes its calls; NULL: none */
    int32_t n_args, n_dims, n_inputs, n_results, n_slots, n_values;
    /* how many results at the end the caller does not get: they only own memory that other results view */
    int32_t n_hidden;
    md_py_dim *dim;
    md_py_port *input;
    md_py_result *result;
    md_fx_whole **whole; /* expressions over the dims: sizes, strides and offsets of arguments and results */
    int64_t *size; /* of the last call */
    int64_t *value; /* of each expression at `size` */
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
/** The tuple of results of the plan that this thread is running; NULL: none. */
extern _Thread_local PyObject *md_py_plan_results;
/** The list of arguments of the plan that this thread is running. */
extern _Thread_local PyObject *md_py_plan_arguments;
#endif
