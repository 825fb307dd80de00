/* Opens and closes the cuda device. */
#include "device/cuda/internal.h"

#include "base/env.h"
#include "base/status.h"
#include "base/task/jobs.h"
#include "base/task/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void destroy(md_dev *base)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    md_dev_cuda_unload(base, dev->copier);
    md_dev_cuda_unload(base, dev->gate);
    /* If the device is lost or belongs to the parent process, its resources are freed when the process ends. */
    if (md_dev_cuda_enter(&scope, dev) == MD_OK) {
        (void)md_dev_cuda_result(dev, cudaDeviceSynchronize(), "waiting for the device");
        if (dev->stop_blas)
            dev->stop_blas(atomic_load_explicit(&dev->blas, memory_order_relaxed));
        if (dev->stop_dnn)
            dev->stop_dnn(atomic_load_explicit(&dev->dnn, memory_order_relaxed));
        md_dev_cuda_free_arenas(dev);
        md_dev_cuda_free_tables(dev);
        md_dev_cuda_free_reports(dev);
        if (dev->begin)
            (void)cudaEventDestroy(dev->begin);
        if (dev->end)
            (void)cudaEventDestroy(dev->end);
        if (dev->gate_flag)
            (void)cudaFreeHost(dev->gate_flag);
        if (base->tuning)
            (void)cudaStreamDestroy((cudaStream_t)base->tuning);
        if (dev->inner)
            (void)cudaStreamDestroy(dev->inner);
        if (dev->capturing)
            (void)cudaStreamDestroy(dev->capturing);
        (void)cudaGetLastError();
        md_dev_cuda_leave(&scope);
    }
    pthread_mutex_destroy(&dev->lock);
    pthread_mutex_destroy(&dev->clock_lock);
    pthread_mutex_destroy(&dev->graph_lock);
    pthread_mutex_destroy(&dev->blas_lock);
    pthread_mutex_destroy(&dev->nvml_lock);
    free(dev->nvml);
    free(dev);
}

#define CUDA_OPS                                                                                                       \
    .name = "cuda", .destroy = destroy, .alloc = md_dev_cuda_alloc, .free = md_dev_cuda_free,                          \
    .copy = md_dev_cuda_copy, .sync = md_dev_cuda_sync, .compile = md_dev_cuda_compile, .load = md_dev_cuda_load,      \
    .unload = md_dev_cuda_unload, .launch = md_dev_cuda_launch, .map_make = md_dev_cuda_map_make,                      \
    .map_move = md_dev_cuda_map_move, .workspace = md_dev_cuda_workspace, .counters = md_dev_cuda_counters,            \
    .copy_background = md_dev_cuda_copy_background, .copy_tensor = md_dev_cuda_copy_tensor,                            \
    .report_create = md_dev_cuda_report_create, .report_clear = md_dev_cuda_report_clear, .time = md_dev_cuda_time,    \
    .mark_create = md_dev_cuda_mark_create, .mark_destroy = md_dev_cuda_mark_destroy,                                  \
    .mark_put = md_dev_cuda_mark_put, .mark_time = md_dev_cuda_mark_time, .is_idle = md_dev_cuda_is_idle,              \
    .clock_rate = md_dev_cuda_clock_rate, .free_bytes = md_dev_cuda_free_bytes,                                        \
    .check_pointer = md_dev_cuda_check_pointer, .check_stream = md_dev_cuda_check_stream,                              \
    .is_capturing = md_dev_cuda_is_capturing, .graph_kernels = md_dev_cuda_graph_kernels,                              \
    .kernel_handle = md_dev_cuda_handle, .mark_wait = md_dev_cuda_mark_wait, .graph_make = md_dev_cuda_graph_make,     \
    .graph_facts = md_dev_cuda_graph_facts, .graph_change = md_dev_cuda_graph_change,                                  \
    .graph_launch = md_dev_cuda_graph_launch, .graph_destroy = md_dev_cuda_graph_destroy,                              \
    .table_make = md_dev_cuda_table_make, .table_free = md_dev_cuda_table_free

