/* Looks up functions of the loaded PyTorch by name, and tries them on tensors of which the answers are known. */
#include "python/arrays/torch.h"

#include <dlfcn.h>
#include <string.h>

/* ---- Looking up */

static void *find_in(const char *library, const char *name)
{
    void *const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *const found = handle ? dlsym(handle, name) : NULL;
    if (handle)
        dlclose(handle); /* PyTorch is never unloaded: Python does not unload extensions */
    return found;
}

static int32_t call_int32(const char *name)
{
    int32_t (*get)(void) = NULL;
    void *const found = find_in("libtorch_cpu.so", name);
    memcpy(&get, &found, sizeof get); /* ISO C has no cast from an object pointer to a function pointer */
    return get ? get() : -1;
}

#define FIND(to, member, library, name)                                                                                \
    do {                                                                                                               \
        void *const found = find_in(library, name);                                                                    \
        memcpy(&(to)->member, &found, sizeof found);                                                                   \
    } while (0)

static void find_reading(md_py_torch *torch)
{
    FIND(torch, is_neg, "libtorch_cpu.so", "_ZN2at6native6is_negERKNS_6TensorE");
    FIND(torch, is_conj, "libtorch_cpu.so", "_ZN2at6native7is_conjERKNS_6TensorE");
    FIND(torch, requires_grad, "libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv");
    FIND(torch, grad_is_enabled, "libtorch_cpu.so", "aoti_torch_grad_mode_is_enabled");
    FIND(torch, is_inference, "libtorch_cpu.so", "_ZN2at6native12is_inferenceERKNS_6TensorE");
    FIND(torch, bump_version, "libtorch_cpu.so", "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE");
    FIND(torch, rank, "libtorch_cpu.so", "aoti_torch_get_dim");
    FIND(torch, sizes, "libtorch_cpu.so", "aoti_torch_get_sizes");
    FIND(torch, strides, "libtorch_cpu.so", "aoti_torch_get_strides");
    FIND(torch, dtype_of, "libtorch_cpu.so", "aoti_torch_get_dtype");
    FIND(torch, device_of, "libtorch_cpu.so", "aoti_torch_get_device_type");
    FIND(torch, index_of, "libtorch_cpu.so", "aoti_torch_get_device_index");
    FIND(torch, layout_of, "libtorch_cpu.so", "aoti_torch_get_layout");
    FIND(torch, const_data, "libtorch_cpu.so", "torch_get_const_data_ptr");
    FIND(torch, data, "libtorch_cpu.so", "torch_get_mutable_data_ptr");
}

static void find_making(md_py_torch *torch)
{
    FIND(torch, empty_strided, "libtorch_cpu.so", "aoti_torch_empty_strided");
    FIND(torch, to_object, "libtorch_cpu.so", "torch_tensor_to_pyobject");
    FIND(torch, wrap, "libtorch_python.so", "_Z16THPVariable_WrapRKN2at10TensorBaseE");
    FIND(torch, delete_tensor, "libtorch_cpu.so", "aoti_torch_delete_tensor_object");
}

static void find_numbers(md_py_torch *torch)
{
    /* in the order of md_dtype */
    static const char *const dtype[16] = {NULL,    "float32", "float64", "float16", "bfloat16",      "int32",
                                          "int64", "uint8",   "bool",    "int8",    "float8_e4m3fn", "float8_e5m2",
                                          "int16", "uint16",  "uint32",  "uint64"};
    char name[64] = "aoti_torch_dtype_";
    const size_t at = strlen(name);
    torch->dtype[0] = torch->dtype[MD_I4] = torch->dtype[MD_U4] = -1;
    for (int i = 1; i < 16; i++) {
        strcpy(name + at, dtype[i]); /* the longest name has 13 characters */
        torch->dtype[i] = call_int32(name);
        if (torch->dtype[i] >= 0 && torch->dtype[i] < MD_PY_TORCH_DTYPES)
            torch->md_dtype_of[torch->dtype[i]] = (uint8_t)i;
    }
    torch->cpu = call_int32("aoti_torch_device_type_cpu");
    torch->cuda = call_int32("aoti_torch_device_type_cuda");
    torch->strided = call_int32("aoti_torch_layout_strided");
}

