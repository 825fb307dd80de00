/* Facts of a GPU: what the runtime reports, and rates derived from it. */
#include "device/cuda/internal.h"

#include "base/hash.h"
#include "base/status.h"

#include <stdio.h>

/* A copy reaches this share of the theoretical rate (4170 of 4815 GB/s, measured on an H200); rates of one SM. */
static const double COPY_SHARE = 0.866, LANE_GBPS = 75.0, CACHE_GBPS = 45.0;
/* An empty kernel, as a node of a graph. */
static const double LAUNCH_US = 2.2;
/* Measured by tests/dispatch/bench_hybrid, beside a machine of the H200. */
static const double SLOW_CALL_US = 12.0;

static int attribute(enum cudaDeviceAttr which, int32_t index)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, index) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return value;
}

/* The copy rate. If the driver does not report clock or bus width, the rate of a typical board. */
static double memory_rate(int32_t index, int32_t capability)
{
    md_dev_facts typical;
    double khz = attribute(cudaDevAttrMemoryClockRate, index), bits = attribute(cudaDevAttrGlobalMemoryBusWidth, index);
    double gbps = 2.0 * khz * 1e3 * bits / 8.0 * 1e-9 * COPY_SHARE; /* two transfers a clock */
    if (gbps > 50.0)
        return gbps;
    return md_dev_cuda_assume(&typical, capability / 10 * 10) == MD_OK ? typical.memory_gbps : 500.0;
}

static void fill_rates(md_dev_facts *f, int32_t index)
{
    double khz = attribute(cudaDevAttrClockRate, index);
    double lanes = f->capability == 80 ? 64.0 : 128.0;
    f->memory_gbps = memory_rate(index, f->capability);
    f->lane_gbps = LANE_GBPS;
    f->cache_gbps = CACHE_GBPS;
    f->gflops = f->threads * lanes * 2.0 * (khz > 0.0 ? khz : 1.4e6) * 1e-6;
    f->launch_us = LAUNCH_US;
    f->slow_call_us = SLOW_CALL_US;
}

md_status md_dev_cuda_check_facts(const md_dev_facts *f)
{
    const struct {
        const char *what;
        double value, least, most;
    } row[] = {
        {"SMs", f->threads, 1, 1 << 16},
        {"bytes of shared memory a block", (double)f->shared_per_block, 1, 1 << 30},
        {"bytes of shared memory an SM", (double)f->shared_per_sm, (double)f->shared_per_block, 1 << 30},
        {"registers an SM", f->registers_per_sm, 1 << 10, 1 << 30},
        {"threads an SM", f->threads_per_sm, 32, 1 << 20},
        {"blocks an SM", f->blocks_per_sm, 1, 1 << 20},
        {"bytes of memory", (double)f->global_bytes, 1, 0x1p60},
        {"GB/s", f->memory_gbps, 1e-3, 1e9},
        {"GFLOP/s", f->gflops, 1e-3, 1e12},
    };
    for (int32_t i = 0; i < MD_COUNT(row); i++)
        if (!(row[i].value >= row[i].least && row[i].value <= row[i].most))
            return md_fail(MD_DEVICE, "cuda:%d says that it has %.17g %s, which is impossible", (int)f->index,
                           row[i].value, row[i].what);
    return MD_OK;
}

md_status md_dev_cuda_facts(md_dev_facts *out, int32_t index)
{
    md_dev_facts f = {.kind = MD_DEV_CUDA, .index = index, .vector_bytes = 16};
    struct cudaDeviceProp about;
    cudaError_t error = cudaGetDeviceProperties(&about, index);
    if (error != cudaSuccess)
        return md_fail(MD_DEVICE, "cuda:%d does not say what it is: %s", (int)index, cudaGetErrorString(error));
    snprintf(f.name, sizeof f.name, "%.63s", about.name);
    f.capability = about.major * 10 + about.minor;
    f.threads = about.multiProcessorCount;
    f.board = md_hash64(about.uuid.bytes, sizeof about.uuid.bytes);
    f.l1_bytes = (int64_t)about.sharedMemPerMultiprocessor;
    f.l2_bytes = about.l2CacheSize;
    f.shared_per_block = (int64_t)about.sharedMemPerBlockOptin;
    f.shared_per_sm = (int64_t)about.sharedMemPerMultiprocessor;
    f.registers_per_sm = about.regsPerMultiprocessor;
    f.threads_per_sm = about.maxThreadsPerMultiProcessor;
    f.blocks_per_sm = about.maxBlocksPerMultiProcessor;
    f.global_bytes = (int64_t)about.totalGlobalMem;
    (void)cudaDriverGetVersion(&f.driver);
    (void)cudaRuntimeGetVersion(&f.runtime);
    fill_rates(&f, index);
    MD_TRY(md_dev_cuda_check_facts(&f));
    *out = f;
    return MD_OK;
}
