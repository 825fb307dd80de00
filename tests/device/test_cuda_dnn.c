/* cuDNN as a machine may have it: missing, without its functions, of another version, or one that answers. No GPU is
 * needed. It stands before the loader of libraries. */
#include "support/golden.h"

#include "base/status.h"
#include "device/cuda/internal.h"
#include "device/dnn/dnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

static const char *library; /* what is loaded for it; "": this program; NULL: none */
static size_t version;

void *__real_dlopen(const char *name, int mode);
void *__wrap_dlopen(const char *name, int mode);

void *__wrap_dlopen(const char *name, int mode)
{
    if (!name || !strstr(name, "cudnn"))
        return __real_dlopen(name, mode);
    return library ? __real_dlopen(*library ? library : NULL, mode) : NULL;
}

/* ---- A cuDNN that knows four answers: the second needs too much memory, and of the third no plan can be made */

enum { CUDNN_ANSWERS = 4, CUDNN_RESULTS = 202, CUDNN_WORKSPACE = 402, CUDNN_CONFIG = 3, CUDNN_PLAN = 5 };
enum { CUDNN_NOTES = 1303 };
enum { CUDNN_HANDLE = 0, CUDNN_INT64 = 3, CUDNN_FLOAT = 4, CUDNN_POINTER = 6, CUDNN_DESC = 15 };

typedef struct descriptor {
    int type, plan; /* plan: its number, of those that are plans */
    int number; /* of the descriptors since the library was opened */
} descriptor;

static int n_answers = CUDNN_ANSWERS; /* of the heuristic */
static int tensor_cores = -1; /* which of their engines multiplies f32 in TF32; the others say other things */
static int n_asked; /* whose notes were asked for */
static int n_plans, n_open, n_made, n_runs, n_handles; /* n_open: descriptors that were not destroyed */
static int n_calls, fails_at; /* which call of the graph's interface fails, if any */
static char handles[2];
static char memory[4096]; /* data is given by addresses in it */
static md_strbuf said; /* what the library was told */

static bool fails(void)
{
    return ++n_calls == fails_at;
}

size_t cudnnGetVersion(void);
int cudnnCreate(void **handle);
int cudnnDestroy(void *handle);
int cudnnSetStream(void *handle, void *stream);
int cudnnBackendCreateDescriptor(int type, descriptor **desc);
int cudnnBackendSetAttribute(descriptor *desc, int name, int type, int64_t n, const void *values);
int cudnnBackendGetAttribute(const descriptor *desc, int name, int type, int64_t most, int64_t *n, void *values);
int cudnnBackendFinalize(descriptor *desc);
int cudnnBackendDestroyDescriptor(descriptor *desc);
int cudnnBackendExecute(void *handle, descriptor *plan, descriptor *pack);

size_t cudnnGetVersion(void)
{
    return version;
}

int cudnnCreate(void **handle)
{
    if (fails())
        return 1;
    *handle = &handles[n_handles++];
    return 0;
}

int cudnnDestroy(void *handle)
{
    n_handles--;
    return handle < (void *)handles || handle > (void *)(handles + 1);
}

int cudnnSetStream(void *handle, void *stream)
{
    md_strbuf_printf(&said, "stream %d of handle %d\n", (int)(intptr_t)stream, (int)((char *)handle - handles));
    return fails() ? 3 : 0;
}

int cudnnBackendCreateDescriptor(int type, descriptor **desc)
{
    if (fails() || !(*desc = malloc(sizeof **desc)))
        return 1;
    n_open++;
    **desc = (descriptor){.type = type, .plan = type == CUDNN_PLAN ? n_plans++ : 0, .number = n_made++};
    md_strbuf_printf(&said, "%d: new %d\n", (*desc)->number, type);
    return 0;
}

