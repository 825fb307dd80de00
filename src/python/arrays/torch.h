/* PyTorch's own functions, found in the loaded libraries: what its exchange API does not say (the negative bit, whether
 * a tensor requires a gradient), and new tensors. Each is tried once against PyTorch's Python side, and used only if it
 * agrees. Nothing of PyTorch is linked or needed. */
#ifndef MD_PYTHON_ARRAYS_TORCH_H
#define MD_PYTHON_ARRAYS_TORCH_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <md/types.h>

#include <stdbool.h>

enum { MD_PY_TORCH_DTYPES = 64 };

/* Zeroed: not looked for yet. Guarded by the GIL; holds no objects. */
typedef struct md_py_torch {
    bool is_known; /* the lookup is done: each member below is the function that was found, or NULL */
    size_t impl_at; /* offset in a Python tensor of the pointer to its C++ object */
    bool (*is_neg)(const void *tensor); /* takes the address of that pointer, &((char *)object)[impl_at] */
    bool (*is_conj)(const void *tensor);
    bool (*requires_grad)(const void *impl);
    bool (*grad_is_enabled)(void);
    bool (*is_inference)(const void *tensor); /* made in inference mode: it has no version */
    void (*bump_version)(const void *tensor); /* autograd then sees that a saved tensor was written */
    int32_t (*rank)(void *tensor, int64_t *out); /* this and the functions below take that address, too */
    int32_t (*sizes)(void *tensor, int64_t **out);
    int32_t (*strides)(void *tensor, int64_t **out);
    int32_t (*dtype_of)(void *tensor, int32_t *out);
    int32_t (*device_of)(void *tensor, int32_t *out);
    int32_t (*index_of)(void *tensor, int32_t *out);
    int32_t (*layout_of)(void *tensor, int32_t *out);
    int32_t (*const_data)(void *tensor, const void **out);
    int32_t (*data)(void *tensor, void **out);
    int32_t (*empty_strided)(int64_t rank, const int64_t *size, const int64_t *stride, int32_t dtype, int32_t device,
                             int32_t device_index, void **out);
    int32_t (*to_object)(void *tensor, void *type, void **out); /* PyTorch 2.14 and later */
    /* the C++ function behind it, for versions of PyTorch that lack the C function */
    void *(*wrap)(const void *tensor);
    int32_t (*delete_tensor)(void *tensor);
    bool can_make; /* the members above were found, and made a right tensor when tried */
    int32_t dtype[18]; /* PyTorch's number of each md_dtype; -1: none */
    uint8_t md_dtype_of[MD_PY_TORCH_DTYPES]; /* the md_dtype of each of PyTorch's numbers; 0: none */
    int32_t cpu, cuda, strided; /* PyTorch's numbers of device types and of the layout */
} md_py_torch;

/* PyTorch's caching allocator. Zeroed: nobody asked for it. Its functions are called without the GIL. */
typedef struct md_py_torch_memory {
    bool is_shared; /* the members below were found, and the user asked to share memory */
    int32_t (*raw_alloc)(uint64_t n_bytes, void **out); /* allocates for the current stream */
    int32_t (*raw_delete)(void *p);
    int32_t (*stream_begin)(void *stream, int32_t index, void **guard); /* makes `stream` the current one */
    int32_t (*stream_end)(void *guard);
} md_py_torch_memory;

enum { MD_PY_REQUIRES_GRAD = 1, MD_PY_NEGATIVE = 2 };

/** Looks for the functions. Never fails: what is not found stays NULL. Takes milliseconds, once. It runs code of
 * PyTorch, so other threads get the GIL meanwhile: `torch` must not be seen by them. */
void md_py_torch_find(md_py_torch *torch);
/** What forbids reading the memory of a tensor (MD_PY_* bits; a gradient counts while gradients are recorded), or -1
 * if the functions were not found. The object is exactly a Tensor or a Parameter. */
int md_py_torch_flags(const md_py_torch *torch, PyObject *object);
/** Counts a write into a tensor's memory, as PyTorch's own operations do. False: the functions were not found. */
bool md_py_torch_count_write(const md_py_torch *torch, PyObject *object);
/** Reads a tensor of the CPU or a GPU. False, without an error, where only the exchange API can read it. */
bool md_py_torch_read(md_tensor *out, bool *is_cuda, int32_t *index, const md_py_torch *torch, PyObject *object,
                      bool is_output);
/** A new contiguous tensor; strides of `shape` are not read, but set, and so is `data`. NULL, without an error, if it
 * could not be made. */
PyObject *md_py_torch_empty(md_tensor *shape, const md_py_torch *torch, bool is_cuda, int32_t index);

/** Contexts made from now on get PyTorch's memory (md_py_torch_give_memory). False: PyTorch has no GPU or no functions
 * for it. */
bool md_py_torch_share_memory(md_py_torch_memory *memory);
/** Makes a context's temporaries on a GPU memory of PyTorch's caching allocator, where that was asked for, so that the
 * two share what is free. `memory` must live as long as the context. */
void md_py_torch_give_memory(md_context_options *options, md_py_torch_memory *memory);

#endif