/* ---- Trying */

/* PyTorch's C functions take the address of the pointer to a tensor's C++ object. */
static void *handle_of(const md_py_torch *torch, PyObject *object)
{
    return (char *)object + torch->impl_at;
}

static PyObject *make_sample(PyObject *module, const char *code)
{
    PyObject *scope = PyDict_New();
    PyObject *made = NULL;
    PyObject *builtins = PyImport_ImportModule("builtins");
    PyObject *eval = builtins ? PyObject_GetAttrString(builtins, "eval") : NULL;
    if (scope && eval && PyDict_SetItemString(scope, "torch", module) == 0)
        made = PyObject_CallFunction(eval, "sO", code, scope);
    Py_XDECREF(eval);
    Py_XDECREF(builtins);
    Py_XDECREF(scope);
    return made;
}

/* Where in the object the pointer stands that PyTorch calls `_cdata`. 0: not found. */
static size_t find_impl(PyObject *sample)
{
    PyObject *number = PyObject_GetAttrString(sample, "_cdata");
    void *const impl = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    for (size_t at = sizeof(PyObject); impl && at <= sizeof(PyObject) + sizeof(void *); at += sizeof(void *)) {
        void *word;
        memcpy(&word, (const char *)sample + at, sizeof word);
        if (word == impl)
            return at;
    }
    return 0;
}

/* True if the sample's bits are read as `expected`, by the functions that were found. */
static bool reads_as(const md_py_torch *torch, PyObject *module, const char *code, int expected)
{
    PyObject *sample = make_sample(module, code);
    const bool is_right = sample && find_impl(sample) == torch->impl_at && md_py_torch_flags(torch, sample) == expected;
    Py_XDECREF(sample);
    return is_right;
}

static bool reading_works(md_py_torch *torch, PyObject *module)
{
    if (!torch->is_neg || !torch->is_conj || !torch->requires_grad || !torch->grad_is_enabled)
        return false;
    PyObject *sample = make_sample(module, "torch.empty(2)");
    torch->impl_at = sample ? find_impl(sample) : 0;
    Py_XDECREF(sample);
    if (!torch->impl_at)
        return false;
    const int grad = torch->grad_is_enabled() ? MD_PY_REQUIRES_GRAD : 0;
    return reads_as(torch, module, "torch.empty(2)", 0) &&
           reads_as(torch, module, "torch._neg_view(torch.ones(2))", 2) &&
           reads_as(torch, module, "torch.ones(2, dtype=torch.complex64).conj()", 2) &&
           reads_as(torch, module, "torch.ones(2, dtype=torch.complex64).conj().imag", 2) &&
           reads_as(torch, module, "torch.nn.Parameter(torch.ones(2))", grad) &&
           reads_as(torch, module, "torch.nn.Parameter(torch.ones(2), requires_grad=False)", 0) &&
           reads_as(torch, module, "torch.ones(2, requires_grad=True)[1:]", grad);
}

static bool counting_works(const md_py_torch *torch, PyObject *module)
{
    if (!torch->is_inference || !torch->bump_version || !torch->impl_at)
        return false;
    PyObject *sample = make_sample(module, "torch.ones(2)");
    PyObject *before = sample ? PyObject_GetAttrString(sample, "_version") : NULL;
    const bool has_version = before && !torch->is_inference(handle_of(torch, sample));
    if (has_version)
        torch->bump_version(handle_of(torch, sample));
    PyObject *after = has_version ? PyObject_GetAttrString(sample, "_version") : NULL;
    const bool works = after && PyLong_AsLong(after) == PyLong_AsLong(before) + 1;
    Py_XDECREF(after);
    Py_XDECREF(before);
    Py_XDECREF(sample);
    return works;
}

static bool has_shims(const md_py_torch *t)
{
    return t->rank && t->sizes && t->strides && t->dtype_of && t->device_of && t->index_of && t->layout_of &&
           t->const_data && t->data && t->cpu >= 0 && t->cuda >= 0 && t->strided >= 0;
}