static void tell_value(int type, const void *values, int64_t i)
{
    const char *at = (const char *)values + i * (type == CUDNN_FLOAT ? 4 : 8);
    void *const *pointer = (void *const *)values + i;
    if (type == CUDNN_INT64)
        md_strbuf_printf(&said, " %lld", (long long)((const int64_t *)values)[i]);
    else if (type == CUDNN_FLOAT)
        md_strbuf_printf(&said, " %g", (double)*(const float *)at);
    else if (type == CUDNN_POINTER)
        md_strbuf_printf(&said, " memory + %d", (int)((char *)*pointer - memory));
    else if (type == CUDNN_HANDLE)
        md_strbuf_printf(&said, " handle %d", (int)((char *)*pointer - handles));
    else if (type == CUDNN_DESC)
        md_strbuf_printf(&said, " descriptor %d", ((const descriptor *)*pointer)->number);
    else
        md_strbuf_printf(&said, " %d", ((const int *)values)[i]);
}

int cudnnBackendSetAttribute(descriptor *desc, int name, int type, int64_t n, const void *values)
{
    md_strbuf_printf(&said, "%d: %d is (%d)", desc->number, name, type);
    for (int64_t i = 0; i < n; i++)
        tell_value(type, values, i);
    md_strbuf_add(&said, "\n");
    return fails() || name / 100 == CUDNN_CONFIG || n < 1;
}

int cudnnBackendGetAttribute(const descriptor *desc, int name, int type, int64_t most, int64_t *n, void *values)
{
    const int64_t bytes = desc->plan == 1 ? 4097 : desc->plan == 3 ? 4096 : 0;
    md_strbuf_printf(&said, "%d: at most %lld of %d (%d)\n", desc->number, (long long)most, name, type);
    *n = name == CUDNN_RESULTS ? MD_MIN(most, (int64_t)n_answers) : 1;
    for (int64_t i = 0; i < most && name == CUDNN_RESULTS; i++) /* each one is a descriptor of the caller's */
        assert_int_equal(((descriptor **)values)[i]->type, CUDNN_CONFIG);
    if (name == CUDNN_WORKSPACE)
        memcpy(values, &bytes, sizeof bytes);
    if (name == CUDNN_NOTES)
        *(int *)values = n_asked++ == tensor_cores ? 0 : 4 + 5 * (n_asked % 2); /* TF32, order of sums, NaN */
    return fails();
}

int cudnnBackendFinalize(descriptor *desc)
{
    md_strbuf_printf(&said, "%d: done\n", desc->number);
    return fails() || (desc->type == CUDNN_PLAN && desc->plan == 2);
}

int cudnnBackendDestroyDescriptor(descriptor *desc)
{
    n_open--;
    free(desc);
    return 0;
}

int cudnnBackendExecute(void *handle, descriptor *plan, descriptor *pack)
{
    md_strbuf_printf(&said, "run %d with %d by handle %d\n", plan->number, pack->number,
                     (int)((char *)handle - handles));
    n_runs++;
    return fails() || plan->type != CUDNN_PLAN ? 1 : plan->plan == 3 ? 7 : 0;
}

/* ---- A GPU whose memory is `memory` */

static int n_allocated, n_bytes, allocation_error, sync_error, n_entered;
static bool is_gpu = true;

bool __wrap_md_dev_cuda_is(const md_dev *dev);
md_status __wrap_md_dev_cuda_enter(md_dev_cuda_scope *out, md_dev_cuda *dev);
void __wrap_md_dev_cuda_leave(const md_dev_cuda_scope *scope);
cudaError_t __wrap_cudaMalloc(void **out, size_t n);
cudaError_t __wrap_cudaMallocAsync(void **out, size_t n, cudaStream_t stream);
cudaError_t __wrap_cudaFree(void *at);
cudaError_t __wrap_cudaFreeAsync(void *at, cudaStream_t stream);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream);

bool __wrap_md_dev_cuda_is(const md_dev *dev)
{
    (void)dev;
    return is_gpu;
}

md_status __wrap_md_dev_cuda_enter(md_dev_cuda_scope *out, md_dev_cuda *dev)
{
    (void)out, (void)dev;
    n_entered++;
    return MD_OK;
}

void __wrap_md_dev_cuda_leave(const md_dev_cuda_scope *scope)
{
    (void)scope;
    n_entered--;
}

cudaError_t __wrap_cudaMalloc(void **out, size_t n)
{
    n_allocated += allocation_error == 0;
    n_bytes = (int)n;
    *out = memory;
    return (cudaError_t)allocation_error;
}

