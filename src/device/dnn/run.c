/* Runs a convolution by cuDNN, and loads what a run needs. */
#include "device/dnn/internal.h"

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "device/cuda/library.h"

#if MD_HAVE_CUDA

#include <string.h>

enum { MEMORY_ALIGNMENT = 256, MOST_MEMORY = 512 << 20 };

/* All ranks share their plans. */
static md_dev_cuda_conv key_of(const md_dev_cuda_conv *what)
{
    md_dev_cuda_conv key = *what;
    key.rank = 0;
    return key;
}

static md_dnn_answers **bucket_of(struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *key)
{
    return &dnn->plans[md_hash64(key, sizeof *key) % MD_DNN_BUCKETS];
}

/* The plans of a convolution; NULL if they were not made yet. */
static md_dnn_answers *find(struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *what)
{
    const md_dev_cuda_conv key = key_of(what);
    pthread_mutex_lock(&dnn->lock);
    md_dnn_answers *plans = *bucket_of(dnn, &key);
    while (plans && memcmp(&plans->what, &key, sizeof key) != 0)
        plans = plans->next;
    pthread_mutex_unlock(&dnn->lock);
    return plans;
}

/* The same, made if need be; NULL if memory is short or there are too many. The lock of making is held. */
static md_dnn_answers *find_or_make(struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *what, int64_t workspace_bytes)
{
    const md_dev_cuda_conv key = key_of(what);
    md_dnn_answers *plans = find(dnn, what);
    if (plans || dnn->n_plans == MD_DEV_CUDA_CONV_MOST || !(plans = md_dnn_ask(dnn, &key, workspace_bytes)))
        return plans;
    dnn->n_plans++;
    pthread_mutex_lock(&dnn->lock);
    md_dnn_answers **bucket = bucket_of(dnn, &key);
    plans->next = *bucket;
    *bucket = plans;
    pthread_mutex_unlock(&dnn->lock);
    return plans;
}

/* The plans for a run, which waits for others that are being made only if it has none itself. */
static md_dnn_answers *plans_for_run(struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *what, int64_t workspace_bytes)
{
    md_dnn_answers *plans = find(dnn, what);
    if (plans)
        return plans;
    const enum cudaStreamCaptureMode before = md_dev_library_set_mode(cudaStreamCaptureModeRelaxed);
    pthread_mutex_lock(&dnn->lock_of_making);
    plans = find_or_make(dnn, what, workspace_bytes);
    pthread_mutex_unlock(&dnn->lock_of_making);
    (void)md_dev_library_set_mode(before);
    return plans;
}

static md_status refuse(const md_dev_cuda_conv *what)
{
    return md_fail(MD_UNSUPPORTED, "cuDNN is missing, is not version 9, or has no convolution of %lld x %lld channels",
                   (long long)what->size[0][1], (long long)what->size[2][1]);
}

/* The number of the plan for a rank. */
static int32_t number_of(const md_dnn_answers *plans, int32_t rank)
{
    return MD_MIN(rank, plans->n - 1);
}

md_status md_dev_cuda_conv_run(md_dev *base, md_stream stream, const md_dev_cuda_conv *what,
                               void *const data[MD_DEV_CUDA_CONV_TENSORS], void *workspace, int64_t workspace_bytes)
{
    struct md_dev_cuda_dnn *dnn = md_dnn_start((md_dev_cuda *)base);
    if (!dnn)
        return refuse(what);
    const md_dnn_answers *plans = plans_for_run(dnn, what, workspace_bytes);
    if (!plans || plans->n == 0)
        return refuse(what);
    pthread_mutex_lock(&dnn->lock);
    const int error =
        md_dnn_execute(&dnn->f, dnn->handle, plans->plan[number_of(plans, what->rank)], stream, data, workspace);
    pthread_mutex_unlock(&dnn->lock);
    return error ? md_fail(MD_DEVICE, "cuDNN fails with status %d", error) : MD_OK;
}

/* ---- Loading */

