/* Facts of typical GPUs, for machines without one. */
#include "device/device.h"

#include "base/status.h"

#include <stdio.h>

/* Copy rates: H200 measured, others 85% of the published rates. */
static const md_dev_facts boards[] = {
    {
        .kind = MD_DEV_CUDA,
        .name = "NVIDIA A100 (assumed)",
        .arch = "sm_80",
        .capability = 80,
        .threads = 108,
        .vector_bytes = 16,
        .l1_bytes = 192 << 10,
        .l2_bytes = 40ll << 20,
        .memory_gbps = 1730,
        .lane_gbps = 50,
        .cache_gbps = 40,
        .gflops = 19500,
        .launch_us = 2.2,
        .shared_per_block = 163 << 10,
        .shared_per_sm = 164 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .global_bytes = 80ll << 30,
    },
    {
        .kind = MD_DEV_CUDA,
        .name = "NVIDIA H200 (assumed)",
        .arch = "sm_90a",
        .capability = 90,
        .threads = 132,
        .vector_bytes = 16,
        .l1_bytes = 256 << 10,
        .l2_bytes = 60ll << 20,
        .memory_gbps = 4170,
        .lane_gbps = 75,
        .cache_gbps = 45,
        .gflops = 66900,
        .launch_us = 2.2,
        .shared_per_block = 227 << 10,
        .shared_per_sm = 228 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .global_bytes = 141ll << 30,
    },
    {
        .kind = MD_DEV_CUDA,
        .name = "NVIDIA B200 (assumed)",
        .arch = "sm_100a",
        .capability = 100,
        .threads = 148,
        .vector_bytes = 16,
        .l1_bytes = 256 << 10,
        .l2_bytes = 126ll << 20,
        .memory_gbps = 6800,
        .lane_gbps = 90,
        .cache_gbps = 60,
        .gflops = 74000,
        .launch_us = 2.2,
        .shared_per_block = 227 << 10,
        .shared_per_sm = 228 << 10,
        .registers_per_sm = 65536,
        .threads_per_sm = 2048,
        .blocks_per_sm = 32,
        .global_bytes = 180ll << 30,
    },
};

md_status md_dev_cuda_assume(md_dev_facts *out, int32_t capability)
{
    for (int32_t i = 0; i < MD_COUNT(boards); i++) {
        if (boards[i].capability == capability) {
            *out = boards[i];
            return MD_OK;
        }
    }
    return md_fail(MD_INVALID_ARGUMENT, "no facts of a GPU of compute capability %d are known; 80, 90 and 100 are",
                   (int)capability);
}