cudaError_t __wrap_cudaMallocAsync(void **out, size_t n, cudaStream_t stream)
{
    assert_int_equal((intptr_t)stream, 5);
    md_strbuf_add(&said, "of the pool:\n");
    return __wrap_cudaMalloc(out, n);
}

cudaError_t __wrap_cudaFree(void *at)
{
    assert_ptr_equal(at, memory);
    n_allocated--;
    return cudaSuccess;
}

cudaError_t __wrap_cudaFreeAsync(void *at, cudaStream_t stream)
{
    assert_int_equal((intptr_t)stream, 5);
    md_strbuf_add(&said, "freed into the pool\n");
    return __wrap_cudaFree(at);
}

cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream)
{
    md_strbuf_printf(&said, "stream %d ends\n", (int)(intptr_t)stream);
    return (cudaError_t)sync_error;
}

static void open_device(md_dev_cuda *dev)
{
    *dev = (md_dev_cuda){.owner = getpid()};
    dev->base.tuning = (md_stream)(intptr_t)5;
    assert_int_equal(pthread_mutex_init(&dev->blas_lock, NULL), 0);
}

static void close_device(md_dev_cuda *dev)
{
    if (dev->stop_dnn)
        dev->stop_dnn(dev->dnn);
    assert_int_equal(n_open, 0);
    assert_int_equal(n_handles, 0);
    assert_int_equal(n_entered, 0);
    assert_int_equal(n_allocated, 0);
    md_strbuf_finish(&said);
    pthread_mutex_destroy(&dev->blas_lock);
}

/* A library that answers, and a convolution for it. */
static void open_answering(md_dev_cuda *dev, md_dev_cuda_conv *conv)
{
    library = "";
    version = 92600;
    n_runs = n_plans = n_made = n_calls = fails_at = n_asked = 0;
    tensor_cores = -1;
    *conv = (md_dev_cuda_conv){.n_axes = 4, .dtype = MD_BF16};
    open_device(dev);
}

static md_status run(md_dev_cuda *dev, const md_dev_cuda_conv *conv)
{
    void *const data[MD_DEV_CUDA_CONV_TENSORS] = {memory + 16, memory + 32, memory + 48};
    return md_dev_cuda_conv_run(&dev->base, (md_stream)(intptr_t)9, conv, data, memory + 64, 4096);
}

/* Own kernels serve then; a pinned run says why it does not. */
static void test_other_libraries(void **state)
{
    static const struct {
        const char *library;
        size_t version;
    } cases[] = {{NULL, 0}, {"libm.so.6", 0}, {"", 8907}, {"", 100100}};
    const md_dev_cuda_conv conv = {.n_axes = 4};
    (void)state;
    for (size_t i = 0; i < MD_COUNT(cases); i++) {
        md_dev_cuda dev;
        library = cases[i].library;
        version = cases[i].version;
        open_device(&dev);
        assert_false(md_dev_cuda_has_conv());
        assert_int_equal(run(&dev, &conv), MD_UNSUPPORTED);
        assert_non_null(strstr(md_last_error(), "is not version 9"));
        assert_null(dev.stop_dnn);
        close_device(&dev);
    }
}

/* Two of four answers can serve; ranks above take the last one. */
static void test_answers(void **state)
{
    md_dev_cuda dev;
    md_dev_cuda_conv conv;
    (void)state;
    open_answering(&dev, &conv);
    assert_true(md_dev_cuda_has_conv());
    assert_ok(run(&dev, &conv));
    assert_int_equal(n_runs, 1);
    assert_int_equal(n_plans, CUDNN_ANSWERS);
    conv.rank = 3;
    assert_int_equal(run(&dev, &conv), MD_DEVICE);
    assert_non_null(strstr(md_last_error(), "status 7"));
    assert_int_equal(n_runs, 2);
    assert_int_equal(n_plans, CUDNN_ANSWERS); /* it is asked once */
    close_device(&dev);
}

