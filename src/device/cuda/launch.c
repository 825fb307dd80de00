/* Launches kernels. */
#include "device/cuda/internal.h"

#include "base/status.h"

#include <string.h>

unsigned md_dev_cuda_attributes(cudaLaunchAttribute attribute[3], const md_dev_cuda_kernel *kernel,
                                const md_kn_geometry *g)
{
    unsigned n = 0;
    if (g->cluster > 1) {
        attribute[n].id = cudaLaunchAttributeClusterDimension;
        attribute[n].val.clusterDim.x = (unsigned)g->cluster;
        attribute[n].val.clusterDim.y = 1;
        attribute[n++].val.clusterDim.z = 1;
    }
    if (g->is_cooperative) {
        attribute[n].id = cudaLaunchAttributeCooperative;
        attribute[n++].val.cooperative = 1;
    }
    if (g->overlaps && kernel->waits) { /* prelude.h, md_wait_for_launches */
        attribute[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute[n++].val.programmaticStreamSerializationAllowed = 1;
    }
    return n;
}

_Static_assert(offsetof(cudaLaunchConfig_t, gridDim) == 0 && offsetof(cudaLaunchConfig_t, blockDim) == 12 &&
                   sizeof(dim3) == 12 && offsetof(md_kn_geometry, block) == offsetof(md_kn_geometry, grid) + 12,
               "grid and block lie alike");

__attribute__((hot)) cudaError_t md_dev_cuda_start(cudaStream_t stream, const md_dev_cuda_kernel *kernel,
                                                   const md_kn_geometry *g, const md_kn_word *params)
{
    cudaLaunchAttribute attribute[3];
    cudaLaunchConfig_t config;
    /* The kernel has one parameter: a struct of words. */
    void *args[1] = {(void *)(uintptr_t)params};
    memcpy(&config, (const char *)g + offsetof(md_kn_geometry, grid), 24);
    config.dynamicSmemBytes = (size_t)g->scratch_bytes;
    config.stream = stream;
    config.attrs = attribute;
    config.numAttrs =
        g->cluster > 1 || g->is_cooperative || g->overlaps ? md_dev_cuda_attributes(attribute, kernel, g) : 0;
    return cudaLaunchKernelExC(&config, (const void *)kernel->kernel, args);
}

/* cuLaunchKernelEx of the driver (CUDA 12.0) and its argument. Attributes have the runtime's layout. */
typedef struct driver_config {
    uint32_t grid[3], block[3], shared_bytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attribute;
    uint32_t n_attributes;
} driver_config;
typedef int (*driver_launch)(const driver_config *config, const void *kernel, void **params, void **extra);

/* Launches by the driver, as the runtime would in the end. False if nothing was launched, for example because the
 * thread has no context yet: then the runtime's launch does it, or reports the error. */
static inline __attribute__((always_inline)) bool start_by_driver(const md_dev_cuda *dev, cudaStream_t stream,
                                                                  const md_dev_cuda_kernel *kernel,
                                                                  const md_kn_geometry *g, const md_kn_word *params)
{
    cudaLaunchAttribute attribute[3];
    driver_config config;
    void *args[1] = {(void *)(uintptr_t)params};
    memcpy(&config, (const char *)g + offsetof(md_kn_geometry, grid), 24);
    config.shared_bytes = (uint32_t)g->scratch_bytes;
    config.stream = stream;
    config.attribute = attribute;
    config.n_attributes =
        g->cluster > 1 || g->is_cooperative || g->overlaps ? md_dev_cuda_attributes(attribute, kernel, g) : 0;
    return ((driver_launch)dev->launcher)(&config, (const void *)kernel->kernel, args, NULL) == 0;
}

static md_status fail_launch(md_dev_cuda *dev, cudaError_t error, const md_dev_cuda_kernel *k, const md_kn_geometry *g)
{
    if (error == cudaErrorInvalidResourceHandle) {
        (void)cudaGetLastError();
        return md_fail(MD_INVALID_ARGUMENT, "cuda:%d: the stream is no stream of this device",
                       (int)dev->base.facts.index);
    }
    if (error == cudaErrorInvalidValue)
        error = cudaErrorInvalidConfiguration; /* the geometry is out of range; other arguments are valid here */
    return md_dev_cuda_result(dev, error,
                              "launching kernel '%s', grid %d x %d x %d, block %d x %d x %d, cluster %d%s, %lld "
                              "bytes shared, %d registers",
                              k->facts.kernel, (int)g->grid[0], (int)g->grid[1], (int)g->grid[2], (int)g->block[0],
                              (int)g->block[1], (int)g->block[2], (int)g->cluster,
                              g->is_cooperative ? ", cooperative" : "",
                              (long long)(g->scratch_bytes + k->facts.shared_bytes), (int)k->facts.registers);
}

/* Host functions that call libraries get stream and device in the call. */
static md_status run_function(md_dev *dev, md_stream stream, const md_dev_cuda_kernel *k, const md_kn_call *call)
{
    md_kn_call own = *call;
    own.stream = stream;
    own.device = dev;
    return k->function(&own);
}

static md_status launch_kernel(md_dev_cuda *dev, md_stream stream, const md_dev_cuda_kernel *k,
                               const md_kn_geometry *geometry, md_dev_params params, const md_kn_call *call)
{
    md_kn_word own[MD_DEV_CUDA_MAP_PARAMS];
    if (params.n < k->least_words)
        return md_fail(MD_INTERNAL, "kernel '%s' takes %d bytes of parameters and got %d words", k->facts.kernel,
                       (int)k->facts.param_bytes, (int)params.n);
    if (k->n_maps > 0 && call) {
        MD_TRY(md_dev_cuda_fill_maps(own, k, params, call));
        params.word = own;
    }
    cudaError_t error = md_dev_cuda_start((cudaStream_t)stream, k, geometry, params.word);
    return error == cudaSuccess ? MD_OK : fail_launch(dev, error, k, geometry);
}

/* Launches with the device made current. */
static __attribute__((noinline)) md_status launch_there(md_dev_cuda *dev, md_stream stream, const md_dev_cuda_kernel *k,
                                                        const md_kn_geometry *geometry, md_dev_params params,
                                                        const md_kn_call *call)
{
    if (dev->lost) {
        md_dev_cuda_scope none;
        return md_dev_cuda_enter(&none, dev); /* fails with the reason */
    }
    int current = -1;
    bool is_elsewhere = !dev->is_only && cudaGetDevice(&current) == cudaSuccess && current != dev->base.facts.index;
    if (is_elsewhere)
        MD_CUDA_TRY(dev, cudaSetDevice(dev->base.facts.index), "making the device current");
    md_status status =
        k->function ? run_function(&dev->base, stream, k, call) : launch_kernel(dev, stream, k, geometry, params, call);
    if (is_elsewhere)
        (void)cudaSetDevice(current);
    return status;
}

/* True for the streams 0, cudaStreamLegacy and cudaStreamPerThread: they belong to the current device. Any other stream
 * belongs to its own device. */
static bool is_of_current(md_stream stream)
{
    return (uintptr_t)stream <= (uintptr_t)cudaStreamPerThread;
}

/* The launch of warm calls. Checks only what is cheap to check; the runtime reports everything else. */
__attribute__((hot)) md_status md_dev_cuda_launch(md_dev *base, md_stream stream, const md_dev_kernel *kernel,
                                                  const md_kn_geometry *geometry, md_dev_params params,
                                                  const md_kn_call *call)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    const md_dev_cuda_kernel *k = (const md_dev_cuda_kernel *)kernel;
    if (geometry->blocks <= 0)
        return MD_OK;
    if (k->function || call || params.n < k->least_words || dev->lost || (!dev->is_only && is_of_current(stream)))
        return launch_there(dev, stream, k, geometry, params, call);
    if (dev->launcher && start_by_driver(dev, (cudaStream_t)stream, k, geometry, params.word))
        return MD_OK;
    cudaError_t error = md_dev_cuda_start((cudaStream_t)stream, k, geometry, params.word);
    if (__builtin_expect(error == cudaSuccess, 1))
        return MD_OK;
    if (error != cudaErrorInvalidResourceHandle || dev->is_only)
        return fail_launch(dev, error, k, geometry);
    (void)cudaGetLastError(); /* this runtime requires that the stream's device is current */
    return launch_there(dev, stream, k, geometry, params, call);
}