static bool shims_work(const md_py_torch *torch, PyObject *module)
{
    md_tensor t;
    bool is_cuda = true;
    int32_t index;
    if (!torch->is_neg || !has_shims(torch))
        return false;
    PyObject *sample = make_sample(module, "torch.ones(3, 4, dtype=torch.int16)[1:].T");
    PyObject *address = sample ? PyObject_CallMethod(sample, "data_ptr", NULL) : NULL;
    void *const data = address ? PyLong_AsVoidPtr(address) : NULL;
    const bool works = data && md_py_torch_read(&t, &is_cuda, &index, torch, sample, false) && !is_cuda &&
                       t.data == data && t.dtype == MD_I16 && t.rank == 2 && t.size[0] == 4 && t.size[1] == 2 &&
                       t.stride[0] == 1 && t.stride[1] == 4;
    Py_XDECREF(address);
    Py_XDECREF(sample);
    return works;
}

static bool making_works(md_py_torch *torch, PyObject *module)
{
    md_tensor shape = {.dtype = MD_BF16, .rank = 2, .size = {2, 3}};
    torch->can_make = torch->empty_strided && (torch->to_object || torch->wrap) && torch->delete_tensor &&
                      torch->data && torch->cpu >= 0;
    PyObject *object = md_py_torch_empty(&shape, torch, false, 0);
    PyObject *check = make_sample(module, "lambda t: type(t) is torch.Tensor and t.shape == (2, 3) and "
                                          "t.is_contiguous() and t.dtype == torch.bfloat16 and t.is_cpu and "
                                          "t.data_ptr()");
    PyObject *answer = object && check ? PyObject_CallFunctionObjArgs(check, object, NULL) : NULL;
    const bool works = answer && PyLong_Check(answer) && PyLong_AsVoidPtr(answer) == shape.data;
    Py_XDECREF(answer);
    Py_XDECREF(check);
    Py_XDECREF(object);
    return works;
}

void md_py_torch_find(md_py_torch *torch)
{
    PyObject *module = PyImport_ImportModule("torch");
    torch->is_known = true;
    find_reading(torch);
    find_making(torch);
    find_numbers(torch);
    if (!module || !reading_works(torch, module))
        torch->is_neg = NULL;
    PyErr_Clear();
    if (!module || !torch->is_neg || !counting_works(torch, module))
        torch->bump_version = NULL;
    PyErr_Clear();
    if (!module || !shims_work(torch, module))
        torch->rank = NULL;
    PyErr_Clear();
    if (!module || !making_works(torch, module))
        torch->can_make = false;
    PyErr_Clear();
    Py_XDECREF(module);
}

/* ---- Using */

int md_py_torch_flags(const md_py_torch *torch, PyObject *object)
{
    const void *const *const tensor = (const void *const *)((const char *)object + torch->impl_at);
    if (!torch->is_neg || !*tensor)
        return -1;
    int flags = torch->is_neg(tensor) || torch->is_conj(tensor) ? MD_PY_NEGATIVE : 0;
    if (torch->requires_grad(*tensor) && torch->grad_is_enabled())
        flags |= MD_PY_REQUIRES_GRAD;
    return flags;
}

bool md_py_torch_count_write(const md_py_torch *torch, PyObject *object)
{
    const void *const tensor = handle_of(torch, object);
    if (!torch->bump_version)
        return false;
    if (!torch->is_inference(tensor))
        torch->bump_version(tensor);
    return true;
}