static int64_t round_up(int64_t n)
{
    return (n + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

static int64_t bytes_of(const md_dev_cuda_conv *what, int32_t tensor)
{
    int64_t last = 1;
    for (int32_t i = 0; i < what->n_axes; i++)
        last += (what->size[tensor][i] - 1) * what->stride[tensor][i];
    return round_up(last * (int64_t)md_dtype_size((md_dtype)what->dtype));
}

/* Runs a plan once on memory of our own, so that its kernel is loaded. One that needs much memory is loaded by its
 * first call. */
static md_status run_once(md_dev_cuda *dev, const struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *what, void *plan,
                          int64_t workspace_bytes)
{
    cudaStream_t stream = (cudaStream_t)dev->base.tuning;
    int64_t at[MD_DEV_CUDA_CONV_TENSORS], all = round_up(workspace_bytes);
    void *memory = NULL, *data[MD_DEV_CUDA_CONV_TENSORS];
    for (int32_t i = 0; i < MD_DEV_CUDA_CONV_TENSORS; i++) {
        at[i] = all;
        all += bytes_of(what, i);
    }
    if (all > MOST_MEMORY)
        return MD_OK;
    cudaError_t error =
        dev->has_pools ? cudaMallocAsync(&memory, (size_t)all, stream) : cudaMalloc(&memory, (size_t)all);
    if (error != cudaSuccess)
        return md_dev_cuda_result(dev, error, "getting memory to load a kernel of cuDNN");
    for (int32_t i = 0; i < MD_DEV_CUDA_CONV_TENSORS; i++)
        data[i] = (char *)memory + at[i];
    const int failed = md_dnn_execute(&dnn->f, dnn->maker, plan, dev->base.tuning, data, memory);
    error = cudaStreamSynchronize(stream);
    (void)(dev->has_pools ? cudaFreeAsync(memory, stream) : cudaFree(memory));
    return failed ? md_fail(MD_UNSUPPORTED, "cuDNN fails with status %d", failed)
                  : md_dev_cuda_result(dev, error, "loading a kernel of cuDNN");
}

/* The lock of making is held. */
static md_status load(md_dev_cuda *dev, struct md_dev_cuda_dnn *dnn, const md_dev_cuda_conv *what,
                      int64_t workspace_bytes, bool may_load)
{
    md_dnn_answers *plans = may_load ? find_or_make(dnn, what, workspace_bytes) : find(dnn, what);
    if (!plans && may_load)
        return dnn->n_plans == MD_DEV_CUDA_CONV_MOST ? refuse(what) : md_fail_memory();
    if (!plans)
        return MD_NOT_FOUND;
    if (plans->n == 0)
        return refuse(what);
    const int32_t number = number_of(plans, what->rank);
    if (plans->is_loaded[number])
        return MD_OK;
    if (!may_load)
        return MD_NOT_FOUND;
    MD_TRY(run_once(dev, dnn, what, plans->plan[number], workspace_bytes));
    plans->is_loaded[number] = true;
    return MD_OK;
}

md_status md_dev_cuda_conv_load(md_dev *base, const md_dev_cuda_conv *what, int64_t workspace_bytes, bool may_load)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    if (!md_dev_cuda_is(base))
        return md_fail(MD_UNSUPPORTED, "the device only stands for a GPU");
    if (!may_load && !atomic_load_explicit(&dev->dnn, memory_order_acquire))
        return MD_NOT_FOUND;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    struct md_dev_cuda_dnn *dnn = md_dnn_start(dev);
    md_status status = MD_OK;
    if (dnn) {
        pthread_mutex_lock(&dnn->lock_of_making);
        status = load(dev, dnn, what, workspace_bytes, may_load);
        pthread_mutex_unlock(&dnn->lock_of_making);
    } else {
        status = refuse(what);
    }
    md_dev_cuda_leave(&scope);
    return status;
}

#else

md_status md_dev_cuda_conv_run(md_dev *dev, md_stream stream, const md_dev_cuda_conv *what,
                               void *const data[MD_DEV_CUDA_CONV_TENSORS], void *workspace, int64_t workspace_bytes)
{
    (void)dev, (void)stream, (void)what, (void)data, (void)workspace, (void)workspace_bytes;
    return md_fail(MD_UNSUPPORTED, "this build has no CUDA");
}

md_status md_dev_cuda_conv_load(md_dev *dev, const md_dev_cuda_conv *what, int64_t workspace_bytes, bool may_load)
{
    (void)dev, (void)what, (void)workspace_bytes, (void)may_load;
    return md_fail(MD_UNSUPPORTED, "this build has no CUDA");
}

#endif