static const md_dev_ops cuda_ops = {CUDA_OPS};

/* Naming a warm call costs four NVTX calls, so it is done only under a tool. Tools set this variable. */
#define TOOL "NVTX_INJECTION64_PATH"
#if MD_HAVE_NVTX
static const md_dev_ops cuda_ops_named = {CUDA_OPS, .range_push = md_dev_cuda_range_push,
                                          .range_pop = md_dev_cuda_range_pop};
#else
#define cuda_ops_named cuda_ops
#endif

bool md_dev_cuda_is(const md_dev *dev)
{
    return dev->ops == &cuda_ops || dev->ops == &cuda_ops_named;
}

/* ---- Which device */

static md_status count_devices(int *n)
{
    int driver = 0, runtime = 0;
    (void)cudaRuntimeGetVersion(&runtime);
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        (void)cudaGetLastError();
        return md_fail(MD_UNSUPPORTED, "no NVIDIA driver (libcuda.so.1) is installed here");
    }
    cudaError_t error = cudaGetDeviceCount(n);
    if (error == cudaSuccess && *n > 0)
        return MD_OK;
    (void)cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
        return md_fail(
            MD_UNSUPPORTED,
            "the NVIDIA driver is too old: it is for CUDA %d.%d, and this build has the runtime of CUDA %d.%d",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (error == cudaSuccess || error == cudaErrorNoDevice)
        return md_fail(MD_UNSUPPORTED, "the NVIDIA driver shows no GPU (CUDA_VISIBLE_DEVICES hides them, too)");
    return md_fail(MD_DEVICE, "CUDA does not start: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
}

static int32_t capability_of(int index)
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) != cudaSuccess)
        (void)cudaGetLastError();
    return major * 10 + minor;
}

/* The requested device, else the current one, else the first that is supported. */
static md_status choose_device(int32_t *index)
{
    enum { LEAST = 80 };
    int n = 0, current = 0;
    MD_TRY(count_devices(&n));
    if (*index >= n)
        return md_fail(MD_INVALID_ARGUMENT, "there is no cuda:%d: %d GPU%s, counted from 0", (int)*index, n,
                       n > 1 ? "s are shown" : " is shown");
    if (*index < 0) {
        if (cudaGetDevice(&current) != cudaSuccess)
            (void)cudaGetLastError();
        *index = current;
        for (int i = 0; i < n && capability_of(*index) < LEAST; i++)
            *index = i;
    }
    int32_t capability = capability_of(*index);
    if (capability < LEAST)
        return md_fail(MD_UNSUPPORTED, "cuda:%d has compute capability %d.%d; 8.0 is needed", (int)*index,
                       capability / 10, capability % 10);
    return MD_OK;
}

/* ---- Its compiler. Without one the device runs only functions of libraries. */

static md_status find_compiler(md_dev_cuda *dev)
{
    md_dev_facts *f = &dev->base.facts;
    MD_TRY(md_dev_nvrtc_open(&dev->nvrtc));
    f->nvrtc = dev->nvrtc.version;
    if (f->nvrtc / 1000 > f->driver / 1000)
        return md_fail(MD_UNSUPPORTED, "NVRTC %d.%d makes kernels that this driver, for CUDA %d.%d, does not load",
                       f->nvrtc / 1000, f->nvrtc % 1000 / 10, f->driver / 1000, f->driver % 1000 / 10);
    MD_TRY(md_dev_nvrtc_arch(f->arch, &dev->nvrtc, f->capability));
    snprintf(f->compiler, sizeof f->compiler, "nvrtc %d.%d", f->nvrtc / 1000, f->nvrtc % 1000 / 10);
    snprintf(f->flags, sizeof f->flags, "--gpu-architecture=%s %s", f->arch, md_dev_nvrtc_flags());
    f->can_compile = true;
    return MD_OK;
}