/* Plans are kept for so many convolutions; a further one is refused, and the others still run. */
static void test_many(void **state)
{
    md_dev_cuda dev;
    md_dev_cuda_conv conv;
    (void)state;
    open_answering(&dev, &conv);
    for (int i = 0; i < MD_DEV_CUDA_CONV_MOST; i++) {
        conv.size[0][0] = i + 1;
        assert_ok(run(&dev, &conv));
    }
    const int asked = n_plans;
    conv.size[0][0] = MD_DEV_CUDA_CONV_MOST + 1;
    assert_int_equal(run(&dev, &conv), MD_UNSUPPORTED);
    assert_int_equal(n_plans, asked);
    conv.size[0][0] = 1;
    assert_ok(run(&dev, &conv));
    close_device(&dev);
}

/* Two images of 3 channels and 8 x 9 x 10 places, padded and with steps; no two numbers of it are equal. */
static md_dev_cuda_conv volume(void)
{
    return (md_dev_cuda_conv){.size = {{2, 3, 8, 9, 10}, {4, 3, 5, 6, 7}, {2, 4, 11, 12, 13}},
                              .stride = {{2160, 720, 90, 10, 1}, {630, 210, 42, 7, 1}, {6864, 1716, 156, 13, 1}},
                              .border = {1, 2, 3},
                              .step = {4, 5, 6},
                              .apart = {7, 8, 9},
                              .alignment = {16, 8, 4},
                              .n_axes = 5,
                              .dtype = MD_F16};
}

/* All that the library is told of a convolution of either rank, of its plans, and of runs and loads of theirs. */
static void test_what_is_said(void **state)
{
    md_dev_cuda dev;
    md_dev_cuda_conv conv;
    (void)state;
    open_answering(&dev, &conv);
    const md_dev_cuda_conv image = {.size = {{2, 3, 8, 9}, {4, 3, 5, 6}, {2, 4, 11, 12}},
                                    .stride = {{216, 72, 9, 1}, {90, 30, 6, 1}, {528, 132, 12, 1}},
                                    .border = {1, 2},
                                    .step = {4, 5},
                                    .apart = {7, 8},
                                    .alignment = {16, 16, 2},
                                    .n_axes = 4,
                                    .dtype = MD_BF16};
    assert_ok(run(&dev, &image));
    conv = volume();
    n_plans = 0;
    assert_ok(run(&dev, &conv));
    conv.rank = 1;
    assert_int_equal(run(&dev, &conv), MD_DEVICE);
    dev.has_pools = true;
    assert_ok(md_dev_cuda_conv_load(&dev.base, &image, 4096, true));
    conv = image;
    conv.kind = MD_DEV_CUDA_CONV_OF_FILTER;
    n_plans = 0;
    assert_ok(run(&dev, &conv));
    check_golden(MD_GOLDEN "/convolutions.txt", &said);
    close_device(&dev);
}

/* Engines that multiply f32 in TF32 are left out, and one is that takes f32 as it is. */
static void test_f32(void **state)
{
    (void)state;
    for (int i = 0; i < CUDNN_ANSWERS; i++) {
        md_dev_cuda dev;
        md_dev_cuda_conv conv;
        open_answering(&dev, &conv);
        conv = volume();
        conv.dtype = MD_F32;
        tensor_cores = i;
        assert_ok(run(&dev, &conv));
        assert_int_equal(n_asked, CUDNN_ANSWERS);
        assert_int_equal(n_plans, CUDNN_ANSWERS - 1);
        assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true));
        assert_int_equal(n_bytes, 4096 + 17408 + 10240 + 55040);
        close_device(&dev);
    }
}

/* A library that fails at the n-th call: the run is refused (u), fails (d), or another plan serves (.), and nothing is
 * left behind. */
static void test_failing_calls(void **state)
{
    char outcome[128] = "";
    size_t n = 0;
    (void)state;
    for (bool is_over = false; !is_over && n + 1 < sizeof outcome; n++) {
        md_dev_cuda dev;
        md_dev_cuda_conv conv;
        open_answering(&dev, &conv);
        conv = volume();
        fails_at = (int)n + 1;
        const md_status status = run(&dev, &conv);
        is_over = n_calls < fails_at;
        assert_true(status != MD_OK || n_runs == 1);
        outcome[n] = status == MD_OK ? '.' : status == MD_UNSUPPORTED ? 'u' : status == MD_DEVICE ? 'd' : '?';
        close_device(&dev);
    }
    assert_string_equal(outcome,
                        "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu.dddd..............ddddddd.");
}