bool md_py_torch_read(md_tensor *out, bool *is_cuda, int32_t *index, const md_py_torch *torch, PyObject *object,
                      bool is_output)
{
    void *const handle = handle_of(torch, object);
    int64_t rank, *size, *stride;
    int32_t device, dtype, layout;
    const void *data;
    /* A layout without strides, or memory of another device, would make the functions below print an error. */
    if (!torch->rank || torch->device_of(handle, &device) || (device != torch->cpu && device != torch->cuda) ||
        torch->layout_of(handle, &layout) || layout != torch->strided || torch->dtype_of(handle, &dtype) || dtype < 0 ||
        dtype >= MD_PY_TORCH_DTYPES || !torch->md_dtype_of[dtype] || torch->rank(handle, &rank) || rank > MD_MAX_RANK ||
        torch->sizes(handle, &size) || torch->strides(handle, &stride) || torch->index_of(handle, index))
        return false;
    if (is_output ? torch->data(handle, &out->data) : torch->const_data(handle, &data))
        return false;
    if (!is_output)
        memcpy(&out->data, &data, sizeof data); /* md_tensor has one pointer for inputs and outputs */
    out->dtype = torch->md_dtype_of[dtype];
    out->rank = (int32_t)rank;
    for (int64_t a = 0; a < rank; a++) {
        out->size[a] = size[a];
        out->stride[a] = stride[a];
    }
    *is_cuda = device == torch->cuda;
    if (!*is_cuda)
        *index = 0; /* PyTorch numbers the CPU -1 */
    return true;
}

/* Turns the handle of a new tensor into a Python object and frees the handle. NULL, without an error, if it fails. */
static PyObject *object_of(const md_py_torch *torch, void *handle)
{
    void *object = NULL;
    if (!torch->to_object)
        object = torch->wrap(handle);
    else if (torch->to_object(handle, NULL, &object) != 0)
        object = NULL;
    torch->delete_tensor(handle);
    if (!object)
        PyErr_Clear();
    return object;
}

PyObject *md_py_torch_empty(md_tensor *shape, const md_py_torch *torch, bool is_cuda, int32_t index)
{
    void *handle = NULL;
    int64_t n = 1;
    for (int32_t a = shape->rank - 1; a >= 0; a--) {
        shape->stride[a] = n;
        n *= shape->size[a] > 1 ? shape->size[a] : 1;
    }
    if (!torch->can_make || torch->dtype[shape->dtype] < 0 ||
        torch->empty_strided(shape->rank, shape->size, shape->stride, torch->dtype[shape->dtype],
                             is_cuda ? torch->cuda : torch->cpu, index, &handle) != 0)
        return NULL;
    if (torch->data(handle, &shape->data) == 0)
        return object_of(torch, handle);
    torch->delete_tensor(handle);
    return NULL;
}

/* ---- Memory of its caching allocator. These are called without the GIL, and need none. */

static void *alloc_cached(void *user, int32_t device, md_stream stream, size_t n_bytes)
{
    const md_py_torch_memory *memory = user;
    void *guard = NULL, *p = NULL;
    if (memory->stream_begin(stream, device, &guard) != 0)
        return NULL;
    if (memory->raw_alloc(n_bytes, &p) != 0)
        p = NULL;
    memory->stream_end(guard);
    return p;
}

static void free_cached(void *user, int32_t device, md_stream stream, void *p, size_t n_bytes)
{
    const md_py_torch_memory *memory = user;
    (void)device;
    (void)stream; /* PyTorch's allocator remembers the stream of each block */
    (void)n_bytes;
    (void)memory->raw_delete(p);
}

bool md_py_torch_share_memory(md_py_torch_memory *memory)
{
    FIND(memory, raw_alloc, "libtorch_cuda.so", "aoti_torch_cuda_caching_allocator_raw_alloc");
    FIND(memory, raw_delete, "libtorch_cuda.so", "aoti_torch_cuda_caching_allocator_raw_delete");
    FIND(memory, stream_begin, "libtorch_cuda.so", "aoti_torch_create_cuda_stream_guard");
    FIND(memory, stream_end, "libtorch_cuda.so", "aoti_torch_delete_cuda_stream_guard");
    PyObject *module = PyImport_ImportModule("torch.cuda");
    /* before that the allocator cannot be used */
    PyObject *done = module ? PyObject_CallMethod(module, "init", NULL) : NULL;
    memory->is_shared = done && memory->raw_alloc && memory->raw_delete && memory->stream_begin && memory->stream_end;
    Py_XDECREF(done);
    Py_XDECREF(module);
    PyErr_Clear();
    return memory->is_shared;
}

void md_py_torch_give_memory(md_context_options *options, md_py_torch_memory *memory)
{
    if (!memory->is_shared)
        return;
    options->device_alloc = alloc_cached;
    options->device_free = free_cached;
    options->device_alloc_user = memory;
}
