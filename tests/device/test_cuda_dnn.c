/* cuDNN as a machine may have it: missing, without its functions, of another version, or one that answers. No GPU is
 * needed. It stands before the loader of libraries. */
#include "support/check.h"

#include "base/status.h"
#include "device/cuda/internal.h"
#include "device/dnn/dnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

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
static int n_plans, n_open, n_runs, n_handles; /* n_open: descriptors that were not destroyed */

size_t cudnnGetVersion(void);
int cudnnCreate(void **handle);
int cudnnDestroy(void *handle);
int cudnnSetStream(void *handle, void *stream);
int cudnnBackendCreateDescriptor(int type, int **desc);
int cudnnBackendSetAttribute(int *desc, int name, int type, int64_t n, const void *values);
int cudnnBackendGetAttribute(const int *desc, int name, int type, int64_t most, int64_t *n, void *values);
int cudnnBackendFinalize(int *desc);
int cudnnBackendDestroyDescriptor(int *desc);
int cudnnBackendExecute(void *handle, int *plan, int *pack);

size_t cudnnGetVersion(void)
{
    return version;
}

int cudnnCreate(void **handle)
{
    n_handles++;
    *handle = &version;
    return 0;
}

int cudnnDestroy(void *handle)
{
    n_handles--;
    return handle != &version;
}

int cudnnSetStream(void *handle, void *stream)
{
    return handle != &version || stream;
}

int cudnnBackendCreateDescriptor(int type, int **desc)
{
    *desc = malloc(2 * sizeof **desc);
    if (!*desc)
        return 1;
    n_open++;
    (*desc)[0] = type;
    (*desc)[1] = type == CUDNN_PLAN ? n_plans++ : 0;
    return 0;
}

int cudnnBackendSetAttribute(int *desc, int name, int type, int64_t n, const void *values)
{
    (void)type;
    return !desc || name / 100 == CUDNN_CONFIG || n < 1 || !values;
}

int cudnnBackendGetAttribute(const int *desc, int name, int type, int64_t most, int64_t *n, void *values)
{
    const int64_t bytes = desc[1] == 1 ? 1 << 20 : 0;
    (void)type;
    *n = name == CUDNN_RESULTS ? MD_MIN(most, (int64_t)CUDNN_ANSWERS) : 1;
    if (name == CUDNN_WORKSPACE)
        memcpy(values, &bytes, sizeof bytes);
    return 0;
}

int cudnnBackendFinalize(int *desc)
{
    return desc[0] == CUDNN_PLAN && desc[1] == 2;
}

int cudnnBackendDestroyDescriptor(int *desc)
{
    n_open--;
    free(desc);
    return 0;
}

int cudnnBackendExecute(void *handle, int *plan, int *pack)
{
    n_runs++;
    return handle != &version || plan[0] != CUDNN_PLAN || !pack ? 1 : plan[1] == 3 ? 7 : 0;
}

static void open_device(md_dev_cuda *dev)
{
    *dev = (md_dev_cuda){.owner = 1};
    assert_int_equal(pthread_mutex_init(&dev->blas_lock, NULL), 0);
}

static void close_device(md_dev_cuda *dev)
{
    if (dev->stop_dnn)
        dev->stop_dnn(dev->dnn);
    assert_int_equal(n_open, 0);
    assert_int_equal(n_handles, 0);
    pthread_mutex_destroy(&dev->blas_lock);
}

/* A library that answers, and a convolution for it. */
static void open_answering(md_dev_cuda *dev, md_dev_cuda_conv *conv)
{
    library = "";
    version = 92600;
    n_runs = n_plans = 0;
    *conv = (md_dev_cuda_conv){.n_axes = 4, .dtype = MD_BF16};
    open_device(dev);
}

static md_status run(md_dev_cuda *dev, const md_dev_cuda_conv *conv)
{
    void *const data[MD_DEV_CUDA_CONV_TENSORS] = {NULL};
    return md_dev_cuda_conv_run(&dev->base, NULL, conv, data, NULL, 4096);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_libraries), cmocka_unit_test(test_answers),
                                       cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
