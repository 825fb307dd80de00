/* Measures GPU time. */
#include "device/cuda/internal.h"

#include "base/status.h"

/* A gate kernel holds the stream until the whole body is enqueued. Otherwise the time would include gaps in which the
 * GPU waits for the host. If the body waits for the stream, or fills its queue, the gate opens after this limit. */
enum { GATE_LIMIT_NS = 2000000 };

static md_status prepare(md_dev_cuda *dev)
{
    if (!dev->begin)
        MD_CUDA_TRY(dev, cudaEventCreate(&dev->begin), "making an event");
    if (!dev->end)
        MD_CUDA_TRY(dev, cudaEventCreate(&dev->end), "making an event");
    if (!dev->gate_flag) {
        void *p = NULL;
        MD_CUDA_TRY(dev, cudaHostAlloc(&p, sizeof(int32_t), cudaHostAllocMapped | cudaHostAllocPortable),
                    "pinning memory for a gate");
        dev->gate_flag = p;
    }
    if (!dev->gate && (dev->base.facts.can_compile || dev->base.find_binary))
        return md_dev_cuda_make(&dev->gate, dev, "gate");
    return MD_OK;
}

static md_status close_gate(md_dev_cuda *dev, cudaStream_t stream)
{
    void *mapped = NULL;
    __atomic_store_n(dev->gate_flag, 0, __ATOMIC_SEQ_CST);
    if (!dev->gate)
        return MD_OK;
    MD_CUDA_TRY(dev, cudaHostGetDevicePointer(&mapped, dev->gate_flag, 0), "mapping memory for a gate");
    md_kn_word word[2] = {{.p = mapped}, {.i = GATE_LIMIT_NS}};
    md_kn_geometry g = {.blocks = 1, .grain = 1, .grid = {1, 1, 1}, .block = {32, 1, 1}};
    MD_CUDA_TRY(dev, md_dev_cuda_start(stream, (const md_dev_cuda_kernel *)dev->gate, &g, word), "closing a gate");
    return MD_OK;
}

static md_status measure(float *ms, md_dev_cuda *dev, cudaStream_t stream, md_status (*body)(void *user), void *user)
{
    MD_TRY(close_gate(dev, stream));
    cudaError_t error = cudaEventRecord(dev->begin, stream);
    md_status status = error == cudaSuccess && body ? body(user) : MD_OK;
    if (error == cudaSuccess)
        error = cudaEventRecord(dev->end, stream);
    __atomic_store_n(dev->gate_flag, 1, __ATOMIC_SEQ_CST);
    cudaError_t waited = cudaStreamSynchronize(stream);
    if (status != MD_OK)
        return status;
    if (error == cudaSuccess)
        error = waited;
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(ms, dev->begin, dev->end);
    return md_dev_cuda_result(dev, error, "measuring time");
}

/* Measures the time between two events without work, about a microsecond. It is subtracted from all times. */
static md_status calibrate(md_dev_cuda *dev, cudaStream_t stream)
{
    enum { N_TRIES = 4 };
    for (int32_t i = 0; i < N_TRIES; i++) {
        float ms = 0.0f;
        MD_TRY(measure(&ms, dev, stream, NULL, NULL));
        if (i > 0) /* the first try is cold */
            dev->empty_ms = i == 1 ? ms : MD_MIN(dev->empty_ms, ms);
    }
    return MD_OK;
}

static md_status run(float *ms, md_dev_cuda *dev, cudaStream_t stream, md_status (*body)(void *user), void *user)
{
    MD_TRY(prepare(dev));
    if (dev->empty_ms <= 0.0f)
        MD_TRY(calibrate(dev, stream));
    MD_TRY(measure(ms, dev, stream, body, user));
    *ms = MD_MAX(*ms - dev->empty_ms, 0.0f);
    return MD_OK;
}

md_status md_dev_cuda_time(double *us, md_dev *base, md_stream stream, md_status (*body)(void *user), void *user)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    float ms = 0.0f;
    if (md_dev_cuda_is_capturing(base, stream))
        return md_fail(MD_UNSUPPORTED, "time cannot be measured while the stream is captured");
    pthread_mutex_lock(&dev->clock_lock);
    md_status status = md_dev_cuda_enter(&scope, dev);
    if (status == MD_OK) {
        status = run(&ms, dev, (cudaStream_t)stream, body, user);
        md_dev_cuda_leave(&scope);
    }
    pthread_mutex_unlock(&dev->clock_lock);
    if (status == MD_OK)
        *us = (double)ms * 1e3;
    return status;
}

/* ---- Marks: events whose times are read later */

md_status md_dev_cuda_mark_create(md_dev_mark **out, md_dev *base)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    cudaEvent_t event = NULL;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaEventCreate(&event);
    md_dev_cuda_leave(&scope);
    MD_CUDA_TRY(dev, error, "making an event");
    *out = (md_dev_mark *)event;
    return MD_OK;
}

void md_dev_cuda_mark_destroy(md_dev *base, md_dev_mark *mark)
{
    md_dev_cuda_scope scope;
    if (!mark || md_dev_cuda_enter(&scope, (md_dev_cuda *)base) != MD_OK)
        return;
    (void)cudaEventDestroy((cudaEvent_t)mark);
    md_dev_cuda_leave(&scope);
}

md_status md_dev_cuda_mark_put(md_dev *base, md_dev_mark *mark, md_stream stream)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaEventRecord((cudaEvent_t)mark, (cudaStream_t)stream);
    md_dev_cuda_leave(&scope);
    return md_dev_cuda_result(dev, error, "marking a point of time");
}

md_status md_dev_cuda_mark_wait(md_dev *base, md_dev_mark *mark, md_stream stream)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    const cudaError_t error = cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)mark, 0);
    md_dev_cuda_leave(&scope);
    return md_dev_cuda_result(dev, error, "waiting for a point of time");
}

md_status md_dev_cuda_mark_time(double *us, md_dev *base, md_dev_mark *from, md_dev_mark *to)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    float ms = 0.0f;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaEventQuery((cudaEvent_t)to);
    const bool is_early = error == cudaErrorNotReady;
    if (is_early)
        (void)cudaGetLastError();
    else if (error == cudaSuccess)
        error = cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to);
    md_dev_cuda_leave(&scope);
    if (is_early) {
        *us = -1.0;
        return MD_OK;
    }
    MD_TRY(md_dev_cuda_result(dev, error, "asking for a time"));
    *us = (double)ms * 1e3;
    return MD_OK;
}

bool md_dev_cuda_is_idle(md_dev *base, md_stream stream)
{
    md_dev_cuda_scope scope;
    if (md_dev_cuda_enter(&scope, (md_dev_cuda *)base) != MD_OK)
        return false;
    const cudaError_t error = cudaStreamQuery((cudaStream_t)stream);
    if (error != cudaSuccess)
        (void)cudaGetLastError();
    md_dev_cuda_leave(&scope);
    return error == cudaSuccess;
}