/* What is loaded once is there; asking for what is not there starts nothing. */
static void test_loads(void **state)
{
    md_dev_cuda dev;
    md_dev_cuda_conv conv;
    (void)state;
    open_answering(&dev, &conv);
    conv = volume();
    assert_int_equal(md_dev_cuda_conv_load(&dev.base, &conv, 100, false), MD_NOT_FOUND);
    assert_null(dev.stop_dnn);
    assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 100, true));
    assert_int_equal(n_runs, 1);
    /* 256 bytes for 100 of workspace, and each tensor's 2 bytes an element up to its last one, in pieces of 256 */
    assert_int_equal(n_bytes, 256 + 8704 + 5120 + 27648);
    assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 100, true));
    assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 100, false));
    assert_int_equal(n_runs, 1);
    conv.dtype = MD_BF16; /* another one, whose plan needs more memory than there is: the second answer */
    assert_int_equal(md_dev_cuda_conv_load(&dev.base, &conv, 100, false), MD_NOT_FOUND);
    close_device(&dev);
}

/* Each plan of a convolution is loaded by itself. */
static void test_loads_of_ranks(void **state)
{
    md_dev_cuda dev;
    md_dev_cuda_conv conv;
    (void)state;
    open_answering(&dev, &conv);
    conv = volume();
    assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true));
    conv.rank = 1;
    assert_int_equal(md_dev_cuda_conv_load(&dev.base, &conv, 4096, false), MD_NOT_FOUND);
    assert_int_equal(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true), MD_UNSUPPORTED); /* its plan fails */
    assert_non_null(strstr(md_last_error(), "status 7"));
    assert_int_equal(md_dev_cuda_conv_load(&dev.base, &conv, 4096, false), MD_NOT_FOUND);
    close_device(&dev);
}

static void test_loads_that_fail(void **state)
{
    md_dev_cuda dev;
    md_dev_cuda_conv conv;
    (void)state;
    open_answering(&dev, &conv);
    conv = volume();
    is_gpu = false;
    assert_fails(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true), MD_UNSUPPORTED, "only stands for a GPU");
    is_gpu = true;
    n_answers = 0; /* no kernel of the library serves */
    assert_fails(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true), MD_UNSUPPORTED,
                 "no convolution of 3 x 4 channels");
    n_answers = CUDNN_ANSWERS;
    conv.step[0] = 1;
    allocation_error = cudaErrorMemoryAllocation;
    assert_fails(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true), MD_OUT_OF_MEMORY, "getting memory");
    allocation_error = 0;
    assert_int_equal(md_dev_cuda_conv_load(&dev.base, &conv, 4096, false), MD_NOT_FOUND);
    sync_error = cudaErrorInvalidValue;
    assert_fails(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true), MD_DEVICE, "loading a kernel of cuDNN");
    sync_error = 0;
    assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true));
    conv.size[0][0] = 1 << 20; /* more memory than is taken for loading: the first call loads it */
    n_runs = 0;
    assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true));
    assert_int_equal(n_runs, 0);
    assert_ok(md_dev_cuda_conv_load(&dev.base, &conv, 4096, false));
    close_device(&dev);
    open_device(&dev);
    library = NULL;
    assert_fails(md_dev_cuda_conv_load(&dev.base, &conv, 4096, true), MD_UNSUPPORTED, "cuDNN is missing");
    close_device(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_libraries),
                                       cmocka_unit_test(test_answers),
                                       cmocka_unit_test(test_what_is_said),
                                       cmocka_unit_test(test_f32),
                                       cmocka_unit_test(test_failing_calls),
                                       cmocka_unit_test(test_loads),
                                       cmocka_unit_test(test_loads_of_ranks),
                                       cmocka_unit_test(test_loads_that_fail),
                                       cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
