/* Memory of the GPU, copies, waiting, and checks of pointers and streams. */
#include "device/cuda/internal.h"

#include "base/status.h"

md_status md_dev_cuda_fail_short(md_dev_cuda *dev, size_t n_bytes)
{
    size_t n_free = 0, n_all = 0;
    (void)cudaGetLastError(); /* the context stays usable */
    if (cudaMemGetInfo(&n_free, &n_all) != cudaSuccess)
        (void)cudaGetLastError();
    return md_fail(MD_OUT_OF_MEMORY, "out of memory on cuda:%d: %zu bytes were asked for, %zu of %zu are free",
                   (int)dev->base.facts.index, n_bytes, n_free, n_all);
}

md_status md_dev_cuda_alloc(void **out, md_dev *base, size_t n_bytes)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    void *p = NULL;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaMalloc(&p, n_bytes ? n_bytes : 1);
    md_status status = error == cudaErrorMemoryAllocation
                           ? md_dev_cuda_fail_short(dev, n_bytes)
                           : md_dev_cuda_result(dev, error, "allocating %zu bytes", n_bytes);
    md_dev_cuda_leave(&scope);
    if (status == MD_OK)
        *out = p;
    return status;
}

int64_t md_dev_cuda_free_bytes(md_dev *base)
{
    md_dev_cuda_scope scope;
    size_t n_free = 0, n_all = 0;
    if (md_dev_cuda_enter(&scope, (md_dev_cuda *)base) != MD_OK)
        return -1;
    const cudaError_t error = cudaMemGetInfo(&n_free, &n_all);
    if (error != cudaSuccess)
        (void)cudaGetLastError();
    md_dev_cuda_leave(&scope);
    return error == cudaSuccess ? (int64_t)n_free : -1;
}

void md_dev_cuda_free(md_dev *base, void *p)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    if (!p || md_dev_cuda_enter(&scope, dev) != MD_OK)
        return;
    (void)md_dev_cuda_result(dev, cudaFree(p), "freeing memory");
    md_dev_cuda_leave(&scope);
}

/* Copies on the legacy default stream, as cudaMemcpy. A copy within the device is asynchronous, so wait for it. */
md_status md_dev_cuda_copy(md_dev *base, void *to, const void *from, size_t n_bytes)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    if (n_bytes == 0)
        return MD_OK;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaMemcpy(to, from, n_bytes, cudaMemcpyDefault);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(NULL);
    md_status status = md_dev_cuda_result(dev, error, "copying %zu bytes", n_bytes);
    md_dev_cuda_leave(&scope);
    return status;
}

md_status md_dev_cuda_copy_background(md_dev *base, md_stream stream, void *to, const void *from, size_t n_bytes)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    if (n_bytes == 0)
        return MD_OK;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, (cudaStream_t)stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize((cudaStream_t)stream);
    md_status status = md_dev_cuda_result(dev, error, "copying %zu bytes", n_bytes);
    md_dev_cuda_leave(&scope);
    return status;
}

md_status md_dev_cuda_sync(md_dev *base, md_stream stream)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    md_status status = md_dev_cuda_result(dev, cudaStreamSynchronize((cudaStream_t)stream), "waiting for a stream");
    md_dev_cuda_leave(&scope);
    return status;
}

md_status md_dev_cuda_check_pointer(md_dev *base, const void *p)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    struct cudaPointerAttributes about = {0};
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaPointerGetAttributes(&about, p);
    md_status status = MD_OK;
    if (error == cudaErrorInvalidValue) {
        (void)cudaGetLastError();
        about.type = cudaMemoryTypeUnregistered;
    } else {
        status = md_dev_cuda_result(dev, error, "asking about a pointer");
    }
    md_dev_cuda_leave(&scope);
    if (status != MD_OK)
        return status;
    if (about.type == cudaMemoryTypeUnregistered || (about.type == cudaMemoryTypeHost && about.devicePointer != p))
        return md_fail(MD_INVALID_ARGUMENT,
                       "%p is host memory, which cuda:%d cannot use: md_alloc gives memory that it can", p,
                       (int)base->facts.index);
    if (about.type == cudaMemoryTypeDevice && about.device != base->facts.index)
        return md_fail(MD_INVALID_ARGUMENT, "%p is memory of cuda:%d, and the context is on cuda:%d", p, about.device,
                       (int)base->facts.index);
    return MD_OK;
}

/* Kernels of libraries belong to no context: a launch on a stream of another device runs there without an error. A
 * stream whose device is unknown is accepted. */
md_status md_dev_cuda_check_stream(md_dev *base, md_stream stream)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    int index = -1;
    if (!stream || stream == (md_stream)cudaStreamLegacy || stream == (md_stream)cudaStreamPerThread)
        return MD_OK; /* it belongs to the current device, and a launch makes this one current */
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaStreamGetDevice((cudaStream_t)stream, &index);
    if (error != cudaSuccess)
        (void)cudaGetLastError();
    md_dev_cuda_leave(&scope);
    if (error == cudaSuccess && index != base->facts.index)
        return md_fail(MD_INVALID_ARGUMENT, "the stream is a stream of cuda:%d, and the context is on cuda:%d", index,
                       (int)base->facts.index);
    return MD_OK;
}
