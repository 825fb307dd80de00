/* Arrays of Python as md_tensors, without copying: PyTorch's exchange API, the buffer protocol (NumPy), and __dlpack__
 * (CuPy, JAX and others). The structs are declared from DLPack's specification 1.2. */
#ifndef MD_PYTHON_ARRAYS_EXCHANGE_H
#define MD_PYTHON_ARRAYS_EXCHANGE_H

#include "python/arrays/torch.h"

#include <md/md.h>

#include <stdbool.h>

enum { MD_PY_CPU = 1, MD_PY_CUDA = 2, MD_PY_CUDA_HOST = 3, MD_PY_CUDA_MANAGED = 13 };

typedef struct md_py_dl_version {
    uint32_t major, minor;
} md_py_dl_version;

typedef struct md_py_dl_device {
    int32_t type, id;
} md_py_dl_device;

typedef struct md_py_dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} md_py_dl_dtype;

typedef struct md_py_dl_tensor {
    void *data;
    md_py_dl_device device;
    int32_t ndim;
    md_py_dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} md_py_dl_tensor;

typedef struct md_py_dl_managed {
    md_py_dl_tensor tensor;
    void *manager;
    void (*deleter)(struct md_py_dl_managed *self);
} md_py_dl_managed;

typedef struct md_py_dl_versioned {
    md_py_dl_version version;
    void *manager;
    void (*deleter)(struct md_py_dl_versioned *self);
    uint64_t flags; /* bit 0: the tensor is read-only */
    md_py_dl_tensor tensor;
} md_py_dl_versioned;

typedef void (*md_py_dl_set_error)(void *user, const char *kind, const char *message);

/* What type(x).__dlpack_c_exchange_api__ holds. All functions return 0, or -1 with a Python error. */
typedef struct md_py_dl_api {
    md_py_dl_version version;
    struct md_py_dl_api *previous;
    int (*allocate)(md_py_dl_tensor *prototype, md_py_dl_versioned **out, void *user, md_py_dl_set_error set_error);
    int (*from_object)(void *object, md_py_dl_versioned **out);
    int (*to_object)(md_py_dl_versioned *tensor, void **out);
    int (*borrow)(void *object, md_py_dl_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} md_py_dl_api;

/* How an array of a type is read. */
typedef enum md_py_way {
    MD_PY_UNKNOWN,
    MD_PY_EXCHANGE,
    MD_PY_SUBCLASS, /* inherits the exchange API, but may have no memory of its own: FakeTensor, wrappers */
    MD_PY_BUFFER,
    MD_PY_DLPACK,
    MD_PY_NO_ARRAY
} md_py_way;

typedef struct md_py_type {
    PyTypeObject *type; /* a reference is held */
    md_py_way way;
    const md_py_dl_api *api;
} md_py_type;

enum { MD_PY_TYPES = 16, MD_PY_DTYPES = 18 };

/* The part of the module's state that reading arrays needs. Zeroed: empty. Guarded by the GIL. */
typedef struct md_py_exchange {
    PyObject *argument_error; /* the exception; borrowed */
    md_py_type type[MD_PY_TYPES];
    int n_types, next;
    PyObject *numpy_empty, *numpy_dtype[MD_PY_DTYPES];
    md_py_torch torch;
    md_py_torch_memory torch_memory;
    PyObject *is_grad_enabled; /* torch.is_grad_enabled, called where PyTorch's C++ function was not found */
    PyObject *text_is_neg, *text_requires_grad, *text_dlpack, *text_dlpack_device;
} md_py_exchange;

/* An array during a call. */
typedef struct md_py_view {
    md_tensor tensor;
    md_py_dl_device device;
    md_py_type type; /* a copy, since the table of types may evict it during the call */
    bool has_buffer;
    Py_buffer buffer;
    PyObject *capsule; /* owned, or NULL */
    PyObject *keeps; /* owned, or NULL: an array of other elements over the same memory */
} md_py_view;

int md_py_exchange_start(md_py_exchange *exchange);
void md_py_exchange_finish(md_py_exchange *exchange);
int md_py_exchange_visit(md_py_exchange *exchange, visitproc visit, void *arg);

/** How arrays of the object's type are read. NULL with an error. */
const md_py_type *md_py_type_of(md_py_exchange *exchange, PyObject *object);
/** Borrows an array: `object` must live until md_py_view_end. `name` is for messages. -1 with an error, and then there
 * is nothing to end. */
int md_py_view_begin(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output);
/* What md_py_view_begin calls for each kind of array. They fill in `view`, of which only the type is set. -1 with an
 * error. */
int md_py_take_buffer(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output);
int md_py_take_capsule(md_py_view *view, md_py_exchange *exchange, PyObject *object, const char *name, bool is_output);
int md_py_take_dlpack(md_py_view *view, const md_py_exchange *exchange, const md_py_dl_tensor *t, const char *name);
/** Raises ArgumentError "argument '<name>': <why>", and returns -1. */
int md_py_refuse(const md_py_exchange *exchange, const char *name, const char *why);
/** Turns the exception that an array raised into an ArgumentError with its text, and returns -1. */
int md_py_wrap_error(const md_py_exchange *exchange, const char *name);
/** Makes the view of a new array from what md_py_empty reported of it. */
void md_py_view_made(md_py_view *view, const md_tensor *made, const md_py_view *like);
void md_py_view_end(md_py_view *view);
/** Tells PyTorch that `object`, of which this is the view, was written. -1 with an error. */
int md_py_view_written(const md_py_view *view, const md_py_exchange *exchange, PyObject *object);
/** Refuses a tensor that requires a gradient where a number is meant. -1 with an error; 0 for all else. */
int md_py_check_number(md_py_exchange *exchange, PyObject *object, const char *name);
/** A new contiguous array of the kind and on the device of `like`: PyTorch's, else NumPy's on the host. `shape->data`
 * and its strides become the array's; data is NULL where they are not known without reading the array. NULL with an
 * error. */
PyObject *md_py_empty(md_tensor *shape, md_py_exchange *exchange, const md_py_view *like);
/** Gives the tensors of item number `item`, of one shape, whose elements lie in the same order without gaps, one axis
 * each. -1 with an `error` if they do not: then nothing is changed. */
int md_py_flatten(md_tensor *const *tensor, int32_t n, Py_ssize_t item, PyObject *error);
/** The dtype as DLPack's code, bits and lanes. */
md_py_dl_dtype md_py_dl_dtype_of(md_dtype dtype);
/** PyTorch's current stream of the device; NULL, the default stream, for other arrays. -1 with an error. */
int md_py_current_stream(void **stream, const md_py_view *view);

#endif
