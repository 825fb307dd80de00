/* Workspaces and counters of streams. */
#include "device/cuda/internal.h"

#include "base/status.h"
#include "device/temporary.h"

#include <stdlib.h>

/* Each stream has an arena, because work on a stream is ordered. Each capture has its own, because its graph may run
 * later on any stream. An arena that is too small is freed in the order of the stream. A new stream may have the handle
 * of a destroyed one and inherits its arena, which is right unless work of the old stream is unfinished. */
enum { LEAST_BYTES = 1 << 20 };

struct md_dev_cuda_arena {
    md_dev_cuda_arena *next;
    cudaStream_t stream;
    unsigned long long thread; /* owner of the per-thread default stream; 0 for other streams */
    unsigned long long capture; /* id of the capture; 0: none */
    void *p;
    size_t n_bytes;
    void *counters; /* MD_KN_COUNTER_BYTES; made when first asked for */
};

static uint32_t bucket_of(cudaStream_t stream)
{
    return (uint32_t)(((uintptr_t)stream * 0x9e3779b97f4a7c15u) >> 40) % MD_DEV_CUDA_BUCKETS;
}

static cudaError_t capture_of(unsigned long long *id, cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaStreamIsCapturing(stream, &status);
    *id = 0;
    if (error != cudaSuccess || status == cudaStreamCaptureStatusNone)
        return error;
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, &status, id, NULL, NULL, NULL, NULL);
#else
    return cudaStreamGetCaptureInfo_v2(stream, &status, id, NULL, NULL, NULL);
#endif
}

bool md_dev_cuda_is_capturing(md_dev *dev, md_stream stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    (void)dev;
    if (cudaStreamIsCapturing((cudaStream_t)stream, &status) != cudaSuccess) {
        (void)cudaGetLastError(); /* the legacy default stream, while a stream that waits for it is captured */
        return true;
    }
    return status != cudaStreamCaptureStatusNone;
}

/* The id of a per-thread default stream: one handle stands for the streams of all threads. */
static cudaError_t thread_of(unsigned long long *id, cudaStream_t stream)
{
    *id = 0;
    return stream == cudaStreamPerThread ? cudaStreamGetId(stream, id) : cudaSuccess;
}

static md_dev_cuda_arena *find(md_dev_cuda *dev, cudaStream_t stream, unsigned long long thread,
                               unsigned long long capture)
{
    md_dev_cuda_arena **head = &dev->arena[bucket_of(stream)];
    for (md_dev_cuda_arena *a = *head; a; a = a->next)
        if (a->stream == stream && a->thread == thread && a->capture == capture)
            return a;
    md_dev_cuda_arena *a = calloc(1, sizeof *a);
    if (a) {
        *a = (md_dev_cuda_arena){.next = *head, .stream = stream, .thread = thread, .capture = capture};
        *head = a;
    }
    return a;
}

static md_status allocate(void **out, md_dev_cuda *dev, cudaStream_t stream, bool is_captured, size_t n_bytes)
{
    cudaError_t error =
        is_captured || !dev->has_pools ? cudaMalloc(out, n_bytes) : cudaMallocAsync(out, n_bytes, stream);
    if (error == cudaErrorMemoryAllocation)
        return md_dev_cuda_fail_short(dev, n_bytes);
    return md_dev_cuda_result(dev, error, "allocating a workspace of %zu bytes", n_bytes);
}

/* Work that is captured may run later on any stream, and background work may outlive what owns the caller's memory. */
static bool is_callers(const md_dev_cuda *dev, const md_dev_cuda_arena *a)
{
    return dev->base.memory.alloc && !a->capture && (md_stream)a->stream != dev->base.tuning;
}

static md_status take(void **out, md_dev_cuda *dev, const md_dev_cuda_arena *a, size_t n_bytes)
{
    if (is_callers(dev, a))
        return md_dev_take_temporary(out, &dev->base, (md_stream)a->stream, n_bytes);
    return allocate(out, dev, a->stream, a->capture != 0, n_bytes);
}

/* Frees memory of an arena in the order of its stream. */
static md_status give(md_dev_cuda *dev, const md_dev_cuda_arena *a)
{
    if (is_callers(dev, a)) {
        md_dev_give_temporary(&dev->base, (md_stream)a->stream, a->p, a->n_bytes);
        return MD_OK;
    }
    if (!dev->has_pools)
        MD_CUDA_TRY(dev, cudaStreamSynchronize(a->stream), "waiting for a workspace");
    MD_CUDA_TRY(dev, dev->has_pools ? cudaFreeAsync(a->p, a->stream) : cudaFree(a->p), "freeing a workspace");
    return MD_OK;
}

