/* What errors of the CUDA runtime mean, and the scope in which the device is current. */
#include "device/cuda/internal.h"

#include "base/status.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* The status of an error. Errors that are not in the list are DEVICE and recoverable. */
typedef struct meaning {
    cudaError_t error;
    md_status status;
    bool is_lost; /* every later call of the runtime fails, too */
} meaning;

static const meaning meanings[] = {
    {cudaErrorMemoryAllocation, MD_OUT_OF_MEMORY, false},
    {cudaErrorInvalidResourceHandle, MD_INVALID_ARGUMENT, false},
    {cudaErrorInvalidConfiguration, MD_UNSUPPORTED, false},
    {cudaErrorLaunchOutOfResources, MD_UNSUPPORTED, false},
    {cudaErrorCooperativeLaunchTooLarge, MD_UNSUPPORTED, false},
    {cudaErrorInvalidClusterSize, MD_UNSUPPORTED, false},
    {cudaErrorNotSupported, MD_UNSUPPORTED, false},
    {cudaErrorIllegalAddress, MD_DEVICE, true},
    {cudaErrorLaunchTimeout, MD_DEVICE, true},
    {cudaErrorAssert, MD_DEVICE, true},
    {cudaErrorHardwareStackError, MD_DEVICE, true},
    {cudaErrorIllegalInstruction, MD_DEVICE, true},
    {cudaErrorMisalignedAddress, MD_DEVICE, true},
    {cudaErrorInvalidAddressSpace, MD_DEVICE, true},
    {cudaErrorInvalidPc, MD_DEVICE, true},
    {cudaErrorLaunchFailure, MD_DEVICE, true},
    {cudaErrorECCUncorrectable, MD_DEVICE, true},
    {cudaErrorNvlinkUncorrectable, MD_DEVICE, true},
    {cudaErrorMpsClientTerminated, MD_DEVICE, true},
    {cudaErrorExternalDevice, MD_DEVICE, true},
    {cudaErrorContextIsDestroyed, MD_DEVICE, true},
    {cudaErrorUnknown, MD_DEVICE, true},
};

static const meaning *find_meaning(cudaError_t error)
{
    static const meaning other = {cudaErrorUnknown, MD_DEVICE, false};
    for (int32_t i = 0; i < MD_COUNT(meanings); i++)
        if (meanings[i].error == error)
            return &meanings[i];
    return &other;
}

static md_status fail_forked(const md_dev_cuda *dev)
{
    return md_fail(
        MD_DEVICE,
        "this process is a fork of the one that opened cuda:%d; a GPU does not follow a fork: make a context here",
        (int)dev->base.facts.index);
}

md_status md_dev_cuda_result(md_dev_cuda *dev, cudaError_t error, const char *format, ...)
{
    if (error == cudaSuccess)
        return MD_OK;
    (void)cudaGetLastError(); /* clears the runtime's error, which the application's next call would report */
    if (dev->owner != getpid())
        return fail_forked(dev);
    const meaning *m = find_meaning(error);
    if (m->is_lost)
        atomic_store_explicit(&dev->lost, (int32_t)error, memory_order_relaxed);
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return md_fail(m->status, "cuda:%d: %s: %s (%s)%s", (int)dev->base.facts.index, what, cudaGetErrorString(error),
                   cudaGetErrorName(error), m->is_lost ? "; the device is lost to this process" : "");
}

static md_status check_alive(const md_dev_cuda *dev)
{
    int32_t lost = atomic_load_explicit(&dev->lost, memory_order_relaxed);
    if (dev->owner != getpid())
        return fail_forked(dev);
    if (lost)
        return md_fail(MD_DEVICE, "cuda:%d is lost to this process since an earlier error: %s",
                       (int)dev->base.facts.index, cudaGetErrorString((cudaError_t)lost));
    return MD_OK;
}

md_status md_dev_cuda_enter(md_dev_cuda_scope *out, md_dev_cuda *dev)
{
    MD_TRY(check_alive(dev));
    md_dev_cuda_scope scope = {-1, cudaStreamCaptureModeRelaxed};
    int current = -1;
    MD_CUDA_TRY(dev, cudaGetDevice(&current), "asking for the current device");
    if (current != dev->base.facts.index) {
        MD_CUDA_TRY(dev, cudaSetDevice(dev->base.facts.index), "making the device current");
        scope.previous = current;
    }
    (void)cudaThreadExchangeStreamCaptureMode(&scope.mode);
    *out = scope;
    return MD_OK;
}

void md_dev_cuda_leave(const md_dev_cuda_scope *scope)
{
    enum cudaStreamCaptureMode mode = scope->mode;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (scope->previous >= 0)
        (void)cudaSetDevice(scope->previous);
}