static void set_compiler(md_dev_cuda *dev)
{
    if (find_compiler(dev) == MD_OK)
        return;
    snprintf(dev->no_nvrtc, sizeof dev->no_nvrtc, "%.*s", (int)sizeof dev->no_nvrtc - 1, md_last_error());
    md_log_once(dev->base.log, MD_LOG_NO_COMPILER, MD_LOG_WARN,
                "no kernel can be compiled for the GPU: %s; until that is mended, the slow reference evaluator serves",
                dev->no_nvrtc);
}

/* ---- The device */

static md_status make_streams(md_dev_cuda *dev)
{
    cudaStream_t tuning = NULL;
    int least = 0, greatest = 0;
    MD_CUDA_TRY(dev, cudaStreamCreateWithFlags(&dev->inner, cudaStreamNonBlocking), "making a stream");
    MD_CUDA_TRY(dev, cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the priorities of streams");
    /* lowest priority: work of callers goes first */
    MD_CUDA_TRY(dev, cudaStreamCreateWithPriority(&tuning, cudaStreamNonBlocking, least), "making a stream");
    dev->base.tuning = tuning;
    return MD_OK;
}

static md_status start_device(md_dev_cuda *dev)
{
    md_dev_cuda_scope scope;
    int has_pools = 0;
    /* makes the primary context if the process has none yet */
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    cudaError_t error = cudaFree(NULL);
    if (cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, dev->base.facts.index) != cudaSuccess)
        (void)cudaGetLastError();
    dev->has_pools = has_pools != 0;
    md_status status = md_dev_cuda_result(dev, error, "starting the device");
    if (status == MD_OK)
        status = make_streams(dev);
    md_dev_cuda_leave(&scope);
    return status;
}

static md_status open_device(md_dev **out, const md_dev_options *options, int32_t index)
{
    int n_devices = 0;
    MD_TRY(count_devices(&n_devices));
    MD_TRY(choose_device(&index));
    md_dev_cuda *dev = calloc(1, sizeof *dev);
    if (!dev)
        return md_fail_memory();
    if (options->pool && options->while_opening)
        md_jobs_submit(md_pool_jobs(options->pool), options->while_opening, NULL);
    dev->base.ops = md_env_foreign(options->environment, TOOL) ? &cuda_ops_named : &cuda_ops;
    dev->base.pool = options->pool;
    dev->base.log = options->log;
    dev->owner = getpid();
    dev->is_only = n_devices == 1 && !options->launches_by_runtime;
    dev->launcher = dev->is_only ? md_dev_cuda_driver_function("cuLaunchKernelEx") : NULL;
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->clock_lock, NULL);
    pthread_mutex_init(&dev->graph_lock, NULL);
    pthread_mutex_init(&dev->blas_lock, NULL);
    pthread_mutex_init(&dev->nvml_lock, NULL);
    md_status status = md_dev_cuda_facts(&dev->base.facts, index);
    if (status == MD_OK)
        status = start_device(dev);
    if (status != MD_OK) {
        destroy(&dev->base);
        return status;
    }
    md_jobs_rest_at_exit();
    if (options->is_bundled)
        snprintf(dev->no_nvrtc, sizeof dev->no_nvrtc, "kernels come from bundles");
    else
        set_compiler(dev);
    const md_dev_facts *f = &dev->base.facts;
    md_log_at(options->log, MD_LOG_INFO, "cuda:%d: %s, %d SMs, capability %d.%d, %s, %.0f GB/s memory, %.0f GFLOP/s",
              (int)f->index, f->name, (int)f->threads, f->capability / 10, f->capability % 10,
              f->can_compile ? f->compiler : "no compiler", f->memory_gbps, f->gflops);
    *out = &dev->base;
    return MD_OK;
}

/* The driver starts threads that live as long as the process: at the first call of all, and when it makes the device's
 * primary context. They inherit this thread's mask. */
md_status md_dev_cuda_open(md_dev **out, const md_dev_options *options, int32_t index)
{
    sigset_t before;
    md_thread_block(&before);
    const md_status status = open_device(out, options, index);
    md_thread_unblock(&before);
    return status;
}