static size_t round_size(size_t n_bytes)
{
    size_t size = LEAST_BYTES;
    while (size < n_bytes && size < SIZE_MAX / 4)
        size += size / 2 / 256 * 256;
    return MD_MAX(size, n_bytes);
}

/* Makes an arena larger. Old memory of a capture is kept until the device is closed, because the graph uses it. */
static md_status grow(md_dev_cuda *dev, md_dev_cuda_arena *a, size_t n_bytes)
{
    void *p = NULL;
    size_t size = round_size(n_bytes);
    if (a->capture && a->p) {
        md_dev_cuda_arena *old = malloc(sizeof *old);
        if (!old)
            return md_fail_memory();
        *old = (md_dev_cuda_arena){.next = a->next,
                                   .stream = a->stream,
                                   .thread = a->thread,
                                   .capture = ~0ull,
                                   .p = a->p,
                                   .n_bytes = a->n_bytes};
        a->next = old;
        a->p = NULL;
        a->n_bytes = 0;
    } else if (a->p) {
        MD_TRY(give(dev, a));
        a->p = NULL;
        a->n_bytes = 0;
    }
    if (take(&p, dev, a, size) != MD_OK) {
        size = n_bytes; /* without spare room */
        MD_TRY(take(&p, dev, a, size));
    }
    a->p = p;
    a->n_bytes = size;
    return MD_OK;
}

/* Makes counters that are zero before the first kernel of the stream uses them; in a capture, before its graph runs. */
static md_status make_counters(md_dev_cuda *dev, md_dev_cuda_arena *a)
{
    void *p = NULL;
    MD_TRY(allocate(&p, dev, a->stream, a->capture != 0, MD_KN_COUNTER_BYTES));
    cudaStream_t stream = a->capture ? dev->inner : a->stream;
    cudaError_t error = cudaMemsetAsync(p, 0, MD_KN_COUNTER_BYTES, stream);
    if (error == cudaSuccess && a->capture)
        error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
        (void)cudaFree(p);
        return md_dev_cuda_result(dev, error, "clearing counters");
    }
    a->counters = p;
    return MD_OK;
}

static md_status make_memory(void **out, md_dev_cuda *dev, md_dev_cuda_arena *a, size_t n_bytes, bool is_counters)
{
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    md_status status = is_counters ? make_counters(dev, a) : grow(dev, a, n_bytes);
    md_dev_cuda_leave(&scope);
    if (status == MD_OK)
        *out = is_counters ? a->counters : a->p;
    return status;
}

static md_status get(void **out, md_dev_cuda *dev, cudaStream_t stream, size_t n_bytes, bool is_counters)
{
    unsigned long long capture = 0, thread = 0;
    MD_CUDA_TRY(dev, capture_of(&capture, stream), "asking whether a stream is captured");
    MD_CUDA_TRY(dev, thread_of(&thread, stream), "asking which stream it is");
    md_status status = MD_OK;
    pthread_mutex_lock(&dev->lock);
    md_dev_cuda_arena *a = find(dev, stream, thread, capture);
    if (!a)
        status = md_fail_memory();
    else if (is_counters ? a->counters != NULL : a->p && a->n_bytes >= n_bytes)
        *out = is_counters ? a->counters : a->p;
    else
        status = make_memory(out, dev, a, n_bytes, is_counters);
    pthread_mutex_unlock(&dev->lock);
    return status;
}

md_status md_dev_cuda_workspace(void **out, md_dev *dev, md_stream stream, size_t n_bytes)
{
    return get(out, (md_dev_cuda *)dev, (cudaStream_t)stream, n_bytes, false);
}

md_status md_dev_cuda_counters(void **out, md_dev *dev, md_stream stream)
{
    return get(out, (md_dev_cuda *)dev, (cudaStream_t)stream, 0, true);
}

void md_dev_cuda_free_arenas(md_dev_cuda *dev)
{
    for (int32_t i = 0; i < MD_DEV_CUDA_BUCKETS; i++) {
        while (dev->arena[i]) {
            md_dev_cuda_arena *a = dev->arena[i];
            dev->arena[i] = a->next;
            if (a->p && is_callers(dev, a))
                md_dev_give_temporary(&dev->base, (md_stream)a->stream, a->p, a->n_bytes);
            else if (a->p)
                (void)md_dev_cuda_result(dev, cudaFree(a->p), "freeing a workspace");
            if (a->counters)
                (void)md_dev_cuda_result(dev, cudaFree(a->counters), "freeing counters");
            free(a);
        }
    }
}
